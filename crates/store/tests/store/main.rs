//! What every store has to do, as one list of cases, and what only one of them can be asked.

#![allow(clippy::panic, clippy::unwrap_used, reason = "clippy does not take helpers of tests for tests")]

mod bodies;
mod books;
mod capture;
mod cases;
mod claims;
mod deaths;
mod decisions;
mod filters;
mod incidents;
mod job_letters;
mod job_lists;
mod job_model;
mod job_verbs;
mod jobs;
mod lines;
mod model;
mod operations;
mod paging;
mod postgres_faults;
mod postgres_index;
mod postgres_jobs;
mod postgres_many;
mod postgres_moves;
mod postgres_opening;
mod postgres_trash;
mod records;
mod regroup;
mod replays;
mod rig;
mod search;
mod sqlite_faults;
mod sqlite_groups;
mod sqlite_index;
mod sqlite_jobs;
mod sqlite_opening;
mod sqlite_schema;
mod sqlite_story;
mod sqlite_trash;
mod transfer;
mod trash;
mod workers;
