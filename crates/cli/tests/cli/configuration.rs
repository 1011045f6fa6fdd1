//! The configuration as `serve` would see it, and the help that leads there.

use crate::running::{Desk, arg};

#[test]
fn a_configuration_is_checked_and_mistakes_are_named() {
    let desk = Desk::new();
    assert!(desk.run(&["config", "check"]).ok().starts_with("ok: the defaults"));
    desk.file("lazaret.toml", "listen = \"127.0.0.1:7171\"\n");
    assert!(desk.run(&["config", "check"]).ok().contains("lazaret.toml: listens on 127.0.0.1:7171"));

    let wrong = desk.file("wrong.toml", "lisen = \"127.0.0.1:7171\"\n");
    let told = desk.run(&["config", "check", "--config", arg(&wrong)]).fails(1);
    assert!(told.contains("wrong.toml:1:1") && told.contains("listen"), "{told}");
    let json = desk.run(&["config", "check", "--config", arg(&wrong), "--json"]);
    let verdict: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &verdict["ok"]), (1, &false.into()));
    desk.run(&["serve", "--config", arg(&wrong)]).fails(1);
}

#[test]
fn the_effective_configuration_is_shown_as_toml_and_json() {
    let desk = Desk::new().with_env("LAZARET_LOG__LEVEL", "debug");
    assert!(desk.run(&["config", "show"]).ok().contains("level = \"debug\""));
    let json: serde_json::Value =
        serde_json::from_str(&desk.run(&["config", "show", "--json"]).ok()).unwrap();
    assert_eq!(json["log"]["level"], "debug");
}

#[test]
fn help_version_and_completions_are_there() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["--version"]).ok(), concat!("lazaret ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(desk.run(&["--help"]).ok().contains("Examples:"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(desk.run(&["completions", shell]).ok().contains("lazaret"));
    }
    desk.run(&[]).fails(2);
}
