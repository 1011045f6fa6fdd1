//! How the incidents of a run moved while it went: deaths above the line, letters that were settled below it, whoever it
//! was that moved them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::time::Time;

use super::span::Span;
use crate::api::problem::Problem;
use crate::api::series;
use crate::api::wire::redrive::RedriveBody;
use crate::app::App;
use crate::web::chart::{self, Bar};

/// Incidents that are shown with a run: the largest.
const INCIDENTS: usize = 5;

/// An incident that a run has letters of.
pub(super) struct Touched {
    pub id: String,
    pub title: String,
    pub state: &'static str,
    /// Letters of it in the run.
    pub letters: u64,
}

/// The incidents of a run, the largest first.
pub(super) async fn incidents(app: &App, redrive: &RedriveBody) -> Result<Vec<Touched>, Problem> {
    // The API names them in plans alone, and shows an incident only with its whole story.
    let groups = app.store.redrive_groups(RedriveId::parse(&redrive.id)?).await?;
    let mut letters: BTreeMap<IncidentId, u64> = BTreeMap::new();
    for group in groups {
        *letters.entry(group.incident).or_default() += group.letters;
    }
    let mut largest: Vec<(IncidentId, u64)> = letters.into_iter().collect();
    largest.sort_by_key(|(_, letters)| std::cmp::Reverse(*letters));
    let mut touched = Vec::new();
    for (id, letters) in largest.into_iter().take(INCIDENTS) {
        if let Some(detail) = app.store.incident(id).await? {
            let title = app.redactor.text(&detail.incident.title).into_owned();
            let state = detail.incident.state.name();
            touched.push(Touched { id: id.to_string(), title, state, letters });
        }
    }
    Ok(touched)
}

/// A chart with the numbers behind it.
pub(super) struct Trend {
    pub svg: String,
    /// The steps in which anything moved.
    pub bars: Vec<Bar>,
}

/// Draws what moved in the time of a run; nothing if nothing did.
pub(super) async fn of(app: &Arc<App>, span: &Span, incidents: &[Touched]) -> Result<Option<Trend>, Problem> {
    let mut moved: BTreeMap<Time, (u64, u64)> = BTreeMap::new();
    for incident in incidents {
        let pairs = [
            ("incident", incident.id.clone()),
            ("step", span.step.name().to_owned()),
            ("since", span.from.to_string()),
            ("until", span.until.to_string()),
        ];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value)).to_vec();
        let lines = series::series(State(Arc::clone(app)), Ok(Query(pairs))).await?.0;
        for point in lines.items.iter().flat_map(|line| &line.points) {
            let Ok(at) = Time::parse(&point.at) else { continue };
            let (arrived, departed) = moved.entry(at).or_default();
            *arrived += point.arrived;
            *departed += point.departed;
        }
    }
    if moved.is_empty() {
        return Ok(None);
    }
    let bars = span.bars(&moved);
    let label = format!(
        "Letters of the incidents per {}: deaths above, resolved or discarded below",
        span.step.name()
    );
    let svg = chart::flow(&bars, &label, "deaths", "settled");
    let bars = bars.into_iter().filter(|bar| bar.up + bar.down > 0).collect();
    Ok(Some(Trend { svg, bars }))
}
