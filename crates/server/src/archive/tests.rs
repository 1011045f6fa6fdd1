//! What goes into a file comes out of it, whatever it is.

use bytes::Bytes;
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::class::ErrorClass;
use lazaret_core::envelope::Envelope;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::header::Headers;
use lazaret_core::id::{FileId, IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::{Hold, Letter, Resolution, Strategy};
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::time::Time;
use lazaret_store::page::{Life, LifeAttempt};
use lazaret_store::testing::messages::{every_header, full as full_message, without_body};
use lazaret_store::transfer::{DecisionRecord, Exported};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::Type;

use super::parse;
use super::row::Row;
use super::write::{Made, Writer};

const HOSTILE: [&str; 6] = ["", "\0", "a\0b\n\r\t\"'\\", "\u{feff}ünï\u{1f4ec}", "{\"a\":1e400}", "NULL"];

fn now() -> Time {
    Time::from_ms(1_794_700_000_123)
}

fn life(number: u32, body: Vec<u8>, headers: Headers, word: &str) -> (Life, Envelope) {
    life_of(number, Envelope::seal(Bytes::from(body), format!("application/{word}"), headers))
}

fn life_of(number: u32, envelope: Envelope) -> (Life, Envelope) {
    let life = Life {
        life: number,
        captured_at: now(),
        died_at: Time::from_ms(i64::from(number)),
        class: ErrorClass::ALL[number as usize % ErrorClass::ALL.len()],
        fingerprint: Fingerprint::stored(format!("v1:{number:032x}")),
        content_type: envelope.content_type().to_owned(),
        body_bytes: envelope.body().len() as u64,
        sha256: *envelope.sha256(),
        fatal: u32::MAX - number,
        retry_count: u32::MAX,
        max_retries: None,
        redrive: None,
        reported: None,
        origin: envelope.origin().cloned(),
        body_missing: envelope.body_missing().map(str::to_owned),
    };
    (life, envelope)
}

/// A letter with nothing that can be left out.
fn bare(number: u8) -> Row {
    let id = LetterId::mint(now(), [number; 10]);
    let letter = Letter {
        id,
        source: String::new(),
        event_id: String::new(),
        letter_type: String::new(),
        queue: String::new(),
        subscriber: None,
        tenant: None,
        aggregate: None,
        schema_version: None,
        error_type: String::new(),
        error_code: None,
        error_message: String::new(),
        class: ErrorClass::Unknown,
        fingerprint: Fingerprint::stored(String::new()),
        incident: IncidentId::mint(now(), [number; 10]),
        retry_count: 0,
        max_retries: None,
        status: Status::Pending,
        place: Place::Archived,
        life: 1,
        hold: None,
        resolution: None,
        previous: None,
        created_at: id.at(),
        updated_at: now(),
        died_at: now(),
        retention_at: now(),
    };
    let exported = Exported {
        letter,
        key: CaptureKey([number; 32]),
        ever_sent: false,
        lives: vec![life(1, Vec::new(), Vec::new(), "json")],
        attempts: Vec::new(),
        decisions: Vec::new(),
    };
    let (removed_by, reason) = (String::new(), String::new());
    Row { entry: i64::from(number), exported, removed_at: now(), removed_by, reason }
}

/// A letter in which everything is there and is this text, told apart by where it stands.
fn full(number: u8, word: &str) -> Row {
    let said = |place: &str| format!("{place}{word}");
    let some = |place: &str| Some(said(place));
    let mut row = bare(number);
    row.entry = i64::MAX - i64::from(number);
    (row.removed_by, row.reason) = (said("removed by"), said("reason"));
    let letter = &mut row.exported.letter;
    *letter = Letter {
        source: said("source"),
        event_id: said("event"),
        letter_type: said("type"),
        queue: said("queue"),
        subscriber: some("subscriber"),
        tenant: some("tenant"),
        aggregate: some("aggregate"),
        schema_version: some("version"),
        error_type: said("error type"),
        error_code: some("code"),
        error_message: said("message"),
        class: ErrorClass::Transient,
        fingerprint: Fingerprint::stored(said("v1:")),
        retry_count: u32::MAX,
        max_retries: Some(u32::MAX),
        status: Status::Resolved,
        place: Place::Deleted,
        life: 9,
        hold: Some(Hold { at: Time::from_ms(i64::MIN), by: said("holder"), reason: said("case") }),
        resolution: Some(Resolution {
            at: Time::from_ms(i64::MAX),
            strategy: Strategy::ManualResolution,
            by: said("resolver"),
            notes: some("notes"),
        }),
        previous: Some(LetterId::mint(now(), [255 - number; 10])),
        updated_at: Time::from_ms(-1),
        died_at: Time::from_ms(0),
        retention_at: Time::from_ms(1),
        ..letter.clone()
    };
    row.exported.ever_sent = true;
    row.exported.lives = (7..10)
        .map(|number| {
            let mut headers = vec![(said("name"), said("value").into()), (said("name"), "".into())];
            headers.extend(every_header());
            let (mut life, envelope) = life(number, word.as_bytes().to_vec(), headers, word);
            (life.max_retries, life.reported) = (Some(0), some("reported"));
            life.redrive = Some(RedriveId::mint(now(), [7; 10]));
            (life, envelope)
        })
        .collect();
    row.exported.attempts = vec![attempt(1, word), attempt(u32::MAX, "")];
    let decision = DecisionRecord {
        at: now(),
        action: said("action"),
        actor: said("actor"),
        role: said("role"),
        reason: some("why"),
        operation: Some(OperationId::mint(now(), [8; 10])),
        imported: true,
    };
    let plain = DecisionRecord { reason: None, operation: None, imported: false, ..decision.clone() };
    row.exported.decisions = vec![decision, plain];
    row
}

fn attempt(ordinal: u32, word: &str) -> LifeAttempt {
    let some = |place: &str| (!word.is_empty()).then(|| format!("{place}{word}"));
    let error = LetterError {
        error_type: format!("type{word}"),
        code: some("code"),
        message: format!("message{word}"),
        backtrace: some("backtrace"),
        context: some("context"),
        extra: some("extra"),
    };
    let told = (!word.is_empty()).then_some(u64::MAX);
    let at = told.map(|_| Time::from_ms(-5));
    LifeAttempt { life: 7, ordinal, attempt: Attempt { at, duration_ms: told, error, extra: some("more") } }
}

fn made(rows: &[Row]) -> Made {
    let mut writer = Writer::new(FileId::mint(now(), [1; 10])).unwrap();
    for chunk in rows.chunks(3) {
        writer.add(chunk.to_vec()).unwrap();
    }
    writer.finish().unwrap()
}

#[track_caller]
fn check(rows: &[Row]) {
    let made = made(rows);
    let mut found = Vec::new();
    let read = parse::each(made.content.clone(), |number, row| {
        assert_eq!(number, found.len() as u64);
        found.push(row);
        Ok(())
    });
    assert_eq!(read, Ok(rows.len() as u64));
    for (found, row) in found.iter().zip(rows) {
        assert_eq!(found, row);
        assert_eq!(found.digest(), row.digest());
    }
    for (number, row) in rows.iter().enumerate() {
        let picked = parse::some(made.content.clone(), &[number as u64]).unwrap();
        assert_eq!(picked, std::slice::from_ref(row));
        assert_eq!(made.rows[number].shelved, row.shelved(number as u64));
    }
}

#[test]
fn what_goes_in_comes_out() {
    let mut rows: Vec<Row> = (0..4).map(bare).collect();
    rows.extend((4..).zip(HOSTILE).map(|(number, word)| full(number, word)));
    rows.extend((20..23).map(bare));
    check(&rows);
}

#[test]
fn originals_come_out_byte_by_byte() {
    let bodies = [
        Vec::new(),
        vec![0],
        vec![0xff, 0xfe, 0x00, 0xc3, 0x28],
        (0..=255).collect(),
        (0..1_048_576_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect(),
        b"PAR1".repeat(1_000),
    ];
    let rows: Vec<Row> = (0..)
        .zip(bodies)
        .map(|(number, body)| {
            let mut row = bare(number);
            row.exported.lives = vec![life(1, body, Vec::new(), "octet-stream")];
            row
        })
        .collect();
    check(&rows);
}

#[test]
fn origins_and_missing_bodies_come_out() {
    let mut row = bare(1);
    row.exported.lives = vec![life_of(1, full_message(b"{}")), life_of(2, without_body())];
    check(&[bare(0), row]);
}

/// Files that releases before this one wrote, by way of Arrow; those of version 1 have no origins.
#[test]
fn files_of_earlier_releases_are_read() {
    let rows = [bare(1), full(2, "word")];
    let files: [&'static [u8]; 2] =
        [include_bytes!("fixtures/version-1.parquet"), include_bytes!("fixtures/version-2.parquet")];
    for file in files {
        assert_eq!(parse::some(Bytes::from_static(file), &[0, 1]).unwrap(), rows);
    }
}

#[test]
fn a_letter_may_have_many_lives() {
    let mut row = bare(1);
    row.exported.letter.life = 500;
    row.exported.lives = (1..=500)
        .map(|number| life(number, vec![number as u8; number as usize * 10], Vec::new(), "json"))
        .collect();
    row.exported.attempts = (1..=2_000).map(|ordinal| attempt(ordinal, "x")).collect();
    check(&[bare(0), row, bare(2)]);
}

#[test]
fn rows_are_found_over_groups_of_rows() {
    // Bytes that cannot be packed, so that groups are full.
    let noise = |seed: u32| -> Vec<u8> {
        let mut state = seed.wrapping_mul(2_654_435_769) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        };
        (0..1_500_000).map(|_| next()).collect()
    };
    let rows: Vec<Row> = (0..20)
        .map(|number| {
            let mut row = bare(number);
            row.exported.lives = vec![life(1, noise(u32::from(number)), Vec::new(), "x")];
            row
        })
        .collect();
    let made = made(&rows);
    let reader = SerializedFileReader::new(made.content.clone()).unwrap();
    assert!(reader.num_row_groups() > 2);
    let picked = parse::some(made.content, &[0, 7, 8, 19]).unwrap();
    assert_eq!(picked, [0, 7, 8, 19].map(|number: usize| rows[number].clone()));
}

#[test]
fn what_is_not_there_or_not_ours_is_told() {
    let content = made(&[bare(1)]).content;
    let told = parse::some(content.clone(), &[1]).unwrap_err();
    assert_eq!(told, "row 1 is asked for, and there are 1");
    for bytes in [Bytes::new(), Bytes::from_static(b"PAR1PAR1"), content.slice(..content.len() - 1)] {
        let told = parse::each(bytes, |_, _| Ok(())).unwrap_err();
        assert!(told.starts_with("it cannot be read"), "{told}");
    }
}

#[test]
fn the_columns_are_as_documented() {
    let schema = super::write::schema().unwrap();
    let page = include_str!("../../../../docs/reference/archive.md");
    let (_, page) = page.split_once("## Columns").unwrap();
    let mut names: Vec<String> = Vec::new();
    for field in schema.get_fields() {
        names.push(field.name().to_owned());
        if field.is_group() {
            let element: &Type = &field.get_fields()[0].get_fields()[0];
            let inner = element.get_fields().iter();
            names.extend(inner.map(|inner| format!("{}[].{}", field.name(), inner.name())));
        }
    }
    let documented: Vec<String> = page
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect();
    assert_eq!(documented, names);
}
