//! The configuration as `serve` would see it, and the help that leads there.

use crate::running::{Desk, Server, arg};

#[test]
fn a_configuration_is_checked_and_mistakes_are_named() {
    let desk = Desk::new();
    assert!(desk.run(&["config", "check"]).ok().starts_with("ok: defaults"));
    desk.file("lazaret.toml", "listen = \"127.0.0.1:7171\"\n");
    assert!(desk.run(&["config", "check"]).ok().contains("lazaret.toml: listen 127.0.0.1:7171"));

    let wrong = desk.file("wrong.toml", "lisen = \"127.0.0.1:7171\"\n");
    let told = desk.run(&["config", "check", "--config", arg(&wrong)]).fails(1);
    assert!(told.contains("wrong.toml:1:1") && told.contains("listen"), "{told}");
    let json = desk.run(&["config", "check", "--config", arg(&wrong), "--json"]);
    let verdict: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &verdict["ok"]), (1, &false.into()));
    let [problem] = verdict["problems"].as_array().unwrap().as_slice() else { panic!("{verdict}") };
    assert_eq!(
        (&problem["severity"], &problem["line"], &problem["column"]),
        (&"error".into(), &1.into(), &1.into())
    );
    assert!(problem["message"].as_str().unwrap().contains("unknown key \"lisen\""), "{problem}");
    assert!(problem["place"].as_str().unwrap().ends_with("wrong.toml:1:1"), "{problem}");
    desk.run(&["serve", "--config", arg(&wrong)]).fails(1);
}

#[test]
fn a_warning_does_not_stop_the_start() {
    let desk = Desk::new().with_env("LAZARET_SERVICE_HOST", "10.0.0.1").with_env("LAZARET_LISEN", "x");
    desk.file("lazaret.toml", "[retention]\nmin_age = '30d'\n");
    let told = desk.run(&["config", "check"]);
    assert!(told.stderr.contains("LAZARET_LISEN") && told.stderr.contains("LAZARET_LISTEN?"), "{told:?}");
    assert!(told.stderr.contains("before the floor of 90 days"), "{told:?}");
    assert!(!told.stderr.contains("SERVICE_HOST"), "{told:?}");
    let json = desk.run(&["config", "check", "--json"]).ok();
    let verdict: serde_json::Value = serde_json::from_str(&json).unwrap();
    let keys: Vec<_> = verdict["problems"].as_array().unwrap().iter().map(|it| &it["key"]).collect();
    assert_eq!(
        (&verdict["ok"], keys),
        (&true.into(), vec![&"retention.min_age".into(), &serde_json::Value::Null])
    );
    let log = desk.folder.path().join("log");
    let server = Server::start_logging(desk, &log);
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("LAZARET_LISEN") && logged.contains("before the floor"), "{logged}");
    drop(server);
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

#[test]
fn every_block_of_the_page_by_task_is_valid() {
    let page = include_str!("../../../../docs/configuration-by-task.md");
    let desk = Desk::new();
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert!(blocks.len() > 10, "{} blocks", blocks.len());
    for block in blocks {
        let file = desk.file("block.toml", block);
        let checked = desk.run(&["config", "check", "--config", arg(&file)]);
        assert_eq!((checked.code, checked.stderr.as_str()), (0, ""), "{block}\n{checked:?}");
    }
}
