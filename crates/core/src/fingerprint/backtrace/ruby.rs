//! Backtraces of Ruby, with the backtick of old versions and the quotes and classes of new ones.

use super::{Cause, push};
use crate::fingerprint::error_type;
use crate::fingerprint::frame::{Frame, file_stem};
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search;

pub(super) fn causes<'a>(lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    let mut causes: Vec<Cause<'a>> = vec![Cause::default()];
    for line in lines {
        let text = line.trim_start().trim_start_matches("from ");
        // `irb` and Rails number their frames.
        let text = text.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(": ");
        if text.is_empty() || text.starts_with("...") {
            continue;
        }
        if let Some((place, rest)) = place_of(text) {
            let (label, message) = label_of(rest);
            if let Some(head) = message {
                let head = head_of(head);
                match causes.last_mut() {
                    Some(cause) if cause.frames.seen == 0 => *cause = Cause::new(head),
                    Some(_) | None => push(&mut causes, Cause::new(head)),
                }
            }
            if let Some(cause) = causes.last_mut() {
                cause.frames.outward(Language::Ruby, Frame { function: label, place, package: "" }, rules);
            }
            continue;
        }
        let Some(cause) = causes.last_mut() else { break };
        let head = head_of(text.strip_prefix("Caused by: ").unwrap_or(text));
        if cause.frames.seen > 0 {
            // Only what names an error begins a new cause; the rest belongs to a message of many lines.
            if !head.0.is_empty() {
                push(&mut causes, Cause::new(head));
            }
        } else if cause.is_empty() {
            *cause = Cause::new(head);
        } else if !text.starts_with("Causes:") {
            cause.continue_message(text);
        }
    }
    causes
}

/// Name and message of `undefined method 'x' for nil (NoMethodError)` and of `NoMethodError: undefined …`.
fn head_of(text: &str) -> (&str, &str) {
    if let Some((message, name)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("))
        && (error_type::is_surely_name(name) || search::has(name, "::"))
        && !name.contains(' ')
    {
        return (name, message);
    }
    // Rails: `ActiveRecord::RecordNotFound (Couldn't find Order):`.
    if let Some((name, message)) = search::split_once(text, " (")
        && error_type::is_surely_name(name)
    {
        return (name, message.trim_end_matches(':').trim_end_matches(')'));
    }
    error_type::head(text)
}

/// The file, and what stands behind its line, of `/app/models/order.rb:12:in 'Order#total'`.
pub(super) fn place_of(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start().trim_start_matches("from ");
    let at = search::find(text, ":in ").filter(|at| text[at + 4..].starts_with(['\'', '`', '"']))?;
    let (place, line) = text[..at].rsplit_once(':')?;
    let counts = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    (counts && !place.is_empty() && !search::has(place, ": ")).then(|| (place, &text[at + 5..]))
}

/// The label, and the message if this line is also the head.
fn label_of(rest: &str) -> (&str, Option<&str>) {
    match search::split_once(rest, "': ") {
        Some((label, message)) => (label, Some(message)),
        None => (rest.trim_end_matches(['\'', '`', '"']), None),
    }
}

/// File and method: `payment_gateway.charge`. Classes are left out, because only new versions print them.
pub(super) fn name(frame: Frame<'_>) -> String {
    let label = frame.function;
    // `block (2 levels) in charge`, `rescue in charge`.
    let label = label.rsplit(" in ").next().unwrap_or(label);
    let method = label.rsplit(['#', '.']).next().unwrap_or(label);
    // Rails compiles views: `_app_views_mail_html_erb___2211_7000`.
    let method = method.find("___").map_or(method, |at| &method[..at]);
    format!("{}.{method}", file_stem(frame.place))
}

#[cfg(test)]
mod tests {
    use super::super::read_names;

    #[test]
    fn old_and_new_labels_are_one_frame() {
        let old = "/srv/app/services/payment_gateway.rb:88:in `charge': undefined method `id' for nil:NilClass (NoMethodError)\n\
            \tfrom /srv/app/jobs/charge_job.rb:7:in `block in perform'\n\
            \tfrom /usr/local/bundle/gems/sidekiq-7.2.0/lib/sidekiq/processor.rb:202:in `execute_job'";
        let new = "/app/services/payment_gateway.rb:91:in 'PaymentGateway#charge': undefined method 'id' for nil (NoMethodError)\n\
            \tfrom /app/jobs/charge_job.rb:9:in 'block in ChargeJob#perform'";
        let frames = vec!["payment_gateway.charge".to_string(), "charge_job.perform".to_string()];
        for text in [old, new] {
            let causes = read_names(text);
            assert_eq!(causes.len(), 1);
            assert_eq!(causes[0].0, "NoMethodError");
            assert_eq!(causes[0].2, frames);
        }
    }

    #[test]
    fn the_cause_comes_last() {
        let text = "app/jobs/sync.rb:3:in 'Sync#run': sync failed (Sync::Failed)\n\
            \tfrom app/worker.rb:1:in 'Worker#call'\n\
            app/models/order.rb:9:in 'Order#load': PG::ConnectionBad: server closed (ActiveRecord::StatementInvalid)\n\
            \tfrom app/jobs/sync.rb:2:in 'Sync#run'";
        let causes = read_names(text);
        assert_eq!(causes[1].0, "ActiveRecord::StatementInvalid");
        assert_eq!(causes[1].2, ["order.load", "sync.run"]);
    }
}
