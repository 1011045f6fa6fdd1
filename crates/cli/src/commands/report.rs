//! `lazaret report`: hands over dead letters from files or stdin, in requests of bounded size.
//!
//! Texts are sent as they were written; nothing is read as values, so that every byte of an event survives. Reports
//! are idempotent, so that a request may be sent again and a broken run repeated.

mod input;
mod outcome;
mod sending;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, timeout_at};

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::output::{BAR_OF_BYTES, SPINNER, Screen};
use input::{Form, Input, Kind};
use outcome::End;
use sending::{Batch, Sending};

const EXAMPLES: &str = "\
Examples:
  lazaret report failed.ndjson
  lazaret report entry.json batch.json --source report
  kubectl logs job/import | grep '^{' | lazaret report --ndjson
  tail -f failed.ndjson | lazaret report --ndjson     lines are sent within 1 s

An entry needs originalEvent and an eventId, in it or beside it; error and retryHistory are optional:
  {\"eventId\":\"e1\",\"originalEvent\":{\"pattern\":\"invoice.created\"},\"error\":{\"message\":\"late\"}}

JSON may be one entry, an array of them, or {\"items\":[…]}. Known entries are \
counted as duplicates. Exit code 1 if an entry was refused.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// JSON or NDJSON files; `-` or none for stdin
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Name of the source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,

    /// Input is NDJSON: one entry per line
    #[arg(long)]
    ndjson: bool,

    /// Input is a single entry
    #[arg(long, conflicts_with = "ndjson")]
    entry: bool,
}

/// Lines wait this long for others before they are sent, so that a stream that trickles arrives all the same.
const LINES_WAIT: Duration = Duration::from_secs(1);

pub async fn run(args: ReportArgs, client: Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let form = match (args.ndjson, args.entry) {
        (true, _) => Form::Lines,
        (false, true) => Form::Entry,
        (false, false) => Form::Unknown,
    };
    let inputs = input::open(&args.files)?;
    let bytes: Option<u64> = inputs.iter().map(|input| input.bytes).sum();
    let bar = match bytes {
        Some(bytes) => screen.bar(Some(bytes), BAR_OF_BYTES),
        None => screen.bar(None, SPINNER),
    };
    if bytes.is_none() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    let mut sending = Sending::new(client, args.source, bar, screen)?;
    let sent = send_all(inputs, form, &mut sending).await;
    let outcome = sending.finish(if sent.is_ok() { End::Complete } else { End::BrokenOff })?;
    sent.map(|()| outcome)
}

async fn send_all(inputs: Vec<Input>, form: Form, sending: &mut Sending<'_>) -> anyhow::Result<()> {
    let mut items = 0;
    for input in inputs {
        let name = input.name.clone();
        sending.begin(&name);
        items += match input.read(form)? {
            Kind::Lines(lines) => send_lines(lines, sending).await?,
            Kind::Entries(entries) => send_entries(&entries, sending).await?,
        };
    }
    if items == 0 {
        return Err(Failure::failed("input is empty").into());
    }
    Ok(())
}

/// Sends lines as they come, in batches that are full or have waited long enough.
async fn send_lines(mut lines: input::Lines, sending: &mut Sending<'_>) -> anyhow::Result<usize> {
    let mut batch = Batch::of_lines();
    let mut send_at = Instant::now() + LINES_WAIT;
    let mut items = 0;
    loop {
        let line = match timeout_at(send_at, lines.recv()).await {
            Ok(Some(line)) => line?,
            Ok(None) => break,
            Err(_) => {
                sending.send(std::mem::replace(&mut batch, Batch::of_lines())).await?;
                send_at = Instant::now() + LINES_WAIT;
                continue;
            }
        };
        items += 1;
        if !batch.has_room_for(&line.bytes) {
            sending.send(std::mem::replace(&mut batch, Batch::of_lines())).await?;
        }
        if batch.is_empty() {
            send_at = Instant::now() + LINES_WAIT;
        }
        batch.add(line.number, &line.bytes);
    }
    sending.send(batch).await?;
    Ok(items)
}

async fn send_entries(entries: &input::Entries, sending: &mut Sending<'_>) -> anyhow::Result<usize> {
    let mut batch = Batch::of_entries();
    for (at, entry) in entries.iter().enumerate() {
        if !batch.has_room_for(entry.as_bytes()) {
            sending.send(std::mem::replace(&mut batch, Batch::of_entries())).await?;
        }
        batch.add(at + 1, entry.as_bytes());
    }
    sending.send(batch).await?;
    Ok(entries.len())
}
