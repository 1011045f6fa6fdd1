//! A pooler between the source and the application's database.

use lazaret_sources::SourceError;
use lazaret_store::testing::TestDatabase;
use lazaret_store::testing::pooler::Pooler;

use crate::app::App;

/// What reading the table through a pooler in this mode comes to.
async fn bound(mode: &str) -> Result<(), SourceError> {
    let settings = format!("pool_mode = {mode}");
    let start = move || {
        let database = TestDatabase::bare();
        (Pooler::start(&database, &settings), database)
    };
    let (pooler, database) = tokio::task::spawn_blocking(start).await.unwrap();
    let app = App::at(&database.url());
    app.make_table().await;
    let bound = App::at(&pooler.url(&database)).outbox().bind().await;
    drop(app);
    tokio::task::spawn_blocking(move || drop((pooler, database))).await.unwrap();
    bound
}

#[tokio::test]
async fn a_pooler_in_transaction_mode_is_refused_with_what_to_do() {
    match bound("transaction").await {
        Err(SourceError::Unfit(why)) => assert!(why.contains("set pool_mode = session"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_pooler_in_session_mode_is_as_good_as_none() {
    bound("session").await.unwrap();
}
