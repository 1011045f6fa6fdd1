//! What a person would point at: a kind of thing with something written on it. Never a class or an id, if it can be helped:
//! pages may change their markup and still say the same.

use std::fmt;

use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Button,
    Link,
    Field,
    Heading,
    Part,
    Text,
    Css,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Button => "button",
            Kind::Link => "link",
            Kind::Field => "field",
            Kind::Heading => "heading",
            Kind::Part => "part",
            Kind::Text => "text",
            Kind::Css => "css",
        }
    }
}

/// The first thing of its kind that is seen and has this name: exactly, or else somewhere in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locator {
    steps: Vec<(Kind, String)>,
}

/// Something to press: a button, or the line that opens what is folded.
pub fn button(name: &str) -> Locator {
    Locator::new(Kind::Button, name)
}

pub fn link(name: &str) -> Locator {
    Locator::new(Kind::Link, name)
}

/// Something to fill in, by its label.
pub fn field(label: &str) -> Locator {
    Locator::new(Kind::Field, label)
}

pub fn heading(name: &str) -> Locator {
    Locator::new(Kind::Heading, name)
}

/// The smallest row, list item, card, form or section with this text in it.
pub fn part(text: &str) -> Locator {
    Locator::new(Kind::Part, text)
}

/// The smallest element with this text in it.
pub fn text(text: &str) -> Locator {
    Locator::new(Kind::Text, text)
}

/// For what has no name: charts, bars.
pub fn css(selector: &str) -> Locator {
    Locator::new(Kind::Css, selector)
}

impl Locator {
    fn new(kind: Kind, name: &str) -> Locator {
        Locator { steps: vec![(kind, name.to_owned())] }
    }

    /// The same, inside of another thing.
    pub fn within(self, outer: Locator) -> Locator {
        Locator { steps: [outer.steps, self.steps].concat() }
    }

    pub(crate) fn steps(&self) -> Value {
        self.steps.iter().map(|(kind, name)| json!({"kind": kind.name(), "name": name})).collect()
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (kind, name)) in self.steps.iter().rev().enumerate() {
            let join = if position == 0 { "" } else { " within " };
            write!(f, "{join}{} \"{name}\"", kind.name())?;
        }
        Ok(())
    }
}
