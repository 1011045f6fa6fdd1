//! Who holds a letter, and what of it is in the archive.

use lazaret_core::time::Time;

use crate::answers::archive::FileRow;
use crate::answers::hold::HoldRecord;
use crate::output::page::Page;
use crate::output::{escape, moment};

pub fn holds(page: &mut Page<'_>, holds: &[HoldRecord], now: Time) {
    if holds.is_empty() {
        return;
    }
    page.heading(&format!("holds ({})", holds.len()));
    for hold in holds {
        let kind = match (&hold.filter, hold.kind.as_str()) {
            (Some(filter), "standing") => format!(", standing: {filter}"),
            (Some(filter), _) => format!(", by filter: {filter}"),
            (None, _) => String::new(),
        };
        let until =
            hold.until.as_ref().map(|at| format!(", until {}", moment::both(at, now))).unwrap_or_default();
        let when = moment::both(&hold.at, now);
        page.block(&escape::line(&format!("{} by {}, {when}{until}{kind}", hold.id, hold.by)));
        page.block(&format!("   {}", escape::line(&hold.reason)));
    }
}

/// Lives that stand in files, and the command that fetches them.
pub fn older(page: &mut Page<'_>, letter: &str, rows: &[FileRow]) {
    if rows.is_empty() {
        return;
    }
    page.heading("archived lives");
    for row in rows {
        let lives = match row.first_life == row.last_life {
            true => format!("life {}", row.first_life),
            false => format!("lives {} to {}", row.first_life, row.last_life),
        };
        page.block(&escape::line(&format!("{lives}: file {}, row {}", row.file_id, row.row)));
    }
    page.block(&format!("lazaret show {} --older", escape::line(letter)));
}
