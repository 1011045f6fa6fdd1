//! One frame of a backtrace: whose code it is, and its name without anything that a deploy or a host changes.
//!
//! Who wrote a frame is a guess from its name and path. The operator's prefixes beat it; a wrong guess only makes a
//! group too wide or too narrow.

use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::limits;

mod owners;
pub(super) mod program;

/// A frame as it stands in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frame<'a> {
    /// The function with whatever qualifies it.
    pub function: &'a str,
    /// The file, as far as the language prints one.
    pub place: &'a str,
    /// The application or library that the language itself names, as Elixir does.
    pub package: &'a str,
}

/// Whose code a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    InApp,
    Library,
    /// The language's own: tells nothing about the failure.
    Runtime,
}

impl Origin {
    pub fn of(language: Language, frame: Frame<'_>, rules: &FingerprintRules) -> Origin {
        if rules.in_app.iter().any(|prefix| begins_with(frame, prefix)) {
            return Origin::InApp;
        }
        if rules.library.iter().any(|prefix| begins_with(frame, prefix)) {
            return Origin::Library;
        }
        owners::origin(language, frame)
    }
}

/// Whether a configured prefix names the frame's module, package or path. A path counts from any folder on, because
/// the folders above differ from host to host.
fn begins_with(frame: Frame<'_>, prefix: &str) -> bool {
    if prefix.is_empty() {
        return false;
    }
    let in_path = |prefix: &str| {
        let place = frame.place;
        place.starts_with(prefix)
            || place.match_indices(prefix).any(|(at, _)| place[..at].ends_with(['/', '\\']))
    };
    frame.package == prefix
        || frame.function.starts_with(prefix)
        || in_path(prefix)
        || prefix.contains('.') && !prefix.contains('/') && in_path(&prefix.replace('.', "/"))
}

/// The frames of one cause that are worth keeping, nearest the failure first.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames<'a> {
    pub in_app: Vec<Frame<'a>>,
    pub library: Vec<Frame<'a>>,
    /// How many lines were frames, of whatever origin.
    pub seen: usize,
    /// Whose code threw: the origin of the frame nearest the failure.
    pub thrown_by: Option<Origin>,
}

impl<'a> Frames<'a> {
    /// Adds a frame of a backtrace that goes from the failure outwards.
    pub fn outward(&mut self, language: Language, frame: Frame<'a>, rules: &FingerprintRules) {
        self.seen += 1;
        if self.in_app.len() >= limits::CAUSE_FRAMES_MAX {
            return;
        }
        let origin = Origin::of(language, frame, rules);
        self.thrown_by = self.thrown_by.or(Some(origin));
        let Some(kept) = self.room(origin) else { return };
        if kept.len() < limits::CAUSE_FRAMES_MAX && kept.last() != Some(&frame) {
            kept.push(frame);
        }
    }

    /// Adds a frame of a backtrace that ends at the failure.
    pub fn inward(&mut self, language: Language, frame: Frame<'a>, rules: &FingerprintRules) {
        self.seen += 1;
        let origin = Origin::of(language, frame, rules);
        self.thrown_by = Some(origin);
        let Some(kept) = self.room(origin) else { return };
        if kept.first() != Some(&frame) {
            kept.insert(0, frame);
            kept.truncate(limits::CAUSE_FRAMES_MAX);
        }
    }

    fn room(&mut self, origin: Origin) -> Option<&mut Vec<Frame<'a>>> {
        match origin {
            Origin::InApp => Some(&mut self.in_app),
            Origin::Library => Some(&mut self.library),
            Origin::Runtime => None,
        }
    }
}

/// A name without the hashes and numbers that template engines and compilers put into it: they change with each build.
pub(super) fn without_generated(name: &str) -> String {
    let mut kept = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let hex = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let run = match () {
            () if hex >= GENERATED_HEX_MIN && rest.bytes().take(hex).any(|byte| byte.is_ascii_digit()) => hex,
            () if digits >= GENERATED_DIGITS_MIN => digits,
            () => 0,
        };
        if run == 0 {
            kept.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        kept.truncate(kept.trim_end_matches('_').len());
        rest = &rest[run..];
    }
    kept
}

/// Shorter runs are versions, sizes and the like, which people write into names.
const GENERATED_HEX_MIN: usize = 16;
const GENERATED_DIGITS_MIN: usize = 5;

/// The file's name without folders and without everything behind its first dot. For a file that is named after its
/// part in a folder the folder stands before it.
pub(super) fn file_stem(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let mut parts = path.rsplit(['/', '\\']);
    let file = parts.next().unwrap_or(path);
    let stem = file.split('.').find(|part| !part.is_empty()).unwrap_or(file);
    let stem = without_hash(stem);
    if !matches!(stem, "index" | "mod" | "lib" | "main" | "__init__" | "__main__") {
        return stem.to_string();
    }
    match parts.next().filter(|folder| !is_folder_noise(folder)) {
        Some(folder) => format!("{folder}/{stem}"),
        None => stem.to_string(),
    }
}

/// Bundlers put a hash of the content into the name: `main-3f2a1b9c`, `vendors~main`.
fn without_hash(stem: &str) -> &str {
    match stem.rsplit_once(['-', '_', '~']) {
        Some((name, hash))
            if hash.len() >= 6
                && !name.is_empty()
                && hash.bytes().any(|byte| byte.is_ascii_digit())
                && hash.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
        {
            name
        }
        Some(_) | None => stem,
    }
}

/// Folders that say where a program is installed and not what it does.
fn is_folder_noise(folder: &str) -> bool {
    folder.is_empty()
        || folder.bytes().any(|byte| byte.is_ascii_digit())
        || matches!(
            folder,
            "." | ".."
                | "app"
                | "src"
                | "dist"
                | "lib"
                | "build"
                | "out"
                | "srv"
                | "current"
                | "release"
                | "releases"
                | "www"
                | "html"
                | "code"
                | "workspace"
                | "task"
                | "main"
                | "cmd"
                | "server"
                | "opt"
                | "home"
                | "bin"
                | "target"
                | "~"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_puts_into_a_name_is_left_out() {
        for (name, expected) in [
            ("__TwigTemplate_41d0fe9d8ab0c83a1f77e5d2c9a0b3e6.block_results", "__TwigTemplate.block_results"),
            (
                "orders._app_views_orders_show_html_erb___401182203355716_61920",
                "orders._app_views_orders_show_html_erb",
            ),
            ("Sha256.digest", "Sha256.digest"),
            ("decoded.feedface", "decoded.feedface"),
            ("Über.größe1234", "Über.größe1234"),
        ] {
            assert_eq!(without_generated(name), expected);
        }
    }

    #[test]
    fn a_file_keeps_its_name_and_loses_its_deploy() {
        for (path, expected) in [
            ("/srv/releases/20260101/orders/gateway.py", "gateway"),
            ("C:\\agent\\_work\\1\\s\\Gateway.cs", "Gateway"),
            ("/app/dist/main.3f2a1b.js", "main"),
            ("/app/dist/chunk-3f2a1b9c.mjs", "chunk"),
            ("/app/src/orders/index.ts", "orders/index"),
            ("/srv/releases/20260101/index.js", "index"),
            ("src/pay/mod.rs", "pay/mod"),
            ("payment_gateway.rb", "payment_gateway"),
            ("", ""),
        ] {
            assert_eq!(file_stem(path), expected, "{path}");
        }
    }

    #[test]
    fn the_operators_prefixes_beat_ours() {
        let frame = Frame { function: "org.springframework.acme.Foo.bar", place: "Foo.java", package: "" };
        let none = FingerprintRules::default();
        assert_eq!(Origin::of(Language::Java, frame, &none), Origin::Library);
        let rules =
            FingerprintRules::new(vec![], vec!["org.springframework.acme".into()], vec!["org".into()]);
        assert_eq!(Origin::of(Language::Java, frame, &rules), Origin::InApp);
        let own = Frame { function: "run", place: "/srv/x/acme/shared/retry.py", package: "" };
        assert_eq!(Origin::of(Language::Python, own, &none), Origin::InApp);
        let rules = FingerprintRules::new(vec![], vec![], vec!["acme.shared".into()]);
        assert_eq!(Origin::of(Language::Python, own, &rules), Origin::Library);
    }
}
