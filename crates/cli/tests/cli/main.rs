//! The binary as a person uses it: the real commands against a real server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod access;
mod archive;
mod archive_kill;
mod away;
mod configuration;
mod decisions;
mod demo;
mod doors;
mod examples;
mod failures;
mod holds;
mod incidents;
mod jetstream;
mod jobs;
mod letters;
mod load;
mod man;
mod many;
mod race;
mod receiver;
mod redaction;
mod redrive;
mod redrive_kill;
mod reload;
mod retention;
mod rules;
mod rules_040;
mod running;
mod scripted;
mod secret;
mod shared;
mod store_copy;
mod tail;
mod torture;
mod transfer;
mod web;
mod web_access;
mod web_archive;
mod web_journey;
mod web_keys;
mod web_letters;
mod web_live;
mod web_overview;
mod web_pages;
