//! The way from the shop's story into a store: the past all at once, then what happens as it happens.

use std::collections::HashMap;
use std::sync::Arc;

use lazaret_core::class::ClassRules;
use lazaret_core::fingerprint::FingerprintRules;
use lazaret_core::id::LetterId;
use lazaret_core::letter::{Admitted, Captured, admit};
use lazaret_core::time::Time;
use lazaret_server::app::App;
use lazaret_server::capture::capture;
use lazaret_store::audit::Actor;
use lazaret_store::decision::{Decision, Verb};
use lazaret_store::{Store, StoreError};
use tokio::task::JoinSet;

use super::dice::Dice;
use super::kept;
use super::{Demo, Moment, What};

/// Moments of the past that are written at a time.
const MOMENTS_PER_WRITE: usize = 500;

/// The story on its way into a store.
#[derive(Debug)]
pub struct Feed {
    demo: Demo,
    dice: Dice,
    /// The letter of each event, for decisions that name events.
    letters: HashMap<String, LetterId>,
}

impl Feed {
    pub fn new(seed: u64) -> Feed {
        let mut dice = Dice::new(seed);
        Feed { demo: Demo::new(seed), dice: dice.fork(), letters: HashMap::new() }
    }

    /// Writes the fourteen days up to `until` into an empty store, and says after each part how much of it is done.
    pub async fn tell_past(
        &mut self,
        store: &Arc<dyn Store>,
        rules: (&ClassRules, &FingerprintRules),
        until: Time,
        mut told: impl FnMut(usize, usize),
    ) -> Result<(), StoreError> {
        // An empty store has every revision: what follows is grouped by this one.
        store.regrouping(rules.1.revision(), until).await?;
        let moments = self.demo.history(until);
        let total = moments.len();
        let mut done = 0;
        let mut deaths: Vec<Admitted> = Vec::new();
        for Moment { at, what } in moments {
            match what {
                What::Death(captured) => {
                    deaths.push(self.admitted(*captured, at, rules));
                    if deaths.len() == MOMENTS_PER_WRITE {
                        self.insert(store, &mut deaths).await?;
                    }
                }
                What::Decision { verb, event_ids, by, reason } => {
                    self.insert(store, &mut deaths).await?;
                    let decision = decision(verb, by, reason, at);
                    decide(store, self.named(&event_ids), &decision).await?;
                }
            }
            done += 1;
            if done % MOMENTS_PER_WRITE == 0 {
                told(done, total);
            }
        }
        self.insert(store, &mut deaths).await?;
        kept::push_out(store, until).await?;
        kept::hold_disputes(store, self.dice.bytes(), until).await?;
        told(total, total);
        Ok(())
    }

    /// Ids come from the dice as well: the same seed and the same time make the same store.
    fn admitted(
        &mut self,
        captured: Captured,
        at: Time,
        (classes, groups): (&ClassRules, &FingerprintRules),
    ) -> Admitted {
        let random = [self.dice.bytes(), self.dice.bytes()];
        admit(captured, at, random, classes, groups)
    }

    async fn insert(&mut self, store: &Arc<dyn Store>, deaths: &mut Vec<Admitted>) -> Result<(), StoreError> {
        let events: Vec<String> =
            deaths.iter().map(|admitted| admitted.captured.message_id.clone()).collect();
        let receipts = store.insert(std::mem::take(deaths)).await?;
        self.letters.extend(events.into_iter().zip(receipts.iter().map(|receipt| receipt.letter)));
        Ok(())
    }

    fn named(&self, events: &[String]) -> Vec<LetterId> {
        events.iter().filter_map(|event| self.letters.get(event).copied()).collect()
    }

    /// Lets the shop go on beside a server until that stops.
    pub async fn live(mut self, app: Arc<App>) {
        let mut stopping = app.stopping();
        let moments = self.demo.live(app.clock.now());
        for Moment { at, what } in moments {
            let wait = at.ms() - app.clock.now().ms();
            let wait = std::time::Duration::from_millis(wait.max(0).unsigned_abs());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
            if let Err(error) = self.happens(&app, what).await {
                tracing::warn!(error = %error, "the shop's message did not get through");
            }
        }
    }

    async fn happens(&mut self, app: &App, what: What) -> Result<(), StoreError> {
        match what {
            What::Death(captured) => {
                let event = captured.message_id.clone();
                for receipt in capture(app, vec![*captured]).await? {
                    self.letters.insert(event.clone(), receipt.letter);
                }
            }
            What::Decision { verb, event_ids, by, reason } => {
                let decision = decision(verb, by, reason, app.clock.now());
                decide(&app.store, self.named(&event_ids), &decision).await?;
            }
        }
        Ok(())
    }
}

fn decision(verb: Verb, by: String, reason: String, at: Time) -> Decision {
    let actor = Actor { name: by, role: "operator".into(), request: None };
    Decision { verb, actor, reason: Some(reason), at, from: None, floor_ms: None }
}

/// All at once: the writer takes what is waiting into one commit.
async fn decide(
    store: &Arc<dyn Store>,
    letters: Vec<LetterId>,
    decision: &Decision,
) -> Result<(), StoreError> {
    for some in letters.chunks(MOMENTS_PER_WRITE) {
        let mut under_way = JoinSet::new();
        for letter in some {
            let (store, letter, decision) = (Arc::clone(store), *letter, decision.clone());
            under_way.spawn(async move { store.decide(letter, decision).await });
        }
        for decided in under_way.join_all().await {
            decided?;
        }
    }
    Ok(())
}
