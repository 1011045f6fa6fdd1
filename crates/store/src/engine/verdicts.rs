//! What a move of a letter writes beside the state.

use lazaret_core::letter::Strategy;

#[derive(Clone, Copy)]
pub(crate) enum Mark<'a> {
    /// The letter ends: how, by whom, why.
    Ends { strategy: Strategy, by: &'a str, notes: Option<&'a str> },
    /// A letter ends whose copy was out: how, by whom, why.
    Delivered { strategy: Strategy, by: &'a str, notes: Option<&'a str> },
    /// The letter waits again: what ended it is taken back.
    Reopens,
    /// The letter was claimed, and will be sent.
    Claims,
    /// The letter goes out with this move: there is no sending that could fail.
    Sends,
}
