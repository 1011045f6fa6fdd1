//! The filter as a query string: one parameter for each key, and `q` for the text form beside them.
//!
//! Values stand between commas and may be quoted as in the text form; spaces need no quotes. Excluding takes `q`.

use super::Filter;
use super::error::FilterError;
use super::key::{Form, Key, Kind, QUERY_KEYS, Side};
use super::text::Scanner;
use super::value::within_bytes;

impl Filter {
    /// The parameters that belong to the filter; a caller keeps its own, such as `limit`, to itself.
    pub const QUERY_KEYS: [&'static str; 23] = QUERY_KEYS;

    /// Reads decoded parameters. What `q` says has to hold as well; therefore a key whose values stand in both places
    /// is refused unless they are the same: either would otherwise widen the other.
    pub fn from_query<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Filter, FilterError> {
        let mut filter = Filter::default();
        let mut typed = Vec::new();
        let mut bytes = 0;
        for (name, value) in pairs {
            bytes += value.len();
            within_bytes(bytes)?;
            if name == "q" {
                typed.push(Filter::from_text(value)?);
                continue;
            }
            let key = Key::find(name, Form::Query).ok_or_else(|| Key::unknown(name, name, Form::Query))?;
            let values = match key.kind() {
                // Any text can be searched for, so quotes and commas mean nothing.
                Kind::Words | Kind::Parts => vec![value.to_owned()],
                Kind::List | Kind::Single | Kind::Paths => {
                    Scanner { rest: value }.values(key, Form::Query, |_| false)?
                }
            };
            filter.add(key, Form::Query, Side::Include, &values)?;
        }
        for other in typed {
            filter.and(&other)?;
        }
        filter.check(Form::Query)
    }

    fn and(&mut self, other: &Filter) -> Result<(), FilterError> {
        for key in Key::ALL {
            let (ours, theirs) = (self.values(key, Side::Include), other.values(key, Side::Include));
            match key.kind() {
                Kind::List | Kind::Single if !ours.is_empty() && !theirs.is_empty() && ours != theirs => {
                    return Err(FilterError::Both { key: key.name(Form::Query) });
                }
                // More words, texts and conditions narrow the filter, as more excluded values do.
                Kind::List | Kind::Single | Kind::Words | Kind::Parts | Kind::Paths => {}
            }
            for side in [Side::Include, Side::Exclude] {
                // One by one, because words are not taken as a list.
                for value in other.values(key, side) {
                    self.add(key, Form::Query, side, &[value])?;
                }
            }
        }
        Ok(())
    }
}
