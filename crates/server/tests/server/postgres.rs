//! The same tests once more, on PostgreSQL: each file is a module here too, with another `backing` beside it.

#![allow(clippy::duplicate_mod, reason = "a test is written once and runs on both stores")]

#[path = "archive.rs"]
mod archive;
#[path = "archive_api.rs"]
mod archive_api;
#[path = "archive_files_api.rs"]
mod archive_files_api;
#[path = "archive_rig.rs"]
mod archive_rig;
#[path = "archive_storages.rs"]
mod archive_storages;
#[path = "decisions.rs"]
mod decisions;
#[path = "holds_api.rs"]
mod holds_api;
#[path = "incident_steps.rs"]
mod incident_steps;
#[path = "journey.rs"]
mod journey;
#[path = "ojs.rs"]
mod ojs;
#[path = "ojs_admin.rs"]
mod ojs_admin;
#[path = "ojs_clients.rs"]
mod ojs_clients;
#[path = "ojs_dead_letter.rs"]
mod ojs_dead_letter;
#[path = "ojs_ends.rs"]
mod ojs_ends;
#[path = "ojs_governance.rs"]
mod ojs_governance;
#[path = "ojs_jobs.rs"]
mod ojs_jobs;
#[path = "ojs_origin.rs"]
mod ojs_origin;
#[path = "ojs_removal.rs"]
mod ojs_removal;
#[path = "ojs_retention.rs"]
mod ojs_retention;
#[path = "ojs_routes.rs"]
mod ojs_routes;
#[path = "ojs_states.rs"]
mod ojs_states;
#[path = "ojs_workers.rs"]
mod ojs_workers;
#[path = "outbox.rs"]
mod outbox;
#[path = "python.rs"]
mod python;
#[path = "receiver.rs"]
mod receiver;
#[path = "redaction.rs"]
mod redaction;
#[path = "redaction_masks.rs"]
mod redaction_masks;
#[path = "redrive.rs"]
mod redrive;
#[path = "redrive_api.rs"]
mod redrive_api;
#[path = "redrive_crash.rs"]
mod redrive_crash;
#[path = "redrive_http.rs"]
mod redrive_http;
#[path = "redrive_jobs.rs"]
mod redrive_jobs;
#[path = "redrive_model.rs"]
mod redrive_model;
#[path = "redrive_outcomes.rs"]
mod redrive_outcomes;
#[path = "redrive_rig.rs"]
mod redrive_rig;
#[path = "redrive_single.rs"]
mod redrive_single;
#[path = "redriving.rs"]
mod redriving;
#[path = "replay.rs"]
mod replay;
#[path = "retention.rs"]
mod retention;
#[path = "retention_cases.rs"]
mod retention_cases;
#[path = "retention_years.rs"]
mod retention_years;
#[path = "rig.rs"]
mod rig;
#[path = "storages.rs"]
mod storages;
#[path = "web.rs"]
mod web;
#[path = "web_settings.rs"]
mod web_settings;
#[path = "web_sign_in.rs"]
mod web_sign_in;

mod backing {
    //! What the rig's store is kept in: a database.

    use lazaret_store::postgres::PostgresStore;
    use lazaret_store::sqlite::Mode;
    use lazaret_store::testing::TestDatabase;

    pub type Kept = PostgresStore;

    pub struct Backing(TestDatabase);

    impl Backing {
        pub fn new(mode: Mode) -> Backing {
            Backing(TestDatabase::of(mode))
        }

        pub async fn open(&self, mode: Mode) -> Kept {
            PostgresStore::open(&self.0.url(), mode).await.unwrap()
        }
    }
}
