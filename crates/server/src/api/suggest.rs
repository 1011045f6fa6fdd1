//! Values that occur under a key of the filter, for whoever types one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use lazaret_core::limits;
use lazaret_store::search::SuggestKey;
use serde::Serialize;
use utoipa::ToSchema;

use super::letters::{Pairs, once, parse_limit, unknown_parameter};
use super::problem::{Code, Problem};
use crate::app::App;
use crate::raw_json::shown;

/// The keys by the names they have in a query string.
const KEYS: [(&str, SuggestKey); 10] = [
    ("source", SuggestKey::Source),
    ("queue", SuggestKey::Queue),
    ("type", SuggestKey::Type),
    ("errorType", SuggestKey::ErrorType),
    ("class", SuggestKey::Class),
    ("status", SuggestKey::Status),
    ("code", SuggestKey::Code),
    ("subscriber", SuggestKey::Subscriber),
    ("aggregate", SuggestKey::Aggregate),
    ("tenant", SuggestKey::Tenant),
];

#[derive(Serialize, ToSchema)]
pub(crate) struct SuggestBody {
    #[schema(value_type = String)]
    pub key: &'static str,
    pub prefix: String,
    /// The most frequent first where that is known.
    pub items: Vec<SuggestionBody>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SuggestionBody {
    pub value: String,
    /// How many letters have it; null where no counter knows.
    pub count: Option<u64>,
}

/// Suggests values of a filter key that begin with what was typed.
#[utoipa::path(
    get,
    path = "/api/v1/suggest",
    tag = "letters",
    params(
        ("key" = String, Query, description = "source, queue, type, errorType (also error), class, status, code, subscriber, aggregate or tenant"),
        ("prefix" = Option<String>, Query, description = "Prefix of the value"),
        ("limit" = Option<u32>, Query, description = "1 to 100, 10 unless given"),
    ),
    responses((status = 200, body = SuggestBody), (status = 400, description = "bad_request"))
)]
pub(crate) async fn suggest(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<SuggestBody>, Problem> {
    let (mut key, mut prefix, mut limit) = (None, None, None);
    for (name, value) in pairs?.0 {
        match name.as_str() {
            "key" => once(&mut key, "key", find_key(&value)?)?,
            "prefix" => once(&mut prefix, "prefix", value)?,
            "limit" => once(&mut limit, "limit", parse_limit(&value, limits::SUGGESTIONS_MAX)?)?,
            _ => return Err(unknown_parameter(&name, &["key", "prefix", "limit"])),
        }
    }
    let Some((name, key)) = key else {
        return Err(Problem::new(Code::BadRequest, "key is missing").hint(known()));
    };
    let prefix = prefix.unwrap_or_default();
    if prefix.len() > limits::NAME_BYTES_MAX {
        let max = limits::NAME_BYTES_MAX;
        return Err(Problem::new(Code::BadRequest, format!("prefix exceeds {max} bytes"))
            .hint("no value is that long"));
    }
    let found = app.store.suggest(key, prefix.clone(), limit.unwrap_or(limits::SUGGESTIONS)).await?;
    let items = found
        .into_iter()
        .map(|suggestion| SuggestionBody { value: suggestion.value, count: suggestion.letters })
        .collect();
    Ok(Json(SuggestBody { key: name, prefix, items }))
}

fn find_key(value: &str) -> Result<(&'static str, SuggestKey), Problem> {
    // What is typed in a filter's text is as good.
    let sent = if value == "error" { "errorType" } else { value };
    KEYS.into_iter().find(|(name, _)| *name == sent).ok_or_else(|| {
        Problem::new(Code::BadRequest, format!("no suggestions for key `{}`", shown(value))).hint(known())
    })
}

fn known() -> String {
    let names: Vec<&str> = KEYS.into_iter().map(|(name, _)| name).collect();
    format!("known: {}", names.join(", "))
}
