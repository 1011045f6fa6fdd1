//! Cases: the text search finds letters by how the words of their type, error type and message begin.

use lazaret_core::attempt::LetterError;
use lazaret_core::letter::{Captured, Outcome};

use crate::rig::{Rig, at, captured, dying, error};

fn saying(event: &str, message: &str) -> Captured {
    Captured { error: error(message), ..captured(event) }
}

pub async fn words_find_letters_by_how_they_begin(rig: &mut Rig) {
    let plain = rig.create(saying("e1", "Connection to 10.0.0.7 REFUSED (os error 111)"), at(0)).await;
    let umlaut = rig.create(saying("e2", "Zahlung.zurück-gebucht İstanbul"), at(1)).await;
    let asian = rig.create(saying("e3", "時間切れ: 30秒"), at(2)).await;
    let quoted = rig.create(saying("e4", "near \"AND\" or 'NOT' * NEAR( {a b} : ^x"), at(3)).await;
    let silent = LetterError { error_type: String::new(), ..error("\u{0}?!") };
    let silent =
        rig.create(Captured { letter_type: "!".into(), error: silent, ..captured("e5") }, at(4)).await;
    let long = "ä".repeat(100);
    let long_word = rig.create(saying("e6", &long), at(5)).await;
    for (text, expected) in [
        ("refused", vec![plain]),
        ("ref", vec![plain]),
        ("REF os 111", vec![plain]),
        ("efused", vec![]),
        ("refused reset", vec![]),
        ("10.0.0.7", vec![plain]),
        ("zurück", vec![umlaut]),
        ("ZURÜ", vec![umlaut]),
        ("zuruck", vec![]),
        ("istanbul", vec![]),
        ("i̇stanbul", vec![umlaut]),
        ("stanbul", vec![umlaut]),
        ("時間", vec![asian]),
        ("間", vec![]),
        ("30", vec![asian]),
        ("and not near", vec![quoted]),
        ("order created connectionerr", vec![long_word, quoted, asian, umlaut, plain]),
        (&long, vec![long_word]),
    ] {
        assert_eq!(rig.find(&format!("text:\"{text}\"")).await, expected, "{text}");
    }
    assert_eq!(rig.find("type:!").await, [silent]);
}

pub async fn a_new_life_is_found_by_its_own_words(rig: &mut Rig) {
    let id = rig.create(Captured { error: error("connection refused"), ..dying("e1", at(-10)) }, at(0)).await;
    let later = Captured { error: error("disk on fire"), ..dying("e1", at(5)) };
    assert_eq!(rig.capture(later, at(9)).await.outcome, Outcome::Recurred);
    assert_eq!(rig.find("fire").await, [id]);
    assert_eq!(rig.find("refused").await, []);
}

pub async fn common_words_are_found_in_order(rig: &mut Rig) {
    // More letters hold the word than are worth sorting: the walk goes another way and has to end up the same.
    let ids = rig.create_many(2_100, at(0)).await;
    let newest_first: Vec<_> = ids.into_iter().rev().collect();
    assert_eq!(rig.find("connection").await, newest_first);
    assert_eq!(rig.find("connection event:e7*").await.len(), 1 + 10 + 100);
    assert_eq!(rig.find("connection event:e7").await.len(), 1);
}
