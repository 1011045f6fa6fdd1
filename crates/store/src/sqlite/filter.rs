//! The one filter as SQL: a `where` with its binds, and the index that should drive it.
//!
//! This is the only place that composes SQL from what somebody asked. Values are always bound. It means what
//! `Filter::matches` means, and a property test holds it to that.

use lazaret_core::filter::{Choice, Filter, Held, Patterns};
use lazaret_core::id::IncidentId;
use lazaret_core::lifecycle::Place;
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
    /// Every letter that an index of live letters holds.
    fn listed() -> Driver {
        Driver { condition: "l.listed = 1".into(), bind: None }
    }

    fn and_listed(self) -> Driver {
        Driver { condition: format!("{} and l.listed = 1", self.condition), ..self }
    }

    fn none() -> Driver {
        Driver { condition: "1".into(), bind: None }
    }
}

/// The indexes of live letters; of each column the one that holds its letters in the order of their deaths.
fn index_of_live(column: &str) -> Option<&'static str> {
    match column {
        "l.event_id" => Some("letters_by_event"),
        "l.aggregate" => Some("letters_by_aggregate"),
        "l.fingerprint" => Some("letters_by_fingerprint"),
        "l.subscriber_id" => Some("letters_by_subscriber"),
        "l.error_type" => Some("letters_by_error_type"),
        "l.type" => Some("letters_by_type"),
        "l.queue" => Some("letters_by_queue"),
        "l.tenant" => Some("letters_by_tenant"),
        "l.class" => Some("letters_by_class"),
        "l.source" => Some("letters_by_source"),
        "l.status" => Some("letters_by_status"),
        _ => None,
    }
}

/// Those of the archive, in the order in which letters went there.
fn index_of_archive(column: &str) -> Option<&'static str> {
    match column {
        "l.event_id" => Some("archive_by_event"),
        "l.fingerprint" => Some("archive_by_fingerprint"),
        "l.error_type" => Some("archive_by_error_type"),
        "l.type" => Some("archive_by_type"),
        "l.queue" => Some("archive_by_queue"),
        "l.source" => Some("archive_by_source"),
        "l.place" => Some("archive_by_place"),
        _ => None,
    }
}

/// Conditions on the archive, whose alias is `l` as well.
#[derive(Debug)]
pub(super) struct ArchiveWhere {
    /// Joined by `and`; never empty.
    pub sql: String,
    pub binds: Vec<Value>,
    /// The index that finds the letters in the order in which they went; nothing for the table itself.
    pub index: Option<&'static str>,
    pub driver: Driver,
    /// Whether every row that the index finds is one that was asked for.
    pub answered: bool,
}

impl ArchiveWhere {
    /// Words are not asked for here: nothing indexes them, so they are looked for row by row.
    pub fn of(
        conn: &Connection,
        filter: &Filter,
        place: Option<Place>,
        now: Time,
    ) -> Result<ArchiveWhere, StoreError> {
        let fingerprints = fingerprints(conn, &filter.incident, FINGERPRINTS_OF)?;
        let mut build = Build::of(filter, now, &fingerprints, index_of_archive);
        if let Some(place) = place {
            build.values("l.place", &Values::only(place.name()));
        }
        let driven = usize::from(build.index.is_some());
        let answered = build.all.len() == driven && filter.words.is_empty();
        if build.all.is_empty() {
            build.all.push("1".into());
        }
        Ok(ArchiveWhere {
            sql: build.all.join(" and "),
            binds: build.binds,
            index: build.index,
            driver: build.driver.unwrap_or_else(Driver::none),
            answered,
        })
    }
}

impl Where {
    pub fn of(conn: &Connection, filter: &Filter, now: Time) -> Result<Where, StoreError> {
        let fingerprints = fingerprints(conn, &filter.incident, FINGERPRINTS_IN_USE)?;
        let mut build = Build::of(filter, now, &fingerprints, index_of_live);
        // Words hold letters and digits alone, so quoting them is enough.
        let words: Vec<String> = filter.words.iter().map(|word| format!("\"{word}\"*")).collect();
        // SQLite has to see that the indexes hold no others.
        build.all.push("l.listed = 1".into());
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
            driver: build.driver.map_or_else(Driver::listed, Driver::and_listed),
            words: (!words.is_empty()).then(|| words.join(" AND ")),
        })
    }
}

struct Build {
    all: Vec<String>,
    binds: Vec<Value>,
    index: Option<&'static str>,
    driver: Option<Driver>,
    index_of: fn(&str) -> Option<&'static str>,
}

impl Build {
    /// What a filter asks of columns. Those that tell fewer letters apart come later: the first one drives.
    fn of(
        filter: &Filter,
        now: Time,
        fingerprints: &Values,
        index_of: fn(&str) -> Option<&'static str>,
    ) -> Build {
        let mut build = Build { all: Vec::new(), binds: Vec::new(), index: None, driver: None, index_of };
        build.patterns("l.event_id", &filter.event_id);
        build.patterns("l.aggregate", &filter.aggregate);
        build.values("l.fingerprint", fingerprints);
        build.patterns("l.subscriber_id", &filter.subscriber);
        build.patterns("l.error_type", &filter.error_type);
        build.patterns("l.type", &filter.letter_type);
        build.patterns("l.queue", &filter.queue);
        build.patterns("l.tenant", &filter.tenant);
        build.values("l.class", &named(&filter.class, |class| class.name()));
        build.patterns("l.source", &filter.source);
        build.values("l.status", &named(&filter.status, |status| status.name()));
        build.patterns("l.error_code", &filter.code);
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
        build
    }

    fn bound(&mut self, sql: &str, value: Option<i64>) {
        if let Some(value) = value {
            self.all.push(sql.into());
            self.binds.push(Value::Integer(value));
        }
    }

    /// The first single value that an index finds drives the search.
    fn drive(&mut self, column: &str, value: &str) {
        let index = (self.index_of)(column);
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

    fn patterns(&mut self, column: &str, patterns: &Patterns) {
        if !patterns.include.is_empty() {
            let exact: Vec<&str> = patterns.include.iter().filter_map(Pattern::exact).collect();
            if let ([value], 1) = (exact.as_slice(), patterns.include.len()) {
                self.drive(column, value);
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

    fn values(&mut self, column: &str, choice: &Values) {
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
                self.drive(column, value);
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

impl Values {
    fn only(value: &str) -> Values {
        Values { include: Some(vec![value.to_owned()]), exclude: None }
    }
}

fn named<T>(choice: &Choice<T>, name: impl Fn(&T) -> &'static str) -> Values {
    let names = |set: &std::collections::BTreeSet<T>| {
        (!set.is_empty()).then(|| set.iter().map(|value| name(value).to_owned()).collect())
    };
    Values { include: names(&choice.include), exclude: names(&choice.exclude) }
}

/// Letters carry fingerprints, never incidents: the incidents asked for become fingerprints of theirs. For live letters
/// those that some letter has: the others may be many, and would hide that a single one finds all in order.
fn fingerprints(
    conn: &Connection,
    incidents: &Choice<IncidentId>,
    of_incident: &str,
) -> Result<Values, StoreError> {
    let mut statement = conn.prepare_cached(of_incident)?;
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
          join dead_letter_queue l indexed by letters_by_fingerprint on l.fingerprint = f.value and l.listed = 1
         limit ?2)";

const FINGERPRINTS_IN_USE: &str = "
select f.fingerprint
  from fingerprints f
 where f.incident = ?1
   and exists (select 1
                 from dead_letter_queue l indexed by letters_by_fingerprint
                where l.fingerprint = f.fingerprint
                  and l.listed = 1)
 order by f.fingerprint";

const FINGERPRINTS_OF: &str = "
select fingerprint
  from fingerprints
 where incident = ?1
 order by fingerprint";

/// Our pattern as SQLite's `glob`: only the star is special to us.
pub(crate) fn glob(pattern: &str) -> String {
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
