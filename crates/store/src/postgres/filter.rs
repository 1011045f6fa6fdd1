//! The one filter as SQL: a `where` whose values are bound.
//!
//! This is the only place that composes SQL from what somebody asked. Values are always bound. It means what
//! `Filter::matches` means, and a property test holds it to that.

use std::collections::BTreeSet;

use lazaret_core::filter::{Choice, Filter, Held, Patterns};
use lazaret_core::id::IncidentId;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::Time;

use super::cell::{Cells, Uid};
use super::conn::{Binds, Conn};
use crate::StoreError;

/// Conditions on the letters table, or on the archive's, whose alias is `l`.
#[derive(Debug)]
pub(super) struct Where {
    /// Joined by `and`; never empty. Its marks belong to the binds it was made with.
    pub sql: String,
    /// The words to search for, as a `tsquery`.
    pub words: Option<String>,
}

impl Where {
    pub async fn of(conn: &Conn, filter: &Filter, now: Time, binds: &mut Binds) -> Result<Where, StoreError> {
        let fingerprints = fingerprints(conn, &filter.incident, &fingerprints_in_use()).await?;
        Ok(Where::with(fingerprints, filter, now, binds))
    }

    /// The conditions for letters of the archive.
    pub async fn of_archive(
        conn: &Conn,
        filter: &Filter,
        now: Time,
        binds: &mut Binds,
    ) -> Result<Where, StoreError> {
        Ok(Where::with(fingerprints(conn, &filter.incident, ALL_FINGERPRINTS).await?, filter, now, binds))
    }

    fn with(fingerprints: Values, filter: &Filter, now: Time, binds: &mut Binds) -> Where {
        let mut build = Build { all: Vec::new(), binds };
        build.patterns("l.event_id", &filter.event_id);
        build.patterns("l.aggregate", &filter.aggregate);
        build.values("l.fingerprint", fingerprints);
        build.patterns("l.subscriber_id", &filter.subscriber);
        build.patterns("l.error_type", &filter.error_type);
        build.patterns("l.type", &filter.letter_type);
        build.patterns("l.queue", &filter.queue);
        build.patterns("l.tenant", &filter.tenant);
        build.values("l.class", named(&filter.class, |class| class.name()));
        build.patterns("l.source", &filter.source);
        build.values("l.status", named(&filter.status, |status| status.name()));
        build.patterns("l.error_code", &filter.code);
        match filter.held {
            Some(Held::Yes) => build.all.push("l.held_at is not null".into()),
            Some(Held::No) => build.all.push("l.held_at is null".into()),
            None => {}
        }
        let died = filter.died(now);
        build.time("l.died_at >= ", died.from);
        build.time("l.died_at < ", died.until);
        build.number("l.retry_count >= ", filter.retries.min);
        build.number("l.retry_count <= ", filter.retries.max);
        // Words hold letters and digits alone, so quoting them is enough.
        let words: Vec<String> = filter.words.iter().map(|word| format!("'{word}':*")).collect();
        if build.all.is_empty() {
            build.all.push("true".into());
        }
        let sql = build.all.join(" and ");
        Where { sql, words: (!words.is_empty()).then(|| words.join(" & ")) }
    }
}

struct Build<'a> {
    all: Vec<String>,
    binds: &'a mut Binds,
}

impl Build<'_> {
    fn time(&mut self, sql: &str, value: Option<Time>) {
        if let Some(value) = value {
            let mark = self.binds.time(value);
            self.all.push(format!("{sql}{mark}"));
        }
    }

    fn number(&mut self, sql: &str, value: Option<u32>) {
        if let Some(value) = value {
            let mark = self.binds.long(i64::from(value));
            self.all.push(format!("{sql}{mark}"));
        }
    }

    fn patterns(&mut self, column: &str, patterns: &Patterns) {
        if !patterns.include.is_empty() {
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
            any.push(match pattern.exact() {
                // No column holds a NUL, and none can be bound.
                _ if pattern.text().contains('\0') => "false".to_owned(),
                Some(value) => format!("{column} = {}", self.binds.text(value)),
                None => format!("{column} like {}", self.binds.text(like(pattern.text()))),
            });
        }
        format!("({})", any.join(" or "))
    }

    fn values(&mut self, column: &str, choice: Values) {
        if let Some(include) = choice.include {
            let all = match include.as_slice() {
                [] => "false".to_owned(),
                // One value alone lets its index give the letters in order.
                [value] => format!("{column} = {}", self.binds.text(value)),
                _ => format!("{column} = any({})", self.binds.texts(include)),
            };
            self.all.push(all);
        }
        if let Some(exclude) = choice.exclude.filter(|values| !values.is_empty()) {
            let mark = self.binds.texts(exclude);
            self.all.push(format!("{column} <> all({mark})"));
        }
    }
}

/// Values of a closed set. `None` asks nothing; an empty list of included ones matches no letter.
struct Values {
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
}

fn named<T>(choice: &Choice<T>, name: impl Fn(&T) -> &'static str) -> Values {
    let names = |set: &BTreeSet<T>| {
        (!set.is_empty()).then(|| set.iter().map(|value| name(value).to_owned()).collect())
    };
    Values { include: names(&choice.include), exclude: names(&choice.exclude) }
}

/// Whether some letter has a fingerprint `f`. Asked for the next one in order, which only the index knows: where few
/// fingerprints are in use, `exists` makes PostgreSQL go through all letters to find that none has this one.
pub(super) const IS_IN_USE: &str = "
f.fingerprint = (select l.fingerprint
                   from dead_letter_queue l
                  where l.fingerprint >= f.fingerprint
                  order by l.fingerprint
                  limit 1)";

fn fingerprints_in_use() -> String {
    format!(
        "select f.fingerprint
           from fingerprints f
          where f.incident = any($1)
            and {IS_IN_USE}
          order by f.fingerprint"
    )
}

/// A letter of the archive may have any of them.
const ALL_FINGERPRINTS: &str = "
select fingerprint
  from fingerprints
 where incident = any($1)
 order by fingerprint";

/// Letters carry fingerprints, never incidents: the incidents asked for become those fingerprints of theirs that some
/// letter has. Those that none has any more may be many, and would hide that a single one finds all in order.
async fn fingerprints(conn: &Conn, incidents: &Choice<IncidentId>, sql: &str) -> Result<Values, StoreError> {
    Ok(Values {
        include: of(conn, &incidents.include, sql).await?,
        exclude: of(conn, &incidents.exclude, sql).await?,
    })
}

async fn of(
    conn: &Conn,
    incidents: &BTreeSet<IncidentId>,
    sql: &str,
) -> Result<Option<Vec<String>>, StoreError> {
    if incidents.is_empty() {
        return Ok(None);
    }
    let ids: Vec<Uid> = incidents.iter().map(|id| Uid(*id.bytes())).collect();
    let rows = conn.query(sql, &[&ids]).await?;
    rows.iter().map(|row| row.cell(0)).collect::<Result<_, _>>().map(Some)
}

/// Our pattern as SQL's `like`: only the star is special to us.
pub(crate) fn like(pattern: &str) -> String {
    let mut like = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        match c {
            '*' => like.push('%'),
            '%' | '_' | '\\' => like.extend(['\\', c]),
            c => like.push(c),
        }
    }
    like
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_star_is_special() {
        assert_eq!(like(r"a*b%c_d\e?[f]"), r"a%b\%c\_d\\e?[f]");
    }
}
