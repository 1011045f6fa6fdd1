//! Letters that were taken and not heard of since: looked for at their destination, or assumed to have succeeded once it
//! has been quiet for long enough.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use lazaret_core::limits;
use lazaret_core::redrive::Outcome;
use lazaret_store::StoreError;
use lazaret_store::redrive::{GroupVerdict, Proof, Proved, Redrive, RedriveLetter};

use super::load::message_id;
use crate::app::App;
use crate::destination::{Content, Destination, Outgoing, Silence, Verified, Way};

/// Looks after the letters of a run that were sent; says whether some moved.
pub(super) async fn verify(app: &App, run: &Redrive) -> Result<bool, StoreError> {
    if run.letters.get(&Outcome::Sent).is_none_or(|sent| *sent == 0) {
        return Ok(false);
    }
    let Ways { out, all_out } = ways(app, run).await?;
    if out.is_empty() {
        return Ok(false);
    }
    let sent = app.store.redrive_letters(run.id, Some(Outcome::Sent), 0, limits::PAGE_ROWS_MAX).await?;
    let mut moved = false;
    // Silence counts for a run as a whole: only where it says the same of every letter that was sent.
    let mut quiet_ms = all_out.then_some(run.options.quiet_ms);
    for row in &sent {
        let Some((name, destination)) = out.get(&row.group) else { continue };
        let message_id = match destination.by_message_id() {
            true => message_id(app, row.letter).await?,
            false => String::new(),
        };
        match destination.verify(&sent_copy(run, row, message_id)).await {
            Verified::Succeeded { evidence, .. } => {
                let (letter, life, at) = (row.letter, row.life, app.clock.now());
                let proof = Proof { letter, life, evidence, by: format!("destination:{name}"), at };
                moved |= app.store.prove(proof).await? == Proved::Done;
            }
            Verified::Taken(Silence::Succeeds { after_ms }) => {
                let after_ms = i64::try_from(after_ms).unwrap_or(i64::MAX);
                quiet_ms = quiet_ms.map(|ms| ms.max(after_ms));
            }
            Verified::Taken(Silence::SaysNothing) | Verified::NotYet => quiet_ms = None,
        }
    }
    if let Some(quiet_ms) = quiet_ms {
        let now = app.clock.now();
        let sent_before = now.plus_ms(-quiet_ms);
        if sent.iter().any(|row| row.sent_at.is_some_and(|at| at < sent_before)) {
            let assumed = app.store.assume_quiet(run.id, sent_before, limits::ASSUMED_PER_WRITE, now).await?;
            moved |= assumed > 0;
        }
    }
    Ok(moved)
}

/// Where the letters of a run went.
struct Ways {
    /// By group: the name and the destination. Jobs are not among them: they say themselves what becomes of them.
    out: BTreeMap<u32, (String, Arc<dyn Destination>)>,
    /// Whether no group went another way.
    all_out: bool,
}

async fn ways(app: &App, run: &Redrive) -> Result<Ways, StoreError> {
    let mut ways = Ways { out: BTreeMap::new(), all_out: true };
    for group in app.store.redrive_groups(run.id).await? {
        let Some(GroupVerdict::Goes { destination, .. }) = group.verdict else { continue };
        match app.destinations.by_name(&destination).map(|named| named.way) {
            Ok(Way::Out(out)) => {
                ways.out.insert(group.number, (destination, out));
            }
            Ok(Way::Jobs) | Err(_) => ways.all_out = false,
        }
    }
    Ok(ways)
}

/// What was sent, without its content: a destination knows it by its ids.
fn sent_copy(run: &Redrive, row: &RedriveLetter, message_id: String) -> Outgoing {
    Outgoing {
        letter: row.letter,
        life: row.life,
        redrive: run.id,
        message_id,
        idempotency_key: row.idempotency_key.clone().unwrap_or_default(),
        content_type: String::new(),
        headers: Vec::new(),
        body: Bytes::new(),
        content: Content::Original,
        origin: None,
        handle: row.handle.clone(),
    }
}
