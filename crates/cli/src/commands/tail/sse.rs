//! Server-sent events, read from pieces of bytes as they come.
//!
//! Holds at most one event: a line, or an event of many lines, that grows past its bound is left out and told as such.

/// Bytes of one event. What the server sends of a letter is a summary of some kilobytes.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Something that a stream said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Event(Message),
    /// An event was longer than events are and is left out.
    TooLong,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// What the event calls itself; `message` if it does not.
    pub event: String,
    pub data: String,
}

/// Reads one stream from its beginning.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    line_too_long: bool,
    /// A carriage return ended the last line, so that a line feed right behind it belongs to it.
    after_return: bool,
    begun: bool,
    /// The last id that was read; it counts once the event that it came with is whole.
    id: Option<String>,
    place: Option<String>,
    event: String,
    data: String,
    has_data: bool,
    too_long: bool,
}

impl Parser {
    /// Takes the next bytes and gives what is complete with them.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        let mut said = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    said.extend(self.end_line());
                }
                _ => {
                    self.after_return = false;
                    if self.line.len() < EVENT_BYTES_MAX {
                        self.line.push(*byte);
                    } else {
                        self.line_too_long = true;
                    }
                }
            }
        }
        said
    }

    /// The last id that the stream gave, with an event or by itself: where to go on when it breaks.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    fn end_line(&mut self) -> Option<Said> {
        let bytes = std::mem::take(&mut self.line);
        self.too_long |= std::mem::take(&mut self.line_too_long);
        let text = String::from_utf8_lossy(&bytes);
        let mut line = text.as_ref();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if bytes.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event),
            "data" => self.add_data(value),
            // Comments keep the connection alive, the time to wait before coming back is ours, and what is not known
            // has to be passed over.
            _ => {}
        }
        None
    }

    fn add_data(&mut self, value: &str) {
        if self.data.len() + value.len() >= EVENT_BYTES_MAX {
            self.too_long = true;
            return;
        }
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push('\n');
        }
        self.data.push_str(value);
    }

    fn end_event(&mut self) -> Option<Said> {
        self.place.clone_from(&self.id);
        let event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data);
        let has_data = std::mem::take(&mut self.has_data);
        if std::mem::take(&mut self.too_long) {
            return Some(Said::TooLong);
        }
        let event = if event.is_empty() { "message".to_owned() } else { event };
        has_data.then_some(Said::Event(Message { event, data }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was said, each with the place that the stream was at after the piece it came in.
    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut parser = Parser::default();
        let mut shown = Vec::new();
        for piece in pieces {
            let said = parser.take(piece);
            shown.extend(said.into_iter().map(|said| match said {
                Said::Event(message) => format!("{}={}", message.event, message.data),
                Said::TooLong => "too long".into(),
            }));
        }
        shown.extend(parser.place().map(|place| format!("at {place}")));
        shown
    }

    #[test]
    fn events_come_out_as_they_were_meant() {
        let stream = "retry: 1000\n\n: beat\n\nid: 7\nevent: a.b\ndata: {\"x\":1}\n\ndata:no space\ndata\ndata:  two\n\n";
        assert_eq!(read(&[stream.as_bytes()]), ["a.b={\"x\":1}", "message=no space\n\n two", "at 7"]);
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut() {
        let stream = "\u{feff}id: 1\r\nevent: größe\r\ndata: ü 時\r\n\r\nid: 2\rdata: b\r\rdata: c\n\n";
        let whole = read(&[stream.as_bytes()]);
        assert_eq!(whole, ["größe=ü 時", "message=b", "message=c", "at 2"]);
        for cut in 0..stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            assert_eq!(read(&[head, tail]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes), whole);
    }

    #[test]
    fn an_event_that_is_too_long_is_told_and_the_next_one_read() {
        let long = format!("id: 1\ndata: {}\n\nid: 2\ndata: b\n\n", "x".repeat(EVENT_BYTES_MAX + 1));
        assert_eq!(read(&[long.as_bytes()]), ["too long", "message=b", "at 2"]);
        let many = format!("{}\ndata: c\n\n", format!("data: {}\n", "x".repeat(1_000)).repeat(1_100));
        assert_eq!(read(&[many.as_bytes()]), ["too long", "message=c"]);
    }

    #[test]
    fn what_is_not_an_event_is_passed_over() {
        assert!(read(&[b"\n\n: comment\n\nevent: x\n\nunknown: y\n\ndata: cut off"]).is_empty());
        assert_eq!(read(&[b"data: \xff\n\n"]), ["message=\u{fffd}"]);
    }

    #[test]
    fn the_place_moves_with_whole_events_and_without_any() {
        assert_eq!(read(&[b"id: 3\n\n"]), ["at 3"]);
        assert_eq!(read(&[b"id: 3\n\nid: a\0b\ndata: x\n\n"]), ["message=x", "at 3"]);
        assert_eq!(read(&[b"id: 3\ndata: a\n\nid: 4\ndata: b\n"]), ["message=a", "at 3"]);
    }
}
