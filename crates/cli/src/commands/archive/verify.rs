//! `lazaret archive verify`: whether the files are still what was written.

use clap::Args;
use lazaret_core::id::FileId;
use serde_json::json;

use super::lines::{self, NDJSON};
use crate::answers::archive::{CheckedLine, Verified};
use crate::client::{Client, Content};
use crate::failure::{Failure, Outcome};
use crate::output::table::{Column, Table};
use crate::output::{BAR_OF_FILES, Format, Screen, json_text, moment};

pub const EXAMPLES: &str = "\
Examples:
  lazaret archive verify
  lazaret archive verify 019a8b1c-7e00-7000-8000-000000000001      one file, id from `lazaret archive files`
  lazaret archive verify --json | jq -c 'select(.problem)'

Compares every file with its recorded hashes, letter by letter. Exit code 1 if a file is missing or
damaged.";

#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// File id; default: all files
    #[arg(value_name = "FILE", value_parser = FileId::parse)]
    file: Option<FileId>,
}

pub async fn run(args: VerifyArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let body = args.file.map_or(json!({}), |file| json!({ "fileId": file.to_string() }));
    let stream = client.post_for_stream(&["archive", "verify"], Content::json(&body), NDJSON).await?;
    let bar = screen.bar(None, BAR_OF_FILES);
    let (mut end, mut problem) = (None, None);
    let read = lines::read(stream, |line: CheckedLine, text| {
        if screen.format == Format::Json {
            bar.suspend(|| screen.line(&json_text::on_one_line(text)))?;
        }
        if let (Some(done), Some(of)) = (line.done, line.of) {
            bar.set_length(of);
            bar.set_position(done);
        }
        if line.file.is_none() {
            problem = line.problem.or(problem.take());
        }
        end = line.end.or(end.take());
        Ok(())
    })
    .await;
    bar.finish_and_clear();
    read?;
    let Some(end) = end else {
        let why = problem.unwrap_or_else(|| "the server closed the connection early".into());
        return Err(Failure::failed(format!("verification interrupted: {why}")).into());
    };
    if screen.format == Format::Text {
        tell(&end, screen)?;
    }
    Ok(if end.damaged.is_empty() { Outcome::Done } else { Outcome::Incomplete })
}

fn tell(end: &Verified, screen: &mut Screen) -> anyhow::Result<()> {
    let files = if end.files == 1 { "1 file".into() } else { format!("{} files", moment::count(end.files)) };
    if end.damaged.is_empty() {
        screen.line(&format!("{files} with {} verified", moment::letters(end.letters)))?;
        return Ok(());
    }
    let damaged = moment::count(end.damaged.len() as u64);
    screen.line(&format!("{damaged} of {files} missing or damaged"))?;
    let mut table = Table::new(vec![Column::cut_to("FILE", 40), Column::cut("PROBLEM")]);
    for file in &end.damaged {
        table.row(vec![file.path.as_str().into(), file.problem.as_str().into()]);
    }
    screen.table(&table)?;
    screen.note("restore them from a backup: their letters exist nowhere else");
    Ok(())
}
