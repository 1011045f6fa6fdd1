//! Incidents: all letters of one cause, listed and one by one.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use lazaret_core::class::ErrorClass;
use lazaret_core::cursor::{self, RawKey};
use lazaret_core::filter::When;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::IncidentState;
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::Time;
use lazaret_store::incident::{IncidentDetail, IncidentKey, IncidentQuery, IncidentSort};
use lazaret_store::redrive::RedriveQuery;
use lazaret_store::series::{Line, SeriesOf, Step};
use sha2::{Digest, Sha256};

use super::letters::{Pairs, once, parse_limit, parse_when, unknown_parameter};
use super::problem::{Code, Problem};
use super::series::Span;
use super::wire::incident::{
    AffectedBody, FingerprintBody, IncidentBody, IncidentEntry, IncidentList, SeriesBody, SimilarBody,
    Sparkline,
};
use super::wire::record::RecordBody;
use super::wire::redrive::RedriveBody;
use crate::app::App;
use crate::raw_json::shown;
use crate::redaction::Masker;

/// Two days: last night's incident is still in sight.
const SPARKLINE_HOURS: i64 = 48;

/// Two weeks: what comes back each week shows twice.
const SERIES_HOURS: i64 = 14 * 24;

/// Redrives that are shown with an incident; the list has all.
const REDRIVES_SHOWN: usize = 20;

const KEYS: [&str; 9] = ["state", "type", "errorType", "class", "text", "since", "sort", "limit", "cursor"];

/// Lists incidents, the last seen first.
#[utoipa::path(
    get,
    path = "/api/v1/incidents",
    tag = "incidents",
    params(
        ("state" = Option<String>, Query, description = "open, diagnosed, fixed, redriving, verifying, closed or regressed; comma-separated or repeated; all unless given"),
        ("type" = Option<String>, Query, description = "Letter type; `*` is a wildcard"),
        ("errorType" = Option<String>, Query, description = "`*` is a wildcard"),
        ("class" = Option<String>, Query),
        ("text" = Option<String>, Query, description = "Text in the title, case-insensitive"),
        ("since" = Option<String>, Query, description = "Last seen since: RFC 3339 time or duration such as `24h`"),
        ("sort" = Option<String>, Query, description = "-lastSeenAt (default), -firstSeenAt or -count"),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses((status = 200, body = IncidentList), (status = 400, description = "bad_request or bad_cursor"))
)]
pub(crate) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<IncidentList>, Problem> {
    let asked = Asked::read(pairs?.0)?;
    let now = app.clock.now();
    let (sort, hash) = (asked.sort.unwrap_or_default(), asked.hash());
    let page = app.store.incidents(asked.query(now)?).await?;
    let ids: Vec<IncidentId> = page.incidents.iter().map(|incident| incident.id).collect();
    let span = Span::last(Step::Hour, SPARKLINE_HOURS, now);
    let lines = lines_of(&app, span, ids).await?;
    let masker = Masker::new(&app.redactor);
    let items = page.incidents.into_iter().map(|incident| {
        let sparkline = Sparkline::new(span, lines.get(&incident.id.to_string()));
        let mut body = IncidentBody::new(incident, sparkline);
        body.hide(&masker);
        body
    });
    Ok(Json(IncidentList {
        items: items.collect(),
        total: page.total,
        next_cursor: page
            .next
            .map(|last| cursor::seal(order(sort), hash, RawKey { value: last.value, id: *last.id.bytes() })),
    }))
}

/// Shows one incident: its causes, its reach, its course, and what looks like it.
#[utoipa::path(
    get,
    path = "/api/v1/incidents/{id}",
    tag = "incidents",
    params(("id" = String, Path)),
    responses((status = 200, body = IncidentEntry), (status = 400, description = "bad_id"), (status = 404, description = "not_found"))
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<IncidentEntry>, Problem> {
    shown_whole(&app, parse_incident(id)?).await.map(Json)
}

pub(crate) fn parse_incident(id: Result<Path<String>, PathRejection>) -> Result<IncidentId, Problem> {
    let Path(text) = id?;
    Ok(IncidentId::parse(&text)?)
}

pub(crate) async fn find(app: &App, id: IncidentId) -> Result<IncidentDetail, Problem> {
    app.store.incident(id).await?.ok_or_else(|| Problem::no_incident(id))
}

/// One incident with everything that is known of it.
pub(crate) async fn shown_whole(app: &App, id: IncidentId) -> Result<IncidentEntry, Problem> {
    whole(app, find(app, id).await?).await
}

/// The same of one that was found already.
pub(crate) async fn whole(app: &App, detail: IncidentDetail) -> Result<IncidentEntry, Problem> {
    let id = detail.incident.id;
    let query = RedriveQuery { incident: Some(id), limit: REDRIVES_SHOWN, ..RedriveQuery::default() };
    let redrives = app.store.redrives(query).await?;
    let redrives = redrives.into_iter().map(|redrive| RedriveBody::new(redrive, None)).collect();
    let record = RecordBody::new(&detail.incident, detail.record, redrives);
    let now = app.clock.now();
    let span = Span::last(Step::Hour, SERIES_HOURS, now);
    let line = lines_of(app, span, vec![id]).await?.remove(&id.to_string());
    let sparkline = Sparkline::new(Span::last(Step::Hour, SPARKLINE_HOURS, now), line.as_ref());
    let mut entry = IncidentEntry {
        incident: IncidentBody::new(detail.incident, sparkline),
        record,
        fingerprints: detail.fingerprints.into_iter().map(FingerprintBody::from).collect(),
        affected: AffectedBody::from(detail.affected),
        series: SeriesBody::new(span, line),
        similar: detail.similar.into_iter().map(SimilarBody::from).collect(),
    };
    entry.hide(&Masker::new(&app.redactor));
    Ok(entry)
}

/// The lines of incidents by their ids.
async fn lines_of(app: &App, span: Span, ids: Vec<IncidentId>) -> Result<HashMap<String, Line>, Problem> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let lines = app.store.series(span.query(SeriesOf::Incidents(ids))).await?;
    Ok(lines.into_iter().map(|line| (line.value.clone(), line)).collect())
}

/// The parameters as they were given.
#[derive(Default)]
struct Asked {
    states: Vec<IncidentState>,
    letter_type: Option<Pattern>,
    error_type: Option<Pattern>,
    class: Option<ErrorClass>,
    text: Option<String>,
    since: Option<When>,
    sort: Option<IncidentSort>,
    limit: Option<usize>,
    cursor: Option<String>,
}

impl Asked {
    fn read(pairs: Vec<(String, String)>) -> Result<Asked, Problem> {
        let mut asked = Asked::default();
        for (key, value) in pairs {
            match key.as_str() {
                "state" => asked.add_states(&value)?,
                "type" => once(&mut asked.letter_type, "type", Pattern::new(short("type", value)?))?,
                "errorType" => {
                    once(&mut asked.error_type, "errorType", Pattern::new(short("errorType", value)?))?
                }
                "class" => once(&mut asked.class, "class", parse_class(&value)?)?,
                "text" => once(&mut asked.text, "text", parse_text(value)?)?,
                "since" => once(&mut asked.since, "since", parse_when("since", &value)?)?,
                "sort" => once(&mut asked.sort, "sort", parse_sort(&value)?)?,
                "limit" => once(&mut asked.limit, "limit", parse_limit(&value, limits::PAGE_ROWS_MAX)?)?,
                // A page without one is the first, as a form sends it.
                "cursor" if value.is_empty() => {}
                "cursor" => once(&mut asked.cursor, "cursor", value)?,
                _ => return Err(unknown_parameter(&key, &KEYS)),
            }
        }
        Ok(asked)
    }

    fn add_states(&mut self, value: &str) -> Result<(), Problem> {
        for name in value.split(',') {
            let state = IncidentState::parse(name.trim()).ok_or_else(|| {
                unknown_value("state", name, IncidentState::ALL.into_iter().map(IncidentState::name))
            })?;
            if !self.states.contains(&state) {
                self.states.push(state);
            }
        }
        // What was said in another order is the same question, with the same cursor.
        self.states.sort_unstable();
        Ok(())
    }

    /// A stable hash of what was asked, not of what it means at a moment: a cursor for `since=24h` goes on.
    fn hash(&self) -> [u8; 8] {
        let states: Vec<&str> = self.states.iter().map(|state| state.name()).collect();
        let parts = [
            states.join(","),
            self.letter_type.as_ref().map(|pattern| format!("={}", pattern.text())).unwrap_or_default(),
            self.error_type.as_ref().map(|pattern| format!("={}", pattern.text())).unwrap_or_default(),
            self.class.map(|class| class.name().to_owned()).unwrap_or_default(),
            self.text.clone().unwrap_or_default(),
            self.since.map(|since| since.to_string()).unwrap_or_default(),
        ];
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        let mut hash = [0; 8];
        hash.copy_from_slice(&digest.finalize()[..8]);
        hash
    }

    fn query(self, now: Time) -> Result<IncidentQuery, Problem> {
        let (sort, hash) = (self.sort.unwrap_or_default(), self.hash());
        let after = match &self.cursor {
            Some(text) => {
                let key = cursor::open(text, order(sort), hash)?;
                Some(IncidentKey { value: key.value, id: IncidentId::from_bytes(key.id) })
            }
            None => None,
        };
        Ok(IncidentQuery {
            states: self.states,
            letter_type: self.letter_type,
            error_type: self.error_type,
            class: self.class,
            text: self.text,
            since: self.since.map(|since| since.resolve(now)),
            sort,
            limit: self.limit.unwrap_or(limits::PAGE_ROWS),
            after,
        })
    }
}

/// The numbers of this list's cursors; lists of letters have lower ones.
const fn order(sort: IncidentSort) -> u8 {
    match sort {
        IncidentSort::LastSeenDesc => 16,
        IncidentSort::FirstSeenDesc => 17,
        IncidentSort::LettersDesc => 18,
        IncidentSort::UnsettledDesc => 19,
    }
}

fn parse_class(value: &str) -> Result<ErrorClass, Problem> {
    ErrorClass::parse(value)
        .ok_or_else(|| unknown_value("class", value, ErrorClass::ALL.into_iter().map(ErrorClass::name)))
}

fn parse_sort(value: &str) -> Result<IncidentSort, Problem> {
    IncidentSort::parse(value)
        .ok_or_else(|| unknown_value("sort", value, IncidentSort::ALL.into_iter().map(IncidentSort::name)))
}

/// A part of a title. An empty one is refused, because leaving it out would match everything.
fn parse_text(value: String) -> Result<String, Problem> {
    if value.trim().is_empty() {
        return Err(Problem::new(Code::BadRequest, "text is empty").hint("omit it to list all"));
    }
    short("text", value)
}

fn short(key: &str, value: String) -> Result<String, Problem> {
    if value.len() > limits::NAME_BYTES_MAX {
        let max = limits::NAME_BYTES_MAX;
        return Err(Problem::new(Code::BadRequest, format!("{key} is longer than {max} bytes")));
    }
    Ok(value)
}

fn unknown_value(key: &str, value: &str, known: impl Iterator<Item = &'static str>) -> Problem {
    let known: Vec<&str> = known.collect();
    Problem::new(Code::BadRequest, format!("unknown {key} `{}`", shown(value)))
        .hint(format!("known: {}", known.join(", ")))
}
