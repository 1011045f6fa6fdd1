//! How xtask calls cargo: always in the workspace root, always with the committed lock file.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Set by `cargo run` for xtask itself. A build script that watches one of them would see it come and
/// go, and rebuild its crate each time that cargo is called now by hand and now from here.
const ABOUT_XTASK: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

pub(crate) fn test_args(test_args: &[String]) -> Vec<String> {
    with_trailing(&["test", "--workspace", "--locked"], test_args)
}

/// The tests that need no server, browser or second process: unit tests, and the store's contract on the embedded store.
pub(crate) fn quick_test_args(test_args: &[String]) -> [Vec<String>; 2] {
    let without_servers: Vec<String> = ["--skip", "postgres", "--skip", "database", "--skip", "copy::"]
        .map(str::to_owned)
        .into_iter()
        .chain(test_args.iter().cloned())
        .collect();
    [&["--lib", "--bins"][..], &["--test", "store"]]
        .map(|which| with_trailing(&[&["test", "--workspace", "--locked"], which].concat(), &without_servers))
}

/// A release build, so that servers and workers are killed in their work and not in their start.
pub(crate) fn torture_args() -> [Vec<String>; 2] {
    let server = ["torture::", "race::", "many::", "away::", "redrive_kill::"];
    let tests = [("lazaret", "cli", &server[..]), ("lazaret-worker", "rabbitmq", &["kills::"])];
    tests.map(|(package, test, names)| {
        let trailing = [names, &["--nocapture", "--test-threads=1"]].concat();
        let trailing: Vec<String> = trailing.into_iter().map(str::to_owned).collect();
        with_trailing(&["test", "--release", "--locked", "--package", package, "--test", test], &trailing)
    })
}

/// The model tests of both stores, which take their sequences from a seed.
pub(crate) fn model_args() -> Vec<String> {
    let args = ["test", "--release", "--locked", "--package", "lazaret-store", "--test", "store"];
    with_trailing(&args, &["any_sequence", "a_filter_finds_what_it_means"].map(str::to_owned))
}

pub(crate) fn bench_args(bench_args: &[String]) -> Vec<String> {
    with_trailing(&["bench", "--locked", "--package", "lazaret-server", "--bench", "letters"], bench_args)
}

/// Everything into `target/screenshots`, or the pictures of the README into another folder.
pub(crate) fn screenshots_args(into: Option<&str>) -> Vec<String> {
    let args = ["run", "--locked", "--package", "lazaret-browser", "--bin", "screenshots"];
    let trailing: Vec<String> = match into {
        None => Vec::new(),
        Some(folder) => ["--into", folder].map(str::to_owned).to_vec(),
    };
    with_trailing(&args, &trailing)
}

fn with_trailing(args: &[&str], trailing: &[String]) -> Vec<String> {
    let mut all: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    if !trailing.is_empty() {
        all.push("--".to_owned());
        all.extend_from_slice(trailing);
    }
    all
}

pub(crate) fn run(args: &[String], variables: &[(&str, String)]) -> Result<()> {
    let line = format!("cargo {}", args.join(" "));
    eprintln!("+ {line}");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(workspace_root());
    for (name, _) in std::env::vars_os() {
        if ABOUT_XTASK.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    for (name, value) in variables {
        command.env(name, value);
    }
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Asks the environment first: a program kept in a shared build cache may have been compiled in another
/// clone than the one it is run for.
pub(crate) fn workspace_root() -> PathBuf {
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir.parent().expect("xtask lies in the workspace").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashes_are_there_only_when_something_follows() {
        assert_eq!(test_args(&[]).join(" "), "test --workspace --locked");
        assert_eq!(test_args(&["capture".to_owned()]).join(" "), "test --workspace --locked -- capture");
    }

    #[test]
    fn quick_tests_leave_postgresql_out() {
        let lines = quick_test_args(&["capture".to_owned()]).map(|args| args.join(" "));
        assert_eq!(
            lines,
            [
                "test --workspace --locked --lib --bins -- --skip postgres --skip database --skip copy:: capture",
                "test --workspace --locked --test store -- --skip postgres --skip database --skip copy:: capture"
            ]
        );
    }

    #[test]
    fn torture_runs_the_torture_tests_alone() {
        assert_eq!(
            torture_args().map(|args| args.join(" ")),
            [
                "test --release --locked --package lazaret --test cli -- torture:: race:: many:: away:: redrive_kill:: --nocapture --test-threads=1",
                "test --release --locked --package lazaret-worker --test rabbitmq -- kills:: --nocapture --test-threads=1"
            ]
        );
    }

    #[test]
    fn models_are_run_on_both_stores() {
        assert_eq!(
            model_args().join(" "),
            "test --release --locked --package lazaret-store --test store -- any_sequence a_filter_finds_what_it_means"
        );
    }

    #[test]
    fn screenshots_go_where_they_are_wished() {
        let run = "run --locked --package lazaret-browser --bin screenshots";
        assert_eq!(screenshots_args(None).join(" "), run);
        assert_eq!(screenshots_args(Some("docs/images")).join(" "), format!("{run} -- --into docs/images"));
    }

    #[test]
    fn the_workspace_root_holds_the_workspace() {
        let manifest = std::fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }
}
