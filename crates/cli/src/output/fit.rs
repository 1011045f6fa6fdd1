//! Text cut and wrapped to the columns of a terminal. Takes harmless text without colours; never makes a line longer
//! than it may be.

use comfy_table::Table;

/// The columns that a text takes. What a terminal draws over two columns counts as two.
pub fn columns_of(text: &str) -> usize {
    text.chars().map(columns_of_char).sum()
}

/// The tables know how wide characters are; asking them keeps one opinion of that in the program.
fn columns_of_char(c: char) -> usize {
    if c.is_ascii() {
        return 1;
    }
    let mut table = Table::new();
    table.add_row([c]);
    table.column_max_content_widths().first().map_or(1, |columns| usize::from(*columns))
}

/// The text itself, or as much of its beginning as fits before an ellipsis.
pub fn cut(text: &str, columns: usize) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    let mut cut = text[..fitting(text, room)].to_owned();
    cut.push('…');
    cut
}

/// The text in lines that fit, broken at spaces where that is possible.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let taken = columns_of(&line);
        if taken > 0 && taken + 1 + columns_of(word) <= columns {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        if taken > 0 {
            lines.push(std::mem::take(&mut line));
        }
        let mut rest = word;
        while columns_of(rest) > columns {
            // A character that does not even fit alone stands alone.
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let (head, tail) = rest.split_at(fitting(rest, columns).max(first));
            lines.push(head.to_owned());
            rest = tail;
        }
        rest.clone_into(&mut line);
    }
    lines.push(line);
    lines
}

/// How many bytes of the beginning fit.
fn fitting(text: &str, columns: usize) -> usize {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += columns_of_char(c);
        if taken > columns {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_the_columns_it_takes() {
        let cases =
            [("Größe", 5, "Größe"), ("Größen", 5, "Größ…"), ("時間外", 6, "時間外"), ("時間外", 5, "時間…")];
        for (text, columns, expected) in cases {
            assert_eq!(cut(text, columns), expected);
        }
        assert_eq!([cut("時間", 2), cut("ab", 1), cut("ab", 0)], ["…", "…", ""]);
    }

    #[test]
    fn a_text_is_wrapped_at_spaces_and_long_words_are_broken() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a abcdefgh b", 3), ["a", "abc", "def", "gh", "b"]);
        assert_eq!(wrapped("時間外", 4), ["時間", "外"]);
        assert_eq!(wrapped("時a", 1), ["時", "a"]);
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(wrapped("ab", 0), ["a", "b", ""]);
    }
}
