//! What is special about receivers over HTTP: which answer means what, what is signed, and where nothing is sent.

use std::sync::Arc;

use futures_util::future::join_all;
use lazaret_server::config::{DestinationConfig, DestinationUrl, Success};
use lazaret_server::destination::{
    Destination, HttpDestination, Refusal, Sent, SentCopy, Silence, Tls, Verified,
};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use super::receiver::{Reaction, Receiver, answer};
use super::rigs::{HttpRig, Rig, SECRET, config, open};
use super::{is_unknown, letter};

const DELIVERED: Sent = Sent::Delivered { evidence: "delivered", handle: None };

#[track_caller]
fn refusal(sent: Sent) -> Refusal {
    match sent {
        Sent::Refused(refusal) => *refusal,
        other => panic!("{other:?}"),
    }
}

async fn send(rig: &HttpRig) -> Sent {
    rig.destination().send(&letter("x")).await
}

#[tokio::test]
async fn two_hundreds_are_delivered_or_taken() {
    let waits = HttpRig::with(|config| config.success = Success::Receipt).await;
    let rig = HttpRig::new().await;
    for status in ["200 OK", "201 Created", "202 Accepted", "204 No Content", "299 Odd"] {
        let body = if status.starts_with("204") { "" } else { "thank you" };
        for it in [&rig, &waits] {
            it.receiver.react(Reaction::answer(status, body));
        }
        assert_eq!(send(&rig).await, DELIVERED, "{status}");
        assert_eq!(send(&waits).await, Sent::Taken { handle: None }, "{status}");
    }
    let sent = letter("x");
    let copy = SentCopy {
        letter: sent.letter,
        life: sent.life,
        redrive: sent.redrive,
        message_id: String::new(),
        idempotency_key: sent.idempotency_key,
        handle: None,
        sent_at: None,
    };
    let verified = waits.destination().verify(&[copy]).await;
    assert_eq!(verified, [Verified::Taken(Silence::SaysNothing)]);
}

#[tokio::test]
async fn whole_answers_of_failure_are_definite() {
    let rig = HttpRig::new().await;
    for status in [400, 401, 404, 408, 409, 410, 413, 422, 425, 429, 500, 501, 503, 505, 599] {
        rig.receiver.react(Reaction::answer(&format!("{status} Odd"), "order 4711 is closed"));
        let Refusal { status: told, error } = refusal(send(&rig).await);
        assert_eq!((told, error.code), (Some(status), Some(status.to_string())));
        assert_eq!(error.error_type, "HttpAnswer");
        assert!(error.message.contains(&rig.receiver.url()), "{}", error.message);
        assert!(error.message.ends_with(": order 4711 is closed"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_gateway_that_does_not_know_is_unknown() {
    let rig = HttpRig::new().await;
    for status in ["502 Bad Gateway", "504 Gateway Timeout"] {
        rig.receiver.react(Reaction::answer(status, "upstream"));
        is_unknown(&send(&rig).await);
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (rig, elsewhere) = (HttpRig::new().await, Receiver::new().await);
    for status in ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Odd"]
    {
        let location = format!("location: {}\r\n", elsewhere.url());
        rig.receiver.react(Reaction::Say(answer(status, &location, "")));
        let refusal = refusal(send(&rig).await);
        assert!(refusal.error.message.contains("redirects are not followed"), "{refusal:?}");
    }
    assert_eq!((rig.receiver.requests().len(), elsewhere.connections()), (5, 0));
}

#[tokio::test]
async fn half_an_answer_is_unknown_wherever_it_breaks_off() {
    let rig = HttpRig::new().await;
    for whole in [answer("200 OK", "", "done"), answer("500 Odd", "x-y: z\r\n", "failed")] {
        for end in 0..whole.len() {
            rig.receiver.react(Reaction::SayAndClose(whole[..end].to_vec()));
            is_unknown(&send(&rig).await);
        }
    }
    let sent = rig.receiver.requests().len();
    rig.receiver.react(Reaction::SayAndClose(answer("200 OK", "connection: close\r\n", "done")));
    assert_eq!(send(&rig).await, DELIVERED);
    // Also without a length, where the end of the connection is the end of the answer.
    rig.receiver.react(Reaction::SayAndClose(b"HTTP/1.1 200 OK\r\n\r\ndone".to_vec()));
    assert_eq!(send(&rig).await, DELIVERED);
    rig.receiver.react(Reaction::SayAndClose(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ndone\r\n".to_vec(),
    ));
    is_unknown(&send(&rig).await);
    rig.receiver.react(Reaction::SayAndClose(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()));
    is_unknown(&send(&rig).await);
    assert_eq!(rig.receiver.requests().len(), sent + 4, "each was sent once");
}

#[tokio::test]
async fn slow_answers_and_a_continue_in_between_are_answers() {
    let rig = HttpRig::new().await;
    rig.receiver.react(Reaction::Drip(answer("200 OK", "", "done")));
    assert_eq!(send(&rig).await, DELIVERED);
    let twice = [b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), answer("422 Odd", "", "late")].concat();
    rig.receiver.react(Reaction::Drip(twice));
    assert_eq!(refusal(send(&rig).await).status, Some(422));
    assert!(rig.receiver.requests().iter().all(|request| request.headers("expect").is_empty()));
}

#[tokio::test]
async fn long_answers_are_read_and_kept_in_part() {
    let rig = HttpRig::new().await;
    let long = "ä".repeat(1_000_000);
    rig.receiver.react(Reaction::SayAndClose(answer("500 Odd", "connection: close\r\n", &long[..60_000])));
    let message = refusal(send(&rig).await).error.message;
    let kept = message.chars().filter(|c| *c == 'ä').count();
    assert_eq!(kept, 1_024, "2 KiB are kept");
    // An end that never comes is not waited for.
    let endless = format!("HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n{}", &long[..200_000]);
    rig.receiver.react(Reaction::Say(endless.into_bytes()));
    assert_eq!(send(&rig).await, DELIVERED);
    // Bytes that are no text are kept as far as they are.
    let binary =
        [b"HTTP/1.1 400 Odd\r\ncontent-length: 6\r\n\r\n".to_vec(), vec![255, 0, 254, b'a', b'b', b'c']];
    rig.receiver.react(Reaction::Say(binary.concat()));
    assert!(refusal(send(&rig).await).error.message.ends_with("abc"));
}

#[tokio::test]
async fn a_connection_that_was_never_made_is_definite() {
    // A port that was free a moment ago and that nobody listens on.
    let receiver = Receiver::new().await;
    let (url, port) = (receiver.url(), receiver.port());
    let refused = refusal(open(config(&format!("https://127.0.0.1:{port}/"))).send(&letter("x")).await);
    assert_eq!((refused.status, refused.error.error_type.as_str()), (None, "TlsError"), "{refused:?}");
    assert_eq!(receiver.requests().len(), 0);
    receiver.leave().await;
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let unused = format!("http://{}/", socket.local_addr().unwrap());
    drop(socket);
    for gone in [url, unused] {
        let refused = refusal(open(config(&gone)).send(&letter("x")).await);
        assert_eq!(
            (refused.status, refused.error.error_type.as_str()),
            (None, "ConnectionRefused"),
            "{refused:?}"
        );
        assert!(refused.error.message.starts_with(&format!("cannot connect to {gone}: ")), "{refused:?}");
    }
    let nameless = open(config("http://nowhere.invalid/"));
    let refused = refusal(nameless.send(&letter("x")).await);
    assert!(matches!(refused.error.error_type.as_str(), "DnsError" | "ConnectTimeout"), "{refused:?}");
    assert!(nameless.route(&letter("x")).await.is_err());
}

#[tokio::test]
async fn a_handshake_that_does_not_come_to_its_end_is_definite() {
    // Connections are taken by the system, and nobody reads from them.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(&format!("https://{}/", socket.local_addr().unwrap()));
    config.timeout_ms = 4_000;
    let refused = refusal(open(config).send(&letter("x")).await);
    assert_eq!(refused.error.error_type, "ConnectTimeout", "{refused:?}");
}

#[tokio::test]
async fn private_addresses_are_refused_by_number_and_by_name() {
    let receiver = Receiver::new().await;
    let port = receiver.port();
    let closed = |url: &str| DestinationConfig::new(DestinationUrl::parse(url).unwrap());
    for host in
        ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "LOCALHOST."]
    {
        let made = HttpDestination::new(
            closed(&format!("http://{host}:{port}/")),
            &Tls::of_the_machine(),
            lazaret_server::clock::Clock::System,
        );
        let why = made.map(|_| ()).unwrap_err();
        assert!(why.contains("is a private address; set allow_private = true"), "{host}: {why}");
    }
    // A name of this machine that does not look like one is found out when it is looked up.
    let name = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let local = name.lines().filter(|line| line.starts_with("127.") || line.starts_with("::1"));
    let names = local.flat_map(|line| line.split_whitespace().skip(1));
    for name in names.filter(|name| !name.starts_with('#') && *name != "localhost") {
        let destination = open(closed(&format!("http://{name}:{port}/")));
        let refused = refusal(destination.send(&letter("x")).await);
        assert_eq!(refused.error.error_type, "AddressNotAllowed", "{refused:?}");
        let why = destination.route(&letter("x")).await.unwrap_err();
        assert!(why.contains("is a private address"), "{why}");
    }
    assert_eq!(receiver.connections(), 0);
    let open = open(config(&format!("http://localhost:{port}/")));
    assert_eq!(open.send(&letter("x")).await, DELIVERED);
    assert!(open.route(&letter("x")).await.is_ok());
}

/// HMAC as RFC 2104 writes it, to check ours by another hand.
fn hmac_hex(key: &[u8], message: &[u8]) -> String {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let keyed = |pad: u8, rest: &[u8]| {
        Sha256::new().chain_update(block.map(|b| b ^ pad)).chain_update(rest).finalize()
    };
    let outer = keyed(0x5c, &keyed(0x36, message));
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_receiver_can_check_the_signature_over_the_body_it_got() {
    let rig = HttpRig::new().await;
    for body in ["", "{\"a\": 1}", "Grüße\n"] {
        assert_eq!(rig.destination().send(&letter(body)).await, DELIVERED);
        let request = rig.receiver.requests().pop().unwrap();
        let signature = request.header("lazaret-signature");
        let (t, v1) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        let now = lazaret_core::time::Time::parse(crate::rig::START).unwrap();
        assert_eq!(t, (now.ms() / 1_000).to_string());
        let signed = [t.as_bytes(), b".", &request.body].concat();
        assert_eq!(v1, hmac_hex(SECRET.as_bytes(), &signed));
    }
    let unsigned = HttpRig::with(|config| config.secret = None).await;
    assert_eq!(send(&unsigned).await, DELIVERED);
    assert!(unsigned.receiver.requests()[0].headers("lazaret-signature").is_empty());
}

#[tokio::test]
async fn original_headers_are_passed_on_and_ours_are_ours() {
    let rig = HttpRig::new().await;
    let mut outgoing = letter("x");
    for (name, value) in [
        ("traceparent", "00-1-2-01"),
        ("Content-Type", "text/evil"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Host", "elsewhere"),
        ("Authorization", "Bearer stolen"),
        ("Cookie", "a=b"),
        ("Lazaret-Signature", "t=1,v1=00"),
        ("Idempotency-Key", "theirs"),
        ("x-evil", "a\r\nEvil: 1"),
    ] {
        outgoing.headers.push((name.to_owned(), value.into()));
    }
    outgoing.content_type = "text/plain; charset=utf-8".to_owned();
    assert_eq!(rig.destination().send(&outgoing).await, DELIVERED);
    let request = rig.receiver.requests().pop().unwrap();
    assert!(request.head.starts_with("post /events http/1.1\r\n"), "{}", request.head);
    for (name, value) in [
        ("x-tenant", "acme"),
        ("traceparent", "00-1-2-01"),
        ("content-type", "text/plain; charset=utf-8"),
        ("idempotency-key", "the-letter:2:1"),
        ("content-length", "1"),
        ("transfer-encoding", ""),
        ("authorization", ""),
        ("cookie", ""),
        ("evil", ""),
        ("x-evil", ""),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    assert_eq!(request.header("host"), format!("127.0.0.1:{}", rig.receiver.port()));
    assert_eq!(request.headers("lazaret-signature").len(), 1);
    outgoing.content_type = "\n".to_owned();
    assert_eq!(rig.destination().send(&outgoing).await, DELIVERED);
    assert_eq!(rig.receiver.requests().pop().unwrap().header("content-type"), "application/octet-stream");
}

#[tokio::test]
async fn no_more_letters_are_under_way_than_allowed() {
    let rig = HttpRig::with(|config| config.connections_max = 3).await;
    let permits = Arc::new(Semaphore::new(0));
    rig.receiver.react(Reaction::Hold(Arc::clone(&permits)));
    let destination = rig.destination();
    let outgoing = letter("x");
    let all = join_all((0..20).map(|_| destination.send(&outgoing)));
    let release = async {
        for _ in 0..20 {
            // Only when as many wait as can, or the last ones do.
            while rig.receiver.busy() < 3.min(20 - rig.receiver.requests().len() + rig.receiver.busy()) {
                tokio::task::yield_now().await;
            }
            permits.add_permits(1);
        }
    };
    let (sent, ()) = tokio::join!(all, release);
    assert!(sent.iter().all(|sent| *sent == DELIVERED), "{sent:?}");
    assert_eq!((rig.receiver.requests().len(), rig.receiver.busiest()), (20, 3));
}

#[tokio::test]
async fn a_letter_that_finds_no_free_connection_was_not_sent() {
    let rig = HttpRig::with(|config| config.connections_max = 1).await;
    let permits = Arc::new(Semaphore::new(0));
    rig.receiver.react(Reaction::Hold(Arc::clone(&permits)));
    let (destination, outgoing) = (rig.destination(), letter("x"));
    let second = async {
        while rig.receiver.busy() == 0 {
            tokio::task::yield_now().await;
        }
        let sent = destination.send(&outgoing).await;
        permits.add_permits(1);
        sent
    };
    let (first, second) = tokio::join!(destination.send(&outgoing), second);
    assert_eq!((first, rig.receiver.requests().len()), (DELIVERED, 1));
    assert!(matches!(second, Sent::Unsent(_)), "{second:?}");
}

#[tokio::test]
async fn connections_are_kept_for_the_next_letter() {
    let rig = HttpRig::new().await;
    for _ in 0..10 {
        assert_eq!(send(&rig).await, DELIVERED);
    }
    assert!(rig.receiver.connections() < 10, "{} connections", rig.receiver.connections());
}

#[tokio::test]
async fn no_credential_is_told_even_if_the_receiver_repeats_it() {
    let receiver = Receiver::new().await;
    let url = format!("http://hunter1:hunter%402@127.0.0.1:{}/in?key=hunter3-key", receiver.port());
    let destination = open(config(&url));
    assert_eq!(destination.send(&letter("x")).await, DELIVERED);
    let request = receiver.requests().pop().unwrap();
    assert!(request.head.starts_with("post /in?key=hunter3-key http/1.1\r\n"), "{}", request.head);
    // Of hunter1:hunter@2.
    let basic = "aHVudGVyMTpodW50ZXJAMg==";
    assert_eq!(request.header("authorization"), format!("basic {}", basic.to_lowercase()));
    let echo = format!("Basic {basic}: hunter1, hunter@2, hunter3-key, {SECRET}, bye");
    let mut told = vec![destination.address(), format!("{destination:?}")];
    for reaction in [
        Reaction::answer("500 Odd", &echo),
        Reaction::answer("502 Bad Gateway", &echo),
        Reaction::SayAndClose(format!("HTTP/1.1 500 Odd\r\n{echo}").into_bytes()),
        Reaction::Reset,
    ] {
        receiver.react(reaction);
        told.push(format!("{:?}", destination.send(&letter("x")).await));
    }
    receiver.leave().await;
    told.push(format!("{:?}", destination.send(&letter("x")).await));
    assert!(told[2].contains("Basic ***: ***, ***, ***, ***, bye"), "{}", told[2]);
    for text in told {
        for secret in ["hunter", basic, SECRET] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
