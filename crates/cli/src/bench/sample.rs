//! The jobs and letters that are measured with: 1 KiB of arguments, a backtrace of 20 frames, two queues, two types and
//! four errors.

const QUEUES: [&str; 2] = ["mail", "orders"];
const TYPES: [&str; 2] = ["email.send", "order.sync"];
const ERRORS: [&str; 4] = ["TimeoutError", "ConnectionError", "ValidationError", "RateLimitError"];

/// The type and the error that a filter asks for.
pub const TYPE: &str = TYPES[0];
pub const ERROR: &str = ERRORS[0];

/// The queue of a job; `mark` keeps the queues of one run apart from all others.
pub fn queue(n: u64, mark: &str) -> String {
    format!("bench-{mark}-{}", QUEUES[(n % 2) as usize])
}

/// All queues of a run.
pub fn queues(mark: &str) -> [String; 2] {
    [queue(0, mark), queue(1, mark)]
}

fn job_type(n: u64) -> &'static str {
    TYPES[(n / 2 % 2) as usize]
}

fn error_type(n: u64) -> &'static str {
    ERRORS[(n / 4 % 4) as usize]
}

/// About a kilobyte that compresses as little as real payloads do.
fn payload(n: u64) -> String {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut note = String::with_capacity(900);
    while note.len() < 880 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Half of the words repeat, as they do in real texts.
        match state % 2 {
            0 => note.push_str(["order ", "customer ", "delivery ", "invoice "][(state / 2 % 4) as usize]),
            _ => note.push_str(&format!("{:08x} ", state >> 32)),
        }
    }
    format!(
        r#"{{"seq":{n},"order":"o-{}","customer":"c-{}","note":"{note}"}}"#,
        state % 100_000,
        state % 9_973
    )
}

/// A job that dies with its first failure.
pub fn job(n: u64, mark: &str) -> String {
    format!(
        r#"{{"type":"{}","args":[{}],"options":{{"queue":"{}","retry":{{"max_attempts":1,"on_exhaustion":"dead_letter"}}}}}}"#,
        job_type(n),
        payload(n),
        queue(n, mark)
    )
}

pub fn ack(id: &str) -> String {
    format!(r#"{{"job_id":"{id}","worker_id":"bench"}}"#)
}

/// The failure of a job, of an error that depends on `n`.
pub fn nack(id: &str, n: u64) -> String {
    let error = error_type(n);
    let frames: Vec<String> = (0..20).map(|k| format!(r#""{}""#, frame(k))).collect();
    format!(
        r#"{{"job_id":"{id}","worker_id":"bench","error":{{"type":"{error}","code":"handler_error","message":"{error}: upstream answered 503 for item {n}","backtrace":[{}]}}}}"#,
        frames.join(",")
    )
}

/// A dead letter as it is reported. A report's queue is its source, so that its subscriber stands for the queue.
pub fn letter(n: u64, mark: &str) -> String {
    let (error, name, kind) = (error_type(n), queue(n, mark), job_type(n));
    let frames: Vec<String> = (0..20).map(frame).collect();
    format!(
        r#"{{"eventId":"bench-{mark}-{n}","subscriberId":"{name}","originalEvent":{{"eventId":"bench-{mark}-{n}","pattern":"{kind}","version":"1","source":{{"type":"task","id":"{name}","name":"{name}"}},"timestamp":"2026-01-01T00:00:00Z","payload":{},"metadata":{{"queue":"{name}"}}}},"error":{{"type":"{error}","code":"E","message":"{error}: upstream answered 503 for item {n}","stackTrace":"{}"}},"retryCount":1,"maxRetries":1}}"#,
        payload(n),
        frames.join("\\n")
    )
}

fn frame(k: u64) -> String {
    format!("    at step{k} (/srv/app/src/handlers/module_{k}.js:{}:17)", 100 + k)
}

/// The ids of the jobs in the answer to a fetch.
pub fn ids(answer: &[u8]) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Fetched {
        jobs: Vec<Id>,
    }
    #[derive(serde::Deserialize)]
    struct Id {
        id: String,
    }
    let fetched: Option<Fetched> = serde_json::from_slice(answer).ok();
    fetched.map(|fetched| fetched.jobs.into_iter().map(|job| job.id).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_sent_is_json_of_about_the_size_it_claims() {
        for n in [0, 1, 7, 12_345] {
            for text in [job(n, "t"), nack("id", n), letter(n, "t")] {
                assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
            }
            assert!((1_000..1_400).contains(&job(n, "t").len()), "{}", job(n, "t").len());
        }
        assert_eq!(ids(br#"{"jobs":[{"id":"a","x":1},{"id":"b"}]}"#), ["a", "b"]);
    }
}
