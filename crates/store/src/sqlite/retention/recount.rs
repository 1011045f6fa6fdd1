//! Proof that every letter is in one place: what its key, the index, the trash and the files say has to be the same.

use lazaret_core::lifecycle::Place;
use rusqlite::Connection;

use crate::StoreError;

/// Each counts what is wrong in one way; `?1` is the name of the archive, `?2` that of the live letters.
const CHECKS: [&str; 8] = [
    // What waits is in the trash, whole, and not in a file.
    "select count(*)
       from archive a
      where a.waiting = 1
        and (not exists (select 1
                           from trash t
                           join trash_lives v on v.letter = t.letter and v.life = t.life
                          where t.id = a.id
                            and t.life = a.life)
             or exists (select 1 from archive_rows r where r.letter = a.id and r.last_life >= a.life))",
    // What does not wait is in a file and not in the trash.
    "select count(*)
       from archive a
      where a.waiting = 0
        and (exists (select 1 from trash t where t.id = a.id)
             or not exists (select 1 from archive_rows r where r.letter = a.id and r.last_life = a.life))",
    // What the index holds is what the keys say.
    "select count(*)
       from archive a
      where not exists (select 1
                          from letter_keys k
                         where k.id = a.id
                           and k.key = a.key
                           and k.place = a.place
                           and k.removed_status = a.status)",
    "select count(*)
       from letter_keys k
      where k.place = ?1
        and not exists (select 1 from archive a where a.id = k.id)",
    // Live letters are where their keys say, and nowhere else.
    "select count(*)
       from dead_letter_queue l
      where not exists (select 1 from letter_keys k where k.id = l.id and k.place = ?2)
         or exists (select 1 from archive a where a.id = l.id)",
    "select count(*)
       from trash t
      where not exists (select 1 from archive a where a.id = t.id and a.waiting = 1)",
    // Files hold lives of letters that are there.
    "select count(*)
       from archive_rows r
      where not exists (select 1 from dead_letter_queue l where l.id = r.letter)
        and not exists (select 1 from archive a where a.id = r.letter)",
    // Each life of a letter is in one place.
    "select count(*)
       from (select r.letter as id, sum(r.last_life - r.first_life + 1) as away
               from archive_rows r
              group by r.letter) w
       left join dead_letter_queue l on l.id = w.id
       left join archive a on a.id = w.id
       left join trash t on t.id = w.id
      where w.away
            + (select count(*) from lives v where v.letter = l.letter)
            + (select count(*) from trash_lives v where v.letter = t.letter)
            <> coalesce(l.life, a.life)",
];

/// How many letters are not in one place.
pub(in crate::sqlite) fn misplaced(conn: &Connection) -> Result<u64, StoreError> {
    let mut wrong = 0_i64;
    for check in CHECKS {
        let sql = format!("select ({check}), ?1, ?2");
        let names = (Place::Archived.name(), Place::Live.name());
        wrong += conn.query_row(&sql, names, |row| row.get::<_, i64>(0))?;
    }
    Ok(wrong as u64)
}
