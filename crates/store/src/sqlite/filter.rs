//! The one filter as SQL: a `where` with its binds, and the index that should drive it.
//!
//! This is the only place that composes SQL from what somebody asked. Values are always bound. It means what
//! `Filter::matches` means, and a property test holds it to that.

use lazaret_core::filter::{Choice, Filter, Held, Patterns};
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::Time;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::StoreError;
use crate::job::SOURCE;

/// Conditions on the letters table, whose alias is `l`.
#[derive(Debug)]
pub(super) struct Where {
    /// Joined by `and`; never empty.
    pub sql: String,
    pub binds: Vec<Value>,
    /// The index that finds the letters in the order of their deaths.
    pub index: &'static str,
    /// The condition that this index answers by itself.
    pub driver: Driver,
    /// The words to search for, as a query of the message index.
    pub words: Option<String>,
}

/// What the rows of an index have in common; every row meets it if the filter asks for no single value.
#[derive(Debug, Clone)]
pub(super) struct Driver {
    pub condition: String,
    pub bind: Option<Value>,
}

impl Driver {
    fn none() -> Driver {
        Driver { condition: "1".into(), bind: None }
    }
}

impl Where {
    pub fn of(conn: &Connection, filter: &Filter, now: Time) -> Result<Where, StoreError> {
        let fingerprints = fingerprints(conn, &filter.incident)?;
        let mut build = Build::default();
        build.patterns("l.event_id", &filter.event_id, Some("letters_by_event"));
        build.patterns("l.aggregate", &filter.aggregate, Some("letters_by_aggregate"));
        build.values("l.fingerprint", &fingerprints, Some("letters_by_fingerprint"));
        build.patterns("l.subscriber_id", &filter.subscriber, Some("letters_by_subscriber"));
        build.patterns("l.error_type", &filter.error_type, Some("letters_by_error_type"));
        build.patterns("l.type", &filter.letter_type, Some("letters_by_type"));
        build.patterns("l.queue", &filter.queue, Some("letters_by_queue"));
        build.patterns("l.tenant", &filter.tenant, Some("letters_by_tenant"));
        build.values("l.class", &named(&filter.class, |class| class.name()), Some("letters_by_class"));
        build.patterns("l.source", &filter.source, Some("letters_by_source"));
        build.values("l.status", &named(&filter.status, |status| status.name()), Some("letters_by_status"));
        build.patterns("l.error_code", &filter.code, None);
        match filter.held {
            Some(Held::Yes) => build.all.push("l.held_at is not null".into()),
            Some(Held::No) => build.all.push("l.held_at is null".into()),
            None => {}
        }
        let died = filter.died(now);
        build.bound("l.died_at >= ?", died.from.map(Time::ms));
        build.bound("l.died_at < ?", died.until.map(Time::ms));
        build.bound("l.retry_count >= ?", filter.retries.min.map(i64::from));
        build.bound("l.retry_count <= ?", filter.retries.max.map(i64::from));
        // Words hold letters and digits alone, so quoting them is enough.
        let words: Vec<String> = filter.words.iter().map(|word| format!("\"{word}\"*")).collect();
        if build.all.is_empty() {
            build.all.push("1".into());
        }
        build.drive_by_jobs(filter);
        let index = match build.index {
            Some(index) => index,
            None if are_few(conn, fingerprints.include.as_deref())? => "letters_by_fingerprint",
            None => "letters_by_death",
        };
        Ok(Where {
            sql: build.all.join(" and "),
            binds: build.binds,
            index,
            driver: build.driver.unwrap_or_else(Driver::none),
            words: (!words.is_empty()).then(|| words.join(" AND ")),
        })
    }
}

#[derive(Default)]
struct Build {
    all: Vec<String>,
    binds: Vec<Value>,
    index: Option<&'static str>,
    driver: Option<Driver>,
}

impl Build {
    fn bound(&mut self, sql: &str, value: Option<i64>) {
        if let Some(value) = value {
            self.all.push(sql.into());
            self.binds.push(Value::Integer(value));
        }
    }

    /// The first single value that an index finds drives the search.
    fn drive(&mut self, column: &str, index: Option<&'static str>, value: &str) {
        if self.index.is_none() && index.is_some() {
            self.index = index;
            let bind = Some(Value::Text(value.to_owned()));
            self.driver = Some(Driver { condition: format!("{column} = ?"), bind });
        }
    }

    /// Letters of jobs in one state have an index of their own. Their source is not bound: SQLite has to see that the
    /// index holds no others.
    fn drive_by_jobs(&mut self, filter: &Filter) {
        let of_jobs = filter.source == Patterns::only(SOURCE);
        let mut states = filter.status.include.iter();
        if let (Some("letters_by_source"), true, Some(state), None) =
            (self.index, of_jobs, states.next(), states.next())
        {
            self.index = Some("letters_of_jobs");
            self.all.push("l.source = 'jobs'".into());
            let bind = Some(Value::Text(state.name().to_owned()));
            self.driver = Some(Driver { condition: "l.source = 'jobs' and l.status = ?".into(), bind });
        }
    }

    fn patterns(&mut self, column: &str, patterns: &Patterns, index: Option<&'static str>) {
        if !patterns.include.is_empty() {
            let exact: Vec<&str> = patterns.include.iter().filter_map(Pattern::exact).collect();
            if let ([value], 1) = (exact.as_slice(), patterns.include.len()) {
                self.drive(column, index, value);
            }
            let any = self.any(column, patterns.include.iter());
            self.all.push(any);
        }
        if !patterns.exclude.is_empty() {
            let any = self.any(column, patterns.exclude.iter());
            self.all.push(format!("({column} is null or not {any})"));
        }
    }

    fn any<'a>(&mut self, column: &str, patterns: impl Iterator<Item = &'a Pattern>) -> String {
        let mut any = Vec::new();
        for pattern in patterns {
            match pattern.exact() {
                Some(value) => {
                    any.push(format!("{column} = ?"));
                    self.binds.push(Value::Text(value.to_owned()));
                }
                // No column holds a NUL, and `glob` would take it for the pattern's end.
                None if pattern.text().contains('\0') => {
                    any.push("?".into());
                    self.binds.push(Value::Integer(0));
                }
                None => {
                    any.push(format!("{column} glob ?"));
                    self.binds.push(Value::Text(glob(pattern.text())));
                }
            }
        }
        format!("({})", any.join(" or "))
    }

    fn values(&mut self, column: &str, choice: &Values, index: Option<&'static str>) {
        for (values, not) in [(&choice.include, ""), (&choice.exclude, "not ")] {
            let Some(values) = values else { continue };
            if values.is_empty() {
                // An empty list is a constant, with which SQLite drops all other conditions, and then finds no way by
                // the index that they were to use. A bound value is not looked into.
                self.all.push("?".into());
                self.binds.push(Value::Integer(i64::from(not == "not ")));
                continue;
            }
            if let ([value], "") = (values.as_slice(), not) {
                self.drive(column, index, value);
            }
            if values.len() <= limits::FILTER_VALUES_BOUND_MAX {
                let marks = vec!["?"; values.len()].join(", ");
                self.all.push(format!("{column} {not}in ({marks})"));
                self.binds.extend(values.iter().cloned().map(Value::Text));
            } else {
                // More than a statement takes: handed over as one list.
                self.all.push(format!("{column} {not}in (select value from json_each(?))"));
                self.binds.push(Value::Text(serde_json::json!(values).to_string()));
            }
        }
    }
}

/// Values of a closed set. `None` asks nothing; an empty list of included ones matches no letter.
struct Values {
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
}

fn named<T>(choice: &Choice<T>, name: impl Fn(&T) -> &'static str) -> Values {
    let names = |set: &std::collections::BTreeSet<T>| {
        (!set.is_empty()).then(|| set.iter().map(|value| name(value).to_owned()).collect())
    };
    Values { include: names(&choice.include), exclude: names(&choice.exclude) }
}

/// Letters carry fingerprints, never incidents: the incidents asked for become those fingerprints of theirs that some
/// letter has. Those that none has any more may be many, and would hide that a single one finds all in order.
fn fingerprints(conn: &Connection, incidents: &Choice<IncidentId>) -> Result<Values, StoreError> {
    let mut statement = conn.prepare_cached(FINGERPRINTS_IN_USE)?;
    let mut of = |set: &std::collections::BTreeSet<IncidentId>| -> Result<Option<Vec<String>>, StoreError> {
        if set.is_empty() {
            return Ok(None);
        }
        let mut found = Vec::new();
        for incident in set {
            let mut rows = statement.query([incident.bytes()])?;
            while let Some(row) = rows.next()? {
                found.push(row.get(0)?);
            }
        }
        Ok(Some(found))
    };
    Ok(Values { include: of(&incidents.include)?, exclude: of(&incidents.exclude)? })
}

/// Whether letters of several fingerprints are few enough to be fetched by them and then sorted.
fn are_few(conn: &Connection, fingerprints: Option<&[String]>) -> Result<bool, StoreError> {
    let Some(fingerprints @ [_, _, ..]) = fingerprints else { return Ok(false) };
    let list = serde_json::json!(fingerprints).to_string();
    let letters: i64 = conn
        .prepare_cached(LETTERS_OF)?
        .query_row((list, limits::WORD_ROWS_SORTED_MAX + 1), |row| row.get(0))?;
    Ok(letters <= limits::WORD_ROWS_SORTED_MAX)
}

const LETTERS_OF: &str = "
select count(*)
  from (select 1
          from json_each(?1) f
          join dead_letter_queue l indexed by letters_by_fingerprint on l.fingerprint = f.value
         limit ?2)";

const FINGERPRINTS_IN_USE: &str = "
select f.fingerprint
  from fingerprints f
 where f.incident = ?1
   and exists (select 1
                 from dead_letter_queue l indexed by letters_by_fingerprint
                where l.fingerprint = f.fingerprint)
 order by f.fingerprint";

/// Our pattern as SQLite's `glob`: only the star is special to us.
pub(super) fn glob(pattern: &str) -> String {
    let mut glob = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        match c {
            '?' => glob.push_str("[?]"),
            '[' => glob.push_str("[[]"),
            c => glob.push(c),
        }
    }
    glob
}
