//! The store under test, how it is opened again, and short ways to say what happens to it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::class::ClassRules;
use lazaret_core::cursor::Sort;
use lazaret_core::envelope::Envelope;
use lazaret_core::filter::Filter;
use lazaret_core::fingerprint::FingerprintRules;
use lazaret_core::gate::Passed;
use lazaret_core::id::{LetterId, OperationId, RedriveId};
use lazaret_core::letter::{Admitted, Captured, Letter, Outcome, Receipt, RedriveMark, SourceWord, admit};
use lazaret_core::redrive::{Options, Pace, RedriveKind};
use lazaret_core::time::Time;
use lazaret_store::audit::Actor;
use lazaret_store::claim::{ClaimFence, ClaimStep};
use lazaret_store::decision::{Decided, Decision, Expected, NewOperation, Operation, OperationState, Verb};
use lazaret_store::page::{LetterHistory, PageQuery};
use lazaret_store::postgres::PostgresStore;
use lazaret_store::redrive::{Group, GroupVerdict, Launch, Launched, NewRedrive, Selection, SendOutcome};
use lazaret_store::sqlite::{Mode, SqliteStore};
use lazaret_store::testing::TestDatabase;
use lazaret_store::{Store, StoreError};

use crate::books;

/// Opens the same store again each time it is called.
pub type Opening = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Arc<dyn Store>>>>>;

/// A new embedded store in a folder of its own.
pub fn sqlite() -> Opening {
    let folder = tempfile::tempdir().unwrap();
    Box::new(move || {
        let store = SqliteStore::open(&folder.path().join("data"), Mode::Test).unwrap();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    })
}

/// A new store in a database of its own.
pub fn postgres() -> Opening {
    let database = TestDatabase::new();
    Box::new(move || {
        let url = database.url();
        Box::pin(
            async move { Arc::new(PostgresStore::open(&url, Mode::Test).await.unwrap()) as Arc<dyn Store> },
        )
    })
}

/// Runs one case on a new store; whatever it did, the books have to agree afterwards, and again after a restart.
pub fn check(opening: fn() -> Opening, case: impl AsyncFn(&mut Rig)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut rig = Rig::open(opening()).await;
        case(&mut rig).await;
        books::agree(rig.store()).await;
        let before = rig.dump().await;
        rig.reopen().await;
        assert_eq!(rig.dump().await, before, "the store changed by being opened again");
        rig.store().close().await.unwrap();
    });
}

/// A store, and everything that would be random in production counted up instead.
pub struct Rig {
    /// Absent only between closing and opening again.
    store: Option<Arc<dyn Store>>,
    opening: Opening,
    minted: AtomicU64,
}

impl Rig {
    pub async fn open(opening: Opening) -> Rig {
        Rig { store: Some(opening().await), opening, minted: AtomicU64::new(0) }
    }

    pub fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("the store is open")
    }

    /// The store for a task of its own.
    pub fn shared(&self) -> Arc<dyn Store> {
        self.store.clone().expect("the store is open")
    }

    /// Closes the store as a shutdown does and opens it as the next start does.
    pub async fn reopen(&mut self) {
        self.store().close().await.unwrap();
        // The old one has to be gone first: it holds the folder.
        self.store = None;
        self.store = Some((self.opening)().await);
    }

    pub fn mint(&self) -> [u8; 10] {
        let mut random = [0; 10];
        random[2..].copy_from_slice(&self.minted.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        random
    }

    pub fn admit(&self, captured: Captured, at: Time) -> Admitted {
        admit(captured, at, [self.mint(), self.mint()], &ClassRules::default(), &FingerprintRules::default())
    }

    pub fn run_id(&self) -> RedriveId {
        RedriveId::mint(at(0), self.mint())
    }

    pub async fn insert(&self, batch: Vec<Admitted>) -> Vec<Receipt> {
        self.store().insert(batch).await.unwrap()
    }

    /// Captures one message.
    pub async fn capture(&self, captured: Captured, at: Time) -> Receipt {
        self.insert(vec![self.admit(captured, at)]).await[0]
    }

    /// Captures one message that has to be a new letter.
    pub async fn create(&self, captured: Captured, at: Time) -> LetterId {
        let receipt = self.capture(captured, at).await;
        assert_eq!(receipt.outcome, Outcome::Created);
        receipt.letter
    }

    /// Captures letters `e0`, `e1`, … that died one millisecond after the other, all at `at`.
    pub async fn create_many(&self, count: i64, at: Time) -> Vec<LetterId> {
        let mut ids = Vec::new();
        for chunk in (0..count).collect::<Vec<_>>().chunks(1_000) {
            let batch = chunk.iter().map(|n| self.admit(dying(&format!("e{n}"), at.plus_ms(n - count)), at));
            ids.extend(self.insert(batch.collect()).await.into_iter().map(|receipt| receipt.letter));
        }
        ids
    }

    pub async fn history(&self, id: LetterId) -> LetterHistory {
        self.store().history(id).await.unwrap().expect("the letter exists")
    }

    pub async fn letter(&self, id: LetterId) -> Letter {
        self.history(id).await.letter
    }

    /// Every letter that matches, walked page by page.
    pub async fn walk(&self, filter: &Filter, now: Time, sort: Sort, limit: usize) -> Vec<Letter> {
        let mut letters: Vec<Letter> = Vec::new();
        let mut after = None;
        loop {
            let query =
                PageQuery { filter: filter.clone(), now, sort, limit, after, scan_max: PageQuery::SCAN_MAX };
            let page = self.store().list(query).await.unwrap();
            assert!(page.letters.len() <= limit);
            letters.extend(page.letters);
            after = page.next;
            if after.is_none() {
                return letters;
            }
        }
    }

    /// The ids of all letters that a filter in its text form finds, newest death first.
    pub async fn find(&self, filter: &str) -> Vec<LetterId> {
        let filter = Filter::from_text(filter).unwrap();
        self.walk(&filter, at(1_000_000), Sort::DiedAtDesc, 500)
            .await
            .iter()
            .map(|letter| letter.id)
            .collect()
    }

    pub async fn decide(&self, id: LetterId, verb: Verb, at: Time) -> Decided {
        self.store().decide(id, decision(verb, at)).await.unwrap()
    }

    pub async fn done(&self, id: LetterId, verb: Verb, at: Time) {
        assert_eq!(self.decide(id, verb, at).await, Decided::Done, "{}", verb.name());
    }

    /// Plans and launches a redrive of one letter in this life; nothing if it cannot be redriven.
    pub async fn launch(&self, letter: LetterId, life: u32, at: Time) -> Option<RedriveId> {
        let (store, id) = (self.store(), self.run_id());
        let options = Options { pace: Pace::Unlimited, canary: 0, ..Options::default() };
        let redrive = NewRedrive {
            id,
            kind: RedriveKind::Plan,
            selection: Selection::Letters(vec![(letter, life)]),
            options,
            by: ana(),
            reason: None,
            edit: None,
            at,
        };
        store.open_redrive(redrive).await.unwrap();
        while !store.freeze_redrive(id).await.unwrap() {}
        let groups = store.redrive_groups(id).await.unwrap();
        let goes =
            |group: &Group| GroupVerdict::Goes { passed: Passed::Freely, destination: group.source.clone() };
        let verdicts = groups.iter().map(|group| (group.number, goes(group))).collect();
        store.plan_redrive(id, verdicts, "{}".into(), at).await.unwrap()?;
        let launch = Launch { count: groups.len() as u64, options, break_glass: None, by: ana(), at };
        let launched = store.launch_redrive(id, launch).await.unwrap();
        matches!(launched, Launched::Done(_)).then_some(id)
    }

    /// Claims a letter in this life for a redrive of its own; nothing if it cannot be redriven.
    pub async fn take(&self, letter: LetterId, life: u32, at: Time) -> Option<(RedriveId, ClaimFence)> {
        let id = self.launch(letter, life, at).await?;
        let taken = self.store().take_letters(id, 1, at.plus_ms(30_000), at).await.unwrap().taken;
        taken.first().map(|taken| (id, taken.fence()))
    }

    /// Begins to send a letter that was taken; says whether it was begun.
    pub async fn begin(&self, run: RedriveId, fence: &ClaimFence, at: Time) -> bool {
        let begun = self.store().begin_sending(run, vec![fence.clone()], at).await.unwrap();
        begun == [fence.letter]
    }

    /// Settles a letter that was taken; says whether it was settled.
    pub async fn settle(&self, run: RedriveId, fence: &ClaimFence, outcome: SendOutcome, at: Time) -> bool {
        let settled = self.store().settle_letters(run, vec![(fence.clone(), outcome)], at).await.unwrap();
        settled == [true]
    }

    /// Claims a letter in its present life and takes the claim up to `step`.
    pub async fn send(&self, letter: LetterId, step: ClaimStep, at: Time) -> RedriveId {
        self.send_fenced(letter, step, at).await.0
    }

    /// Claims a letter as `send` does, and returns the claim's fence too.
    pub async fn send_fenced(&self, letter: LetterId, step: ClaimStep, at: Time) -> (RedriveId, ClaimFence) {
        let life = self.letter(letter).await.life;
        let (run, fence) = self.take(letter, life, at).await.expect("the letter can be redriven");
        if step >= ClaimStep::Sending {
            assert!(self.begin(run, &fence, at).await);
        }
        if step == ClaimStep::Sent {
            assert!(self.settle(run, &fence, SendOutcome::Sent { handle: None }, at).await);
        }
        (run, fence)
    }

    /// Opens an operation on what a filter in its text form finds.
    pub async fn open_operation(&self, verb: Verb, filter: &str, expected: u64, at: Time) -> OperationId {
        self.open_expecting(verb, filter, Expected::Exactly(expected), at).await
    }

    pub async fn open_expecting(
        &self,
        verb: Verb,
        filter: &str,
        expected: Expected,
        at: Time,
    ) -> OperationId {
        let id = OperationId::mint(at, self.mint());
        let filter = Filter::from_text(filter).unwrap();
        let operation = NewOperation { id, decision: decision(verb, at), filter, expected };
        self.store().open_operation(operation).await.unwrap();
        id
    }

    /// Freezes an operation to its end; counts the calls.
    pub async fn freeze(&self, id: OperationId) -> (Operation, usize) {
        for calls in 1.. {
            let operation = self.store().freeze(id).await.unwrap();
            if operation.state != OperationState::Freezing {
                return (operation, calls);
            }
        }
        unreachable!("an operation freezes in finitely many calls")
    }

    /// Works an operation off to its end; counts the calls.
    pub async fn work(&self, id: OperationId, at: Time) -> (Operation, usize) {
        for calls in 1.. {
            let operation = self.store().work(id, at).await.unwrap();
            if operation.state != OperationState::Working {
                return (operation, calls);
            }
        }
        unreachable!("an operation is worked off in finitely many calls")
    }

    pub async fn dump(&self) -> String {
        self.store().dump().await.unwrap()
    }

    /// The kinds of all events, in order.
    pub async fn told(&self) -> Vec<String> {
        self.store().events(0, 100_000).await.unwrap().into_iter().map(|event| event.kind).collect()
    }

    /// The same of letters alone.
    pub async fn told_of_letters(&self) -> Vec<String> {
        self.told().await.into_iter().filter(|kind| kind.starts_with("dead_letter.")).collect()
    }
}

/// The moment all cases are counted from, moved by milliseconds: 2025-11-15T03:00:00Z.
pub fn at(ms: i64) -> Time {
    Time::from_ms(1_763_175_600_000 + ms)
}

/// A plain message; cases say what differs with struct update syntax.
pub fn captured(event: &str) -> Captured {
    Captured {
        source: "report".into(),
        message_id: event.into(),
        letter_type: "order.created".into(),
        queue: "orders".into(),
        subscriber: Some("billing".into()),
        tenant: None,
        aggregate: None,
        schema_version: None,
        envelope: envelope(br#"{"order":7}"#),
        error: error("connection refused"),
        attempts: Vec::new(),
        retry_count: 3,
        max_retries: Some(5),
        died_at: None,
        mark: None,
        word: SourceWord::Silent,
        reported: None,
    }
}

/// A plain message that died at a stated time.
pub fn dying(event: &str, died_at: Time) -> Captured {
    Captured { died_at: Some(died_at), ..captured(event) }
}

pub fn envelope(body: &[u8]) -> Envelope {
    Envelope::seal(body.to_vec().into(), "application/json", vec![("trace".into(), "7".into())])
}

pub fn error(message: &str) -> LetterError {
    LetterError { error_type: "ConnectionError".into(), message: message.into(), ..LetterError::default() }
}

/// Letters and digits that no packing makes shorter by much.
pub fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[(state % 64) as usize])
    };
    (0..bytes).map(|_| next()).collect()
}

/// One failed run.
pub fn failed(at: Time, message: &str) -> Attempt {
    Attempt { at: Some(at), duration_ms: Some(40), error: error(message), extra: None }
}

pub fn mark(letter: LetterId, life: u32, redrive: RedriveId) -> Option<RedriveMark> {
    Some(RedriveMark { letter, life, redrive })
}

pub fn ana() -> Actor {
    Actor { name: "ana".into(), role: "operator".into(), request: Some("req-1".into()) }
}

pub fn decision(verb: Verb, at: Time) -> Decision {
    Decision { verb, actor: ana(), reason: Some("ticket 7".into()), at, from: None, floor_ms: None }
}

/// Whether a call failed because the store was shut down.
pub fn is_closed<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable { doing: "shutting down", .. }))
}
