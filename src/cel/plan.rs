//! Plans: checked expressions made ready to be evaluated. Constants are computed, names are numbers, paths of fields are one step; what has a cost is what
//! has one in cel-go's plan.

use std::{collections::BTreeSet, sync::Arc};

use go::regexp;

use crate::{
    ast::{Call, Comprehension, Expr, Field, Kind, Literal, Struct, operator},
    checker::{Checked, Reference},
    functions::{Code, Function, Functions, Spent, Work},
    shape::ShapeKind,
    value::{Error, Key, List, ListKind, Map, MapBuilder, Value},
};

/// A step of an evaluation.
#[derive(Debug)]
pub(crate) enum Node {
    Const(Value<'static>),
    Attribute(Box<Attribute>),
    /// Whether a field is there.
    Test(Box<Attribute>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Equals(Box<[Node; 2]>, bool),
    /// Whether a value is one of some constants.
    OneOf(Box<Node>, BTreeSet<Key<'static>>),
    /// The first optional value, or what follows; `true`: its value.
    OrElse(Box<[Node; 2]>, bool),
    Call(Box<CallNode>),
    List(Box<[(Node, bool)]>),
    Map(Box<[(Node, Node, bool)]>),
    Struct(Box<StructNode>),
    Fold(Box<Fold>),
    /// Appends a value to the list of an accumulator, which is the only one that has it; and what the list of the one value costs.
    Append(usize, Box<Node>, u64),
    /// Sets entries of the map of an accumulator, which is the only one that has it.
    Insert(usize, Box<[Node]>),
}

/// A value that fields and elements may be taken of.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) qualifiers: Vec<Qualifier>,
}

#[derive(Debug)]
pub(crate) enum Root {
    Local(usize),
    Variable(usize),
    Node(Node),
    Conditional(Box<(Node, Attribute, Attribute)>),
}

/// A field or an element.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    pub(crate) optional: bool,
    /// Whether only its presence is asked for.
    pub(crate) test: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Field(Arc<str>),
    Const(Value<'static>),
    /// What it is costs nothing by itself.
    Attribute(Attribute),
    Node(Node),
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct CallNode {
    pub(crate) function: Arc<Function>,
    pub(crate) args: Box<[Node]>,
    /// The overload, if it is only one.
    pub(crate) overload: Option<usize>,
    /// Evaluated to the first argument that is none, which then costs nothing; others evaluate all.
    pub(crate) stops: bool,
    pub(crate) code: Option<Code>,
    pub(crate) spent: [Option<Spent>; 2],
    /// A regular expression that is a constant.
    pub(crate) regex: Option<Arc<regexp::Program>>,
}

/// A loop.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
    /// Where the accumulator is; the variables follow it.
    pub(crate) slot: usize,
    pub(crate) two: bool,
}

/// An object that is made: its type, and its fields with whether they may be absent.
#[derive(Debug)]
pub(crate) struct StructNode {
    pub(crate) name: Arc<str>,
    pub(crate) fields: Vec<(Arc<str>, Node, bool)>,
}

/// A plan.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Node,
    pub(crate) variables: Vec<Arc<str>>,
    pub(crate) slots: usize,
}

/// Plans a checked expression.
pub(crate) fn plan(functions: &Functions, checked: &Checked) -> Result<Plan, String> {
    let mut planner = Planner { functions, checked, variables: Vec::new(), scopes: Vec::new(), slots: 0 };
    let root = planner.node(&checked.expr)?;
    Ok(Plan { root, variables: planner.variables, slots: planner.slots })
}

struct Planner<'c> {
    functions: &'c Functions,
    checked: &'c Checked,
    variables: Vec<Arc<str>>,
    scopes: Vec<(Arc<str>, usize)>,
    slots: usize,
}

type Planned = Result<Node, String>;

impl Planner<'_> {
    fn node(&mut self, expr: &Expr) -> Planned {
        Ok(match &expr.kind {
            Kind::Literal(literal) => Node::Const(constant(literal)),
            Kind::Ident(name) => self.ident(expr.id, name),
            Kind::Select(select) => {
                let mut attribute = self.attribute(&select.operand)?;
                attribute.qualifiers.push(Qualifier { key: QualifierKey::Field(select.field.clone()), optional: false, test: select.test });
                if select.test { Node::Test(Box::new(attribute)) } else { Node::Attribute(Box::new(attribute)) }
            }
            Kind::Call(call) => return self.call(expr, call),
            Kind::List(elements) => {
                let nodes = elements.iter().map(|one| Ok((self.node(&one.value)?, one.optional))).collect::<Result<Box<[_]>, String>>()?;
                folded_list(nodes)
            }
            Kind::Map(entries) => {
                let nodes = entries.iter().map(|one| Ok((self.node(&one.key)?, self.node(&one.value)?, one.optional)));
                folded_map(nodes.collect::<Result<Box<[_]>, String>>()?)
            }
            Kind::Struct(message) => return self.message(message),
            Kind::Comprehension(one) => return self.fold(one),
        })
    }

    fn ident(&mut self, id: u32, name: &Arc<str>) -> Node {
        if let Some(Reference::TypeName(name)) = &self.checked.references[id as usize] {
            return Node::Const(Value::Type(name.clone()));
        }
        let root = match self.scopes.iter().rev().find(|(known, _)| known == name) {
            Some((_, slot)) => Root::Local(*slot),
            None => Root::Variable(self.variable(name)),
        };
        Node::Attribute(Box::new(Attribute { root, qualifiers: Vec::new() }))
    }

    fn variable(&mut self, name: &Arc<str>) -> usize {
        self.variables.iter().position(|known| known == name).unwrap_or_else(|| {
            self.variables.push(name.clone());
            self.variables.len() - 1
        })
    }

    fn attribute(&mut self, expr: &Expr) -> Result<Attribute, String> {
        Ok(as_attribute(self.node(expr)?))
    }

    fn message(&mut self, message: &Struct) -> Planned {
        let field = |field: &Field| Ok((field.name.clone(), self.node(&field.value)?, field.optional));
        let fields = message.fields.iter().map(field).collect::<Result<_, String>>()?;
        Ok(Node::Struct(Box::new(StructNode { name: message.name.clone(), fields })))
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> Planned {
        let mut args = call.target.iter().chain(&call.args).map(|arg| self.node(arg)).collect::<Result<Vec<_>, _>>()?;
        let ids: &[&str] = match &self.checked.references[expr.id as usize] {
            Some(Reference::Overloads(ids)) => ids,
            _ => &[],
        };
        let only = if let [id] = ids { Some(*id) } else { None };
        match (&*call.function, &mut args[..]) {
            (operator::CONDITIONAL, _) => Ok(conditional(args)),
            (operator::INDEX, _) => index(args, false),
            (operator::OPTIONAL_INDEX | operator::OPTIONAL_SELECT, _) => index(args, true),
            (operator::AND, _) => Ok(Node::And(two(args)?)),
            (operator::OR, _) => Ok(Node::Or(two(args)?)),
            (operator::EQUALS, _) => Ok(Node::Equals(two(args)?, true)),
            (operator::NOT_EQUALS, _) => Ok(Node::Equals(two(args)?, false)),
            ("or", [_, _]) if only.is_none_or(|id| id == "optional_or_optional") => Ok(Node::OrElse(two(args)?, false)),
            ("orValue", [_, _]) if only.is_none_or(|id| id == "optional_orValue_value") => Ok(Node::OrElse(two(args)?, true)),
            (operator::IN, [_, list])
                if only == Some("in_list")
                    && let Some(set) = constants(list) =>
            {
                args.pop();
                let value = args.pop().ok_or("no such overload")?;
                Ok(if set.is_empty() { Node::Const(Value::Bool(false)) } else { Node::OneOf(Box::new(value), set) })
            }
            _ => self.function(call, args, only),
        }
    }

    fn function(&mut self, call: &Call, args: Vec<Node>, only: Option<&str>) -> Planned {
        let function = self.functions.shared(&call.function).ok_or_else(|| format!("unknown function: {}", call.function))?;
        let overload = only.and_then(|id| function.overloads.iter().position(|overload| overload.id == id));
        let chosen = overload.map(|at| &function.overloads[at]);
        let code = chosen.and_then(|overload| overload.code).or(function.code);
        let spent = [chosen.and_then(|overload| overload.spent), function.spent];
        let stops = args.len() > 2 || code.is_none();
        let mut node = CallNode { args: args.into(), overload, stops, code, spent, regex: None, function };
        if matches!(&*call.function, "matches" | "find" | "findAll")
            && let [_, Node::Const(Value::String(pattern)), ..] = &*node.args
        {
            node.regex = Some(regex(pattern)?);
            node.stops = true;
        }
        fold_conversion(node)
    }

    fn fold(&mut self, one: &Comprehension) -> Planned {
        let range = self.node(&one.range)?;
        let init = self.node(&one.init)?;
        let slot = self.scopes.len();
        self.scopes.push((one.accumulator.clone(), slot));
        self.scopes.push((one.var.clone(), slot + 1));
        self.scopes.extend(one.var2.clone().map(|name| (name, slot + 2)));
        self.slots = self.slots.max(self.scopes.len());
        let condition = self.node(&one.condition)?;
        let step = in_place(self.node(&one.step)?, slot);
        self.scopes.truncate(slot + 1);
        let result = self.node(&one.result)?;
        self.scopes.truncate(slot);
        Ok(Node::Fold(Box::new(Fold { range, init, condition, step, result, slot, two: one.var2.is_some() })))
    }
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::string(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

fn as_attribute(node: Node) -> Attribute {
    match node {
        Node::Attribute(attribute) => *attribute,
        other => Attribute { root: Root::Node(other), qualifiers: Vec::new() },
    }
}

fn two(args: Vec<Node>) -> Result<Box<[Node; 2]>, String> {
    <[Node; 2]>::try_from(args).map(Box::new).map_err(|_| "no such overload".to_owned())
}

fn conditional(mut args: Vec<Node>) -> Node {
    let (Some(no), Some(yes), Some(condition)) = (args.pop(), args.pop(), args.pop()) else { return Node::Const(Value::Null) };
    let root = Root::Conditional(Box::new((condition, as_attribute(yes), as_attribute(no))));
    Node::Attribute(Box::new(Attribute { root, qualifiers: Vec::new() }))
}

fn index(mut args: Vec<Node>, optional: bool) -> Planned {
    let (Some(key), Some(operand)) = (args.pop(), args.pop()) else { return Err("no such overload".to_owned()) };
    let key = match key {
        Node::Const(value) if !is_key(&value) => return Err(format!("invalid qualifier type: {}", go_type(&value))),
        Node::Const(value) => QualifierKey::Const(value),
        Node::Attribute(attribute) => QualifierKey::Attribute(*attribute),
        other => QualifierKey::Node(other),
    };
    let mut attribute = as_attribute(operand);
    attribute.qualifiers.push(Qualifier { key, optional, test: false });
    Ok(Node::Attribute(Box::new(attribute)))
}

/// Whether a value may be an index.
pub(crate) fn is_key(value: &Value<'_>) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_))
}

/// Returns the name of the type in Go, which some errors show.
pub(crate) fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Type(_) => "*types.Type",
        Value::List(List::Made(_)) => "*types.baseList",
        Value::List(List::Json(_, shape, _)) if matches!(shape.kind, ShapeKind::Any) => "[]interface {}",
        Value::List(List::Json(_, _, ListKind::Atomic)) => "*common.unstructuredList",
        Value::List(List::Json(_, _, ListKind::Set)) => "*common.unstructuredSetList",
        Value::List(List::Json(_, _, ListKind::Map(_))) => "*common.unstructuredMapList",
        Value::Map(Map::Made(_)) => "*types.baseMap",
        Value::Map(Map::Json(_, fields)) if fields.is_any() => "map[string]interface {}",
        Value::Map(Map::Json(..)) => "*common.unstructuredMap",
        Value::Optional(_) => "*types.Optional",
        Value::Opaque(_) => "cel.Opaque",
        Value::Object(object) if object.is_patch() => "*mutation.JSONPatchVal",
        Value::Object(_) => "*dynamic.ObjectVal",
        Value::Unknown(_) => "*common.unknownPreserved",
    }
}

/// Makes the step of a loop change its accumulator in place, if that is a list that is appended to or a map that is filled.
fn in_place(step: Node, slot: usize) -> Node {
    let is_accumulator = |node: &Node| matches!(node, Node::Attribute(attribute) if attribute.qualifiers.is_empty() && matches!(attribute.root, Root::Local(at) if at == slot));
    match step {
        Node::Attribute(mut attribute) => {
            if let Root::Conditional(parts) = attribute.root {
                let (condition, yes, no) = *parts;
                let yes = match yes.root {
                    Root::Node(node) if yes.qualifiers.is_empty() => as_attribute(in_place(node, slot)),
                    root => Attribute { root, ..yes },
                };
                attribute.root = Root::Conditional(Box::new((condition, yes, no)));
            }
            Node::Attribute(attribute)
        }
        Node::Call(call) if call.args.first().is_some_and(is_accumulator) => {
            let is_list =
                call.function.name == operator::ADD && matches!(call.args.get(1), Some(Node::List(_) | Node::Const(Value::List(_))));
            let is_map = call.function.name == operator::MAP_INSERT;
            if !is_list && !is_map {
                return Node::Call(call);
            }
            let mut rest: Vec<Node> = call.args.into_iter().skip(1).collect();
            if is_map {
                return Node::Insert(slot, rest.into());
            }
            appended(slot, rest.pop())
        }
        other => other,
    }
}

/// The step that appends the only element of a list.
fn appended(slot: usize, list: Option<Node>) -> Node {
    let (element, cost) = match list {
        Some(Node::List(elements)) => (elements.into_iter().next().map(|(element, _)| element), crate::evaluate::LIST_COST),
        Some(Node::Const(Value::List(list))) => (list.get(0).and_then(Result::ok).map(Node::Const), 0),
        _ => (None, 0),
    };
    Node::Append(slot, Box::new(element.unwrap_or(Node::Const(Value::Null))), cost)
}

fn folded_list(nodes: Box<[(Node, bool)]>) -> Node {
    let mut values = Vec::with_capacity(nodes.len());
    for (node, optional) in &nodes {
        match node {
            Node::Const(value) if !optional => values.push(value.clone()),
            _ => return Node::List(nodes),
        }
    }
    Node::Const(Value::list(values))
}

fn folded_map(nodes: Box<[(Node, Node, bool)]>) -> Node {
    let mut builder = MapBuilder::default();
    for (key, value, optional) in &nodes {
        match (key, value) {
            (Node::Const(key), Node::Const(value)) if !optional && builder.insert(key.clone(), value.clone()).is_ok() => {}
            _ => return Node::Map(nodes),
        }
    }
    Node::Const(builder.build())
}

/// The constants of a list that a value may be looked up in.
fn constants(node: &Node) -> Option<BTreeSet<Key<'static>>> {
    let Node::Const(Value::List(list)) = node else { return None };
    let values = list.values().ok()?;
    values.iter().map(|value| if is_key(value) { Key::of(value) } else { None }).collect()
}

/// Names of functions that are computed at once if their argument is a constant.
const CONVERSIONS: [&str; 10] = ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

fn fold_conversion(node: CallNode) -> Planned {
    let [Node::Const(value)] = &*node.args else { return Ok(Node::Call(Box::new(node))) };
    if !CONVERSIONS.contains(&node.function.name) {
        return Ok(Node::Call(Box::new(node)));
    }
    let mut work = Work::new(0);
    let args = [value.clone()];
    let chosen = node.overload.map(|at| &node.function.overloads[at]);
    let outcome = match node.code {
        Some(code) if chosen.is_none_or(|overload| overload.fits(&args)) => code(&mut work, &args),
        Some(_) => Err(Error::no_overload_of(node.function.name, &args)),
        None => node.function.dispatch(&mut work, &args),
    };
    outcome.map(Node::Const).map_err(|error| error.to_string())
}

/// Compiles a regular expression.
pub(crate) fn regex(pattern: &str) -> Result<Arc<regexp::Program>, String> {
    let mut bytes = regexp::COMPILED_BYTES_MAX;
    regexp::Program::compile(pattern, &mut bytes).map(Arc::new)
}
