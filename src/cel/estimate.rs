//! What an expression may cost, estimated before it is evaluated. After cel-go's checker/cost.go, step by step.

mod calls;

use std::{collections::HashMap, rc::Rc};

use crate::{
    ast::{ACCUMULATOR, Call, Comprehension, Expr, Kind, Literal, operator},
    checker::{Checked, Reference},
    functions::Functions,
    sizes::{Node, Range, Sizes},
    types::Type,
};

/// What it costs to make a list, a map and an object.
const LIST: Range = Range::fixed(10);
const MAP: Range = Range::fixed(30);
const STRUCT: Range = Range::fixed(40);
const ONE: Range = Range::fixed(1);

/// Returns what an evaluation costs at least and at most.
pub(crate) fn estimate(functions: &Functions, checked: &Checked, sizes: &dyn Sizes) -> Range {
    let mut coster =
        Coster { functions, checked, sizes, paths: HashMap::new(), vars: Vec::new(), computed: HashMap::new(), entries: HashMap::new() };
    coster.cost(&checked.expr)
}

type Path = Option<Rc<Vec<String>>>;

/// The sizes of the keys and values of a map, or of the elements of a list.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn union(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (one, other) = (one?, other?);
        Some(Self { is_list: one.is_list, key: one.key.union(other.key), value: one.value.union(other.value) })
    }
}

struct Var {
    name: Rc<str>,
    path: Path,
    size: Option<Range>,
    entries: Option<Entries>,
}

/// Which part of a range a variable of a loop is.
#[derive(Clone, Copy)]
enum Part {
    Key,
    Value,
    /// The element of a list or the key of a map.
    Single,
}

struct Coster<'c> {
    functions: &'c Functions,
    checked: &'c Checked,
    sizes: &'c dyn Sizes,
    paths: HashMap<u32, Path>,
    vars: Vec<Var>,
    computed: HashMap<u32, Range>,
    entries: HashMap<u32, Entries>,
}

fn extended(path: &Path, name: &str) -> Path {
    let mut path = path.as_ref().map_or_else(Vec::new, |path| (**path).clone());
    path.push(name.to_owned());
    Some(Rc::new(path))
}

impl Coster<'_> {
    fn kind(&self, expr: &Expr) -> &Type {
        &self.checked.types[expr.id as usize]
    }

    fn var(&self, name: &str) -> Option<&Var> {
        self.vars.iter().rev().find(|var| &*var.name == name)
    }

    fn var_of(&self, expr: &Expr) -> Option<&Var> {
        match &expr.kind {
            Kind::Ident(name) => self.var(name),
            _ => None,
        }
    }

    fn path(&self, expr: &Expr) -> Path {
        self.var_of(expr).map_or_else(|| self.paths.get(&expr.id).cloned().flatten(), |var| var.path.clone())
    }

    fn cost(&mut self, expr: &Expr) -> Range {
        match &expr.kind {
            Kind::Literal(_) => Range::ZERO,
            Kind::Ident(name) => {
                let path = self.var(name).map_or_else(|| extended(&None, name), |var| var.path.clone());
                self.paths.insert(expr.id, path);
                ONE
            }
            Kind::Select(select) => {
                let cost = self.cost(&select.operand);
                if select.test {
                    return cost;
                }
                let path = extended(&self.path(&select.operand), &select.field);
                self.paths.insert(expr.id, path);
                match self.kind(&select.operand) {
                    Type::Map(_) | Type::Object(_) | Type::Param(_) => cost.plus(ONE),
                    _ => cost,
                }
            }
            Kind::Call(call) => self.call(expr, call),
            Kind::List(elements) => {
                let costs = elements.iter().map(|element| &element.value).collect::<Vec<_>>();
                let (cost, size) = self.parts(&costs);
                self.entries.insert(expr.id, Entries { is_list: true, key: ONE, value: size });
                cost.plus(LIST)
            }
            Kind::Map(entries) => {
                let (mut cost, mut key, mut value) = (Range::ZERO, starting(entries.is_empty()), starting(entries.is_empty()));
                for entry in entries {
                    cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, Entries { is_list: false, key, value });
                cost.plus(MAP)
            }
            Kind::Struct(message) => message.fields.iter().fold(Range::ZERO, |sum, field| sum.plus(self.cost(&field.value))).plus(STRUCT),
            Kind::Comprehension(one) if is_bind(one) => self.bind(expr, one),
            Kind::Comprehension(one) => self.comprehension(expr, one),
        }
    }

    /// The cost of all parts, and the size of any of them.
    fn parts(&mut self, parts: &[&Expr]) -> (Range, Range) {
        parts.iter().fold((Range::ZERO, starting(parts.is_empty())), |(cost, size), part| {
            let cost = cost.plus(self.cost(part));
            (cost, size.union(self.size_or_unknown(part)))
        })
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Range {
        if &*call.function == "dyn"
            && let Some(arg) = call.args.first()
        {
            let cost = ONE.plus(self.cost(arg));
            self.copy_sizes(expr, arg);
            return cost;
        }
        let mut costs = Vec::with_capacity(call.args.len());
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            costs.push(self.cost(arg));
            args.push(self.as_node(arg));
        }
        let Some(Reference::Overloads(overloads)) = &self.checked.references[expr.id as usize] else { return Range::ZERO };
        let target = call.target.as_ref().map(|target| (self.cost(target), self.as_node(target)));
        let mut cost = Range { min: u64::MAX, max: 0 };
        let mut result = None::<Range>;
        for overload in overloads {
            let made = self.made(expr, call, overload, target.as_ref().map(|(_, node)| node), &args, &costs);
            cost = cost.union(made.cost);
            if let Some(size) = made.result {
                result = Some(result.map_or(size, |before| before.union(size)));
            }
            let items = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(items), Some(of)) = (items, call.args.first()) {
                result = self.entry_sizes(of).map(|entries| entries.value);
                let path = extended(&self.path(of), items);
                self.paths.insert(expr.id, path);
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        if let Some(size) = result {
            self.computed.insert(expr.id, size);
        }
        target.map_or(Range::ZERO, |(cost, _)| cost).plus(cost)
    }

    fn as_node<'e>(&mut self, expr: &'e Expr) -> Node<'e> {
        let path = self.path(expr).filter(|path| path.first().is_none_or(|first| !is_accumulator(first)));
        let literal = match &expr.kind {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        };
        Node { path: path.map(|path| (*path).clone()), kind: self.kind(expr).clone(), size: self.size(expr), literal }
    }

    fn comprehension(&mut self, expr: &Expr, one: &Comprehension) -> Range {
        let outer = self.vars.len();
        let mut sum = self.cost(&one.range).plus(self.cost(&one.init));
        self.push_var(&one.accumulator, &one.init);
        match &one.var2 {
            Some(second) => {
                self.push_part(&one.var, &one.range, Part::Key);
                self.push_part(second, &one.range, Part::Value);
            }
            None => self.push_part(&one.var, &one.range, Part::Single),
        }
        let turn = self.cost(&one.condition).plus(self.cost(&one.step));
        self.vars.truncate(outer + 1);
        sum = sum.plus(self.cost(&one.result));
        self.vars.truncate(outer);
        let count = self.size_or_unknown(&one.range);
        sum = sum.plus(count.times(turn));
        match &one.init.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(&one.init) {
                    self.computed.insert(expr.id, size);
                }
            }
            Kind::List(_) | Kind::Map(_) => {
                self.computed.insert(expr.id, count);
                if let Some(entries) = self.entry_sizes(&one.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    fn bind(&mut self, expr: &Expr, one: &Comprehension) -> Range {
        let mut sum = self.cost(&one.range).plus(self.cost(&one.init));
        self.push_var(&one.accumulator, &one.init);
        sum = sum.plus(self.cost(&one.result));
        self.vars.pop();
        self.copy_sizes(expr, &one.result);
        sum
    }

    fn push_var(&mut self, name: &str, value: &Expr) {
        let (path, entries, size) = (self.path(value), self.entry_sizes(value), self.size(value));
        self.vars.push(Var { name: name.into(), path, size, entries });
    }

    fn push_part(&mut self, name: &str, range: &Expr, part: Part) {
        let entries = self.entry_sizes(range);
        let is_list = entries.map_or_else(|| matches!(self.kind(range), Type::List(_)), |entries| entries.is_list);
        let (size, step) = match (part, is_list) {
            (Part::Key, true) => (entries.map(|entries| entries.key), "@indices"),
            (Part::Key | Part::Single, false) => (entries.map(|entries| entries.key), "@keys"),
            (Part::Value | Part::Single, true) => (entries.map(|entries| entries.value), "@items"),
            (Part::Value, false) => (entries.map(|entries| entries.value), "@values"),
        };
        let path = extended(&self.path(range), step);
        self.vars.push(Var { name: name.into(), path, size, entries: None });
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.computed.insert(to.id, size);
        }
        if let Some(entries) = self.entry_sizes(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    /// Returns the size of a value, as far as anybody knows it.
    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.computed.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = written_size(expr) {
            return Some(Range::fixed(size));
        }
        let path = self.path(expr);
        if let Some(size) = self.sizes.size(path.as_ref().map(|path| &path[..]), self.kind(expr)) {
            self.computed.insert(expr.id, size);
            return Some(size);
        }
        if self.kind(expr).is_scalar() {
            return Some(ONE);
        }
        self.var_of(expr).and_then(|var| var.size)
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<Entries> {
        self.entries.get(&expr.id).copied().or_else(|| self.var_of(expr).and_then(|var| var.entries))
    }
}

/// What the sizes of parts are united with first.
const fn starting(is_empty: bool) -> Range {
    Range { min: if is_empty { 0 } else { u64::MAX }, max: 0 }
}

fn is_accumulator(name: &str) -> bool {
    matches!(name, ACCUMULATOR | "__result__")
}

/// Whether a loop only gives a value a name.
fn is_bind(one: &Comprehension) -> bool {
    matches!(&one.range.kind, Kind::List(elements) if elements.is_empty())
        && matches!(one.condition.kind, Kind::Literal(Literal::Bool(false)))
        && &*one.accumulator != "__result__"
}

/// The size of what is written out.
fn written_size(expr: &Expr) -> Option<u64> {
    Some(match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count() as u64,
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List(elements) => elements.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

/// Whether an overload's cost depends on the costs of its arguments.
fn is_logical(function: &str) -> bool {
    matches!(function, operator::AND | operator::OR)
}
