//! What can be asked of xtask: the command line, parsed. Never does any of it.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::setup::Missing;

pub(crate) const USAGE: &str = "\
The project's own chores.

Usage: cargo xtask <TASK>

Tasks:
  test [--quick] [--no-setup] [-- TEST-ARGS…]
      Install what the tests need and is missing (Debian, as root or with passwordless
      sudo), then run every test of the workspace.
      --quick          only tests that start no server, browser or second process
      --no-setup       install nothing; a missing tool is an error that names it
      -- TEST-ARGS…    a filter and options for the test programs,
                       for example: cargo xtask test -- capture --nocapture

  torture [--rounds N] [--seed N]
      Kill the server in a stream of reports, again and again, and look for lost letters;
      then in a race of workers and operators for jobs, and look for jobs that are lost,
      in two places or run twice. Then the same with three servers on one PostgreSQL, of
      which one is killed again and again; with PostgreSQL stopped and started again; and
      with a standby that takes over. At last kill it while letters are put back, on both
      stores, and look for letters that never arrived or arrived twice. The model tests of
      the stores follow, with sequences of the same seed.
      --rounds N       how often to kill it; three times for every 20 in the race, one of
                       three for every 7, and PostgreSQL is stopped for every 5; as often
                       in redrives, half of it on each store [default: 200]
      --seed N         when to kill it; a random one is printed [default: random]

  bench [BENCH-ARGS…]
      Measure capture, listing, jobs and memory on a release build. All arguments go to
      the benchmark, for example: cargo xtask bench --only jobs

  screenshots [--into FOLDER]
      Start the demo and make a picture of every page, in light, in dark and as wide as a
      phone, in target/screenshots.
      --into FOLDER    only the pictures that the README shows, for example:
                       cargo xtask screenshots --into docs/images

  tidy
      Check what the compiler does not: file lengths, module headers, states written
      into SQL, to-do marks without an issue. Also runs as a test.

  rules
      Write docs/rules-040.md: the rules for dead letters of an outbox, with the tests
      that are named after them. A test checks that it is up to date.

Exit status: 0 done, 1 failed, 2 misuse.";

const ROUNDS_DEFAULT: NonZeroU32 = NonZeroU32::new(200).expect("200 is not zero");

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Test { missing: Missing, test_args: Vec<String> },
    QuickTest { test_args: Vec<String> },
    Torture { rounds: NonZeroU32, seed: Option<u64> },
    Bench { bench_args: Vec<String> },
    Screenshots { into: Option<String> },
    Tidy,
    Rules,
}

/// A command line that makes no sense, in the words that go to the person who typed it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misuse(String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn parse(args: &[String]) -> Result<Task, Misuse> {
    let Some((name, rest)) = args.split_first() else {
        return Err(Misuse("no task given".to_owned()));
    };
    if is_help(name) || name == "help" || rest.first().is_some_and(|arg| is_help(arg)) {
        return Ok(Task::Help);
    }
    match name.as_str() {
        "test" => parse_test(rest),
        "torture" => parse_torture(rest),
        "bench" => Ok(parse_bench(rest)),
        "screenshots" => parse_screenshots(rest),
        "tidy" => match rest.first() {
            None => Ok(Task::Tidy),
            Some(arg) => Err(unexpected("tidy", arg)),
        },
        "rules" => match rest.first() {
            None => Ok(Task::Rules),
            Some(arg) => Err(unexpected("rules", arg)),
        },
        _ => Err(Misuse(format!("unknown task '{name}'"))),
    }
}

fn parse_test(args: &[String]) -> Result<Task, Misuse> {
    let (own, test_args) = match args.iter().position(|arg| arg == "--") {
        Some(dashes) => (&args[..dashes], args[dashes + 1..].to_vec()),
        None => (args, Vec::new()),
    };
    let (mut missing, mut is_quick) = (Missing::Install, false);
    for arg in own {
        match arg.as_str() {
            "--no-setup" => missing = Missing::Refuse,
            "--quick" => is_quick = true,
            _ => return Err(unexpected("test", arg)),
        }
    }
    Ok(if is_quick { Task::QuickTest { test_args } } else { Task::Test { missing, test_args } })
}

fn parse_torture(args: &[String]) -> Result<Task, Misuse> {
    let mut rounds = ROUNDS_DEFAULT;
    let mut seed = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (flag, joined) = match arg.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (arg.as_str(), None),
        };
        match flag {
            "--rounds" => rounds = number(flag, joined.or_else(|| args.next().map(String::as_str)))?,
            "--seed" => seed = Some(number(flag, joined.or_else(|| args.next().map(String::as_str)))?),
            _ => return Err(unexpected("torture", arg)),
        }
    }
    Ok(Task::Torture { rounds, seed })
}

/// One leading `--` is dropped, for those who type it out of habit.
fn parse_bench(args: &[String]) -> Task {
    let bench_args = match args.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => args,
    };
    Task::Bench { bench_args: bench_args.to_vec() }
}

fn parse_screenshots(args: &[String]) -> Result<Task, Misuse> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        [] => Ok(Task::Screenshots { into: None }),
        ["--into", folder] => Ok(Task::Screenshots { into: Some(folder.to_owned()) }),
        ["--into"] => Err(Misuse("--into needs a folder".to_owned())),
        ["--into", _, arg, ..] | [arg, ..] => Err(unexpected("screenshots", arg)),
    }
}

fn number<N: FromStr>(flag: &str, value: Option<&str>) -> Result<N, Misuse>
where
    N::Err: fmt::Display,
{
    let Some(value) = value else {
        return Err(Misuse(format!("{flag} needs a number")));
    };
    value.parse().map_err(|why| Misuse(format!("{flag} {value}: {why}")))
}

fn unexpected(task: &str, arg: &str) -> Misuse {
    Misuse(format!("unexpected argument '{arg}' for '{task}'"))
}

fn is_help(arg: &str) -> bool {
    arg == "--help" || arg == "-h"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<Task, &str>) {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        assert_eq!(parse(&args), expected.map_err(|message| Misuse(message.to_owned())), "{line}");
    }

    fn torture(rounds: u32, seed: Option<u64>) -> Task {
        Task::Torture { rounds: NonZeroU32::new(rounds).unwrap(), seed }
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn test_takes_its_own_flags_before_the_dashes_and_none_after() {
        let test = |missing, words| Ok(Task::Test { missing, test_args: strings(words) });
        check("test", test(Missing::Install, &[]));
        check("test --no-setup", test(Missing::Refuse, &[]));
        check("test -- capture", test(Missing::Install, &["capture"]));
        check("test --no-setup -- a --nocapture", test(Missing::Refuse, &["a", "--nocapture"]));
        check("test -- --no-setup", test(Missing::Install, &["--no-setup"]));
        let quick = |words| Ok(Task::QuickTest { test_args: strings(words) });
        check("test --quick", quick(&[]));
        check("test --quick --no-setup -- capture", quick(&["capture"]));
        check("test -- --quick", test(Missing::Install, &["--quick"]));
        check("test capture", Err("unexpected argument 'capture' for 'test'"));
    }

    #[test]
    fn torture_runs_200_rounds_unless_told_otherwise() {
        check("torture", Ok(torture(200, None)));
        check("torture --rounds 5 --seed 0", Ok(torture(5, Some(0))));
        check("torture --seed=18446744073709551615", Ok(torture(200, Some(u64::MAX))));
    }

    #[test]
    fn torture_refuses_what_is_not_a_number_of_rounds() {
        check("torture --rounds", Err("--rounds needs a number"));
        check("torture --rounds 0", Err("--rounds 0: number would be zero for non-zero type"));
        check("torture --seed x", Err("--seed x: invalid digit found in string"));
        check("torture 5", Err("unexpected argument '5' for 'torture'"));
    }

    #[test]
    fn bench_passes_everything_on() {
        let bench = |words| Ok(Task::Bench { bench_args: strings(words) });
        check("bench", bench(&[]));
        check("bench --letters 10000 100000", bench(&["--letters", "10000", "100000"]));
        check("bench -- --help", bench(&["--help"]));
    }

    #[test]
    fn screenshots_may_be_put_elsewhere() {
        check("screenshots", Ok(Task::Screenshots { into: None }));
        let into = Some("docs/images".to_owned());
        check("screenshots --into docs/images", Ok(Task::Screenshots { into }));
        check("screenshots --into", Err("--into needs a folder"));
        check("screenshots docs", Err("unexpected argument 'docs' for 'screenshots'"));
        check("screenshots --into a b", Err("unexpected argument 'b' for 'screenshots'"));
    }

    #[test]
    fn help_is_given_wherever_it_is_asked_for() {
        check("--help", Ok(Task::Help));
        check("help", Ok(Task::Help));
        check("test --help", Ok(Task::Help));
        check("bench -h", Ok(Task::Help));
    }

    #[test]
    fn nonsense_is_misuse() {
        check("", Err("no task given"));
        check("tests", Err("unknown task 'tests'"));
        check("tidy now", Err("unexpected argument 'now' for 'tidy'"));
    }
}
