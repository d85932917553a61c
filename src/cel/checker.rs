//! The type checker, after cel-go's: it gives each part of an expression its type, and each name and call what it refers to.

mod formats;
mod unify;
mod validate;

use std::sync::Arc;

use unify::{Mapping, instantiate, most_general, params_into};

use crate::{
    ast::{Call, Comprehension, Element, Entry, Expr, Kind, Literal, Struct, operator},
    env::{Env, Named},
    functions::Function,
    issue::Issues,
    parse::Parsed,
    types::{PARTS_MAX, Type},
};

/// What a name or a call refers to.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A variable, of the environment or of a loop.
    Variable,
    /// A type, by its name.
    TypeName(Arc<str>),
    /// The overloads of a function that may fit.
    Overloads(Vec<&'static str>),
}

/// An expression and what is known of its parts, by their numbers.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) expr: Expr,
    pub(crate) types: Vec<Type>,
    pub(crate) references: Vec<Option<Reference>>,
}

impl Checked {
    /// Returns the type of a part; what it is of, if it may be absent.
    fn kind(&self, expr: &Expr, is_optional: bool) -> &Type {
        let kind = &self.types[expr.id as usize];
        if is_optional { kind.unwrapped().unwrap_or(kind) } else { kind }
    }
}

/// Checks an expression.
pub(crate) fn check(env: &Env, parsed: Parsed, source: &str) -> Result<Checked, Issues> {
    let count = parsed.nodes as usize;
    let mut checker = Checker {
        env,
        issues: Issues::new(source),
        mapping: Mapping::default(),
        scopes: Vec::new(),
        types: vec![None; count],
        references: vec![None; count],
    };
    let mut expr = parsed.expr;
    checker.check(&mut expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = checker.types.iter().map(|kind| kind.as_ref().map_or(Type::Dyn, |kind| checker.mapping.substitute(kind, true))).collect();
    let checked = Checked { expr, types, references: checker.references };
    let mut issues = checker.issues;
    validate::validate(env, &checked, &mut issues);
    if issues.is_empty() { Ok(checked) } else { Err(issues) }
}

struct Checker<'e> {
    env: &'e Env,
    issues: Issues,
    mapping: Mapping,
    /// Variables of loops, the innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
}

impl Checker<'_> {
    fn set(&mut self, id: u32, at: u32, kind: Type) {
        let kind = if kind.parts() >= PARTS_MAX {
            self.issues.report(at, "the type of the expression is too large");
            Type::Dyn
        } else {
            kind
        };
        self.types[id as usize] = Some(kind);
    }

    fn refer(&mut self, id: u32, reference: Reference) {
        self.references[id as usize] = Some(reference);
    }

    fn kind(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone().unwrap_or(Type::Dyn)
    }

    fn known(&self, expr: &Expr) -> Type {
        self.mapping.substitute(&self.kind(expr), false)
    }

    fn mismatch(&mut self, at: u32, expected: &Type, found: &Type) {
        self.issues.report(at, format!("expected type '{expected}' but found '{found}'"));
    }

    fn undeclared(&mut self, expr: &Expr, name: &str) {
        self.issues.report(expr.at, format!("undeclared reference to '{name}' (in container '')"));
        self.set(expr.id, expr.at, Type::Error);
    }

    fn check(&mut self, expr: &mut Expr) {
        let (id, at) = (expr.id, expr.at);
        match &mut expr.kind {
            Kind::Literal(literal) => {
                let kind = literal_type(literal);
                self.set(id, at, kind);
            }
            Kind::Ident(_) => self.ident(expr),
            Kind::Select(_) => self.select(expr),
            Kind::Call(_) => self.call(expr),
            Kind::List(elements) => {
                let kind = self.list(elements);
                self.set(id, at, kind);
            }
            Kind::Map(entries) => {
                let kind = self.map(entries);
                self.set(id, at, kind);
            }
            Kind::Struct(message) => self.message(id, at, message),
            Kind::Comprehension(comprehension) => {
                let kind = self.comprehension(comprehension);
                self.set(id, at, kind);
            }
        }
    }

    /// Returns what a name is. The name of a loop's variable hides others.
    fn find(&self, name: &str) -> Option<(Named, Arc<str>)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((name, kind)) = self.scopes.iter().rev().find(|(known, _)| **known == *name) {
            return Some((Named::Variable(kind.clone()), name.clone()));
        }
        self.env.named(name).map(|named| (named, name.into()))
    }

    /// Makes an expression the name that it spells, if there is such a one.
    fn named(&mut self, expr: &mut Expr, name: &str) -> bool {
        let Some((named, name)) = self.find(name) else { return false };
        match named {
            Named::Variable(kind) => {
                self.set(expr.id, expr.at, kind);
                self.refer(expr.id, Reference::Variable);
            }
            Named::TypeName(kind) => {
                let value: Arc<str> = kind.name().into();
                self.set(expr.id, expr.at, Type::type_of(kind));
                self.refer(expr.id, Reference::TypeName(value));
            }
        }
        expr.kind = Kind::Ident(name);
        true
    }

    fn ident(&mut self, expr: &mut Expr) {
        let Kind::Ident(name) = &expr.kind else { return };
        let name = name.clone();
        if !self.named(expr, &name) {
            self.undeclared(expr, &name);
        }
    }

    fn select(&mut self, expr: &mut Expr) {
        if let Some(name) = expr.qualified_name()
            && self.named(expr, &name)
        {
            return;
        }
        let (id, at) = (expr.id, expr.at);
        let Kind::Select(select) = &mut expr.kind else { return };
        let kind = self.field(at, &mut select.operand, &select.field, false);
        let kind = if select.test { Type::Bool } else { self.mapping.substitute(&kind, false) };
        self.set(id, at, kind);
    }

    /// Returns the type of a field of an operand.
    fn field(&mut self, at: u32, operand: &mut Expr, field: &str, is_optional: bool) -> Type {
        self.check(operand);
        let operand = self.known(operand);
        let unwrapped = operand.unwrapped();
        let kind = match unwrapped.unwrap_or(&operand) {
            Type::Map(of) => of.1.clone(),
            Type::Object(name) => self.field_type(at, name, field).unwrap_or(Type::Error),
            param @ Type::Param(_) => {
                self.mapping.is_assignable(&Type::Dyn, param);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.issues.report(at, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if unwrapped.is_some() || is_optional { Type::optional(kind) } else { kind }
    }

    fn field_type(&mut self, at: u32, object: &str, field: &str) -> Option<Type> {
        let Ok(kind) = self.env.field_of(object, field) else {
            self.issues.report(at, format!("unexpected failed resolution of '{object}'"));
            return None;
        };
        if kind.is_none() {
            self.issues.report(at, format!("undefined field '{field}'"));
        }
        kind
    }

    fn call(&mut self, expr: &mut Expr) {
        let (id, at) = (expr.id, expr.at);
        let Kind::Call(call) = &mut expr.kind else { return };
        if &*call.function == operator::OPTIONAL_SELECT {
            return self.optional_select(id, at, call);
        }
        for arg in &mut call.args {
            self.check(arg);
        }
        let env = self.env;
        let name = call.function.strip_prefix('.').unwrap_or(&call.function);
        let qualified = call.target.as_ref().and_then(Expr::qualified_name).map(|prefix| format!("{prefix}.{name}"));
        let namespaced = qualified.and_then(|name| env.functions.get(name.strip_prefix('.').unwrap_or(&name)));
        let function = match (&mut call.target, namespaced) {
            (Some(_), Some(function)) => {
                call.target = None;
                Some(function)
            }
            (Some(target), None) => {
                self.check(target);
                env.functions.get(name)
            }
            (None, _) => env.functions.get(name),
        };
        match function {
            Some(function) => {
                call.function = function.name.into();
                let kind = self.resolve(id, at, function, call);
                self.set(id, at, kind);
            }
            None => {
                let name = call.function.clone();
                self.undeclared(expr, &name);
            }
        }
    }

    fn optional_select(&mut self, id: u32, at: u32, call: &mut Call) {
        let [operand, field] = &mut call.args[..] else { return };
        let Some(name) = field.as_string().cloned() else { return };
        let kind = self.field(at, operand, &name, true);
        self.set(field.id, field.at, Type::String);
        self.set(id, at, self.mapping.substitute(&kind, false));
        self.refer(id, Reference::Overloads(vec!["select_optional_field"]));
    }

    /// Returns the type of a call's result, and notes the overloads that may fit.
    fn resolve(&mut self, id: u32, at: u32, function: &Function, call: &Call) -> Type {
        let is_member = call.target.is_some();
        let mut args: Vec<Type> = call.target.iter().chain(&call.args).map(|arg| self.kind(arg)).collect();
        if matches!(function.name, operator::AND | operator::OR) {
            return self.logical(id, function, call, &args);
        }
        let (mut found, mut result) = (Vec::new(), None::<Type>);
        for overload in function.overloads.iter().filter(|overload| overload.member == is_member) {
            let mut names = Vec::new();
            overload.args.iter().chain([&overload.result]).for_each(|kind| params_into(kind, &mut names));
            let fresh: Vec<_> = names.into_iter().map(|name| (name, self.mapping.fresh())).collect();
            if overload.args.len() != args.len() {
                continue;
            }
            let candidates: Vec<Type> = overload.args.iter().map(|kind| instantiate(kind, &fresh)).collect();
            if !self.mapping.are_assignable(&args, &candidates) {
                continue;
            }
            found.push(overload.id);
            let kind = self.mapping.substitute(&instantiate(&overload.result, &fresh), false);
            result = Some(match result {
                None => kind,
                Some(before) if before == Type::Dyn || before == kind => before,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            args.iter_mut().for_each(|arg| *arg = self.mapping.substitute(arg, true));
            let signature = signature(&args, is_member);
            self.issues.report(at, format!("found no matching overload for '{}' applied to '{signature}'", function.name));
            return Type::Error;
        };
        self.refer(id, Reference::Overloads(found));
        result
    }

    fn logical(&mut self, id: u32, function: &Function, call: &Call, args: &[Type]) -> Type {
        let mut is_wrong = false;
        for (kind, arg) in args.iter().zip(&call.args) {
            if !self.mapping.is_assignable(kind, &Type::Bool) {
                self.mismatch(arg.at, &Type::Bool, kind);
                is_wrong = true;
            }
        }
        if is_wrong {
            return Type::Error;
        }
        self.refer(id, Reference::Overloads(function.overloads.iter().map(|overload| overload.id).collect()));
        Type::Bool
    }

    /// Returns the type of an element that may be absent.
    fn unwrapped(&mut self, value: &Expr, is_optional: bool) -> Type {
        let kind = self.kind(value);
        if !is_optional {
            return kind;
        }
        if let Some(unwrapped) = kind.unwrapped() {
            return unwrapped.clone();
        }
        if kind != Type::Dyn {
            self.mismatch(value.at, &Type::optional(kind.clone()), &kind);
        }
        kind
    }

    /// Returns the type that covers one more part.
    fn joined(&mut self, before: Option<Type>, kind: Type) -> Option<Type> {
        let Some(before) = before else { return Some(kind) };
        if self.mapping.is_assignable(&before, &kind) {
            return Some(most_general(&before, &kind).clone());
        }
        Some(Type::Dyn)
    }

    fn list(&mut self, elements: &mut [Element]) -> Type {
        let mut items = None;
        for Element { value, optional } in elements {
            self.check(value);
            let kind = self.unwrapped(value, *optional);
            items = self.joined(items, kind);
        }
        Type::list(items.unwrap_or_else(|| self.mapping.fresh()))
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for Entry { key, value, optional } in entries {
            self.check(key);
            let kind = self.kind(key);
            keys = self.joined(keys, kind);
            self.check(value);
            let kind = self.unwrapped(value, *optional);
            values = self.joined(values, kind);
        }
        let keys = keys.unwrap_or_else(|| self.mapping.fresh());
        Type::map(keys, values.unwrap_or_else(|| self.mapping.fresh()))
    }

    fn message(&mut self, id: u32, at: u32, message: &mut Struct) {
        let Some((named, name)) = self.find(&message.name) else {
            self.issues.report(at, format!("undeclared reference to '{}' (in container '')", message.name));
            return self.set(id, at, Type::Error);
        };
        let kind = match named {
            Named::TypeName(kind @ Type::Object(_)) => kind,
            Named::TypeName(kind) => {
                self.issues.report(at, format!("'{}' is not a message type", kind.name()));
                Type::Error
            }
            Named::Variable(kind) => {
                self.issues.report(at, format!("'{}' is not a type", kind.name()));
                Type::Error
            }
        };
        message.name = name.clone();
        self.set(id, at, kind);
        for field in &mut message.fields {
            self.check(&mut field.value);
            let expected = self.field_type(field.at, &name, &field.name).unwrap_or(Type::Error);
            let found = self.unwrapped(&field.value, field.optional);
            if !self.mapping.is_assignable(&expected, &found) {
                let text = format!("expected type of field '{}' is '{expected}' but provided type is '{found}'", field.name);
                self.issues.report(field.at, text);
            }
        }
    }

    fn comprehension(&mut self, one: &mut Comprehension) -> Type {
        self.check(&mut one.range);
        self.check(&mut one.init);
        let range = self.known(&one.range);
        let accumulator = self.kind(&one.init);
        self.scopes.push((one.accumulator.clone(), accumulator.clone()));
        let (var, var2) = self.loop_types(one, &range);
        self.scopes.push((one.var.clone(), var));
        if let Some(name) = &one.var2 {
            self.scopes.push((name.clone(), var2));
        }
        self.check(&mut one.condition);
        self.expect(&one.condition, &Type::Bool);
        self.check(&mut one.step);
        self.expect(&one.step, &accumulator);
        self.scopes.truncate(self.scopes.len() - if one.var2.is_some() { 2 } else { 1 });
        self.check(&mut one.result);
        self.scopes.pop();
        self.known(&one.result)
    }

    /// Returns the types of the variables of a loop over this.
    fn loop_types(&mut self, one: &Comprehension, range: &Type) -> (Type, Type) {
        match range {
            Type::List(items) if one.var2.is_some() => (Type::Int, (**items).clone()),
            Type::List(items) => ((**items).clone(), Type::Dyn),
            Type::Map(of) => (of.0.clone(), of.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.mapping.is_assignable(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let text = format!("expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)");
                self.issues.report(one.range.at, text);
                (Type::Error, Type::Error)
            }
        }
    }

    fn expect(&mut self, expr: &Expr, kind: &Type) {
        let found = self.kind(expr);
        if !self.mapping.is_assignable(kind, &found) {
            self.mismatch(expr.at, kind, &found);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// Returns the types of arguments as errors show them.
fn signature(args: &[Type], is_member: bool) -> String {
    let (target, args) = if is_member { args.split_at(1) } else { args.split_at(0) };
    let args: Vec<_> = args.iter().map(Type::to_string).collect();
    let target: String = target.iter().map(|target| format!("{target}.")).collect();
    format!("{target}({})", args.join(", "))
}
