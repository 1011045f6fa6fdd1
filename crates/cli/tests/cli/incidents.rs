//! Letters of one cause are one incident, and the terminal shows what it is about.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::running::{Desk, Server};
use crate::scripted::{Act, Scripted, answer};

/// A letter whose message is the same for each event.
fn failing(event: &str, letter_type: &str) -> String {
    format!(
        r#"{{"eventId":"{event}","originalEvent":{{"pattern":"{letter_type}"}},"error":{{"type":"TimeoutError","message":"the gateway is away"}}}}"#
    )
}

/// Two letters of one cause and one of another.
fn server_with_two_incidents() -> Server {
    let server = Server::start();
    let entries =
        [failing("a", "invoice.created"), failing("b", "invoice.created"), failing("c", "order.created")];
    server.run_with_input(&["report", "--ndjson"], entries.join("\n").as_bytes()).ok();
    server
}

/// The incident of the letters of this type.
fn incident_of(server: &Server, letter_type: &str) -> String {
    let page = server.json(&["incidents", "--type", letter_type]);
    assert_eq!(page["total"], 1, "{page}");
    page["items"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn incidents_are_listed_narrowed_and_paged() {
    let server = server_with_two_incidents();
    let listed = server.run(&["incidents"]);
    assert_eq!((listed.code, listed.stdout.lines().count()), (0, 3), "{listed:?}");
    for part in ["STATE", "open", "TimeoutError", "█"] {
        assert!(listed.stdout.contains(part), "{part} is missing in\n{}", listed.stdout);
    }
    assert!(!listed.stdout.contains('\u{1b}'));
    assert_eq!(listed.stderr, "2 of 2 incidents\n");

    let largest = server.json(&["incidents", "--sort", "-count", "--limit", "1"]);
    assert_eq!(
        (&largest["items"][0]["count"], &largest["items"][0]["type"]),
        (&2.into(), &"invoice.created".into())
    );
    assert_eq!(server.json(&["incidents", "type:order.*", "error:TimeoutError"])["total"], 1);
    assert_eq!(server.json(&["incidents", "--text", "GATEWAY"])["total"], 2);
    assert_eq!(server.run(&["incidents", "nothing", "like", "it"]).stderr, "no matching incidents\n");

    let first = server.run(&["incidents", "--since", "24h", "--limit", "1"]);
    let next = first.stderr.lines().find_map(|line| line.strip_prefix("next page: lazaret ")).unwrap();
    let second = server.run(&next.split(' ').collect::<Vec<_>>());
    assert_eq!((second.code, second.stdout.lines().count()), (0, 2), "{second:?}");
    assert_ne!(first.stdout.lines().nth(1), second.stdout.lines().nth(1));
}

#[test]
fn an_incident_tells_why_and_whom_and_how_to_go_on() {
    let server = server_with_two_incidents();
    let id = incident_of(&server, "invoice.created");
    let page = server.run(&["incident", "show", &id]).ok();
    let next = format!("lazaret ls incident:{id}");
    for part in
        ["2, all pending", "grouping", "invoice.created", "affected", "letters per", &next, "lazaret show "]
    {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
    let letters = server.json(&["ls", &format!("incident:{id}")]);
    assert_eq!(letters["total"], 2);
    let letter = letters["items"][0]["id"].as_str().unwrap();
    assert!(page.contains(&format!("lazaret show {letter}")), "{page}");

    let whole = server.json(&["incident", "show", &id]);
    assert_eq!(whole["affected"]["over"], 2);
    assert_eq!(whole["fingerprints"][0]["parts"]["errorType"], "TimeoutError");

    let unknown = "019a8b1c-7e00-7000-8000-000000000000";
    assert!(server.run(&["incident", "show", unknown]).fails(1).starts_with("error: "));
    assert!(server.run(&["incident", "show", "x"]).fails(2).contains("is not an id"));
}

#[test]
fn an_incident_whose_letters_are_decided_is_closed_and_out_of_the_way() {
    let server = server_with_two_incidents();
    let id = incident_of(&server, "order.created");
    server.run(&["resolve", "--filter", &format!("incident:{id}"), "--expect", "1"]).ok();
    assert_eq!(server.json(&["incidents"])["total"], 1);
    let closed = server.json(&["incidents", "--state", "closed"]);
    assert_eq!((&closed["total"], &closed["items"][0]["id"]), (&1.into(), &id.as_str().into()));
    assert_eq!(server.json(&["incidents", "--all"])["total"], 2);
    server.run(&["resolve", "--filter", "type:invoice.*", "--expect", "2"]).ok();
    let none = server.run(&["incidents"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("--all includes closed incidents"), "{}", none.stderr);
}

#[test]
fn a_letter_shows_why_it_is_where_it_is_and_who_decided_what() {
    let server = server_with_two_incidents();
    let letter = server.json(&["ls", "type:order.created"])["items"][0]["id"].as_str().unwrap().to_owned();
    assert!(!server.run(&["show", &letter]).ok().contains("decisions ("));
    server.run(&["discard", &letter, "--reason", "test data"]).ok();
    server.run(&["reopen", &letter]).ok();
    let page = server.run(&["show", &letter]).ok();
    for part in ["grouping", "order.created", "decisions (2)", "discard by ", "test data", "no reason given"]
    {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
}

#[test]
fn what_came_is_drawn_and_values_are_suggested() {
    let server = server_with_two_incidents();
    let all = server.json(&["series"]);
    let arrived: u64 = all["items"][0]["points"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|point| point["arrived"].as_u64())
        .sum();
    assert_eq!((arrived, all["items"].as_array().unwrap().len()), (3, 1));
    let by_type = server.run(&["series", "--by", "type", "--step", "minute"]);
    assert_eq!(by_type.code, 0, "{by_type:?}");
    for part in ["VALUE", "invoice.created", "order.created", "█"] {
        assert!(by_type.stdout.contains(part), "{part} is missing in\n{}", by_type.stdout);
    }
    assert!(by_type.stderr.contains("per column"), "{}", by_type.stderr);
    let one = server.json(&["series", "--by", "type", "--value", "order.created", "--since", "2h"]);
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    assert!(server.run(&["series", "--value", "x"]).fails(2).contains("--by"));
    let incident = incident_of(&server, "invoice.created");
    assert!(server.run(&["series", "--incident", &incident]).ok().contains('█'));

    let values = server.run(&["suggest", "type", "inv"]).ok();
    assert!(values.contains("invoice.created") && !values.contains("order.created"), "{values}");
    assert_eq!(server.json(&["suggest", "queue", "no-such"])["items"], serde_json::json!([]));
    assert!(server.run(&["suggest", "colour"]).fails(2).contains("[possible values: source, queue"));

    let progress = server.run(&["progress"]).ok();
    assert!(progress.starts_with("body index  ") && progress.contains("\nregrouping  "), "{progress}");
    assert!(server.json(&["progress"])["regrouping"]["revision"].is_string());
}

#[test]
fn a_list_goes_on_by_itself_when_the_time_of_the_server_ran_out() {
    let letter = |id: &str| {
        format!(
            r#"{{"id":"{id}","eventId":"e","source":"s","type":"t","queue":"q","error":{{"type":"E","message":"m"}},"class":"unknown","retryCount":0,"status":"pending","place":"live","life":1,"createdAt":"2025-11-15T03:00:00.000Z","diedAt":"2025-11-15T03:00:00.000Z","n":1.00}}"#
        )
    };
    let page = |items: &str, cursor: &str| {
        format!(
            r#"{{"items":[{items}],"total":1,"totalIsAtLeast":true,"nextCursor":{cursor},"scan":{{"letters":5000,"cutShort":{}}}}}"#,
            cursor != "null"
        )
    };
    let pages = || {
        let pages = [page(&letter("first"), "\"c1\""), page("", "\"c2\""), page(&letter("second"), "null")];
        pages.iter().map(|page| answer("200 OK", "application/json", page)).collect()
    };
    let desk = Desk::new();

    let server = Scripted::start(pages());
    let ran = desk.run(&["--url", &server.url, "ls", "--limit", "10"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 3), "{ran:?}");
    assert_eq!(ran.stderr, "2 of at least 2 letters · status:pending\nfull scan: 15,000 letters read\n");
    assert!(!server.request().contains("cursor="));
    for cursor in ["cursor=c1", "cursor=c2"] {
        let request = server.request();
        assert!(request.contains(cursor) && request.contains("limit=9"), "{request}");
    }

    let server = Scripted::start(pages());
    let json = desk.run(&["--url", &server.url, "ls", "--limit", "10", "--json"]).ok();
    assert!(json.contains("\"n\":1.00"), "letters stay as they were written: {json}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 2);
    assert_eq!(json["scan"], serde_json::json!({"letters": 15_000, "cutShort": false}));
}

#[test]
fn a_search_that_somebody_stops_shows_what_it_found() {
    let page = r#"{"items":[{"id":"first","eventId":"e","source":"s","type":"t","queue":"q","error":{},"class":"unknown","retryCount":0,"status":"pending","place":"live","life":1,"createdAt":"","diedAt":""}],"total":1,"totalIsAtLeast":true,"nextCursor":"c1","scan":{"letters":5000,"cutShort":true}}"#;
    // Never answers; it ends when the command closes the connection.
    let silent: Act = Box::new(|stream| assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_))));
    let server = Scripted::start(vec![answer("200 OK", "application/json", page), silent]);
    let desk = Desk::new();
    let child = desk
        .command(&["--url", &server.url, "ls", "queue:q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    server.request();
    server.request();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), stdout.lines().count()), (Some(1), 2), "{stdout}{stderr}");
    assert!(stderr.contains("full scan: 5,000 letters read"), "{stderr}");
    assert!(stderr.ends_with("continue: lazaret ls queue:q --cursor c1\n"), "{stderr}");
}
