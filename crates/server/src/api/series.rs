//! Lines of inflow and outflow over time.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use lazaret_core::filter::When;
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::series::{SeriesBy, SeriesOf, SeriesQuery, Step};
use serde::Serialize;
use utoipa::ToSchema;

use super::letters::{Pairs, once, parse_when, unknown_parameter};
use super::problem::{Code, Problem};
use super::wire::incident::PointBody;
use crate::app::App;
use crate::raw_json::shown;

/// Whole steps between two times, the first included, the last not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub step: Step,
    pub from: Time,
    pub until: Time,
}

impl Span {
    /// The last `steps`, of which the one under way at `now` is the last.
    pub fn last(step: Step, steps: i64, now: Time) -> Span {
        Span::before(step, steps, end_of_step(step, now))
    }

    /// Those that two times lie in, and what is between.
    pub fn around(step: Step, from: Time, until: Time) -> Span {
        Span { step, from: start_of_step(step, from), until: end_of_step(step, until) }
    }

    fn before(step: Step, steps: i64, until: Time) -> Span {
        Span { step, from: until.plus_ms(steps.saturating_mul(step.ms()).saturating_neg()), until }
    }

    pub fn steps(self) -> usize {
        // Both ends are steps' edges, except at the very ends of what a time can be.
        let ms = self.until.since(self.from).saturating_add(self.step.ms() - 1);
        usize::try_from(ms.div_euclid(self.step.ms())).unwrap_or(0)
    }

    pub fn query(self, of: SeriesOf) -> SeriesQuery {
        SeriesQuery { of, step: self.step, from: self.from, until: self.until }
    }
}

fn start_of_step(step: Step, at: Time) -> Time {
    Time::from_ms(at.ms().div_euclid(step.ms()).saturating_mul(step.ms()))
}

fn end_of_step(step: Step, at: Time) -> Time {
    start_of_step(step, at).plus_ms(step.ms())
}

#[derive(Serialize, ToSchema)]
pub(crate) struct LinesBody {
    /// source, queue or type, if that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<String>,
    /// minute or hour
    #[schema(value_type = String)]
    pub step: &'static str,
    /// The beginning of the first step.
    pub from: String,
    /// The end of the last step.
    pub until: String,
    pub items: Vec<LineBody>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct LineBody {
    /// The value, the incident's id, or empty for everything.
    pub value: String,
    /// Oldest first; steps in which nothing moved are left out.
    pub points: Vec<PointBody>,
}

/// Tells what came in and what went out, step by step.
#[utoipa::path(
    get,
    path = "/api/v1/series",
    tag = "incidents",
    params(
        ("by" = Option<String>, Query, description = "source, queue or type: one line per value; default: one line for all letters"),
        ("value" = Option<Vec<String>>, Query, description = "Values of `by`; default: top 10"),
        ("incident" = Option<String>, Query, description = "Line of this incident, instead of `by`"),
        ("step" = Option<String>, Query, description = "minute or hour (default); minutes are kept for some days"),
        ("since" = Option<String>, Query, description = "RFC 3339 time or duration; default: 48 h (hours) or 3 h (minutes) before `until`"),
        ("until" = Option<String>, Query, description = "Default: now"),
    ),
    responses((status = 200, body = LinesBody), (status = 400, description = "bad_request or bad_id"))
)]
pub(crate) async fn series(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<LinesBody>, Problem> {
    let asked = Asked::read(pairs?.0)?;
    let span = asked.span(app.clock.now())?;
    let (by, incident) = (asked.by, asked.incident);
    let lines = app.store.series(span.query(asked.of()?)).await?;
    Ok(Json(LinesBody {
        by: by.map(SeriesBy::name),
        incident: incident.map(|id| id.to_string()),
        step: span.step.name(),
        from: span.from.to_string(),
        until: span.until.to_string(),
        items: lines
            .into_iter()
            .map(|line| LineBody {
                value: line.value,
                points: line.points.into_iter().map(PointBody::from).collect(),
            })
            .collect(),
    }))
}

/// The parameters as they were given.
#[derive(Default)]
struct Asked {
    by: Option<SeriesBy>,
    values: Vec<String>,
    incident: Option<IncidentId>,
    step: Option<Step>,
    since: Option<When>,
    until: Option<When>,
}

impl Asked {
    fn read(pairs: Vec<(String, String)>) -> Result<Asked, Problem> {
        let mut asked = Asked::default();
        for (key, value) in pairs {
            match key.as_str() {
                "by" => once(&mut asked.by, "by", SeriesBy::parse(&value).ok_or_else(|| no_by(&value))?)?,
                "value" => asked.values.push(value),
                "incident" => once(&mut asked.incident, "incident", IncidentId::parse(&value)?)?,
                "step" => once(&mut asked.step, "step", Step::parse(&value).ok_or_else(|| no_step(&value))?)?,
                "since" => once(&mut asked.since, "since", parse_when("since", &value)?)?,
                "until" => once(&mut asked.until, "until", parse_when("until", &value)?)?,
                _ => {
                    let known = ["by", "value", "incident", "step", "since", "until"];
                    return Err(unknown_parameter(&key, &known));
                }
            }
        }
        Ok(asked)
    }

    fn of(self) -> Result<SeriesOf, Problem> {
        if self.values.len() > limits::SERIES_VALUES_MAX {
            let (values, max) = (self.values.len(), limits::SERIES_VALUES_MAX);
            return Err(Problem::new(
                Code::BadRequest,
                format!("{values} values requested, the maximum is {max}"),
            ));
        }
        match (self.by, self.incident, self.values.is_empty()) {
            (None, None, true) => Ok(SeriesOf::All),
            (Some(by), None, true) => Ok(SeriesOf::Largest(by, limits::SERIES_LARGEST)),
            (Some(by), None, false) => Ok(SeriesOf::Values(by, self.values)),
            (None, Some(incident), true) => Ok(SeriesOf::Incidents(vec![incident])),
            (Some(_), Some(_), _) => Err(Problem::new(Code::BadRequest, "by conflicts with incident")),
            (None, _, false) => {
                Err(Problem::new(Code::BadRequest, "value requires by")
                    .hint("such as by=queue&value=billing"))
            }
        }
    }

    fn span(&self, now: Time) -> Result<Span, Problem> {
        let step = self.step.unwrap_or(Step::Hour);
        let until = match self.until.map(|when| when.resolve(now)) {
            // A step that has begun belongs to it, unless it begins just then.
            Some(until) if start_of_step(step, until) == until => until,
            Some(until) => end_of_step(step, until),
            None => end_of_step(step, now),
        };
        let span = match self.since.map(|when| when.resolve(now)) {
            Some(since) => Span { step, from: start_of_step(step, since), until },
            None => Span::before(step, steps_unless_asked(step), until),
        };
        if span.from >= span.until {
            return Err(Problem::new(Code::BadRequest, "since must be before until"));
        }
        if span.steps() > limits::SERIES_STEPS_MAX {
            let (steps, max) = (span.steps(), limits::SERIES_STEPS_MAX);
            let name = step.name();
            return Err(Problem::new(
                Code::BadRequest,
                format!("{steps} steps of one {name} requested, the maximum is {max}"),
            )
            .hint("use a shorter range, or step=hour"));
        }
        Ok(span)
    }
}

/// Two days of hours, three hours of minutes: what a glance takes in.
fn steps_unless_asked(step: Step) -> i64 {
    match step {
        Step::Hour => 48,
        Step::Minute => 180,
    }
}

fn no_by(value: &str) -> Problem {
    let known: Vec<&str> = SeriesBy::ALL.into_iter().map(SeriesBy::name).collect();
    Problem::new(Code::BadRequest, format!("unknown by `{}`", shown(value)))
        .hint(format!("known: {}", known.join(", ")))
}

pub(super) fn no_step(value: &str) -> Problem {
    let known: Vec<&str> = Step::ALL.into_iter().map(Step::name).collect();
    Problem::new(Code::BadRequest, format!("unknown step `{}`", shown(value)))
        .hint(format!("known: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(query: &[(&str, &str)]) -> Result<(String, String, usize), Problem> {
        let pairs = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let span = Asked::read(pairs)?.span(Time::parse("2026-11-15T03:20:00Z").unwrap())?;
        Ok((span.from.to_string(), span.until.to_string(), span.steps()))
    }

    #[test]
    fn a_span_is_made_of_whole_steps() {
        let cases = [
            (&[][..], "2026-11-13T04:00:00.000Z", "2026-11-15T04:00:00.000Z", 48),
            (&[("step", "minute")], "2026-11-15T00:21:00.000Z", "2026-11-15T03:21:00.000Z", 180),
            (&[("since", "1h")], "2026-11-15T02:00:00.000Z", "2026-11-15T04:00:00.000Z", 2),
            (
                &[("since", "2026-11-14T10:59:59Z"), ("until", "2026-11-14T12:00:00Z")],
                "2026-11-14T10:00:00.000Z",
                "2026-11-14T12:00:00.000Z",
                2,
            ),
            (
                &[("until", "2026-11-14T12:00:01Z")],
                "2026-11-12T13:00:00.000Z",
                "2026-11-14T13:00:00.000Z",
                48,
            ),
        ];
        for (query, from, until, steps) in cases {
            assert_eq!(span(query).unwrap_or_default(), (from.into(), until.into(), steps), "{query:?}");
        }
    }

    #[test]
    fn a_span_of_nothing_or_of_too_much_is_refused() {
        for query in [
            &[("since", "1h"), ("until", "2h")][..],
            &[("since", "2026-11-16T00:00:00Z")],
            &[("since", "0000-01-01T00:00:00Z")],
            &[("since", "9999-12-31T00:00:00Z"), ("until", "9999-12-31T00:00:00Z")],
            &[("since", "15d"), ("step", "minute")],
            &[("since", "soon")],
            &[("step", "hour"), ("step", "hour")],
        ] {
            assert!(span(query).is_err(), "{query:?}");
        }
    }
}
