//! What pages load: embedded in the binary, named by their content, so that a browser may keep them for ever.
//!
//! A module imports others as `"./name.js"`; here that becomes the address of that content, so a change of one module
//! changes the address of everyone who imports it. Pages are never compressed (what somebody sends in would tell by its
//! length what else stands there); what is here is the same for everyone, and is.

use std::io::Write;
use std::sync::OnceLock;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};

use crate::api::problem::{Code, Problem};
use crate::api::wire::hex;

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal $kind:ident),* $(,)?) => {
        [$(($name, $kind, include_str!(concat!("../../assets/", $name)))),*]
    };
}

/// Name, kind and content of everything that pages load. A module stands behind those it imports.
const FILES: [(&str, &str, &str); 20] = files![
    "app.css" CSS,
    "page.js" JS,
    "morph.js" JS,
    "stream.js" JS,
    "options.js" JS,
    "countdown.js" JS,
    "live.js" JS,
    "time.js" JS,
    "copy.js" JS,
    "menu.js" JS,
    "palette.js" JS,
    "keys.js" JS,
    "suggest.js" JS,
    "letters.js" JS,
    "panel.js" JS,
    "viewer.js" JS,
    "app.js" JS,
    "icon-calm.svg" SVG,
    "icon-busy.svg" SVG,
    "icon-bad.svg" SVG,
];

struct Asset {
    name: &'static str,
    /// With the beginning of its hash in it.
    address: String,
    kind: &'static str,
    content: String,
    /// The same, compressed.
    gzip: Vec<u8>,
}

impl Asset {
    fn new(name: &'static str, kind: &'static str, content: String) -> Asset {
        let hash = hex(&Sha256::digest(&content)[..6]);
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        let gzip = compressed(content.as_bytes());
        Asset { name, address: format!("/assets/{stem}.{hash}.{ending}"), kind, content, gzip }
    }
}

fn compressed(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(content).and_then(|()| encoder.finish());
    written.expect("writing to memory cannot fail")
}

fn all() -> &'static [Asset] {
    static ALL: OnceLock<Vec<Asset>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut assets: Vec<Asset> = Vec::with_capacity(FILES.len());
        for (name, kind, content) in FILES {
            let content = if kind == JS { bound(&bare(content), &assets) } else { content.to_owned() };
            assets.push(Asset::new(name, kind, content));
        }
        assets
    })
}

/// A module without the lines that are comments, which no browser reads.
fn bare(content: &str) -> String {
    let is_comment = |line: &&str| line.starts_with("//") || line.starts_with("/**") && line.ends_with("*/");
    content
        .lines()
        .map(str::trim_start)
        .filter(|line| !is_comment(line))
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// A module with the addresses of what it imports in place of their names.
fn bound(content: &str, earlier: &[Asset]) -> String {
    earlier.iter().fold(content.to_owned(), |text, asset| {
        text.replace(&format!("\"./{}\"", asset.name), &format!("\"{}\"", asset.address))
    })
}

/// Where an asset is found.
pub(crate) fn address(name: &str) -> &'static str {
    all().iter().find(|asset| asset.name == name).map_or("/assets/missing", |asset| &asset.address)
}

/// Gives an asset by its address; one of another version of the program is not there.
pub(crate) async fn serve(
    file: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Path(file) = file?;
    let found = all().iter().find(|asset| asset.address.strip_prefix("/assets/") == Some(&file));
    let asset = found.ok_or_else(|| Problem::new(Code::NotFound, "file not found"))?;
    let common = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.kind)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    if !takes_gzip(&headers) {
        return Ok((common, asset.content.as_str()).into_response());
    }
    let encoding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
    Ok((common, encoding, asset.gzip.as_slice()).into_response())
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| {
        let (name, weight) = item.split_once(';').unwrap_or((item, ""));
        // `gzip;q=0` says that it is not taken.
        let refused = matches!(weight.replace(' ', "").as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that a module imports, as they are written.
    fn imports(content: &str) -> Vec<&str> {
        let parts: Vec<&str> = content.split('"').collect();
        let before = |at: usize| parts[at - 1].trim_end();
        (1..parts.len())
            .step_by(2)
            .filter(|&at| before(at).ends_with("from") || before(at).ends_with("import"))
            .map(|at| parts[at])
            .collect()
    }

    #[test]
    fn every_file_has_an_address_of_its_own() {
        let mut addresses: Vec<&str> = FILES.iter().map(|(name, _, _)| address(name)).collect();
        assert!(addresses.iter().all(|address| address.starts_with("/assets/")));
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), FILES.len());
        assert_eq!(address("nothing.js"), "/assets/missing");
    }

    #[test]
    fn every_import_leads_to_a_file_that_is_there() {
        let modules: Vec<&Asset> = all().iter().filter(|asset| asset.kind == JS).collect();
        let mut found = 0;
        for module in &modules {
            for import in imports(&module.content) {
                assert!(modules.iter().any(|other| other.address == import), "{}: {import}", module.name);
                found += 1;
            }
        }
        assert!(found > modules.len(), "{found} imports were found in {} modules", modules.len());
    }

    #[test]
    fn every_module_is_loaded_by_the_page() {
        let mut reached = vec![address("app.js")];
        let mut at = 0;
        while let Some(address) = reached.get(at).copied() {
            at += 1;
            let module = all().iter().find(|asset| asset.address == address);
            for import in module.iter().flat_map(|module| imports(&module.content)) {
                if !reached.contains(&import) {
                    reached.push(import);
                }
            }
        }
        assert_eq!(reached.len(), FILES.iter().filter(|(_, kind, _)| *kind == JS).count());
    }

    #[test]
    fn an_address_changes_with_what_is_imported() {
        let page = Asset::new("page.js", JS, "one".to_owned());
        let other = Asset::new("page.js", JS, "two".to_owned());
        let text = "import { all } from \"./page.js\";";
        let bound = |asset: &Asset| bound(text, std::slice::from_ref(asset));
        assert_eq!(bound(&page), format!("import {{ all }} from \"{}\";", page.address));
        assert_ne!(bound(&page), bound(&other));
    }

    #[test]
    fn nothing_needs_what_the_policy_forbids() {
        for asset in all().iter().filter(|asset| asset.kind == JS) {
            for forbidden in [
                "eval(",
                "new Function",
                "innerHTML",
                "outerHTML",
                "document.write",
                ".style",
                "http:",
                "https:",
            ] {
                assert!(!asset.content.contains(forbidden), "{}: {forbidden}", asset.name);
            }
        }
        let sheet = &all()[0];
        for forbidden in ["@import", "url(", "http"] {
            assert!(!sheet.content.contains(forbidden), "{}: {forbidden}", sheet.name);
        }
    }

    #[test]
    fn comments_stay_at_home() {
        assert_eq!(bare("// one\n\n  /** two */\n  a(); // three\n"), "\na(); // three\n");
        // A text of several lines would lose what looks like a comment, and how it is set in.
        for (name, _, content) in FILES.iter().filter(|(_, kind, _)| *kind == JS) {
            let torn = content.lines().filter(|line| line.matches('`').count() % 2 == 1).count();
            assert_eq!(torn, 0, "{name} has a text of several lines");
        }
    }

    #[test]
    fn what_a_page_loads_stays_small() {
        let sum = |kind: &str, size: fn(&Asset) -> usize| -> usize {
            all().iter().filter(|asset| asset.kind == kind).map(size).sum()
        };
        let sizes = [sum(JS, |asset| asset.gzip.len()), sum(CSS, |asset| asset.gzip.len())];
        assert!(sizes[0] < 24_000 && sizes[1] < 10_000, "compressed JavaScript and sheet: {sizes:?}");
        let sizes = [sum(JS, |asset| asset.content.len()), sum(CSS, |asset| asset.content.len())];
        assert!(sizes[0] < 56_000 && sizes[1] < 36_000, "JavaScript and sheet: {sizes:?}");
    }

    #[test]
    fn only_who_takes_gzip_gets_it() {
        for (accept, expected) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accept))]);
            assert_eq!(takes_gzip(&headers), expected, "{accept}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
