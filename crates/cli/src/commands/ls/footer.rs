//! What stands under a list of letters: how many there are, what finding them cost, and how to go on.

use lazaret_core::filter::Filter;

use super::LsArgs;
use crate::answers::Page;
use crate::answers::search::Scan;
use crate::commands::progress;
use crate::output::{moment, shell_word};

pub fn footer(args: &LsArgs, wanted: &Filter, page: &Page) -> String {
    let cut_short = page.scan.is_some_and(|scan| scan.cut_short);
    let mut lines = vec![found(args, wanted, page)];
    lines.extend(page.scan.and_then(looked_into));
    let index = page.body_index.as_ref().filter(|index| index.state == "off" || index.behind > 0);
    lines.extend(index.map(|index| format!("body index: {}", progress::body_index(index))));
    if cut_short {
        lines.push("timed out before all letters were scanned".into());
    }
    if let Some(cursor) = &page.next_cursor {
        let name = if cut_short { "continue" } else { "next page" };
        lines.push(format!("{name}: {}", next_page(args, cursor)));
    }
    lines.join("\n")
}

fn found(args: &LsArgs, wanted: &Filter, page: &Page) -> String {
    let cut_short = page.scan.is_some_and(|scan| scan.cut_short);
    if page.items.is_empty() && cut_short {
        return format!("no letters found yet{}", matching(wanted));
    }
    if page.items.is_empty() && args.cursor.is_none() {
        return if wanted.is_empty() {
            "no letters yet".into()
        } else {
            format!("no letters match {wanted}")
        };
    }
    let at_least = if page.total_is_at_least { "at least " } else { "" };
    let shown = moment::count(page.items.len() as u64);
    format!("{shown} of {at_least}{}{}", moment::letters(page.total), matching(wanted))
}

/// What a search cost that no index could answer; nothing if the index knew that there was nothing to look into.
pub fn looked_into(scan: Scan) -> Option<String> {
    (scan.letters > 0).then(|| format!("full scan: {} read", moment::letters(scan.letters)))
}

/// The command that shows the next page.
fn next_page(args: &LsArgs, cursor: &str) -> String {
    let mut words = vec!["lazaret".to_owned(), "ls".to_owned()];
    words.extend(args.filter.iter().map(|word| shell_word(word)));
    if args.all {
        words.push("--all".into());
    }
    if let Some(limit) = args.limit {
        words.push(format!("--limit {limit}"));
    }
    if args.sort != "-diedAt" {
        words.push(format!("--sort {}", args.sort));
    }
    words.push(format!("--cursor {}", shell_word(cursor)));
    words.join(" ")
}

pub fn matching(wanted: &Filter) -> String {
    if wanted.is_empty() { String::new() } else { format!(" · {wanted}") }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{args, page};
    use super::*;
    use crate::filter;

    #[test]
    fn the_footer_says_how_to_go_on() {
        let args = args(&["queue:billing", "type:invoice.*", "--limit", "1", "--sort", "diedAt"]);
        let wanted = filter::read(&args.filter.join(" ")).unwrap();
        insta::assert_snapshot!(footer(&args, &wanted, &page(12_431, Some("AbC-_"))), @"
        1 of 12,431 letters · queue:billing type:invoice.*
        next page: lazaret ls queue:billing 'type:invoice.*' --limit 1 --sort diedAt --cursor AbC-_
        ");
    }

    #[test]
    fn a_search_that_was_cut_short_says_what_it_cost_and_how_to_go_on() {
        let args = args(&["queue:billing"]);
        let wanted = filter::read("queue:billing").unwrap();
        let scan = Some(Scan { letters: 12_000, cut_short: true });
        let index = r#"{"state":"on","indexed":9000,"behind":3000,"lagMs":1200}"#;
        let body_index = serde_json::from_str(index).ok();
        let cut = Page { scan, body_index, items: Vec::new(), ..page(0, Some("AbC-_")) };
        insta::assert_snapshot!(footer(&args, &wanted, &cut), @"
        no letters found yet · queue:billing
        full scan: 12,000 letters read
        body index: ██████████████████ 9,000 bodies, 3,000 to go, oldest 1.2 s behind
        timed out before all letters were scanned
        continue: lazaret ls queue:billing --cursor AbC-_
        ");
        let whole = Page { scan: Some(Scan { letters: 1, cut_short: false }), ..page(1, None) };
        insta::assert_snapshot!(footer(&args, &wanted, &whole), @"
        1 of 1 letter · queue:billing
        full scan: 1 letter read
        ");
    }

    #[test]
    fn an_empty_page_is_friendly() {
        let none = Page { items: Vec::new(), ..page(0, None) };
        let filter = filter::read("queue:a").unwrap();
        assert_eq!(footer(&args(&[]), &filter, &none), "no letters match queue:a");
        assert_eq!(footer(&args(&[]), &Filter::default(), &none), "no letters yet");
    }
}
