//! `lazaret jobs push`: one job, from the command line or stdin.

use std::io::Read;

use anyhow::Context;
use clap::Args;
use lazaret_core::duration::Length;
use lazaret_core::id::JobId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::answers::job::Job;
use crate::client::{Client, Content};
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Screen, escape};

const EXAMPLES: &str = "\
Examples:
  lazaret jobs push mail.send '[\"a@example.com\", {\"template\": \"welcome\"}]' --queue mails
  lazaret jobs push report.make --delay 10m --expires 2h
  lazaret jobs push invoice.make '[4711]' --max-attempts 5 --dead-letter
  lazaret jobs push invoice.make '[4711]' --retry-json '{\"max_attempts\": 5, \"initial_interval\": \"PT10S\"}'
  jq -c '[.order]' order.json | lazaret jobs push order.ship - --meta tenant_id=acme

Without --dead-letter a job without attempts left is dropped, as defined by the Open Job Spec.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PushArgs {
    /// Job type, such as mail.send
    #[arg(value_name = "TYPE")]
    job_type: String,

    /// Arguments as a JSON array; `-` for stdin
    #[arg(value_name = "ARGS_JSON", default_value = "[]")]
    args: String,

    /// Queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// Priority within the queue, -100 to 100
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    priority: Option<i64>,

    /// Earliest start: a delay such as 10m, or a time such as 2026-12-24T18:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    delay: Option<String>,

    /// Expiry: a duration such as 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    expires: Option<String>,

    /// Retry policy as a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    retry_json: Option<Map<String, Value>>,

    /// Maximum attempts
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,

    /// Keep the job as a dead letter when no attempts are left
    #[arg(long)]
    dead_letter: bool,

    /// Metadata, such as tenant_id=acme; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,

    /// Job id (UUID version 7); default: generated
    #[arg(long, value_parser = JobId::parse)]
    id: Option<JobId>,
}

/// The request, arguments as they were written: numbers keep their digits.
#[derive(Serialize)]
struct NewJob<'a> {
    #[serde(rename = "type")]
    job_type: &'a str,
    args: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    meta: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    options: Map<String, Value>,
}

pub async fn run(args: PushArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let json = if args.args == "-" { read_stdin()? } else { args.args.clone() };
    let content = Content { media_type: "application/json", bytes: body(&args, &json)?.into() };
    let answer = client.post_ojs(&["jobs"], content).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    #[derive(serde::Deserialize)]
    struct Pushed {
        job: Job,
    }
    let Pushed { job } = answer.read()?;
    screen.line(&escape::line(&job.id))?;
    screen.note(&format!("{} in queue {}", job.state, job.queue));
    Ok(Outcome::Done)
}

fn read_stdin() -> anyhow::Result<String> {
    let (mut bytes, max) = (Vec::new(), limits::JOB_BYTES_MAX);
    // One byte more than the server takes: what is cut off would only look as if it were no JSON.
    let cannot = "cannot read the arguments from stdin";
    std::io::stdin().take(max as u64 + 1).read_to_end(&mut bytes).context(cannot)?;
    if bytes.len() > max {
        return Err(Failure::failed(format!("arguments exceed the maximum of {max} bytes"))
            .hint("store the payload elsewhere and pass a reference")
            .into());
    }
    String::from_utf8(bytes).context(cannot)
}

fn body(args: &PushArgs, json: &str) -> Result<String, Failure> {
    let hint = "use a quoted JSON array: '[\"a@example.com\", 3]'";
    let raw: &RawValue = serde_json::from_str(json)
        .map_err(|error| Failure::misuse(format!("the arguments are not JSON: {error}")).hint(hint))?;
    if !raw.get().starts_with('[') {
        return Err(Failure::misuse("arguments must be a JSON array").hint(hint));
    }
    let mut options = Map::new();
    let texts = [("queue", &args.queue), ("delay_until", &args.delay), ("expires_at", &args.expires)];
    for (name, text) in texts {
        if let Some(text) = text {
            options.insert(name.into(), text.as_str().into());
        }
    }
    if let Some(priority) = args.priority {
        options.insert("priority".into(), priority.into());
    }
    let retry = retry(args);
    if !retry.is_empty() {
        options.insert("retry".into(), retry.into());
    }
    let meta = args.meta.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    let id = args.id.map(|id| id.to_string());
    let job = NewJob { job_type: &args.job_type, args: raw, id, meta, options };
    serde_json::to_string(&job)
        .map_err(|error| Failure::failed(format!("the job cannot be written as JSON: {error}")))
}

/// The policy, with what its own flags say on top.
fn retry(args: &PushArgs) -> Map<String, Value> {
    let mut retry = args.retry_json.clone().unwrap_or_default();
    if let Some(attempts) = args.max_attempts {
        retry.insert("max_attempts".into(), attempts.into());
    }
    if args.dead_letter {
        retry.insert("on_exhaustion".into(), "dead_letter".into());
    }
    retry
}

/// A moment as the server takes it: a time as it is, a length of time from now on.
fn moment(text: &str) -> Result<String, String> {
    if Time::parse(text).is_ok() {
        return Ok(text.to_owned());
    }
    let length = Length::parse(text).map_err(|error| error.to_string())?;
    Ok(format!("+{length}"))
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("use key=value, such as tenant_id=acme".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::commands::jobs::JobsCommand;

    fn args(words: &[&str]) -> PushArgs {
        let words = ["lazaret", "jobs", "push"].iter().chain(words).map(std::ffi::OsString::from);
        let Command::Jobs(JobsCommand::Push(args)) = Cli::read(words).command else { panic!("not push") };
        args
    }

    #[test]
    fn arguments_keep_their_digits_and_flags_become_options() {
        let plain = args(&["mail.send"]);
        assert_eq!(body(&plain, &plain.args).unwrap(), r#"{"type":"mail.send","args":[]}"#);
        let full = args(&[
            "t",
            "[1.00, 12345678901234567890]",
            "--queue",
            "q",
            "--priority",
            "-5",
            "--delay",
            "90m",
            "--expires",
            "2026-12-24T18:00:00Z",
            "--retry-json",
            r#"{"jitter":false,"max_attempts":9}"#,
            "--max-attempts",
            "2",
            "--dead-letter",
            "--meta",
            "a=b=c",
            "--meta",
            "d=",
        ]);
        assert_eq!(
            body(&full, &full.args).unwrap(),
            concat!(
                r#"{"type":"t","args":[1.00, 12345678901234567890],"meta":{"a":"b=c","d":""},"options":{"#,
                r#""delay_until":"+PT1H30M","expires_at":"2026-12-24T18:00:00Z","priority":-5,"queue":"q","#,
                r#""retry":{"jitter":false,"max_attempts":2,"on_exhaustion":"dead_letter"}}}"#
            )
        );
    }

    #[test]
    fn what_is_no_array_is_refused_before_it_is_sent() {
        let plain = args(&["t"]);
        for bad in ["", "{}", "\"x\"", "1", "[", "[1] 2"] {
            assert!(body(&plain, bad).is_err(), "{bad}");
        }
        assert!(
            moment("soon").is_err() && pair("x").is_err() && pair("=x").is_err() && object("[]").is_err()
        );
    }
}
