//! Checking files of the archive: each is read whole and compared with what is on record of it.

use lazaret_store::archive::{ArchiveFile, FileState};

use super::ArchiveError;
use super::parse;
use super::read::{blocking, damaged, fetch};
use crate::app::App;

/// Reads a file and says what is wrong with it: missing, changed, not readable, or without a letter that is on record. The
/// store notes it. An error means that nothing is known: the store or the storage could not be reached.
pub async fn verify_file(app: &App, file: &ArchiveFile) -> Result<Option<String>, ArchiveError> {
    if file.state == FileState::Writing {
        // It is not a file yet, and whoever leads ends it or takes it back.
        return Ok(None);
    }
    let problem = match look(app, file).await {
        Ok(()) => None,
        Err(error @ (ArchiveError::Missing { .. } | ArchiveError::Damaged { .. })) => Some(error.to_string()),
        Err(error) => return Err(error),
    };
    if let Some(problem) = &problem
        && file.problem.as_ref() != Some(problem)
    {
        tracing::error!(file.id = %file.id, "{problem}");
    }
    app.store.file_checked(file.id, problem.clone(), app.clock.now()).await?;
    Ok(problem)
}

async fn look(app: &App, file: &ArchiveFile) -> Result<(), ArchiveError> {
    // Asked first: rows only leave the record meanwhile, when their letters come back, and those are in the file too.
    let on_record = app.store.file_rows(file.id).await?;
    let content = fetch(app, file).await?;
    let letters = file.letters;
    let checked = blocking(move || {
        let mut expected = on_record.into_iter().peekable();
        let rows = parse::each(content, |number, row| {
            while let Some((letter, at)) = expected.next_if(|(_, at)| at.row <= number) {
                let lives = (at.first_life, at.last_life);
                if at.row != number || row.exported.letter.id != letter || row.lives() != lives {
                    return Err(format!("row {number} does not hold lives {lives:?} of letter {letter}"));
                }
            }
            Ok(())
        })?;
        match expected.next() {
            Some((letter, _)) => Err(format!("letter {letter} is not in it")),
            None if rows != letters => Err(format!("it holds {rows} letters instead of {letters}")),
            None => Ok(()),
        }
    });
    checked.await?.map_err(|problem| damaged(app, file, problem))
}
