//! The languages whose backtraces can be read. A backtrace of any other language is only not looked into.

use std::fmt;

/// The language of the program that failed, as its backtrace shows it. Kotlin and Scala are Java here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Language {
    Java,
    Python,
    Go,
    Node,
    DotNet,
    Rust,
    Ruby,
    Php,
    Elixir,
}

impl Language {
    pub const ALL: [Language; 9] = [
        Language::Java,
        Language::Python,
        Language::Go,
        Language::Node,
        Language::DotNet,
        Language::Rust,
        Language::Ruby,
        Language::Php,
        Language::Elixir,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Language::Java => "java",
            Language::Python => "python",
            Language::Go => "go",
            Language::Node => "node",
            Language::DotNet => "dotnet",
            Language::Rust => "rust",
            Language::Ruby => "ruby",
            Language::Php => "php",
            Language::Elixir => "elixir",
        }
    }

    pub fn parse(text: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|language| language.name() == text)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back() {
        for language in Language::ALL {
            assert_eq!(Language::parse(language.name()), Some(language));
        }
        assert_eq!(Language::parse("Java"), None);
    }
}
