//! Reads what stands inside of a filter: tests, comparisons and functions, and whether they fit each other.

use std::borrow::Cow;

use super::document::Json;
use super::error::PathProblem;
use super::parse::{FILTER, Parsed, Parser};
use super::pattern;
use super::syntax::{Logical, Origin, Path, Pattern, Relation, Span, Value};
use crate::limits;

/// What may stand on a side of a comparison, before it is known whether there is one.
enum Operand {
    Literal(Json<'static>),
    Path(Path),
    /// A function that gives a value.
    Value(Value),
    /// A function that is true or false.
    Test(Logical),
}

#[derive(Clone, Copy)]
enum Function {
    Length,
    Count,
    Value,
    Match,
    Search,
}

const OPERAND: &str = "a path that begins with `@` or `$`, a function, or a value";

impl Parser<'_> {
    /// Parts between `||`.
    pub(super) fn any(&mut self) -> Parsed<Logical> {
        self.joined("||", Parser::all, Logical::Any)
    }

    /// Parts between `&&`, which bind tighter.
    fn all(&mut self) -> Parsed<Logical> {
        self.joined("&&", Parser::one, Logical::All)
    }

    fn joined(
        &mut self,
        operator: &str,
        part: fn(&mut Self) -> Parsed<Logical>,
        join: fn(Vec<Logical>) -> Logical,
    ) -> Parsed<Logical> {
        let first = part(self)?;
        let mut parts = vec![first];
        loop {
            let before = self.at;
            self.spaces();
            if !self.take(operator) {
                self.at = before;
                break;
            }
            self.spaces();
            parts.push(part(self)?);
        }
        Ok(match <[Logical; 1]>::try_from(parts) {
            Ok([only]) => only,
            Err(parts) => join(parts),
        })
    }

    fn one(&mut self) -> Parsed<Logical> {
        let negated = self.take("!");
        if negated {
            self.spaces();
        }
        let logical = if self.peek() == Some('(') {
            self.parenthesised()?
        } else if negated {
            self.negated_test()?
        } else {
            self.test_or_comparison()?
        };
        Ok(if negated { Logical::Not(Box::new(logical)) } else { logical })
    }

    fn negated_test(&mut self) -> Parsed<Logical> {
        let start = self.at;
        let operand = self.operand()?;
        let before = self.at;
        self.spaces();
        if self.relation().is_some() {
            return Err((start, PathProblem::NegatedSide));
        }
        self.at = before;
        test(start, operand)
    }

    fn parenthesised(&mut self) -> Parsed<Logical> {
        self.open()?;
        let logical = self.any()?;
        self.spaces();
        self.expect(')', FILTER, "`&&`, `||` or `)`")?;
        self.nesting -= 1;
        Ok(logical)
    }

    /// Takes an opening parenthesis, within the bound that keeps the reader from recursing without end.
    fn open(&mut self) -> Parsed<()> {
        self.nesting += 1;
        if self.nesting > limits::JSON_PATH_NESTING_MAX {
            return Err((self.at, PathProblem::TooNested));
        }
        self.at += 1;
        self.spaces();
        Ok(())
    }

    fn test_or_comparison(&mut self) -> Parsed<Logical> {
        let start = self.at;
        let operand = self.operand()?;
        let before = self.at;
        self.spaces();
        let Some(relation) = self.relation() else {
            if self.peek() == Some('=') {
                return self.unexpected(FILTER, "`==`");
            }
            self.at = before;
            return test(start, operand);
        };
        let one = value(start, operand)?;
        self.spaces();
        let start = self.at;
        let other = self.operand()?;
        Ok(Logical::Compare(one, relation, value(start, other)?))
    }

    fn relation(&mut self) -> Option<Relation> {
        // Longer ones first, because some begin with a shorter one.
        [
            ("==", Relation::Equal),
            ("!=", Relation::NotEqual),
            ("<=", Relation::LessOrEqual),
            (">=", Relation::GreaterOrEqual),
            ("<", Relation::Less),
            (">", Relation::Greater),
        ]
        .into_iter()
        .find_map(|(text, relation)| self.take(text).then_some(relation))
    }

    fn operand(&mut self) -> Parsed<Operand> {
        match self.peek() {
            Some('@') => self.path(Origin::Current).map(Operand::Path),
            Some('$') => self.path(Origin::Root).map(Operand::Path),
            Some('\'' | '"') => Ok(Operand::Literal(Json::Text(Cow::Owned(self.quoted()?)))),
            Some('-' | '0'..='9') => self.number().map(Operand::Literal),
            Some('a'..='z') => self.word(),
            Some(_) | None => self.unexpected(FILTER, OPERAND),
        }
    }

    fn path(&mut self, origin: Origin) -> Parsed<Path> {
        self.at += 1;
        Ok(Path { origin, segments: self.segments()? })
    }

    fn number(&mut self) -> Parsed<Json<'static>> {
        let start = self.at;
        self.take("-");
        let whole = self.digits();
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
            self.at = start;
            return self.unexpected(FILTER, "a number");
        }
        if self.take(".") && self.digits().is_empty() {
            return self.unexpected(FILTER, "a digit");
        }
        if self.take("e") || self.take("E") {
            if !self.take("+") {
                self.take("-");
            }
            if self.digits().is_empty() {
                return self.unexpected(FILTER, "a digit");
            }
        }
        Ok(Json::Number(Cow::Owned(self.text[start..self.at].to_owned())))
    }

    /// `true`, `false`, `null` or a function.
    fn word(&mut self) -> Parsed<Operand> {
        let start = self.at;
        let rest = &self.text[start..];
        let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let word = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        self.at += word.len();
        if self.peek() == Some('(') {
            let function = match word {
                "length" => Function::Length,
                "count" => Function::Count,
                "value" => Function::Value,
                "match" => Function::Match,
                "search" => Function::Search,
                _ => return Err((start, PathProblem::UnknownFunction)),
            };
            let arguments = self.arguments()?;
            return function.of(start, arguments);
        }
        match word {
            "true" => Ok(Operand::Literal(Json::Bool(true))),
            "false" => Ok(Operand::Literal(Json::Bool(false))),
            "null" => Ok(Operand::Literal(Json::Null)),
            _ => {
                self.at = start;
                self.unexpected(FILTER, OPERAND)
            }
        }
    }

    fn arguments(&mut self) -> Parsed<Vec<(usize, Operand)>> {
        self.open()?;
        let mut arguments = Vec::new();
        while !self.take(")") {
            if !arguments.is_empty() {
                self.expect(',', FILTER, "`,` or `)`")?;
                self.spaces();
            }
            let start = self.at;
            arguments.push((start, self.operand()?));
            self.spaces();
        }
        self.nesting -= 1;
        Ok(arguments)
    }
}

impl Function {
    fn of(self, at: usize, arguments: Vec<(usize, Operand)>) -> Parsed<Operand> {
        let bad = |usage| Err((at, PathProblem::BadArguments { usage }));
        let mut arguments = arguments.into_iter();
        match (self, arguments.next(), arguments.next(), arguments.next()) {
            (Function::Length, Some((at, of)), None, None) => {
                Ok(Operand::Value(Value::Length(Box::new(value(at, of)?))))
            }
            (Function::Count, Some((_, Operand::Path(path))), None, None) => {
                Ok(Operand::Value(Value::Count(path)))
            }
            (Function::Value, Some((_, Operand::Path(path))), None, None) => {
                Ok(Operand::Value(Value::Only(path)))
            }
            (Function::Match, Some(text), Some(pattern), None) => matches(text, pattern, Span::Whole),
            (Function::Search, Some(text), Some(pattern), None) => matches(text, pattern, Span::Part),
            (Function::Length, ..) => bad("length(@.name)"),
            (Function::Count, ..) => bad("count(@.items[*])"),
            (Function::Value, ..) => bad("value(@..name)"),
            (Function::Match, ..) => bad("match(@.name, 'pattern')"),
            (Function::Search, ..) => bad("search(@.name, 'pattern')"),
        }
    }
}

fn matches((at, text): (usize, Operand), pattern: (usize, Operand), span: Span) -> Parsed<Operand> {
    let text = value(at, text)?;
    let (at, pattern) = pattern;
    let pattern = match value(at, pattern)? {
        // The RFC lets a wrong pattern match nothing; whoever typed it would rather know.
        Value::Literal(Json::Text(pattern)) => {
            Pattern::Fixed(pattern::compile(&pattern, span).ok_or((at, PathProblem::BadPattern))?)
        }
        looked => Pattern::Looked(Box::new(looked), span),
    };
    Ok(Operand::Test(Logical::Matches { text, pattern }))
}

fn test(at: usize, operand: Operand) -> Parsed<Logical> {
    match operand {
        Operand::Path(path) => Ok(Logical::Exists(path)),
        Operand::Test(logical) => Ok(logical),
        Operand::Literal(_) | Operand::Value(_) => Err((at, PathProblem::NotCompared)),
    }
}

fn value(at: usize, operand: Operand) -> Parsed<Value> {
    match operand {
        Operand::Literal(json) => Ok(Value::Literal(json)),
        Operand::Path(path) if path.is_single() => Ok(Value::Single(path)),
        Operand::Path(_) => Err((at, PathProblem::NotSingle)),
        Operand::Value(value) => Ok(value),
        Operand::Test(_) => Err((at, PathProblem::ComparedTest)),
    }
}
