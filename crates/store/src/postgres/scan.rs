//! Looking into letters one by one, for filters that ask for what no column holds. Bounded in time: whoever asks goes
//! on from where it stopped.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::{Stream, TryStreamExt};
use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::letter::Letter;
use lazaret_core::limits;
use lazaret_core::time::Time;

use tokio_postgres::Row;

use super::bodies;
use super::cell::{Cells, Uid};
use super::conn::Conn;
use super::letters::{self, Asked, key, page_rows};
use crate::StoreError;
use crate::page::{LetterPage, PageQuery, Total};
use crate::search::Scan;

/// A walk over letters that looks into each.
struct Walk<'a> {
    conn: &'a Conn,
    filter: &'a Filter,
    now: Time,
    sort: Sort,
    /// The only letters that can hold what is asked for, if the body index knows.
    only: Option<Vec<LetterId>>,
    /// The last letter that was looked at.
    last: Option<LastKey>,
    until: Instant,
    letters: u64,
}

/// What became of one stretch of a walk.
enum Stretch {
    /// There are more letters.
    More,
    /// All were looked at.
    End,
    /// Enough was found, or the time was over.
    Stopped,
}

const CONTENTS: &str = "
select w.n, v.content_type, v.headers, v.body
  from unnest($1::uuid[], $2::integer[]) with ordinality as w (letter, life, n)
  join lives v on v.letter = w.letter and v.life = w.life
 order by w.n";

/// The contents of lives as they come in, in the order asked for; each row begins with its place among them, from 1.
pub(super) async fn contents(
    conn: &Conn,
    lives: &[(LetterId, u32)],
) -> Result<impl Stream<Item = Result<Row, StoreError>> + use<>, StoreError> {
    let (letters, lives): (Vec<Uid>, Vec<i32>) =
        lives.iter().map(|(letter, life)| (Uid(*letter.bytes()), *life as i32)).unzip();
    conn.stream(CONTENTS, &[&letters, &lives]).await
}

impl<'a> Walk<'a> {
    async fn new(
        conn: &'a Conn,
        filter: &'a Filter,
        now: Time,
        limit: Duration,
    ) -> Result<Walk<'a>, StoreError> {
        let until = Instant::now() + limit;
        let only = bodies::candidates(conn, filter).await?;
        Ok(Walk { conn, filter, now, sort: Sort::DiedAtDesc, only, last: None, until, letters: 0 })
    }

    /// Whether the time is over; at least one letter is looked at, so that every page gets somewhere.
    fn is_over(&self) -> bool {
        self.letters > 0 && Instant::now() > self.until
    }

    /// Looks into the next letters, and hands over those that hold what is asked for until `take` wants no more.
    async fn go_on(&mut self, mut take: impl FnMut(&Letter) -> Wants) -> Result<Stretch, StoreError> {
        const STRETCH: i64 = limits::SCAN_LETTERS_PER_READ;
        // One more tells whether there is anything behind them.
        let asked = Asked {
            filter: self.filter,
            now: self.now,
            sort: self.sort,
            after: self.last,
            rows: STRETCH + 1,
            only: self.only.as_deref(),
        };
        let mut next = page_rows(self.conn, &asked).await?;
        let more = next.len() > STRETCH as usize;
        next.truncate(STRETCH as usize);
        let lives: Vec<(LetterId, u32)> = next.iter().map(|letter| (letter.id, letter.life)).collect();
        // One after the other as they come in: all of them at once may be a gigabyte.
        let mut contents = pin!(contents(self.conn, &lives).await?);
        for (letter, n) in next.iter().zip(1_i64..) {
            if self.is_over() {
                return Ok(Stretch::Stopped);
            }
            let missing =
                || StoreError::Corrupt(format!("life {} of letter {} is missing", letter.life, letter.id));
            let row = contents.try_next().await?.ok_or_else(missing)?;
            if row.cell::<i64>(0)? != n {
                return Err(missing());
            }
            self.letters += 1;
            let holds = self.filter.matches_content(&letters::envelope(&row, 1)?);
            self.last = Some(key(self.sort, letter));
            if holds && take(letter) == Wants::NoMore {
                let is_last = n == next.len() as i64 && !more;
                return Ok(if is_last { Stretch::End } else { Stretch::Stopped });
            }
        }
        Ok(if more { Stretch::More } else { Stretch::End })
    }
}

/// Whether there is room for another letter.
#[derive(PartialEq, Eq)]
enum Wants {
    More,
    NoMore,
}

/// A page of letters whose content has to be looked at: it ends when it is full or when the time is over.
pub(super) async fn page(conn: &Conn, query: &PageQuery) -> Result<LetterPage, StoreError> {
    let mut walk = Walk::new(conn, &query.filter, query.now, query.scan_max).await?;
    (walk.sort, walk.last) = (query.sort, query.after);
    let mut letters: Vec<Letter> = Vec::new();
    loop {
        let stretch = walk
            .go_on(|letter| {
                letters.push(letter.clone());
                if letters.len() < query.limit { Wants::More } else { Wants::NoMore }
            })
            .await?;
        let next = match stretch {
            Stretch::More => continue,
            Stretch::End => None,
            Stretch::Stopped => walk.last,
        };
        let cut_short = next.is_some() && letters.len() < query.limit;
        let scan = Some(Scan { letters: walk.letters, cut_short });
        return Ok(LetterPage { letters, total: Total::Exact(0), next, scan });
    }
}

/// Counts by looking into letters, as far as the time allows.
pub(super) async fn total(
    conn: &Conn,
    filter: &Filter,
    now: Time,
    limit: Duration,
    most: u64,
) -> Result<Total, StoreError> {
    let mut walk = Walk::new(conn, filter, now, limit).await?;
    let mut count = 0;
    loop {
        let stretch = walk
            .go_on(|_| {
                count += 1;
                if count < most { Wants::More } else { Wants::NoMore }
            })
            .await?;
        match stretch {
            Stretch::More if walk.letters < limits::SCAN_LETTERS_MAX as u64 => {}
            Stretch::End => return Ok(Total::Exact(count)),
            Stretch::More | Stretch::Stopped => return Ok(Total::AtLeast(count)),
        }
    }
}
