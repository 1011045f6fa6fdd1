//! The project's own chores, run as `cargo xtask …`. Depends on next to nothing, because everyone who
//! types the command waits for it to compile.

mod axe;
mod cargo;
#[cfg(test)]
mod links;
mod needs;
mod npm;
mod python;
mod rules;
mod setup;
mod task;
mod tidy;
mod words;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroU32;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::needs::TEST_NEEDS;
use crate::setup::Missing;
use crate::task::{Task, USAGE};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let task = match task::parse(&args) {
        Ok(task) => task,
        Err(misuse) => {
            eprintln!("error: {misuse}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Help => {
            println!("{USAGE}");
            Ok(())
        }
        Task::Test { missing, test_args } => {
            setup::ensure(TEST_NEEDS, missing)?;
            python::ensure(missing)?;
            axe::ensure(missing)?;
            npm::ensure(missing)?;
            cargo::run(&cargo::test_args(&test_args), &[])
        }
        // Needs nothing but a compiler, so nothing is looked for.
        Task::QuickTest { test_args } => {
            cargo::quick_test_args(&test_args).iter().try_for_each(|args| cargo::run(args, &[]))
        }
        Task::Torture { rounds, seed } => torture(rounds, seed.unwrap_or_else(random_seed)),
        Task::Bench { bench_args } => cargo::run(&cargo::bench_args(&bench_args), &[]),
        Task::Screenshots { into } => screenshots(into.as_deref()),
        Task::Tidy => tidy(),
        Task::Rules => rules(),
    }
}

fn screenshots(into: Option<&str>) -> Result<()> {
    setup::ensure(TEST_NEEDS, Missing::Install)?;
    cargo::run(&cargo::screenshots_args(into), &[])
}

/// Prints the command that repeats the run before anything can go wrong in it.
fn torture(rounds: NonZeroU32, seed: u64) -> Result<()> {
    eprintln!("to repeat this run: cargo xtask torture --rounds {rounds} --seed {seed}");
    let variables =
        [("LAZARET_TORTURE_ROUNDS", rounds.to_string()), ("LAZARET_TORTURE_SEED", seed.to_string())];
    cargo::torture_args().iter().try_for_each(|args| cargo::run(args, &variables))?;
    cargo::run(&cargo::model_args(), &[("LAZARET_TEST_SEED", seed.to_string())])
}

/// The standard library seeds its hash maps at random, which is random enough to pick a run.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn rules() -> Result<()> {
    let root = cargo::workspace_root();
    let (file, page) = (rules::file(&root), rules::page(&root)?);
    std::fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}

fn tidy() -> Result<()> {
    let root = cargo::workspace_root();
    let mut offences: Vec<String> = tidy::offences_in(&root)?.iter().map(ToString::to_string).collect();
    offences.extend(words::offences_in(&root)?);
    for offence in &offences {
        println!("{offence}");
    }
    if !offences.is_empty() {
        bail!("the tree is not tidy: {} to put right", offences.len());
    }
    Ok(())
}
