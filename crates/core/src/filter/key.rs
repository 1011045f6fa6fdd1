//! The keys of a filter and their names, which differ a little between what is typed and what programs send.

use super::error::FilterError;

/// One key of a filter, in the order of the canonical text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Queue,
    Type,
    Error,
    Class,
    Code,
    Status,
    Source,
    Incident,
    Subscriber,
    Aggregate,
    Tenant,
    Event,
    Held,
    Since,
    Until,
    Age,
    Retries,
    Text,
    Body,
    Contains,
    Path,
    HeaderPath,
}

/// Which names a filter is written with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Typed by a person: `error:Timeout`.
    Text,
    /// Sent as a query string: `errorType=Timeout`.
    Query,
    /// Sent as JSON: `{"errorType": "Timeout"}`.
    Json,
}

/// Whether a letter shall have a value or shall not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Include,
    Exclude,
}

/// What several values of one key mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A letter has any of them.
    List,
    /// There is one.
    Single,
    /// A letter has all of these words.
    Words,
    /// A letter has all of these texts. Commas belong to them.
    Parts,
    /// A letter meets all of these conditions. Commas belong to them.
    Paths,
}

impl Kind {
    /// Whether commas stand between values.
    pub(super) const fn is_parted(self) -> bool {
        match self {
            Kind::List | Kind::Single | Kind::Words => true,
            Kind::Parts | Kind::Paths => false,
        }
    }
}

impl Key {
    pub(super) const ALL: [Key; 22] = [
        Key::Queue,
        Key::Type,
        Key::Error,
        Key::Class,
        Key::Code,
        Key::Status,
        Key::Source,
        Key::Incident,
        Key::Subscriber,
        Key::Aggregate,
        Key::Tenant,
        Key::Event,
        Key::Held,
        Key::Since,
        Key::Until,
        Key::Age,
        Key::Retries,
        Key::Text,
        Key::Body,
        Key::Contains,
        Key::Path,
        Key::HeaderPath,
    ];

    pub(super) const fn name(self, form: Form) -> &'static str {
        match form {
            Form::Text => self.typed(),
            Form::Query | Form::Json => self.sent(),
        }
    }

    const fn typed(self) -> &'static str {
        match self {
            Key::Queue => "queue",
            Key::Type => "type",
            Key::Error => "error",
            Key::Class => "class",
            Key::Code => "code",
            Key::Status => "status",
            Key::Source => "source",
            Key::Incident => "incident",
            Key::Subscriber => "subscriber",
            Key::Aggregate => "aggregate",
            Key::Tenant => "tenant",
            Key::Event => "event",
            Key::Held => "held",
            Key::Since => "since",
            Key::Until => "until",
            Key::Age => "age",
            Key::Retries => "retries",
            Key::Text => "text",
            Key::Body => "body",
            Key::Contains => "contains",
            Key::Path => "path",
            Key::HeaderPath => "headerPath",
        }
    }

    /// The name of the same thing in the entry that the API shows.
    const fn sent(self) -> &'static str {
        match self {
            Key::Error => "errorType",
            Key::Event => "eventId",
            Key::Retries => "retryCount",
            Key::Queue | Key::Type | Key::Class | Key::Code | Key::Status | Key::Source | Key::Incident => {
                self.typed()
            }
            Key::Subscriber | Key::Aggregate | Key::Tenant | Key::Held | Key::Since | Key::Until => {
                self.typed()
            }
            Key::Age | Key::Text | Key::Body | Key::Contains | Key::Path | Key::HeaderPath => self.typed(),
        }
    }

    /// What the values of the key mean together.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Key::Queue | Key::Type | Key::Error | Key::Class | Key::Code | Key::Status | Key::Source => {
                Kind::List
            }
            Key::Incident | Key::Subscriber | Key::Aggregate | Key::Tenant | Key::Event => Kind::List,
            Key::Held | Key::Since | Key::Until | Key::Age | Key::Retries => Kind::Single,
            Key::Text | Key::Body => Kind::Words,
            Key::Contains => Kind::Parts,
            Key::Path | Key::HeaderPath => Kind::Paths,
        }
    }

    pub(super) const fn is_excludable(self) -> bool {
        match self.kind() {
            Kind::List | Kind::Paths => true,
            Kind::Single | Kind::Words | Kind::Parts => false,
        }
    }

    pub(super) fn find(name: &str, form: Form) -> Option<Key> {
        Key::ALL.into_iter().find(|key| key.name(form) == name)
    }

    /// The error for a name that is no key; `token` is what it was found in.
    pub(super) fn unknown(name: &str, token: &str, form: Form) -> FilterError {
        // Somebody who writes the name of another form is helped by the name in this one.
        let names = Key::ALL
            .into_iter()
            .flat_map(|key| [(key.typed(), key.name(form)), (key.sent(), key.name(form))]);
        FilterError::UnknownKey { key: shown(name), near: nearest(name, names), token: shown(token), form }
    }
}

impl Form {
    /// The keys of this form, for people.
    pub(super) fn known(self) -> String {
        let mut names: Vec<&str> = Key::ALL.into_iter().map(|key| key.name(self)).collect();
        match self {
            Form::Text => {}
            Form::Query => names.push("q"),
            Form::Json => names.push("not"),
        }
        names.join(", ")
    }

    /// The keys whose values can be excluded, for people.
    pub(super) fn excludable(self) -> String {
        let names: Vec<&str> =
            Key::ALL.into_iter().filter(|key| key.is_excludable()).map(|key| key.name(self)).collect();
        names.join(", ")
    }
}

/// The names in the query string: of every key, and `q` for the text form.
pub(super) const QUERY_KEYS: [&str; 23] = {
    let mut names = ["q"; 23];
    let mut at = 0;
    while at < Key::ALL.len() {
        names[at] = Key::ALL[at].sent();
        at += 1;
    }
    names
};

/// The second of the pair whose first is most like what was given, if any is like it at all.
pub(super) fn nearest(
    given: &str,
    names: impl Iterator<Item = (&'static str, &'static str)>,
) -> Option<&'static str> {
    // Comparing takes time in the product of the lengths; no name of ours is longer.
    let given: String = given.chars().take(32).flat_map(char::to_lowercase).collect();
    let mut best = None;
    let mut best_likeness = 0.8;
    for (name, meant) in names {
        let likeness = strsim::jaro_winkler(&given, &name.to_lowercase());
        if likeness > best_likeness {
            best_likeness = likeness;
            best = Some(meant);
        }
    }
    best
}

/// A value as an error quotes it: cut, and without what could move a terminal's cursor.
pub(super) fn shown(value: &str) -> String {
    const CHARS: usize = 64;
    let mut text: String = value
        .chars()
        .take(CHARS)
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect();
    if value.chars().nth(CHARS).is_some() {
        text.push('…');
    }
    text
}
