//! Letters move between stores whole, and whatever is lost on the way is noticed.

use sha2::{Digest, Sha256};

use crate::running::{Desk, Server, arg, entry};
use crate::scripted::{Act, Scripted, answer};

/// An export of these letters, as the server writes it.
fn export(letters: &[&str]) -> Vec<String> {
    let hex = |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let hashes: Vec<String> = letters.iter().map(|letter| hex(letter)).collect();
    let mut lines: Vec<String> = letters
        .iter()
        .zip(&hashes)
        .map(|(letter, hash)| format!("{{\"sha256\":\"{hash}\",\"letter\":{letter}}}\n"))
        .collect();
    lines.push(format!(
        "{{\"sha256\":\"{}\",\"end\":{{\"letters\":{}}}}}\n",
        hex(&hashes.concat()),
        letters.len()
    ));
    lines
}

fn exporting(lines: &[String]) -> Scripted {
    Scripted::start(vec![answer("200 OK", "application/x-ndjson", &lines.concat())])
}

#[test]
fn letters_arrive_whole_in_another_store_and_only_once() {
    let from = Server::start();
    let lines =
        [entry("a", "invoice.created"), entry("b", "invoice.paid"), entry("c", "order.created")].join("\n");
    from.run_with_input(&["report", "--ndjson"], lines.as_bytes()).ok();
    let id = from.json(&["ls", "type:order.created"])["items"][0]["id"].as_str().unwrap().to_owned();
    from.run(&["discard", &id, "--reason", "test data"]).ok();
    let file = from.desk.folder.path().join("letters.ndjson");
    let said = from.run(&["export", "--all", "-o", arg(&file)]).ok();
    assert!(said.starts_with("exported 3 letters to "), "{said}");
    assert!(!from.desk.folder.path().join("letters.ndjson.part").exists());

    let to = Server::start();
    assert_eq!(to.run(&["import", arg(&file)]).ok(), "created 3\n");
    assert_eq!(to.run(&["import", arg(&file)]).ok(), "created 0, known 3\n");
    let again = to.json(&["import", arg(&file)]);
    assert_eq!((&again["known"], &again["complete"]), (&3.into(), &true.into()));
    assert_eq!(to.run(&["show", &id, "--body"]).ok(), from.run(&["show", &id, "--body"]).ok());
    let page = to.run(&["show", &id]).ok();
    for part in ["discarded", "test data", "in the original store"] {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
    assert!(to.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));

    let letters = |text: &str| -> Vec<serde_json::Value> {
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter_map(|mut line| Some(line.get_mut("letter")?["lives"].take())).collect()
    };
    let (here, there) = (std::fs::read_to_string(&file).unwrap(), to.run(&["export", "--all"]).ok());
    assert_eq!(here.lines().count(), 4);
    assert_eq!(letters(&here), letters(&there));
}

#[test]
fn an_export_is_narrowed_and_goes_to_stdout() {
    let server = Server::start();
    let lines = [entry("a", "invoice.created"), entry("b", "order.created")].join("\n");
    server.run_with_input(&["report", "--ndjson"], lines.as_bytes()).ok();
    let ran = server.run(&["export", "type:order.*"]);
    assert_eq!((ran.code, ran.stderr.as_str(), ran.stdout.lines().count()), (0, "exported 1 letter\n", 2));
    let line: serde_json::Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(line["letter"]["type"], "order.created");
    assert_eq!(server.run(&["export", "--filter", "type:order.*"]).ok(), ran.stdout);
    assert_eq!(server.run(&["export", "-type:invoice.*", "-type:order.*"]).ok().lines().count(), 1);

    let to = Server::start();
    let piped = to.run_with_input(&["import", "-"], ran.stdout.as_bytes());
    assert_eq!((piped.code, piped.stdout.as_str()), (0, "created 1\n"), "{piped:?}");
}

#[test]
fn every_letter_is_exported_only_when_that_is_said() {
    let desk = Desk::new();
    let told = desk.run(&["export"]).fails(2);
    assert!(told.contains("hint: pass a filter") && told.contains("--all"), "{told}");
    assert!(desk.run(&["export", "--all", "queue:a"]).fails(2).contains("--all"));
    assert!(desk.run(&["export", "--all", "--filter", "queue:a"]).fails(2).contains("--all"));
}

#[test]
fn an_export_that_is_cut_off_or_changed_never_looks_whole() {
    let desk = Desk::new();
    let lines = export(&["{\"a\":1.00}", "{\"a\":2}"]);

    let whole = exporting(&lines);
    assert_eq!(desk.run(&["--url", &whole.url, "export", "--all"]).ok(), lines.concat());
    assert!(whole.request().starts_with("get /api/v1/export http/1.1"));

    let cut = exporting(&lines[..2]);
    let ran = desk.run(&["--url", &cut.url, "export", "queue:a"]);
    assert_eq!(ran.stdout, lines[..2].concat());
    assert!(cut.request().starts_with("get /api/v1/export?q=queue%3aa "));
    assert!(ran.fails(1).contains("export truncated after 2 letters"));

    let mut changed = lines.clone();
    changed[1] = changed[1].replace("\"a\":2", "\"a\":3");
    let ran = desk.run(&["--url", &exporting(&changed).url, "export", "--all"]);
    assert_eq!(ran.stdout, lines[0]);
    assert!(ran.fails(1).contains("line 2: letter does not match its hash"));

    let file = desk.file("letters.ndjson", "what was there before");
    let told =
        desk.run(&["--url", &exporting(&lines[..1]).url, "export", "--all", "-o", arg(&file)]).fails(1);
    assert!(told.contains("letters.ndjson.part") && told.contains("truncated after 1 letter"), "{told}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "what was there before");
    let json =
        desk.run(&["--url", &exporting(&lines).url, "export", "--all", "-o", arg(&file), "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["letters"], 2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), lines.concat());
    assert!(!desk.folder.path().join("letters.ndjson.part").exists());
}

#[test]
fn nothing_of_a_damaged_file_is_sent_unless_that_is_wanted() {
    let from = Server::start();
    let lines = [entry("a", "t"), entry("b", "t"), entry("c", "t")].join("\n");
    from.run_with_input(&["report", "--ndjson"], lines.as_bytes()).ok();
    let whole = from.run(&["export", "--all"]).ok();
    let to = Server::start();

    let cut = to
        .desk
        .file("cut.ndjson", &whole.lines().take(2).map(|line| format!("{line}\n")).collect::<String>());
    let told = to.run(&["import", arg(&cut)]).fails(1);
    assert!(told.contains("truncated after 2 letters") && told.contains("hint: nothing was sent"), "{told}");
    let damaged = to.desk.file("damaged.ndjson", &whole.replacen("\"queue\":\"", "\"queue\":\"x", 1));
    let told = to.run(&["import", arg(&damaged)]).fails(1);
    assert!(told.contains("line 1: letter does not match its hash"), "{told}");
    assert!(told.contains("damaged.ndjson has 1 damaged line"), "{told}");
    assert_eq!(to.json(&["stats"])["total"], 0);

    let streamed = to.run_with_input(&["import", "-"], std::fs::read_to_string(&cut).unwrap().as_bytes());
    assert_eq!(streamed.stdout, "created 2\n");
    assert!(streamed.fails(1).contains("hint: the received letters were imported"));
    assert_eq!(to.run(&["import", arg(&cut), "--partial"]).ok(), "created 0, known 2\n");
    let partly = to.run(&["import", arg(&damaged), "--partial"]);
    assert_eq!((partly.code, partly.stdout.as_str()), (1, "created 1, known 1, refused 1\n"), "{partly:?}");
    assert!(partly.stderr.contains("line 1: refused: letter does not match its hash"), "{}", partly.stderr);
}

#[test]
fn what_is_no_export_is_told_before_anything_is_asked() {
    let desk = Desk::new();
    let url = ["--url", "http://127.0.0.1:1"];
    let run = |args: &[&str]| desk.run(&[&url[..], args].concat());
    assert!(run(&["import", "no-such-file"]).fails(1).contains("cannot read no-such-file"));
    assert!(run(&["import", "."]).fails(2).contains("is not a file"));
    let report = desk.file("report.ndjson", &entry("a", "t"));
    assert!(run(&["import", arg(&report)]).fails(1).contains("line 1: not a line of an export"));
    let empty = desk.file("empty.ndjson", "");
    assert!(run(&["import", arg(&empty)]).fails(1).contains("truncated after 0 letters"));
    assert!(run(&["import"]).fails(2).contains("FILE"));
}

#[test]
fn a_large_import_goes_in_several_requests_and_troubles_keep_their_lines() {
    let letters: Vec<String> = (0..1_500).map(|n| format!("{{\"n\":{n}}}")).collect();
    let lines = export(&letters.iter().map(String::as_str).collect::<Vec<_>>());
    let desk = Desk::new();
    let file = desk.file("many.ndjson", &lines.concat());
    let first = r#"{"created":1000,"known":0,"conflicts":[],"refused":[],"end":false}"#;
    let second = r#"{"created":498,"known":0,"conflicts":[{"line":2,"id":"019a8b1c-7e00-7000-8000-000000000000","detail":"another letter has its key"}],"refused":[{"line":500,"detail":"it has no type"}],"end":false}"#;
    let server = Scripted::start(vec![
        answer("200 OK", "application/json", first),
        answer("200 OK", "application/json", second),
    ]);
    let ran = desk.run(&["--url", &server.url, "import", arg(&file)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "created 1,498, conflicts 1, refused 1\n"), "{ran:?}");
    let conflict =
        "line 1002: conflict with 019a8b1c-7e00-7000-8000-000000000000: another letter has its key\n";
    assert_eq!(ran.stderr, format!("{conflict}line 1500: refused: it has no type\n"));
    for lines_sent in [1_000, 500] {
        let request = server.request();
        assert!(request.contains("content-type: application/x-ndjson"), "{request}");
        assert_eq!(request.matches("\"letter\":").count(), lines_sent);
        assert!(!request.contains("\"end\""));
    }
}

fn receipt(created: u64, known: u64) -> Act {
    let text = format!(r#"{{"created":{created},"known":{known},"conflicts":[],"refused":[],"end":false}}"#);
    answer("200 OK", "application/json", &text)
}

/// A refusal that says what was taken in before it.
fn problem(status: &str, code: &str, created: u64, known: u64) -> Act {
    let text = format!(r#"{{"code":"{code}","detail":"no {code}","created":{created},"known":{known}}}"#);
    answer(status, "application/problem+json", &text)
}

fn four_letters(desk: &Desk) -> std::path::PathBuf {
    desk.file("four.ndjson", &export(&["{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":4}"]).concat())
}

#[test]
fn what_is_too_large_for_the_server_is_halved_down_to_the_line_that_is() {
    let too_large = |created, known| problem("413 Payload Too Large", "too_large", created, known);
    let desk = Desk::new();
    // The first letter comes in with the first request, and is known when it is sent again.
    let server = Scripted::start(vec![
        too_large(1, 0),
        receipt(1, 1),
        too_large(0, 0),
        receipt(0, 1),
        too_large(0, 0),
    ]);
    let ran = desk.run(&["--url", &server.url, "import", arg(&four_letters(&desk))]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "created 2, known 1, refused 1\n"), "{ran:?}");
    assert!(ran.stderr.starts_with("line 4: refused: no too_large"), "{}", ran.stderr);
    assert!(ran.stderr.contains("limits.ndjson_bytes_max"), "{}", ran.stderr);
    let sent: Vec<String> = (0..5)
        .map(|_| {
            let request = server.request();
            (1..=4).filter(|n| request.contains(&format!("{{\"n\":{n}}}"))).map(|n| n.to_string()).collect()
        })
        .collect();
    assert_eq!(sent, ["1234", "12", "34", "3", "4"]);
}

#[test]
fn what_came_in_before_a_failure_is_in_the_sum() {
    let desk = Desk::new();
    let file = four_letters(&desk);
    let failed = || problem("500 Internal Server Error", "internal", 2, 1);
    let server = Scripted::start(vec![failed()]);
    let ran = desk.run(&["--url", &server.url, "import", arg(&file)]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "created 2, known 1\n"), "{ran:?}");
    assert!(ran.stderr.contains("error: no internal"), "{}", ran.stderr);
    let server = Scripted::start(vec![failed()]);
    let ran = desk.run(&["--url", &server.url, "import", arg(&file), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["created"], &json["known"], &json["complete"]), (&2.into(), &1.into(), &false.into()));
}

#[test]
fn what_came_in_before_the_server_was_busy_is_counted_once() {
    let desk = Desk::new();
    let busy = problem("503 Service Unavailable\r\nretry-after: 0", "store_busy", 2, 1);
    let server = Scripted::start(vec![busy, receipt(1, 3)]);
    let ran = desk.run(&["--url", &server.url, "import", arg(&four_letters(&desk))]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "created 3, known 1\n"), "{ran:?}");
}

#[test]
fn a_server_that_takes_little_at_once_takes_everything_in() {
    let from = Server::start();
    let long = format!("\"long\":\"{}\",\"amount\":", "x".repeat(20_000));
    let large = |n| entry(&format!("e{n}"), "t").replace("\"amount\":", &long);
    let lines: Vec<String> = (0..300).map(large).collect();
    from.run_with_input(&["report", "--ndjson"], lines.join("\n").as_bytes()).ok();
    let file = from.desk.folder.path().join("letters.ndjson");
    from.run(&["export", "--all", "-o", arg(&file)]).ok();

    let desk = Desk::new();
    desk.file("lazaret.toml", "[limits]\nndjson_bytes_max = '256KiB'\n");
    let to = Server::start_on(desk);
    let sum = to.json(&["import", arg(&file)]);
    // A letter is known rather than created if the answer of the request that brought it got lost.
    assert_eq!(sum["created"].as_u64().unwrap() + sum["known"].as_u64().unwrap(), 300, "{sum}");
    assert_eq!(to.json(&["stats"])["total"], 300);
}

#[test]
fn a_connection_that_is_closed_under_a_large_request_is_tried_with_less() {
    let close = || -> Act { Box::new(|_| {}) };
    let desk = Desk::new();
    let file = four_letters(&desk);
    let server = Scripted::start(vec![close(), receipt(2, 0), close(), receipt(1, 0), receipt(1, 0)]);
    assert_eq!(desk.run(&["--url", &server.url, "import", arg(&file)]).ok(), "created 4\n");
    let server = Scripted::start(vec![close(), close(), receipt(1, 0), close()]);
    let ran = desk.run(&["--url", &server.url, "import", arg(&file)]);
    assert_eq!(ran.stdout, "created 1\n");
    assert!(ran.fails(1).contains("error: line 2 ("));
}
