//! What an application's PostgreSQL says when something fails, without the values of rows and without credentials.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::SourceError;

/// A failure while doing something. The detail is left out: it quotes values of rows.
pub(super) fn of(doing: &'static str, error: &tokio_postgres::Error) -> SourceError {
    let why = message(error);
    let Some(code) = error.code() else { return SourceError::Unavailable { doing, why } };
    let shown = format!("{why} ({})", code.code());
    match *code {
        // The table is not what it was when its statements were made.
        SqlState::UNDEFINED_TABLE
        | SqlState::UNDEFINED_COLUMN
        | SqlState::UNDEFINED_FUNCTION
        | SqlState::UNDEFINED_OBJECT
        | SqlState::DATATYPE_MISMATCH
        | SqlState::INVALID_SCHEMA_NAME => SourceError::Unfit(format!("{doing}: {shown}")),
        ref code if is_passing(code) => SourceError::Unavailable { doing, why: shown },
        ref code => {
            SourceError::Refused { code: Some(code.code().to_owned()), why: format!("{doing}: {shown}") }
        }
    }
}

/// No connection could be had.
pub(super) fn no_connection(error: PoolError) -> SourceError {
    const DOING: &str = "connecting to PostgreSQL";
    match error {
        PoolError::Backend(error) => match of(DOING, &error) {
            // Whoever repairs a password does it while we wait.
            SourceError::Refused { why, .. } | SourceError::Unfit(why) => {
                SourceError::Unavailable { doing: DOING, why }
            }
            passing => passing,
        },
        PoolError::Timeout(_) => {
            SourceError::Unavailable { doing: DOING, why: "it did not answer in time".to_owned() }
        }
        other => SourceError::Unavailable { doing: DOING, why: other.to_string() },
    }
}

/// Whether the same again may work: connections, locks, time, room, a standby that is promoted.
fn is_passing(code: &SqlState) -> bool {
    let passing = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::DATABASE_DROPPED,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    // A plan that was made before the table changed is made again.
    passing.contains(code)
        || code.code().starts_with("08")
        || code.code().starts_with("53")
        || code == &SqlState::FEATURE_NOT_SUPPORTED
}

pub(super) fn message(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(told) => told.message().to_owned(),
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}
