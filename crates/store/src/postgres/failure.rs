//! What PostgreSQL says when something fails, without the values of rows and without credentials.

use std::time::Duration;

use lazaret_postgres::NoSession;
use tokio_postgres::error::SqlState;

use crate::StoreError;
use crate::error::DAMAGED_HINT;

/// A failure as PostgreSQL or its driver told it. The detail is left out: it quotes values of rows.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}{}", .code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
pub(super) struct Failed {
    pub kind: Kind,
    pub code: Option<String>,
    message: String,
}

/// What can be done about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The connection is gone; whatever was not committed is undone.
    Lost,
    /// The connection is open and answers nothing: it is given up like one that is gone.
    Silent,
    /// Two transactions stood in each other's way: the same again will work.
    Again,
    /// A value that PostgreSQL does not take.
    Value,
    /// There is no partition for a letter's month.
    NoMonth,
    /// The statement took too long and was stopped.
    Late,
    /// Whoever answers could not show that it is the server that was meant.
    Untrusted,
    Other,
}

impl Kind {
    /// Returns true if the connection cannot be used any more.
    pub fn is_gone(self) -> bool {
        matches!(self, Kind::Lost | Kind::Silent)
    }
}

impl From<lazaret_postgres::Unfit> for StoreError {
    fn from(unfit: lazaret_postgres::Unfit) -> StoreError {
        StoreError::Unfit(unfit.0)
    }
}

impl From<NoSession> for StoreError {
    fn from(error: NoSession) -> StoreError {
        match error {
            NoSession::Unfit(unfit) => unfit.into(),
            NoSession::Failed(error) => not_connected(error),
            NoSession::Late => StoreError::Unavailable {
                doing: "connecting to PostgreSQL",
                source: Some(NoSession::Late.to_string().into()),
            },
        }
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> StoreError {
        let code = error.code().cloned();
        match code.as_ref() {
            Some(&SqlState::DISK_FULL) => return StoreError::Full,
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => return StoreError::ReadOnly,
            Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => {
                return StoreError::Corrupt(message(&error));
            }
            _ => {}
        }
        let failed = Failed {
            kind: kind(&error, code.as_ref()),
            code: code.map(|code| code.code().to_owned()),
            message: message(&error),
        };
        StoreError::Unavailable { doing: "running a statement", source: Some(Box::new(failed)) }
    }
}

fn kind(error: &tokio_postgres::Error, code: Option<&SqlState>) -> Kind {
    let Some(code) = code else {
        if is_certificate(error) {
            return Kind::Untrusted;
        }
        // What the driver says of itself: either the connection is gone, or we bound something wrong.
        return if error.is_closed() || is_io(error) { Kind::Lost } else { Kind::Other };
    };
    match code {
        &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE => Kind::Again,
        // Another statement of the transaction failed that was sent before this one, and it is not known here why: if it
        // was for good, the same again says so.
        &SqlState::IN_FAILED_SQL_TRANSACTION => Kind::Again,
        &SqlState::ADMIN_SHUTDOWN
        | &SqlState::CRASH_SHUTDOWN
        | &SqlState::CANNOT_CONNECT_NOW
        | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Kind::Lost,
        &SqlState::QUERY_CANCELED => Kind::Late,
        &SqlState::CHECK_VIOLATION if message(error).starts_with("no partition of relation") => Kind::NoMonth,
        code if code.code().starts_with("22") || code == &SqlState::PROGRAM_LIMIT_EXCEEDED => Kind::Value,
        code if code.code().starts_with("08") => Kind::Lost,
        _ => Kind::Other,
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>())
}

fn is_certificate(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|cause| cause.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>())
        .is_some_and(|error| matches!(error, rustls::Error::InvalidCertificate(_)))
}

fn message(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(told) => told.message().to_owned(),
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

/// What can be done about a failure of the store, as far as PostgreSQL told it.
pub(super) fn kind_of(error: &StoreError) -> Kind {
    match error {
        StoreError::Unavailable { source: Some(source), .. } => {
            source.downcast_ref::<Failed>().map_or(Kind::Other, |failed| failed.kind)
        }
        // A primary that became a standby: a new connection finds the one that took over.
        StoreError::ReadOnly => Kind::Lost,
        _ => Kind::Other,
    }
}

/// The failure of a search: one that was stopped asks for a narrower one. A write that was stopped, by its own limit or
/// by that of a lock, does not: the store is not available to it now, and it may come again.
pub(super) fn of_search(error: StoreError) -> StoreError {
    if kind_of(&error) == Kind::Late { StoreError::TooSlow } else { error }
}

/// What a person can do about a store that could not be opened.
pub(super) fn hint(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::TooNew { .. } => Some("run the newer lazaret, or name another database"),
        StoreError::Damaged { .. } => Some(DAMAGED_HINT),
        StoreError::Foreign(_) => Some("name another database: its schema `lazaret` is somebody else's"),
        StoreError::WrongMode(_) => Some("name another database; test mode has its own stores"),
        StoreError::ReadOnly => {
            Some("this is a standby: name the primary, or all hosts with ?target_session_attrs=read-write")
        }
        StoreError::Full => Some("make room on the database's disk"),
        StoreError::Unavailable { source: Some(source), .. } => match source.downcast_ref::<Failed>() {
            Some(Failed { kind: Kind::Untrusted, .. }) => Some(
                "name the server as its certificate does, and with sslrootcert the authority that vouches for it",
            ),
            Some(Failed { code: Some(code), .. }) => hint_about(code),
            Some(Failed { code: None, .. }) | None => {
                Some("is PostgreSQL there, and are host, port and sslmode in the store's address right?")
            }
        },
        StoreError::Unavailable { source: None, .. }
        | StoreError::Busy
        | StoreError::TooSlow
        | StoreError::Held { .. }
        | StoreError::Unfit(_)
        | StoreError::Path { .. }
        | StoreError::Corrupt(_) => None,
    }
}

fn hint_about(code: &str) -> Option<&'static str> {
    match code {
        "28P01" | "28000" => {
            Some("look at user and password in the store's address, and at pg_hba.conf of the server")
        }
        "3D000" => Some("make the database first, for example with createdb"),
        "42501" => Some("let the user make the schema: grant create on database … to …"),
        "53300" => Some("raise max_connections of the server, or run fewer instances"),
        "57P03" => Some("the server is starting or stopping: try again"),
        _ => None,
    }
}

/// No answer came within the client's limit.
pub(super) fn silent(waited: Duration) -> StoreError {
    let message = format!("no answer within {:.1} s", waited.as_secs_f64());
    let failed = Failed { kind: Kind::Silent, code: None, message };
    StoreError::Unavailable { doing: "waiting for PostgreSQL to answer", source: Some(Box::new(failed)) }
}

/// A failure to connect.
pub(super) fn not_connected(error: tokio_postgres::Error) -> StoreError {
    match StoreError::from(error) {
        StoreError::Unavailable { source, .. } => {
            StoreError::Unavailable { doing: "connecting to PostgreSQL", source }
        }
        other => other,
    }
}

/// Failures to get a connection out of a pool.
pub(super) fn no_connection(error: deadpool_postgres::PoolError) -> StoreError {
    use deadpool_postgres::PoolError;
    match error {
        PoolError::Backend(error) => not_connected(error),
        PoolError::Closed => StoreError::Unavailable { doing: "shutting down", source: None },
        error @ (PoolError::Timeout(_) | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_)) => {
            StoreError::Unavailable {
                doing: "connecting to PostgreSQL",
                source: Some(error.to_string().into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::NoTls;

    use super::*;
    use crate::testing::TestDatabase;

    #[tokio::test]
    async fn a_statement_behind_one_that_failed_is_tried_again_with_it() {
        let database = TestDatabase::bare();
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("begin").await.unwrap();
        // Sent one behind the other, as a write does that waits for neither.
        let (first, second) =
            tokio::join!(client.batch_execute("select 1 / 0"), client.batch_execute("select 1"));
        assert_eq!(kind_of(&first.unwrap_err().into()), Kind::Value);
        assert_eq!(kind_of(&second.unwrap_err().into()), Kind::Again);
    }
}
