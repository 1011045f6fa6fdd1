//! Letters of one request, with their places in the input. Never cuts a line.

use bytes::{Bytes, BytesMut};
use lazaret_core::limits;

/// What goes in one request: one write of the store, done well before the request times out.
const LINES_MAX: usize = limits::STREAM_LINES_PER_WRITE;
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Lines that are gathered for one request.
#[derive(Debug, Default)]
pub struct Batch {
    text: BytesMut,
    places: Vec<usize>,
}

/// How large a batch may become; a server may take less than we would send.
#[derive(Clone, Copy, Debug)]
pub struct BatchBytesMax(usize);

impl Default for BatchBytesMax {
    fn default() -> BatchBytesMax {
        BatchBytesMax(BYTES_MAX)
    }
}

impl BatchBytesMax {
    /// Gathers less from now on, so that not every batch has to be sent in vain first.
    pub fn lower(&mut self, refused_bytes: usize) {
        self.0 = self.0.min(refused_bytes / 2);
    }
}

impl Batch {
    /// Whether a line still fits; one that is too large by itself goes alone.
    pub fn has_room_for(&self, line: &[u8], max: BatchBytesMax) -> bool {
        self.places.is_empty()
            || (self.places.len() < LINES_MAX && self.text.len().saturating_add(line.len()) < max.0)
    }

    pub fn add(&mut self, place: usize, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.text.extend_from_slice(b"\n");
        self.places.push(place);
    }

    /// What was gathered, if anything was; the batch is empty afterwards.
    pub fn take(&mut self) -> Option<Request> {
        let Batch { text, places } = std::mem::take(self);
        (!places.is_empty()).then(|| Request { text: text.freeze(), places })
    }
}

/// Lines as they are sent, each with its end. There is at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub text: Bytes,
    places: Vec<usize>,
}

impl Request {
    /// The line of the input that a line of the request was; what the server counts otherwise is shown as it came.
    pub fn place(&self, line: usize) -> usize {
        line.checked_sub(1).and_then(|at| self.places.get(at)).copied().unwrap_or(line)
    }

    /// The same lines in two requests, or the request itself if it has but one line.
    pub fn halves(self) -> Result<[Request; 2], Request> {
        let half = self.places.len() / 2;
        let ends = self.text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let cut = half.checked_sub(1).and_then(|last| ends.map(|(at, _)| at + 1).nth(last));
        let Some(cut) = cut else { return Err(self) };
        let Request { mut text, mut places } = self;
        let second = Request { text: text.split_off(cut), places: places.split_off(half) };
        Ok([Request { text, places }, second])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(lines: &[(usize, &str)]) -> Request {
        let mut batch = Batch::default();
        lines.iter().for_each(|(place, line)| batch.add(*place, line.as_bytes()));
        batch.take().unwrap()
    }

    #[test]
    fn requests_keep_their_bounds_and_what_is_large_goes_alone() {
        let max = BatchBytesMax::default();
        let mut batch = Batch::default();
        assert_eq!(batch.take(), None);
        for place in 0..LINES_MAX {
            assert!(batch.has_room_for(b"{}", max));
            batch.add(place, b"{}");
        }
        assert!(!batch.has_room_for(b"{}", max));
        let huge = vec![b'x'; BYTES_MAX + 1];
        let mut batch = Batch::default();
        assert!(batch.has_room_for(&huge, max));
        batch.add(1, &huge);
        assert!(!batch.has_room_for(b"{}", max));
    }

    #[test]
    fn a_line_of_a_request_is_told_by_its_place_in_the_input() {
        let request = request(&[(4, "{}"), (6, "{}"), (9, "{}")]);
        assert_eq!([1, 3, 7, 0].map(|line| request.place(line)), [4, 9, 7, 0]);
    }

    #[test]
    fn halves_have_whole_lines_and_one_line_has_no_halves() {
        let lines = [(4, "{\"a\":1}"), (6, "{}"), (9, "{\"b\":22}")];
        assert_eq!(request(&lines).halves(), Ok([request(&lines[..1]), request(&lines[1..])]));
        assert_eq!(request(&lines[..1]).halves(), Err(request(&lines[..1])));
    }

    #[test]
    fn less_is_gathered_once_a_server_has_refused_more() {
        let mut max = BatchBytesMax::default();
        max.lower(20);
        let mut batch = Batch::default();
        batch.add(3, b"01234");
        assert!(batch.has_room_for(b"012", max));
        assert!(!batch.has_room_for(b"0123", max));
    }
}
