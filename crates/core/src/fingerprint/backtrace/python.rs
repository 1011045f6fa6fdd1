//! Tracebacks of Python, which end at the failure, and their chains, which begin with the root.

use super::{Cause, push};
use crate::fingerprint::error_type;
use crate::fingerprint::frame::{Frame, file_stem};
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search;

pub(super) fn causes<'a>(lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    // Groups stand before what they hold; chains stand behind what caused them.
    let mut groups: Vec<Cause<'a>> = Vec::new();
    let mut chain: Vec<Cause<'a>> = vec![Cause::default()];
    let mut in_traceback = false;
    for line in lines {
        let line = without_margin(line);
        let text = line.trim_start();
        if text.is_empty() {
            continue;
        }
        if let Some(number) = member_of_group(text) {
            if number != "1" {
                break;
            }
            chain.reverse();
            groups.append(&mut chain);
            chain.push(Cause::default());
            in_traceback = false;
        } else if text.starts_with("The above exception was")
            || text.starts_with("During handling of the above")
        {
            push(&mut chain, Cause::default());
            in_traceback = false;
        } else if search::has(text, "Traceback (most recent call last)") {
            in_traceback = true;
        } else if let Some(frame) = frame(text) {
            in_traceback = true;
            if let Some(cause) = chain.last_mut() {
                cause.frames.inward(Language::Python, frame, rules);
            }
        } else if let Some(cause) = chain.last_mut() {
            let source = in_traceback && line.starts_with("    ");
            if source || text.starts_with("[Previous line repeated") {
                continue;
            }
            if in_traceback && cause.error_type.is_empty() {
                let message = std::mem::take(&mut cause.frames);
                *cause = Cause { frames: message, ..Cause::new(error_type::head_of_line(text)) };
                in_traceback = false;
            } else if cause.frames.seen > 0 || !cause.error_type.is_empty() {
                cause.continue_message(text);
            } else if groups.last().is_some() {
                // Members of a group have no traceback of their own when they were never raised.
                *cause = Cause::new(error_type::head_of_line(text));
            }
        }
    }
    chain.retain(|cause| !cause.is_empty());
    chain.reverse();
    groups.append(&mut chain);
    groups
}

/// Takes the drawing of exception groups away: `  | ValueError: x`, `  + Exception Group Traceback`.
fn without_margin(line: &str) -> &str {
    let text = line.trim_start();
    match text.strip_prefix("| ").or_else(|| text.strip_prefix("+ ")) {
        Some(rest) => rest,
        None if text == "|" => "",
        None => line,
    }
}

/// `+-+---------------- 1 ----------------`.
fn member_of_group(text: &str) -> Option<&str> {
    let number = text.strip_prefix('+')?.trim_matches(['-', '+', ' ']);
    (search::has(text, "----") && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        .then_some(number)
}

pub(super) fn is_frame(text: &str) -> bool {
    frame(text).is_some()
}

fn frame(text: &str) -> Option<Frame<'_>> {
    let (place, rest) = text.strip_prefix("File \"")?.split_once("\", line ")?;
    let function = search::split_once(rest, ", in ").map_or("<module>", |(_, function)| function);
    Some(Frame { function: function.trim(), place, package: "" })
}

/// Module and function: `gateway.charge`.
pub(super) fn name(frame: Frame<'_>) -> String {
    let function = frame.function.rsplit('.').next().unwrap_or(frame.function);
    format!("{}.{function}", file_stem(frame.place))
}

#[cfg(test)]
mod tests {
    use super::super::read_names;

    #[test]
    fn the_first_error_of_a_chain_is_the_root_and_its_last_frame_the_nearest() {
        let text = "Traceback (most recent call last):\n\
            \x20 File \"/app/orders/gateway.py\", line 10, in charge\n\
            \x20   return self._post(url)\n\
            \x20          ~~~~~~~~~~^^^^^\n\
            \x20 File \"/app/orders/client.py\", line 3, in _post\n\
            \x20   x = [f(y) for y in z]\n\
            \x20 File \"/app/orders/client.py\", line 3, in <listcomp>\n\
            \x20 File \"/usr/lib/python3.11/site-packages/requests/api.py\", line 9, in post\n\
            \x20   pass\n\
            requests.exceptions.ConnectTimeout: timed out\n\
            \n\
            The above exception was the direct cause of the following exception:\n\
            \n\
            Traceback (most recent call last):\n\
            \x20 File \"/app/orders/tasks.py\", line 7, in run\n\
            \x20   raise TaskFailed()\n\
            orders.errors.TaskFailed: task 12 failed";
        let causes = read_names(text);
        assert_eq!(causes[0].0, "orders.errors.TaskFailed");
        assert_eq!(
            causes[1],
            (
                "requests.exceptions.ConnectTimeout".into(),
                "timed out".into(),
                vec!["client._post".into(), "gateway.charge".into()]
            )
        );
    }

    #[test]
    fn the_first_member_of_a_group_is_its_root() {
        let text = "  + Exception Group Traceback (most recent call last):\n\
            \x20 |   File \"/app/main.py\", line 3, in run\n\
            \x20 |     raise eg\n\
            \x20 | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)\n\
            \x20 +-+---------------- 1 ----------------\n\
            \x20   | Traceback (most recent call last):\n\
            \x20   |   File \"/app/worker.py\", line 5, in load\n\
            \x20   |     raise ValueError(x)\n\
            \x20   | ValueError: bad total\n\
            \x20   +---------------- 2 ----------------\n\
            \x20   | KeyError: 'sku'\n\
            \x20   +------------------------------------";
        let causes = read_names(text);
        assert_eq!(causes.len(), 2);
        assert_eq!(causes[1], ("ValueError".into(), "bad total".into(), vec!["worker.load".into()]));
    }
}
