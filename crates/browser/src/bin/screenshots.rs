//! Pictures of every page of the demo: `cargo xtask screenshots`.
//!
//! Light and dark at a desk, and light on a phone; with `--into FOLDER` only the three that the README shows, as large as
//! a window. Never touches anything but that folder.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a picture that cannot be made ends it")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use lazaret_browser::browser::{Browser, Extent};
use lazaret_browser::locator::{button, field};
use lazaret_browser::look::{Look, Scheme};
use serde_json::json;

/// Pages whose address says it all.
const PAGES: [(&str, &str); 17] = [
    ("overview", "/"),
    ("incidents", "/incidents"),
    ("letters", "/letters"),
    ("letters-confirm", "/letters/confirm?action=discard&q=error:KeyError"),
    ("redrives", "/redrives"),
    ("redrive-new", "/redrives/new?q=error:KeyError"),
    ("jobs", "/jobs"),
    ("jobs-list", "/jobs?view=jobs"),
    ("jobs-workers", "/jobs?view=workers"),
    ("rules", "/rules"),
    ("rules-retention", "/rules?view=retention"),
    ("rules-holds", "/rules?view=holds"),
    ("sources", "/sources"),
    ("archive", "/archive"),
    ("alerts", "/alerts"),
    ("audit", "/audit"),
    ("settings", "/settings"),
];

/// What the README shows.
const SHOWN: [&str; 3] = ["overview", "incident", "redrive"];

/// A picture of the README that is larger is loaded too slowly, and the repository keeps every one that ever was.
const SHOWN_BYTES_MAX: usize = 200_000;

/// Letters of the bad deploy, whose cause and fix the demo has written down.
const REDRIVEN: &str = "error:KeyError tenant:harbour-pine-fr";

/// The demo, ended with this program.
struct Demo {
    child: Child,
    url: String,
    _stdout: BufReader<ChildStdout>,
}

impl Demo {
    /// Cargo becomes the demo, so that ending the one ends the other.
    fn start() -> Demo {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let args = ["run", "--quiet", "--locked", "--package", "lazaret", "--"];
        let mut child = Command::new(cargo)
            .args(args)
            .args(["demo", "--listen", "127.0.0.1:0", "--still", "--seed", "7"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo can be started");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.strip_prefix("listening on ").expect("the first line says where it listens").trim();
        Demo { child, url: url.to_owned(), _stdout: stdout }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let demo = Demo::start();
    let browser = Browser::start(&demo.url, Look::DESK);
    let pages = all_pages(&browser);
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--into", folder] => {
            let shown: Vec<_> =
                pages.into_iter().filter(|(name, _)| SHOWN.contains(&name.as_str())).collect();
            picture_all(&browser, &shown, Path::new(folder), "", Extent::Window);
        }
        [] => {
            let folder = PathBuf::from("target/screenshots");
            picture_all(&browser, &pages, &folder, "-light", Extent::Page);
            browser.wear(Scheme::Dark);
            picture_all(&browser, &pages, &folder, "-dark", Extent::Page);
            drop(browser);
            let phone = Browser::start(&demo.url, Look::PHONE);
            picture_all(&phone, &pages, &folder, "-phone", Extent::Page);
        }
        _ => panic!("usage: screenshots [--into FOLDER]"),
    }
}

/// Every page with its name. Puts letters back on the way, so that there is a redrive to look at.
fn all_pages(browser: &Browser) -> Vec<(String, String)> {
    let plan = |filter: &str| {
        browser.goto(&format!("/redrives/new?q={}", filter.replace(' ', "%20")));
        browser.click(&button("Plan"));
        browser.see("What would happen");
        browser.address()
    };
    let run = plan(REDRIVEN);
    let count = browser.attribute(&field("Type "), "aria-label");
    assert!(count.is_none(), "the number stands in the label");
    let label = browser.script("return document.querySelector('#launch label').textContent", &json!([]));
    let number: String = label
        .as_str()
        .unwrap()
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(|c| *c != ' ')
        .collect();
    browser.fill(&field("Type "), &number);
    browser.click(&button("Redrive").within(lazaret_browser::locator::css("#launch")));
    browser.see("have had their turn");
    let planned = plan("error:KeyError");
    let linked = |page: &str, begin: &str| {
        browser.goto(page);
        let script = "return document.querySelector(`main a[href^='${arguments[0]}']`)?.getAttribute('href')";
        // What the demo's worker failed at may only be on its way there.
        browser.wait(&format!("a link to {begin} on {page}"), || {
            browser.script(script, &json!([begin])).as_str().map(str::to_owned)
        })
    };
    let letter = linked("/letters", "/letters/0");
    let mut pages: Vec<(String, String)> =
        PAGES.iter().map(|&(name, address)| (name.to_owned(), address.to_owned())).collect();
    for (name, address) in [
        ("incident", linked("/incidents?sort=-count", "/incidents/0")),
        ("letter-edit", format!("{letter}/edit")),
        ("job-edit", format!("{}/edit", linked("/letters?q=source:jobs%20status:pending", "/letters/0"))),
        ("letter", letter),
        ("archived", linked("/archive", "/letters/0")),
        ("redrive", run),
        ("redrive-plan", planned),
    ] {
        pages.push((name.to_owned(), address));
    }
    pages
}

fn picture_all(browser: &Browser, pages: &[(String, String)], folder: &Path, suffix: &str, extent: Extent) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, address) in pages {
        browser.goto(address);
        let picture = browser.picture(extent);
        let file = folder.join(format!("{name}{suffix}.png"));
        if extent == Extent::Window {
            assert!(picture.len() <= SHOWN_BYTES_MAX, "{} has {} bytes", file.display(), picture.len());
        }
        std::fs::write(&file, picture).unwrap();
        println!("{}", file.display());
    }
}
