//! What is asked of a list of incidents, whether it was said with flags or with words as in a filter.

use lazaret_core::class::ErrorClass;
use lazaret_core::incident::IncidentState;
use lazaret_core::time::Time;

use super::IncidentsArgs;
use crate::failure::Failure;
use crate::filter;

/// What the incidents have to be like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    states: Vec<String>,
    /// The states as they are sent; empty for all.
    sent_states: String,
    letter_type: Option<String>,
    error_type: Option<String>,
    class: Option<String>,
    text: Option<String>,
    since: Option<String>,
}

impl Query {
    pub fn of(args: &IncidentsArgs, now: Time) -> Result<Query, Failure> {
        let mut query = Query {
            states: args.state.clone(),
            letter_type: args.letter_type.clone(),
            error_type: args.error.clone(),
            class: args.class.clone(),
            text: args.text.clone(),
            since: args.since.clone(),
            ..Query::default()
        };
        let mut searched = Vec::new();
        for word in &args.filter {
            if word.strip_prefix('-').is_some_and(|rest| key_of(rest).is_some()) {
                return Err(Failure::misuse(format!(
                    "cannot read the filter: exclusion `{word}` is not supported for incidents"
                ))
                .hint("list the states instead: state:open,diagnosed"));
            }
            match key_of(word) {
                Some((key, value)) => query.say(key, unquoted(value))?,
                None => searched.push(unquoted(word)),
            }
        }
        if !searched.is_empty() {
            once(&mut query.text, "text", &searched.join(" "))?;
        }
        if let Some(since) = &query.since {
            query.since = Some(filter::moment(since, now)?.to_string());
        }
        if args.all && !query.states.is_empty() {
            return Err(Failure::misuse("--all conflicts with a state").hint("remove one of them"));
        }
        query.sent_states = match query.states.is_empty() {
            true if args.all => String::new(),
            true => all_but_closed(),
            false => query.states.join(","),
        };
        Ok(query)
    }

    fn say(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        match key {
            "state" => {
                for state in value.split(',') {
                    let known = IncidentState::parse(state).ok_or_else(|| {
                        unknown("state", state, &IncidentState::ALL.map(IncidentState::name))
                    })?;
                    self.states.push(known.name().into());
                }
                Ok(())
            }
            "class" => {
                let class = ErrorClass::parse(value)
                    .ok_or_else(|| unknown("class", value, &ErrorClass::ALL.map(ErrorClass::name)))?;
                once(&mut self.class, key, class.name())
            }
            "type" => once(&mut self.letter_type, key, value),
            "error" => once(&mut self.error_type, key, value),
            "text" => once(&mut self.text, key, value),
            "since" => once(&mut self.since, key, value),
            _ => Err(Failure::misuse(format!("cannot read the filter: unknown key `{key}`"))
                .hint("keys: state, type, error, class, text, since; quote a word with a colon: '\"a:b\"'")),
        }
    }

    /// Whether something is asked beside the states.
    pub fn is_narrowed(&self) -> bool {
        let Query { states, sent_states: _, letter_type, error_type, class, text, since } = self;
        !states.is_empty()
            || [letter_type, error_type, class, text, since].iter().any(|asked| asked.is_some())
    }

    /// As the server takes it.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        let mut pairs = Vec::new();
        if !self.sent_states.is_empty() {
            pairs.push(("state", self.sent_states.as_str()));
        }
        let asked = [
            ("type", &self.letter_type),
            ("errorType", &self.error_type),
            ("class", &self.class),
            ("text", &self.text),
            ("since", &self.since),
        ];
        pairs.extend(asked.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?))));
        pairs
    }

    /// As the command line takes it.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        let mut flags: Vec<(&str, String)> =
            self.states.iter().map(|state| ("state", state.clone())).collect();
        let said = [
            ("type", &self.letter_type),
            ("error", &self.error_type),
            ("class", &self.class),
            ("text", &self.text),
            ("since", &self.since),
        ];
        flags.extend(said.into_iter().filter_map(|(flag, value)| Some((flag, value.clone()?))));
        flags
    }
}

fn all_but_closed() -> String {
    let states = IncidentState::ALL.into_iter().filter(|state| *state != IncidentState::Closed);
    states.map(IncidentState::name).collect::<Vec<_>>().join(",")
}

/// The key and the value of a word like `class:transient`.
fn key_of(word: &str) -> Option<(&str, &str)> {
    let (key, value) = word.split_once(':')?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphabetic());
    is_key.then_some((key, value))
}

fn unquoted(word: &str) -> &str {
    word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(word)
}

fn once(slot: &mut Option<String>, key: &str, value: &str) -> Result<(), Failure> {
    match slot {
        Some(_) => Err(Failure::misuse(format!("{key} given twice")).hint("pass it once")),
        None => {
            *slot = Some(value.to_owned());
            Ok(())
        }
    }
}

fn unknown(key: &str, value: &str, known: &[&str]) -> Failure {
    Failure::misuse(format!("`{value}` is not a {key}")).hint(format!("use one of {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::args;
    use super::*;

    fn asked(words: &[&str]) -> Result<String, String> {
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        let query = Query::of(&args(words), now).map_err(|failure| failure.to_string())?;
        let pairs = query.pairs().into_iter().map(|(key, value)| format!("{key}={value}"));
        Ok(pairs.collect::<Vec<_>>().join("&"))
    }

    #[test]
    fn words_and_flags_say_the_same() {
        let open = "state=open,diagnosed,fixed,redriving,verifying,regressed";
        assert_eq!(asked(&[]).unwrap(), open);
        assert_eq!(asked(&["--all"]).unwrap(), "");
        let words = asked(&[
            "state:open,fixed",
            "type:a.*",
            "error:\"T b\"",
            "class:transient",
            "since:1h",
            "timed",
            "out",
        ]);
        let flags = asked(&[
            "--state",
            "open",
            "--state",
            "fixed",
            "--type",
            "a.*",
            "--error",
            "T b",
            "--class",
            "transient",
            "--since",
            "2025-11-15T02:00:00Z",
            "--text",
            "timed out",
        ]);
        assert_eq!(words, flags);
        assert_eq!(
            words.unwrap(),
            "state=open,fixed&type=a.*&errorType=T b&class=transient&text=timed out&since=2025-11-15T02:00:00.000Z"
        );
        assert_eq!(asked(&["--all", "\"http://x\""]).unwrap(), "text=http://x");
    }

    #[test]
    fn a_mistake_is_told_before_anything_is_sent() {
        let mistakes = [
            (&["queue:a"][..], "cannot read the filter: unknown key `queue`"),
            (&["state:lost"], "`lost` is not a state"),
            (&["class:x"], "`x` is not a class"),
            (&["type:a", "--type", "b"], "type given twice"),
            (&["--since", "yesterday"], "cannot read the time `yesterday`"),
            (&["--", "-state:closed"], "cannot read the filter: exclusion"),
            (&["--all", "state:open"], "--all conflicts with a state"),
        ];
        for (words, told) in mistakes {
            assert!(asked(words).unwrap_err().starts_with(told), "{words:?}: {:?}", asked(words));
        }
    }
}
