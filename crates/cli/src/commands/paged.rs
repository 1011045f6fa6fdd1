//! Lists with numbered pages, fetched whole: the one that is looked for may be on the last.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use lazaret_core::limits;

use crate::answers::RawPage;
use crate::answers::job::Listed;
use crate::client::Client;
use crate::output::{Format, Screen};

/// Every item of the list; nothing where JSON was wanted and is printed already.
pub async fn all<T: DeserializeOwned>(
    path: &[&str],
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Option<Vec<T>>> {
    let per_page = limits::OJS_ADMIN_ROWS_MAX.to_string();
    let mut items: Vec<T> = Vec::new();
    let mut texts: Vec<Box<RawValue>> = Vec::new();
    for number in 1_usize.. {
        let number = number.to_string();
        let answer = client.get_ojs(path, &[("page", &number), ("per_page", &per_page)]).await?;
        let page: Listed<T> = answer.read()?;
        let is_last = !page.pagination.has_more || page.items.is_empty();
        if screen.format == Format::Json {
            if is_last && texts.is_empty() {
                screen.json(answer.text()?)?;
                return Ok(None);
            }
            texts.extend(answer.read::<RawPage>()?.items);
            if is_last {
                // Shaped as one page is: the last one, with the items of all.
                let mut whole: BTreeMap<String, Box<RawValue>> = answer.read()?;
                whole.insert("items".to_owned(), to_raw_value(&texts)?);
                screen.json(&serde_json::to_string(&whole)?)?;
                return Ok(None);
            }
        }
        items.extend(page.items);
        if is_last {
            break;
        }
    }
    Ok(Some(items))
}
