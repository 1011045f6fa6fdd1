//! Stack traces of Elixir and Erlang, and the exits that carry an error from one process to another.

use super::{Cause, push};
use crate::fingerprint::error_type;
use crate::fingerprint::frame::Frame;
use crate::fingerprint::language::Language;
use crate::fingerprint::rules::FingerprintRules;
use crate::fingerprint::search;

pub(super) fn causes<'a>(lines: &[&'a str], rules: &FingerprintRules) -> Vec<Cause<'a>> {
    let mut causes: Vec<Cause<'a>> = vec![Cause::default()];
    for line in lines {
        let text = line.trim_start();
        if text.is_empty() {
            continue;
        }
        if text.starts_with("** (") {
            push(&mut causes, Cause::new(error_type::head_of_line(text)));
        } else if let Some(frame) = frame(text) {
            if let Some(cause) = causes.last_mut() {
                cause.frames.outward(Language::Elixir, frame, rules);
            }
        } else if is_report(text) {
            // The state and the last message of a process follow.
            if causes.last().is_some_and(|cause| !cause.is_empty()) {
                break;
            }
        } else if let Some(cause) = causes.last_mut()
            && cause.frames.seen == 0
        {
            if cause.is_empty() {
                *cause = Cause::new(error_type::head(text));
            } else {
                cause.continue_message(text);
            }
        }
    }
    causes
}

fn is_report(text: &str) -> bool {
    ["Last message", "State: ", "Process Label", "Initial Call", "Ancestors", "Function: &", "Args: ["]
        .iter()
        .any(|start| text.starts_with(start))
}

pub(super) fn is_frame(text: &str) -> bool {
    frame(text).is_some()
}

/// `(my_app 0.1.0) lib/my_app/gateway.ex:12: MyApp.Gateway.charge/2`.
fn frame(text: &str) -> Option<Frame<'_>> {
    let (package, rest) = match text.strip_prefix('(') {
        Some(rest) => {
            let (package, rest) = search::split_once(rest, ") ")?;
            (package.split(' ').next().unwrap_or(package), rest)
        }
        None => ("", text),
    };
    let is_source =
        |file: &str| [".ex", ".exs", ".erl", ".eex", ".heex"].iter().any(|end| file.ends_with(end));
    if let Some((place, function)) = search::split_once(rest, ": ") {
        let (file, line) = place.rsplit_once(':')?;
        let counts = line.bytes().all(|byte| byte.is_ascii_digit());
        return (counts && is_source(file)).then_some(Frame { function, place: file, package });
    }
    // Functions without a source: `(stdlib 5.0) :lists.foreach/2`.
    let bare = !package.is_empty() && rest.contains('/') && rest.contains('.') && !search::has(rest, ": ");
    bare.then_some(Frame { function: rest, place: "", package })
}

/// Module and function: `Gateway.charge`.
pub(super) fn name(frame: Frame<'_>) -> String {
    let function = frame.function;
    // `anonymous fn/1 in MyApp.Gateway.charge/2`.
    let function = function.rsplit(" in ").next().unwrap_or(function);
    // `MyApp.Gateway."-charge/2-fun-0-"/1`.
    let (module, own) = match search::split_once(function, ".\"-") {
        Some((module, inner)) => (module, inner.split('-').next().unwrap_or(inner)),
        None => {
            let slash = function.find('/').or_else(|| function.find('(')).unwrap_or(function.len());
            let dot = function[..slash].rfind('.');
            dot.map_or(("", function), |dot| (&function[..dot], &function[dot + 1..]))
        }
    };
    let module = module.rsplit('.').next().unwrap_or(module);
    // With wrong arguments the call itself is shown instead of the arity.
    let own = own.split(['(', '/']).next().unwrap_or(own);
    if module.is_empty() { own.to_string() } else { format!("{module}.{own}") }
}

#[cfg(test)]
mod tests {
    use super::super::read_names;
    use super::*;

    #[test]
    fn an_exit_leads_to_the_error_that_was_raised() {
        let text = "** (exit) exited in: GenServer.call(#PID<0.123.0>, :charge, 5000)\n\
            \x20   ** (EXIT) an exception was raised:\n\
            \x20       ** (KeyError) key :sku not found in: %{id: 1}\n\
            \x20           (my_app 0.1.0) lib/my_app/gateway.ex:12: anonymous fn/1 in MyApp.Gateway.charge/2\n\
            \x20           (elixir 1.15.0) lib/enum.ex:1: Enum.map/2\n\
            \x20           (stdlib 5.0) gen_server.erl:1: :gen_server.try_handle_call/4";
        let root = read_names(text).pop().unwrap();
        assert_eq!(root.0, "KeyError");
        assert_eq!(root.1, "key :sku not found in: %{id: 1}");
        assert_eq!(root.2, ["Gateway.charge"]);
    }

    #[test]
    fn a_terminating_process_ends_with_its_report() {
        let text = "GenServer MyApp.Worker terminating\n\
            ** (RuntimeError) boom\n\
            \x20   (my_app 0.1.0) lib/my_app/worker.ex:3: MyApp.Worker.handle_info/2\n\
            Last message: :tick\n\
            State: %{}";
        let root = read_names(text).pop().unwrap();
        assert_eq!(root, ("RuntimeError".into(), "boom".into(), vec!["Worker.handle_info".into()]));
    }

    #[test]
    fn anonymous_functions_are_named_after_the_one_around_them() {
        let frame = |function| Frame { function, place: "", package: "" };
        assert_eq!(name(frame("MyApp.Gateway.\"-charge/2-fun-0-\"/1")), "Gateway.charge");
        assert_eq!(name(frame(":gen_server.call/2")), ":gen_server.call");
        assert_eq!(name(frame("MyApp.Gateway.charge(%{}, 1)")), "Gateway.charge");
    }
}
