//! Random sequences for the model tests. The seed is fixed unless `LAZARET_TEST_SEED` names another; a sequence that fails
//! is made shorter, and told together with its seed.

use std::fmt::Debug;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use proptest::collection::vec;
use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::rig::Rig;

const VARIABLE: &str = "LAZARET_TEST_SEED";

/// How often a failing sequence is tried in a simpler form.
const SIMPLER_MAX: usize = 200;

fn seed() -> u64 {
    std::env::var(VARIABLE).map_or(0, |text| text.parse().expect("the seed is a number"))
}

/// Returns true if nobody named a seed, so that what the sequences meet is known.
pub fn is_fixed() -> bool {
    std::env::var(VARIABLE).is_err()
}

/// Random values that are the same for the same seed.
pub fn runner() -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed().to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Tells the seed of a test that draws from `runner` by itself, if it fails.
pub struct TellSeed;

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{VARIABLE}={} fails", seed());
        }
    }
}

/// Runs `count` sequences of up to twice `steps` steps, each on an emptied store. `case` gets the number of its round, by
/// which it can keep its times apart from those of rounds before.
pub async fn sequences<S: Strategy>(
    rig: &mut Rig,
    step: S,
    (count, steps): (usize, usize),
    case: impl AsyncFn(&mut Rig, usize, &[S::Value]),
) where
    S::Value: Debug,
{
    let (mut runner, strategy, mut round) = (runner(), vec(step, 1..=2 * steps), 0);
    for _ in 0..count {
        let mut tree = strategy.new_tree(&mut runner).unwrap();
        if works(rig, &case, &mut round, &tree.current()).await {
            continue;
        }
        let mut shortest = tree.current();
        let mut may_go_on = tree.simplify();
        for _ in 0..SIMPLER_MAX {
            if !may_go_on {
                break;
            }
            let simpler = tree.current();
            may_go_on = if works(rig, &case, &mut round, &simpler).await {
                tree.complicate()
            } else {
                shortest = simpler;
                tree.simplify()
            };
        }
        panic!("{VARIABLE}={} fails with these steps: {shortest:#?}", seed());
    }
}

async fn works<V>(
    rig: &mut Rig,
    case: &impl AsyncFn(&mut Rig, usize, &[V]),
    round: &mut usize,
    steps: &[V],
) -> bool {
    *round += 1;
    let run = async {
        rig.store().reset().await.unwrap();
        case(rig, *round, steps).await;
    };
    AssertUnwindSafe(run).catch_unwind().await.is_ok()
}
