//! `lazaret jobs ls`: jobs, newest first.

use clap::Args;
use lazaret_core::job::state::JobState;
use lazaret_core::limits;
use lazaret_core::time::Time;

use crate::answers::job::{Job, Listed};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, moment, shell_word};

const EXAMPLES: &str = "\
Examples:
  lazaret jobs ls
  lazaret jobs ls --queue mails --state retryable
  lazaret jobs ls --type 'invoice.*' --limit 100
  lazaret jobs ls --worker mailer-1                  active jobs of a worker
  lazaret jobs ls --state available --json | jq -r '.items[].id'";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct JobsLsArgs {
    /// Queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// State
    #[arg(long, value_parser = JobState::ALL.map(JobState::name))]
    state: Option<String>,

    /// Job type; * is a wildcard
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,

    /// Active jobs of this worker
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,

    /// Jobs per page, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u16).range(1..=limits::OJS_ADMIN_ROWS_MAX as i64))]
    limit: u16,

    /// Cursor of the next page
    #[arg(long)]
    cursor: Option<String>,
}

impl JobsLsArgs {
    /// What narrows the list, by the names that flags and query share.
    fn narrowing(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("queue", &self.queue), ("state", &self.state), ("type", &self.job_type), ("worker", &self.worker)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

pub async fn run(args: &JobsLsArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let limit = args.limit.to_string();
    let mut query: Vec<(&str, &str)> = vec![("per_page", &limit)];
    query.extend(args.narrowing());
    query.extend(args.cursor.as_deref().map(|cursor| ("cursor", cursor)));
    let answer = client.get_ojs(&["admin", "jobs"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let page: Listed<Job> = answer.read()?;
    if !page.items.is_empty() {
        screen.table(&table(&page.items, moment::now()))?;
    }
    screen.note(&footer(args, &page));
    Ok(Outcome::Done)
}

fn footer(args: &JobsLsArgs, page: &Listed<Job>) -> String {
    let narrowed: Vec<String> = args.narrowing().map(|(name, value)| format!("{name} {value}")).collect();
    let of = if narrowed.is_empty() { String::new() } else { format!(" · {}", narrowed.join(", ")) };
    let mut text = if page.items.is_empty() && page.pagination.next_cursor.is_none() {
        format!("no jobs{of}")
    } else {
        let at_least = if page.pagination.total_is_at_least { "at least " } else { "" };
        let shown = moment::count(page.items.len() as u64);
        let jobs = if page.total == 1 { "job" } else { "jobs" };
        format!("{shown} of {at_least}{} {jobs}{of}", moment::count(page.total))
    };
    if let Some(cursor) = &page.pagination.next_cursor {
        let mut words = vec!["lazaret jobs ls".to_owned()];
        words.extend(args.narrowing().map(|(name, value)| format!("--{name} {}", shell_word(value))));
        words.push(format!("--limit {} --cursor {}", args.limit, shell_word(cursor)));
        text.push_str(&format!("\nnext page: {}", words.join(" ")));
    }
    text
}

fn table(jobs: &[Job], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::whole("STATE"),
        Column::cut("QUEUE").left_out(3),
        Column::cut("TYPE"),
        Column::number("ATTEMPTS").left_out(2),
        Column::whole("CREATED").left_out(4),
        Column::cut("ERROR").left_out(1),
    ]);
    for job in jobs {
        table.row(vec![
            Cell::painted(&job.id, Some(Paint::Bold)),
            Cell::painted(&job.state, Paint::of_job(&job.state)),
            job.queue.as_str().into(),
            job.job_type.as_str().into(),
            runs(job).into(),
            moment::ago(&job.created_at, now).into(),
            job.error.as_ref().map_or(String::new(), |error| error.error_type.clone()).into(),
        ]);
    }
    table
}

/// How often it was run, of how often it may be.
pub(super) fn runs(job: &Job) -> String {
    match job.max_attempts {
        Some(max) => format!("{}/{max}", job.attempt),
        None => job.attempt.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn jobs_are_listed_harmlessly_and_with_a_way_on() {
        let page: Listed<Job> = serde_json::from_value(serde_json::json!({
            "items": [{
                "id": "019a8b1c-7e00-7000-8000-000000000000", "type": "mail.send\u{1b}[2J", "queue": "mails",
                "state": "retryable", "attempt": 2, "max_attempts": 5, "args": [], "created_at":
                "2025-11-15T02:57:00.000Z", "error": {"type": "SMTP\nError", "message": "m"},
            }],
            "total": 51,
            "pagination": {"has_more": true, "total_is_at_least": true, "next_cursor": "x y"},
        }))
        .unwrap();
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        insta::assert_snapshot!("jobs_80_columns", table(&page.items, now).render(Some(80), Colour::Off));
        insta::assert_snapshot!("jobs_no_terminal", table(&page.items, now).render(None, Colour::Off));
        let args = JobsLsArgs {
            queue: Some("mails".into()),
            state: None,
            job_type: Some("mail.*".into()),
            worker: None,
            limit: 1,
            cursor: None,
        };
        assert_eq!(
            footer(&args, &page),
            "1 of at least 51 jobs · queue mails, type mail.*\n\
             next page: lazaret jobs ls --queue mails --type 'mail.*' --limit 1 --cursor 'x y'"
        );
    }
}
