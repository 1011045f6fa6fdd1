//! A real Chromium that tests use as a person uses theirs: by what is written on buttons, links and fields.
//!
//! It speaks WebDriver to a `chromedriver` of its own, over plain HTTP on loopback. What cannot go on panics, because it has
//! no other caller than tests and the maker of pictures. It never asks anything beyond this machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod accessibility;
pub mod browser;
mod driver;
pub mod locator;
pub mod look;
mod seats;
