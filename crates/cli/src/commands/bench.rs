//! `lazaret bench`: what this machine and this store can do, beside a server that only answers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use super::serve::announce;
use crate::args::{Global, Secret, UrlFrom};
use crate::bench::{Address, Figures, Line, Load, Server, Usage, Wal, Workload, serve_null};
use crate::failure::{Failure, Outcome};
use crate::output::table::{Column, Table};
use crate::output::{BAR_OF_JOBS, Format, Screen};

const EXAMPLES: &str = "\
Examples:
  lazaret bench                                 all workloads on the embedded store, about two minutes
  lazaret bench --folder /var/lib               on the disk that will hold the store
  lazaret bench --store postgres://lazaret@localhost/bench
  lazaret bench --only fail --only success --jobs 50000 --connections 64
  lazaret bench --url http://127.0.0.1:7070 --pid 4711 --yes
  lazaret bench --json > before.json

Workloads, 1 KiB of arguments and a backtrace of 20 frames each:
  fail            jobs fail into the dead letter, one request each
  success         jobs are pushed, fetched and acknowledged, one request each
  fail-batch      as fail, 100 ends per request
  success-batch   as success, 100 jobs per request
  retry           half of the dead jobs are retried by one call
  capture         dead letters are reported, 1,000 per request
  lists           pages, filters and counts over the letters

Rates are operations (jobs or letters) per second. OF NULL is the share of what a server that stores nothing reaches
under the same load: clients and server share this machine, so nothing can reach more than 100 %. P50, P99 and P99.9 are
the waits for single requests. CPU is the server's processor time, WRITTEN its bytes to disk (on PostgreSQL: to the
write-ahead log), both per operation; they vary far less between machines than rates do. Compare rates only
within one run.

Without --url a server is started for the run, on loopback, and its data is thrown away. A PostgreSQL database has to be
empty or one that only benches have used; it is emptied.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Store to measure: sqlite, or postgres://…
    #[arg(long, value_name = "STORE", default_value = "sqlite")]
    store: Secret,
    /// Folder on the disk to measure, for a temporary store; the system's folder for temporary files may be in memory
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Run this workload only; can be repeated
    #[arg(long, value_name = "WORKLOAD")]
    only: Vec<Workload>,
    /// Jobs of each workload
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = RangedU64ValueParser::<u64>::new().range(100..=1_000_000))]
    jobs: u64,
    /// Letters to capture, list and filter
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = RangedU64ValueParser::<u64>::new().range(100..=1_000_000))]
    letters: u64,
    /// Connections of workloads with one request per job
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = RangedU64ValueParser::<u64>::new().range(1..=512))]
    connections: u64,
    /// Process of the server that --url names, if it runs on this machine: its CPU, bytes and memory are measured
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// With --url: yes, write jobs and letters into that server
    #[arg(long)]
    yes: bool,
    /// Serve without storing anything, until stdin ends
    #[arg(long, hide = true)]
    null_server: bool,
}

/// The whole answer as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    version: &'static str,
    store: &'static str,
    cores: usize,
    connections: u64,
    workloads: &'a [Figures],
}

pub async fn run(args: BenchArgs, global: &Global, screen: &mut Screen) -> anyhow::Result<Outcome> {
    if args.null_server {
        serve_null(announce).await?;
        return Ok(Outcome::Done);
    }
    let token = global.token().map(str::to_owned);
    let url = (global.url_from == UrlFrom::Flag).then(|| global.url.clone());
    tokio::select! {
        measured = measure(args, url, token, screen) => measured,
        // The servers and the folder go with what is dropped here.
        _ = tokio::signal::ctrl_c() => Ok(Outcome::Incomplete),
    }
}

async fn measure(
    args: BenchArgs,
    url: Option<String>,
    token: Option<String>,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let bench = Bench::new(&args, url, token).await?;
    let mut all = Vec::new();
    for workload in Workload::ALL.into_iter().filter(|one| args.only.is_empty() || args.only.contains(one)) {
        all.extend(bench.measure(workload, screen).await?);
    }
    bench.reset().await?;
    match screen.format {
        Format::Json => {
            let report = Report {
                version: env!("CARGO_PKG_VERSION"),
                store: bench.store,
                cores: cores(),
                connections: args.connections,
                workloads: &all,
            };
            screen.json(&serde_json::to_string(&report)?)?;
        }
        Format::Text => {
            let (cores, store) = (cores(), bench.store);
            screen.line(&format!("{store} store, {cores} cores, {} connections", args.connections))?;
            screen.table(&table(&all))?;
        }
    }
    Ok(Outcome::Done)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What is measured, and what it is measured with.
struct Bench {
    load: Load,
    null: Load,
    store: &'static str,
    pid: Option<u32>,
    wal: Option<Wal>,
    /// Whether the store may be emptied between two workloads.
    own: bool,
    _servers: Vec<Server>,
    _folder: Option<tempfile::TempDir>,
}

impl Bench {
    async fn new(args: &BenchArgs, url: Option<String>, token: Option<String>) -> anyhow::Result<Bench> {
        let postgres = match args.store.clone().into_text() {
            name if name == "sqlite" => None,
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => Some(url),
            _ => return Err(Failure::misuse("--store is neither sqlite nor postgres://…").into()),
        };
        let null = Server::start_null()?;
        let mark = format!("{:08x}", std::process::id());
        let load = async |url: &str, token: Option<&str>| -> anyhow::Result<Load> {
            Ok(Load {
                address: Address::read(url, token).await?,
                jobs: args.jobs,
                letters: args.letters,
                connections: args.connections,
                mark: mark.clone(),
            })
        };
        let null_load = load(&null.url, None).await?;
        if let Some(url) = url {
            if !args.yes {
                return Err(Failure::misuse(format!("this writes jobs and letters into {url}"))
                    .hint("add --yes if that server is there for it")
                    .into());
            }
            let load = load(&url, token.as_deref()).await?;
            let (pid, store) = (args.pid, "server's");
            return Ok(Bench {
                load,
                null: null_load,
                store,
                pid,
                wal: None,
                own: false,
                _servers: vec![null],
                _folder: None,
            });
        }
        let mut folder = tempfile::Builder::new();
        folder.prefix("lazaret-bench-");
        let folder = match &args.folder {
            Some(parent) => folder.tempdir_in(parent),
            None => folder.tempdir(),
        };
        let folder = folder.context("cannot make a temporary folder")?;
        let server = Server::start(folder.path(), postgres.as_deref())?;
        let wal = match &postgres {
            Some(url) => Some(Wal::connect(url).await?),
            None => None,
        };
        let store = if postgres.is_some() { "PostgreSQL" } else { "embedded" };
        let (load, pid) = (load(&server.url, None).await?, Some(server.pid()));
        let bench = Bench {
            load,
            null: null_load,
            store,
            pid,
            wal,
            own: true,
            _servers: vec![server, null],
            _folder: Some(folder),
        };
        Ok(bench)
    }

    /// Empties the store, if it is ours.
    async fn reset(&self) -> anyhow::Result<()> {
        if self.own {
            Line::open(&self.load.address).await?.post("/test/reset", "{}").await?;
        }
        Ok(())
    }

    async fn usage(&self) -> Option<Usage> {
        let usage = Usage::of(self.pid?)?;
        match &self.wal {
            Some(wal) => Some(Usage { written: wal.bytes().await?, ..usage }),
            None => Some(usage),
        }
    }

    async fn measure(&self, workload: Workload, screen: &Screen) -> anyhow::Result<Vec<Figures>> {
        self.reset().await?;
        let bar = screen.bar(Some(self.load.jobs), BAR_OF_JOBS);
        bar.enable_steady_tick(Duration::from_millis(200));
        bar.set_message(format!("{}: preparing", workload.name()));
        self.load.prepare(workload, &bar).await.with_context(|| format!("preparing {}", workload.name()))?;
        bar.set_message(workload.name());
        bar.set_position(0);
        let before = self.usage().await;
        if workload == Workload::Lists {
            let all = self.load.lists().await?;
            let after = self.usage().await;
            bar.finish_and_clear();
            let figures = all.into_iter().map(|(name, measured)| {
                let figures = Figures::new(workload.name(), name, measured);
                Figures { resident_mib: figures.clone().with_usage(before, after).resident_mib, ..figures }
            });
            return Ok(figures.collect());
        }
        let measured = self.load.run(workload, &bar).await.with_context(|| workload.name())?;
        let after = self.usage().await;
        let mut figures = Figures::new(workload.name(), workload.what(), measured).with_usage(before, after);
        if workload.has_floor() {
            bar.set_message(format!("{}: server that only answers", workload.name()));
            bar.set_position(0);
            let floor = self.null.run(workload, &bar).await.context("the server that only answers")?;
            figures.null_per_second = Some(Figures::new("null", "", floor).per_second);
        }
        bar.finish_and_clear();
        Ok(vec![figures])
    }
}

fn table(all: &[Figures]) -> Table {
    let mut table = Table::new(vec![
        Column::whole("WORKLOAD"),
        Column::cut("OPERATION").left_out(1),
        Column::number("PER S"),
        Column::number("OF NULL"),
        Column::number("P50 MS"),
        Column::number("P99 MS"),
        Column::number("P99.9 MS").left_out(2),
        Column::number("CPU µS"),
        Column::number("WRITTEN KB"),
        Column::number("MEMORY MB").left_out(3),
    ]);
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value}"));
    for one in all {
        let share =
            one.null_per_second.map(|null| format!("{:.0} %", 100.0 * one.per_second / null.max(1e-9)));
        table.row(vec![
            one.workload.into(),
            one.what.into(),
            format!("{}", one.per_second).into(),
            share.unwrap_or_else(|| "–".to_owned()).into(),
            shown(one.p50_ms).into(),
            shown(one.p99_ms).into(),
            shown(one.p999_ms).into(),
            shown(one.cpu_us).into(),
            one.bytes_written.map_or("–".to_owned(), |bytes| format!("{:.1}", bytes / 1e3)).into(),
            one.resident_mib.map_or("–".to_owned(), |mib| format!("{mib:.0}")).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Measured, Waits};
    use crate::output::Colour;

    #[test]
    fn what_is_not_known_is_a_dash() {
        let waits = Waits(vec![Duration::from_micros(1_234); 3]);
        let measured = Measured { operations: 3, took: Duration::from_millis(30), waits };
        let mut with_floor = Figures::new("fail", "fetch, one nack per job", measured.clone());
        with_floor.null_per_second = Some(200.0);
        with_floor.cpu_us = Some(120.0);
        with_floor.bytes_written = Some(9_870.0);
        let text =
            table(&[with_floor, Figures::new("retry", "one bulk call", measured)]).render(None, Colour::Off);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows[1].ends_with(&["100", "50", "%", "1.23", "1.23", "1.23", "120", "9.9", "–"]), "{text}");
        assert!(rows[2].ends_with(&["100", "–", "1.23", "1.23", "1.23", "–", "–", "–"]), "{text}");
    }
}
