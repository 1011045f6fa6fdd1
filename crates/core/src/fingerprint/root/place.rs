//! Where in the program an error struck: the frames that make its fingerprint.

use crate::fingerprint::backtrace::{Backtrace, frame_name};
use crate::fingerprint::frame::{Frame, Origin, file_stem, program};
use crate::fingerprint::language::Language;
use crate::fingerprint::search::{self, Parts, Words};
use crate::fingerprint::template::HasFrames;
use crate::limits;

/// The frames nearest the failure.
pub(super) struct Place {
    /// Normalised names, nearest the failure first.
    pub frames: Vec<String>,
    /// Whether they are the program's own.
    pub has_frames: HasFrames,
    /// Whether a library threw the root, whose name then says only which layer spoke.
    pub is_of_library: bool,
}

impl Place {
    pub fn of(backtrace: &Backtrace<'_>, reported: &str) -> Place {
        let own = own_package(backtrace, reported);
        let (frames, has_frames) = nearest(backtrace, own);
        let causes = || backtrace.causes.iter().rev();
        let thrown_by = causes().find_map(|cause| cause.frames.thrown_by);
        let first = causes().find_map(|cause| cause.frames.in_app.first());
        let is_foreign =
            first.zip(own).is_some_and(|(frame, own)| program::package(backtrace.language, frame) != own);
        Place { frames, has_frames, is_of_library: thrown_by == Some(Origin::Library) || is_foreign }
    }

    /// Whether the nearest frame tells what was being done, which a loop over all letters does not.
    pub fn tells(&self) -> bool {
        let nearest = self.frames.first().map_or("", String::as_str);
        let function = nearest.rsplit(['.', ':']).next().unwrap_or(nearest);
        !LOOPS.has(function) && !is_helper(nearest)
    }
}

/// The program's package, judged by the frames of the root and of what wraps it.
fn own_package<'a>(backtrace: &Backtrace<'a>, reported: &str) -> Option<&'a str> {
    let causes = backtrace.causes.iter().rev().take(limits::CAUSES_TOLD_MAX);
    let frames: Vec<Frame<'a>> = causes.flat_map(|cause| cause.frames.in_app.iter().copied()).collect();
    program::own_package(backtrace.language, &frames, reported)
}

/// The frames that make the fingerprint: up to the first that is not a helper of many callers. An outer cause is asked
/// only where the root has none of its own, because its frames were left out as common.
fn nearest(backtrace: &Backtrace<'_>, own: Option<&str>) -> (Vec<String>, HasFrames) {
    let language = backtrace.language;
    let is_own = |frame: &&Frame<'_>| own.is_none_or(|own| program::package(language, frame) == own);
    for cause in backtrace.causes.iter().rev() {
        let mut names: Vec<String> = Vec::new();
        for frame in cause.frames.in_app.iter().filter(is_own) {
            let name = name_of(language, *frame);
            // Recursion repeats one frame or a few in turn.
            if name.is_empty() || names.contains(&name) {
                continue;
            }
            let is_told = !is_helper(&name) && !is_helper_file(language, *frame);
            names.push(name);
            if is_told || names.len() >= limits::FINGERPRINT_FRAMES_MAX {
                break;
            }
        }
        if !names.is_empty() {
            return (names, HasFrames::Yes);
        }
    }
    let libraries = backtrace.causes.iter().rev().flat_map(|cause| &cause.frames.library);
    let nearest = libraries.map(|frame| name_of(language, *frame)).find(|name| !name.is_empty());
    (nearest.into_iter().collect(), HasFrames::No)
}

fn name_of(language: Language, frame: Frame<'_>) -> String {
    let mut name = frame_name(language, frame);
    name.truncate(name.floor_char_boundary(limits::NAME_BYTES_MAX));
    name
}

/// Node names a function of two words without its file, which may still tell a helper.
fn is_helper_file(language: Language, frame: Frame<'_>) -> bool {
    language == Language::Node && is_helper(&file_stem(frame.place))
}

/// Whether a frame is code that many callers share, so that it alone does not tell the failure.
fn is_helper(name: &str) -> bool {
    let lower = name.to_lowercase();
    search::has_any(&lower, HELPERS) || lower.starts_with("base")
}

#[rustfmt::skip]
const HELPERS: Parts = Parts::of(&[
    "util", "helper", "common", "shared", "abstract", "wrapper", "retry", "middleware", "interceptor", "decorator", "assert", "ensure",
    "precondition", "httpclient", "http_client", "apiclient", "api_client", "restclient", "guard", "closure",
]);

/// Functions that take in any letter, and report what became of it.
#[rustfmt::skip]
static LOOPS: Words = Words::of(&[
    "consume", "dispatch", "do", "execute", "handle", "loop", "main", "process", "recover", "report", "run", "serve", "start", "work",
]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_can_be_searched() {
        assert!(LOOPS.is_table());
    }
}
