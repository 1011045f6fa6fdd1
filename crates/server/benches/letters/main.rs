//! What the stores and the API can do on this machine, each figure beside the bare loop that does the same work.
//!
//! `cargo xtask bench` runs it; `--letters 1000000` lists and filters at a million, `--only PART` one part.

mod capture;
mod clients;
mod floor;
mod jetstream;
mod jobs;
mod jobs_floor;
mod jobs_load;
mod lists;
mod pages;
mod postgres;
mod postgres_floor;
mod postgres_jobs;
mod postgres_lists;
mod prune;
mod rabbitmq;
mod redrive;
mod regroup;
mod retry;
mod sample;
mod search;

use std::path::Path;

/// What can be measured by itself.
const PARTS: [&str; 13] = [
    "capture",
    "clients",
    "jobs",
    "retry",
    "redrive",
    "lists",
    "search",
    "regroup",
    "prune",
    "jetstream",
    "rabbitmq",
    "postgres",
    "postgres-jobs",
];

struct Options {
    sizes: Vec<usize>,
    only: Option<String>,
}

fn main() {
    let options = match read_options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!(
                "error: {message}\nhint: cargo xtask bench [--letters N]… [--only {}]",
                PARTS.join("|")
            );
            std::process::exit(2);
        }
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    let wanted = |part: &str| options.only.as_deref().is_none_or(|only| only == part);
    println!("Machine: {}\n", machine());
    if wanted("capture") {
        runtime.block_on(capture::run());
    }
    if wanted("clients") {
        runtime.block_on(clients::run());
    }
    if wanted("jobs") {
        runtime.block_on(jobs::run());
    }
    if wanted("retry") {
        runtime.block_on(retry::run());
    }
    if wanted("redrive") {
        runtime.block_on(redrive::run());
    }
    if wanted("search") {
        runtime.block_on(search::run());
    }
    if wanted("regroup") {
        runtime.block_on(regroup::run());
    }
    if wanted("prune") {
        runtime.block_on(prune::run(&options.sizes));
    }
    if wanted("jetstream") {
        runtime.block_on(jetstream::run());
    }
    if wanted("rabbitmq") {
        runtime.block_on(rabbitmq::run());
    }
    if wanted("lists") {
        runtime.block_on(lists::run(&options.sizes));
    }
    if wanted("postgres") {
        runtime.block_on(postgres::run(&options.sizes));
    }
    // A part of `postgres` that is wanted by itself.
    if options.only.as_deref() == Some("postgres-jobs") {
        runtime.block_on(postgres_jobs::run());
    }
}

fn read_options(args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { sizes: Vec::new(), only: None };
    let mut args = args;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // cargo bench adds this one itself.
            "--bench" => {}
            "--letters" => {
                let size = args.next().ok_or("--letters needs a number")?;
                options
                    .sizes
                    .push(size.replace('_', "").parse().map_err(|_| format!("not a number: {size}"))?);
            }
            "--only" => {
                let part = args.next().filter(|part| PARTS.contains(&part.as_str()));
                options.only = Some(part.ok_or_else(|| format!("--only needs one of {}", PARTS.join(", ")))?);
            }
            other => return Err(format!("unknown argument {other}")),
        }
    }
    if options.sizes.is_empty() {
        options.sizes = vec![10_000, 100_000];
    }
    Ok(options)
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let load = read("/proc/loadavg");
    format!("{cores} × {model}, load {}", load.split(' ').next().unwrap_or("?"))
}

/// Resident memory of this process, in MiB.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap_or(0.0) / 1024.0
}

/// Bytes of all files in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
}
