//! Macros: calls that stand for loops and tests, expanded when an expression is parsed.

use std::sync::Arc;

use crate::ast::{ACCUMULATOR, Call, Comprehension, Element, Entry, Expr, Field, Kind, Literal, Select, Struct, operator};

/// Nodes that an expression may have with its macros expanded: some of them copy what they are called on.
pub(crate) const NODES_MAX: u32 = 400_000;

/// Makes nodes and counts them.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) count: u32,
}

/// Why a macro cannot be expanded, and of which place.
pub(crate) struct Refusal(pub(crate) u32, pub(crate) String);

type Expansion = Result<Expr, Refusal>;

impl Nodes {
    pub(crate) fn node(&mut self, at: u32, kind: Kind) -> Expr {
        let id = self.count;
        self.count = id.saturating_add(1);
        Expr { id, at, kind }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count > NODES_MAX
    }

    pub(crate) fn call(&mut self, at: u32, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        self.node(at, Kind::Call(Box::new(Call { function: function.into(), target, args })))
    }

    /// Returns a copy with numbers of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        if self.is_full() {
            return self.node(expr.at, Kind::Literal(Literal::Null));
        }
        let kind = match &expr.kind {
            Kind::Literal(_) | Kind::Ident(_) => expr.kind.clone(),
            Kind::Select(select) => {
                let operand = self.copy(&select.operand);
                Kind::Select(Box::new(Select { operand, field: select.field.clone(), test: select.test }))
            }
            Kind::Call(call) => {
                let target = call.target.as_ref().map(|target| self.copy(target));
                let args = call.args.iter().map(|arg| self.copy(arg)).collect();
                Kind::Call(Box::new(Call { function: call.function.clone(), target, args }))
            }
            Kind::List(elements) => {
                Kind::List(elements.iter().map(|one| Element { value: self.copy(&one.value), optional: one.optional }).collect())
            }
            Kind::Map(entries) => Kind::Map(
                entries
                    .iter()
                    .map(|one| Entry { key: self.copy(&one.key), value: self.copy(&one.value), optional: one.optional })
                    .collect(),
            ),
            Kind::Struct(message) => {
                let fields = message
                    .fields
                    .iter()
                    .map(|one| Field { at: one.at, name: one.name.clone(), value: self.copy(&one.value), optional: one.optional })
                    .collect();
                Kind::Struct(Box::new(Struct { name: message.name.clone(), fields }))
            }
            Kind::Comprehension(one) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(&one.range),
                var: one.var.clone(),
                var2: one.var2.clone(),
                accumulator: one.accumulator.clone(),
                init: self.copy(&one.init),
                condition: self.copy(&one.condition),
                step: self.copy(&one.step),
                result: self.copy(&one.result),
            })),
        };
        self.node(expr.at, kind)
    }
}

/// A call that is a macro.
#[derive(Clone, Copy)]
enum Macro {
    Has,
    Quantifier(Quantifier),
    Map,
    Filter,
    TransformList,
    /// Whether the last argument is a whole entry.
    TransformMap(bool),
    /// Whether the last argument is an optional value itself.
    OptionalMap(bool),
    SortBy,
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

fn find(function: &str, is_member: bool, args: usize) -> Option<Macro> {
    Some(match (function, is_member, args) {
        ("has", false, 1) => Macro::Has,
        ("all", true, 2 | 3) => Macro::Quantifier(Quantifier::All),
        ("exists", true, 2 | 3) => Macro::Quantifier(Quantifier::Exists),
        ("exists_one", true, 2 | 3) | ("existsOne", true, 3) => Macro::Quantifier(Quantifier::ExistsOne),
        ("map", true, 2 | 3) => Macro::Map,
        ("filter", true, 2) => Macro::Filter,
        ("transformList", true, 3 | 4) => Macro::TransformList,
        ("transformMap", true, 3 | 4) => Macro::TransformMap(false),
        ("transformMapEntry", true, 3 | 4) => Macro::TransformMap(true),
        ("optMap", true, 2) => Macro::OptionalMap(false),
        ("optFlatMap", true, 2) => Macro::OptionalMap(true),
        ("sortBy", true, 2) => Macro::SortBy,
        _ => return None,
    })
}

/// Returns a call, expanded if it is a macro.
pub(crate) fn call_or_macro(nodes: &mut Nodes, at: u32, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let Some(found) = find(function, target.is_some(), args.len()) else {
        return Ok(nodes.call(at, function, target, args));
    };
    let mut expander = Expander { nodes, at };
    let Some(target) = target else { return expander.has(args) };
    match found {
        Macro::Has => expander.has(args),
        Macro::Quantifier(kind) => expander.quantifier(kind, target, args),
        Macro::Map => expander.map(target, args),
        Macro::Filter => expander.filter(target, args),
        Macro::TransformList => expander.transform(target, args, Transform::List),
        Macro::TransformMap(false) => expander.transform(target, args, Transform::Value),
        Macro::TransformMap(true) => expander.transform(target, args, Transform::Entry),
        Macro::OptionalMap(is_flat) => expander.optional(target, args, is_flat),
        Macro::SortBy => expander.sort_by(target, args),
    }
}

enum Transform {
    List,
    Value,
    Entry,
}

struct Expander<'n> {
    nodes: &'n mut Nodes,
    at: u32,
}

/// The variables of a loop.
struct Vars(Arc<str>, Option<Arc<str>>);

impl Expander<'_> {
    fn node(&mut self, kind: Kind) -> Expr {
        self.nodes.node(self.at, kind)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.nodes.call(self.at, function, None, args)
    }

    fn accumulator(&mut self) -> Expr {
        self.node(Kind::Ident(ACCUMULATOR.into()))
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(Kind::Literal(literal))
    }

    fn list(&mut self, values: Vec<Expr>) -> Expr {
        let elements = values.into_iter().map(|value| Element { value, optional: false }).collect();
        self.node(Kind::List(elements))
    }

    fn looped(&mut self, range: Expr, Vars(var, var2): Vars, [init, condition, step, result]: [Expr; 4]) -> Expr {
        let accumulator = ACCUMULATOR.into();
        self.node(Kind::Comprehension(Box::new(Comprehension { range, var, var2, accumulator, init, condition, step, result })))
    }

    fn has(&mut self, args: Vec<Expr>) -> Expansion {
        let [arg] = <[Expr; 1]>::try_from(args).map_err(|_| Refusal(self.at, String::new()))?;
        match arg.kind {
            Kind::Select(mut select) => {
                select.test = true;
                Ok(self.node(Kind::Select(select)))
            }
            _ => Err(Refusal(arg.at, "invalid argument to has() macro".to_owned())),
        }
    }

    /// Takes the names of one or two variables from the arguments.
    fn vars(args: &mut Vec<Expr>, count: usize, no_name: &str) -> Result<Vars, Refusal> {
        let names: Vec<Expr> = args.drain(..count).collect();
        let name = |expr: &Expr| match &expr.kind {
            Kind::Ident(name) => Ok(name.clone()),
            _ => Err(Refusal(expr.at, no_name.to_owned())),
        };
        let vars = Vars(name(&names[0])?, names.get(1).map(name).transpose()?);
        if let Some(second) = vars.1.as_ref().filter(|second| **second == vars.0) {
            return Err(Refusal(names[1].at, format!("duplicate variable name: {second}")));
        }
        for (expr, name) in names.iter().zip([Some(&vars.0), vars.1.as_ref()]) {
            if name.is_some_and(|name| matches!(&**name, ACCUMULATOR | "__result__")) {
                return Err(Refusal(expr.at, "iteration variable overwrites accumulator variable".to_owned()));
            }
        }
        Ok(vars)
    }

    fn quantifier(&mut self, kind: Quantifier, target: Expr, mut args: Vec<Expr>) -> Expansion {
        let count = args.len() - 1;
        let vars = Self::vars(&mut args, count, "argument must be a simple name")?;
        let parts = match kind {
            Quantifier::All => {
                let init = self.literal(Literal::Bool(true));
                let accumulator = vec![self.accumulator()];
                let condition = self.call(operator::NOT_STRICTLY_FALSE, accumulator);
                args.insert(0, self.accumulator());
                [init, condition, self.call(operator::AND, args), self.accumulator()]
            }
            Quantifier::Exists => {
                let init = self.literal(Literal::Bool(false));
                let accumulator = vec![self.accumulator()];
                let not = vec![self.call(operator::NOT, accumulator)];
                let condition = self.call(operator::NOT_STRICTLY_FALSE, not);
                args.insert(0, self.accumulator());
                [init, condition, self.call(operator::OR, args), self.accumulator()]
            }
            Quantifier::ExistsOne => {
                let init = self.literal(Literal::Int(0));
                let condition = self.literal(Literal::Bool(true));
                let sum = vec![self.accumulator(), self.literal(Literal::Int(1))];
                args.push(self.call(operator::ADD, sum));
                args.push(self.accumulator());
                let step = self.call(operator::CONDITIONAL, args);
                let compared = vec![self.accumulator(), self.literal(Literal::Int(1))];
                [init, condition, step, self.call(operator::EQUALS, compared)]
            }
        };
        Ok(self.looped(target, vars, parts))
    }

    /// The step that appends a value, if `filter` holds.
    fn appended(&mut self, filter: Option<Expr>, value: Expr) -> Expr {
        let list = self.list(vec![value]);
        let sum = vec![self.accumulator(), list];
        let step = self.call(operator::ADD, sum);
        self.filtered(filter, step)
    }

    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expr {
        let Some(filter) = filter else { return step };
        let args = vec![filter, step, self.accumulator()];
        self.call(operator::CONDITIONAL, args)
    }

    fn collected(&mut self, target: Expr, vars: Vars, step: Expr) -> Expr {
        let parts = [self.list(Vec::new()), self.literal(Literal::Bool(true)), step, self.accumulator()];
        self.looped(target, vars, parts)
    }

    fn map(&mut self, target: Expr, mut args: Vec<Expr>) -> Expansion {
        let vars = Self::vars(&mut args, 1, "argument is not an identifier")?;
        let value = args.pop().ok_or_else(|| Refusal(self.at, String::new()))?;
        let step = self.appended(args.pop(), value);
        Ok(self.collected(target, vars, step))
    }

    fn filter(&mut self, target: Expr, mut args: Vec<Expr>) -> Expansion {
        let at = args[0].at;
        let vars = Self::vars(&mut args, 1, "argument is not an identifier")?;
        let value = self.nodes.node(at, Kind::Ident(vars.0.clone()));
        let step = self.appended(args.pop(), value);
        Ok(self.collected(target, vars, step))
    }

    fn transform(&mut self, target: Expr, mut args: Vec<Expr>, into: Transform) -> Expansion {
        let vars = Self::vars(&mut args, 2, "argument must be a simple name")?;
        let value = args.pop().ok_or_else(|| Refusal(self.at, String::new()))?;
        let filter = args.pop();
        let inserted = match into {
            Transform::List => {
                let step = self.appended(filter, value);
                return Ok(self.collected(target, vars, step));
            }
            Transform::Value => vec![self.accumulator(), self.node(Kind::Ident(vars.0.clone())), value],
            Transform::Entry => vec![self.accumulator(), value],
        };
        let step = self.call(operator::MAP_INSERT, inserted);
        let step = self.filtered(filter, step);
        let parts = [self.node(Kind::Map(Vec::new())), self.literal(Literal::Bool(true)), step, self.accumulator()];
        Ok(self.looped(target, vars, parts))
    }

    /// A name for a value within an expression.
    fn bound(&mut self, name: &Arc<str>, value: Expr, result: Expr) -> Expr {
        let comprehension = Comprehension {
            range: self.list(Vec::new()),
            var: "#unused".into(),
            var2: None,
            accumulator: name.clone(),
            init: value,
            condition: self.literal(Literal::Bool(false)),
            step: self.node(Kind::Ident(name.clone())),
            result,
        };
        self.node(Kind::Comprehension(Box::new(comprehension)))
    }

    fn optional(&mut self, target: Expr, mut args: Vec<Expr>, is_flat: bool) -> Expansion {
        let Kind::Ident(name) = args[0].kind.clone() else {
            let name = if is_flat { "optFlatMap" } else { "optMap" };
            return Err(Refusal(args[0].at, format!("{name}() variable name must be a simple identifier")));
        };
        let result = args.pop().ok_or_else(|| Refusal(self.at, String::new()))?;
        let copy = self.nodes.copy(&target);
        let has_value = self.nodes.call(self.at, "hasValue", Some(target), Vec::new());
        let value = self.nodes.call(self.at, "value", Some(copy), Vec::new());
        let bound = self.bound(&name, value, result);
        let present = if is_flat { bound } else { self.call("optional.of", vec![bound]) };
        let absent = self.call("optional.none", Vec::new());
        Ok(self.call(operator::CONDITIONAL, vec![has_value, present, absent]))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expansion {
        if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct(_)) {
            let why = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err(Refusal(target.at, why.to_owned()));
        }
        let name: Arc<str> = "@__sortBy_input__".into();
        let input = self.node(Kind::Ident(name.clone()));
        let keys = self.map(input, args)?;
        let input = self.node(Kind::Ident(name.clone()));
        let sorted = self.nodes.call(self.at, "@sortByAssociatedKeys", Some(input), vec![keys]);
        Ok(self.bound(&name, target, sorted))
    }
}
