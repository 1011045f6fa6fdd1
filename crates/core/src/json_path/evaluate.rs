//! Asks a query of a document: depth first, without lists in between, and within a number of steps.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use super::compare::{Look, Node, equal, order};
use super::document::Json;
use super::pattern;
use super::syntax::{Logical, Origin, Path, Pattern, Reach, Relation, Segment, Selector, Slice, Value};
use crate::limits;

/// The evaluation went on for longer than it may; what it would have found is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the query takes more than {} steps on this document", limits::JSON_PATH_STEPS_MAX)]
pub struct OutOfSteps;

/// What is left of the steps of one evaluation.
#[derive(Debug)]
pub struct Steps(Cell<usize>);

impl Steps {
    /// All that one evaluation may take.
    pub fn all() -> Steps {
        Steps(Cell::new(limits::JSON_PATH_STEPS_MAX))
    }

    pub fn left(&self) -> usize {
        self.0.get()
    }

    pub(super) fn take(&self, steps: usize) -> Result<(), OutOfSteps> {
        self.0.set(self.0.get().checked_sub(steps).ok_or(OutOfSteps)?);
        Ok(())
    }

    /// Takes what reading a text once costs beyond visiting its node.
    pub(super) fn take_for(&self, text: &str) -> Result<(), OutOfSteps> {
        self.take(text.len() / 64)
    }
}

/// One query asked of one document.
pub(super) struct Evaluation<'n, N> {
    root: &'n N,
    steps: Steps,
}

/// Sees the selected nodes one by one and says whether it has seen enough.
type Visit<'v, 'n, N> = &'v mut dyn FnMut(&'n N) -> Result<bool, OutOfSteps>;

/// What is compared.
enum Operand<'n, 'q, N> {
    Nothing,
    Node(&'n N),
    Json(Cow<'q, Json<'static>>),
}

impl<'n, N: Node> Evaluation<'n, N> {
    pub(super) fn of(root: &'n N) -> Evaluation<'n, N> {
        Evaluation { root, steps: Steps::all() }
    }

    pub(super) fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Visits what the segments select from a node, until the visitor has seen enough. Says whether it has.
    ///
    /// Recurses no deeper than the document, because each segment goes at least one level down.
    pub(super) fn walk(
        &self,
        segments: &[Segment],
        node: &'n N,
        visit: Visit<'_, 'n, N>,
    ) -> Result<bool, OutOfSteps> {
        self.steps.take(1)?;
        let Some((segment, rest)) = segments.split_first() else { return visit(node) };
        match segment.reach {
            Reach::Child => self.select(&segment.selectors, rest, node, visit),
            Reach::Descendant => self.descend(&segment.selectors, rest, node, visit),
        }
    }

    fn descend(
        &self,
        selectors: &[Selector],
        rest: &[Segment],
        node: &'n N,
        visit: Visit<'_, 'n, N>,
    ) -> Result<bool, OutOfSteps> {
        if self.select(selectors, rest, node, visit)? {
            return Ok(true);
        }
        for child in children(node) {
            self.steps.take(1)?;
            // Nothing can be selected below a leaf, and most values are one.
            if child.size() > 0 && self.descend(selectors, rest, child, visit)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn select(
        &self,
        selectors: &[Selector],
        rest: &[Segment],
        node: &'n N,
        visit: Visit<'_, 'n, N>,
    ) -> Result<bool, OutOfSteps> {
        for selector in selectors {
            self.steps.take(1)?;
            let enough = match selector {
                Selector::Name(name) => match node.member(name) {
                    Some(child) => self.walk(rest, child, visit)?,
                    None => false,
                },
                Selector::Index(index) => match at(node.items(), *index) {
                    Some(child) => self.walk(rest, child, visit)?,
                    None => false,
                },
                Selector::Any => self.select_where(node, |_| Ok(true), rest, visit)?,
                Selector::Slice(slice) => self.slice(*slice, rest, node, visit)?,
                Selector::Filter(logical) => {
                    self.select_where(node, |child| self.holds(logical, child), rest, visit)?
                }
            };
            if enough {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn select_where(
        &self,
        node: &'n N,
        test: impl Fn(&'n N) -> Result<bool, OutOfSteps>,
        rest: &[Segment],
        visit: Visit<'_, 'n, N>,
    ) -> Result<bool, OutOfSteps> {
        for child in children(node) {
            if test(child)? && self.walk(rest, child, visit)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn slice(
        &self,
        slice: Slice,
        rest: &[Segment],
        node: &'n N,
        visit: Visit<'_, 'n, N>,
    ) -> Result<bool, OutOfSteps> {
        let items = node.items();
        let (mut index, end) = slice.bounds(items.len());
        while if slice.step > 0 { index < end } else { slice.step < 0 && index > end } {
            if let Some(child) = at(items, index)
                && self.walk(rest, child, visit)?
            {
                return Ok(true);
            }
            index = index.saturating_add(slice.step);
        }
        Ok(false)
    }

    fn holds(&self, logical: &Logical, current: &'n N) -> Result<bool, OutOfSteps> {
        self.steps.take(1)?;
        match logical {
            Logical::Any(parts) => {
                for part in parts {
                    if self.holds(part, current)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Logical::All(parts) => {
                for part in parts {
                    if !self.holds(part, current)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Logical::Not(part) => Ok(!self.holds(part, current)?),
            Logical::Exists(path) => self.follow(path, current, &mut |_| Ok(true)),
            Logical::Compare(one, relation, other) => {
                let (one, other) = (self.value(one, current)?, self.value(other, current)?);
                self.relate(&one, *relation, &other)
            }
            Logical::Matches { text, pattern } => self.matches(text, pattern, current),
        }
    }

    fn follow(&self, path: &Path, current: &'n N, visit: Visit<'_, 'n, N>) -> Result<bool, OutOfSteps> {
        let start = match path.origin {
            Origin::Root => self.root,
            Origin::Current => current,
        };
        self.walk(&path.segments, start, visit)
    }

    fn value<'q>(&self, value: &'q Value, current: &'n N) -> Result<Operand<'n, 'q, N>, OutOfSteps> {
        match value {
            Value::Literal(json) => Ok(Operand::Json(Cow::Borrowed(json))),
            Value::Single(path) | Value::Only(path) => {
                let mut only = None;
                let several = self.follow(path, current, &mut |node| Ok(only.replace(node).is_some()))?;
                Ok(only.filter(|_| !several).map_or(Operand::Nothing, Operand::Node))
            }
            Value::Length(of) => {
                let of = self.value(of, current)?;
                let length = match &of {
                    Operand::Nothing => None,
                    Operand::Node(node) => self.length(*node)?,
                    Operand::Json(json) => self.length(json.as_ref())?,
                };
                Ok(length.map_or(Operand::Nothing, number))
            }
            Value::Count(path) => {
                let mut count = 0;
                self.follow(path, current, &mut |_| {
                    count += 1;
                    Ok(false)
                })?;
                Ok(number(count))
            }
        }
    }

    fn length(&self, node: &impl Node) -> Result<Option<usize>, OutOfSteps> {
        match node.look() {
            Look::Text(text) => {
                self.steps.take_for(text)?;
                Ok(Some(text.chars().count()))
            }
            Look::List | Look::Object => Ok(Some(node.size())),
            Look::Null | Look::Bool(_) | Look::Number(_) => Ok(None),
        }
    }

    fn matches(&self, text: &Value, pattern: &Pattern, current: &'n N) -> Result<bool, OutOfSteps> {
        let text = self.value(text, current)?;
        let Some(text) = text.text() else { return Ok(false) };
        // A pattern reads every character, and slower than a comparison does.
        self.steps.take(text.len().saturating_mul(limits::JSON_PATH_STEPS_PER_PATTERN_BYTE))?;
        match pattern {
            Pattern::Fixed(regex) => Ok(regex.is_match(text)),
            Pattern::Looked(value, span) => {
                let pattern = self.value(value, current)?;
                let Some(pattern) = pattern.text() else { return Ok(false) };
                self.steps.take(limits::JSON_PATH_STEPS_PER_PATTERN)?;
                Ok(pattern::compile(pattern, *span).is_some_and(|regex| regex.is_match(text)))
            }
        }
    }

    fn relate(
        &self,
        one: &Operand<'n, '_, N>,
        relation: Relation,
        other: &Operand<'n, '_, N>,
    ) -> Result<bool, OutOfSteps> {
        let is = |wanted| Ok(self.order(one, other)? == Some(wanted));
        match relation {
            Relation::Equal => self.equal(one, other),
            Relation::NotEqual => Ok(!self.equal(one, other)?),
            Relation::Less => is(Ordering::Less),
            Relation::Greater => is(Ordering::Greater),
            Relation::LessOrEqual => Ok(is(Ordering::Less)? || self.equal(one, other)?),
            Relation::GreaterOrEqual => Ok(is(Ordering::Greater)? || self.equal(one, other)?),
        }
    }

    fn equal(&self, one: &Operand<'n, '_, N>, other: &Operand<'n, '_, N>) -> Result<bool, OutOfSteps> {
        match (one, other) {
            (Operand::Nothing, Operand::Nothing) => Ok(true),
            (Operand::Nothing, Operand::Node(_) | Operand::Json(_)) => Ok(false),
            (Operand::Node(_) | Operand::Json(_), Operand::Nothing) => Ok(false),
            (Operand::Node(one), Operand::Node(other)) => equal(*one, *other, &self.steps),
            (Operand::Node(one), Operand::Json(other)) => equal(*one, other.as_ref(), &self.steps),
            (Operand::Json(one), Operand::Node(other)) => equal(one.as_ref(), *other, &self.steps),
            (Operand::Json(one), Operand::Json(other)) => equal(one.as_ref(), other.as_ref(), &self.steps),
        }
    }

    fn order(
        &self,
        one: &Operand<'n, '_, N>,
        other: &Operand<'n, '_, N>,
    ) -> Result<Option<Ordering>, OutOfSteps> {
        match (one, other) {
            (Operand::Nothing, _) | (_, Operand::Nothing) => Ok(None),
            (Operand::Node(one), Operand::Node(other)) => order(*one, *other, &self.steps),
            (Operand::Node(one), Operand::Json(other)) => order(*one, other.as_ref(), &self.steps),
            (Operand::Json(one), Operand::Node(other)) => order(one.as_ref(), *other, &self.steps),
            (Operand::Json(one), Operand::Json(other)) => order(one.as_ref(), other.as_ref(), &self.steps),
        }
    }
}

impl<'n, N: Node> Operand<'n, '_, N> {
    fn text(&self) -> Option<&str> {
        let look = match self {
            Operand::Nothing => return None,
            Operand::Node(node) => node.look(),
            Operand::Json(json) => json.look(),
        };
        if let Look::Text(text) = look { Some(text) } else { None }
    }
}

fn number<'n, 'q, N>(number: usize) -> Operand<'n, 'q, N> {
    Operand::Json(Cow::Owned(Json::Number(Cow::Owned(number.to_string()))))
}

fn children<N: Node>(node: &N) -> impl Iterator<Item = &N> {
    node.items().iter().chain(node.members().map(|(_, child)| child))
}

fn at<N>(items: &[N], index: i64) -> Option<&N> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    items.get(if index < 0 { items.len().checked_sub(distance)? } else { distance })
}

impl Slice {
    /// Where to begin and before what to end in a list of such a length, as the RFC counts.
    fn bounds(self, length: usize) -> (i64, i64) {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let from_front = |index: i64| if index < 0 { length.saturating_add(index) } else { index };
        if self.step >= 0 {
            let start = from_front(self.start.unwrap_or(0)).clamp(0, length);
            (start, self.end.map_or(length, from_front).clamp(0, length))
        } else {
            let start = self.start.map_or(length - 1, from_front).clamp(-1, length - 1);
            (start, self.end.map_or(-1, |end| from_front(end).clamp(-1, length - 1)))
        }
    }
}
