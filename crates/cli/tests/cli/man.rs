//! The manual is made by the binary itself.

use crate::running::{Desk, arg};

#[test]
fn the_main_page_is_printed() {
    let page = Desk::new().run(&["man"]).ok();
    for part in [".TH lazaret 1", ".SH NAME", ".SH SYNOPSIS", "incidents", "lazaret serve"] {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
}

#[test]
fn every_command_gets_a_page_in_a_folder() {
    let desk = Desk::new().with_env("LAZARET_TOKEN", "lzr_secret");
    let folder = desk.folder.path().join("share/man1");
    let said = desk.run(&["man", "--dir", arg(&folder)]).ok();
    assert!(said.starts_with("wrote ") && said.contains("share/man1"), "{said}");
    for name in [
        "lazaret",
        "lazaret-ls",
        "lazaret-tail",
        "lazaret-incident-show",
        "lazaret-incident-diagnose",
        "lazaret-redrive-plan",
        "lazaret-retry",
        "lazaret-token-new",
        "lazaret-archive-restore",
        "lazaret-holds-release",
    ] {
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME"), "{name}: {page}");
        assert!(!page.contains("lzr_secret"), "{name} shows a secret");
    }
    let json = desk.run(&["man", "--dir", arg(&folder), "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let files = json["files"].as_array().unwrap();
    assert_eq!(files.len(), std::fs::read_dir(&folder).unwrap().count());
    assert!(!files.iter().any(|file| file.as_str().unwrap().contains("help")), "{files:?}");
}

#[test]
fn shells_complete_the_new_commands_too() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = Desk::new().run(&["completions", shell]).ok();
        for command in [
            "incidents",
            "tail",
            "export",
            "import",
            "suggest",
            "series",
            "progress",
            "man",
            "redrive",
            "retry",
            "diagnose",
            "archive",
            "holds",
        ] {
            assert!(script.contains(command), "{command} is missing for {shell}");
        }
    }
}
