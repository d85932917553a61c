//! The parser: what cel-go 0.26 accepts, in its limits of depth and length. What the grammar refuses has its text from `syntax`.

use crate::{
    ast::{Element, Entry, Expr, Field, Kind, Literal, Select, Struct, operator},
    issue::Issues,
    macros::{Nodes, Refusal, call_or_macro},
    syntax,
    token::{Token, TokenKind, tokens, unescape},
};
use model::cel_words::is_reserved;

/// Levels of expressions in expressions, and of operators in operators.
const DEPTH_MAX: u32 = 250;
/// Characters of an expression.
const CHARS_MAX: usize = 100_000;

/// An expression, and how many nodes it has.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) expr: Expr,
    pub(crate) nodes: u32,
}

/// Why parsing ends.
enum Stop {
    Syntax,
    Deep(&'static str),
    Large,
}

/// A part of an expression, and how many operators are on its longest way down.
struct Part {
    expr: Expr,
    height: u32,
}

type Parse = Result<Part, Stop>;

/// Parses an expression.
pub(crate) fn parse(source: &str) -> Result<Parsed, Issues> {
    let mut issues = Issues::new(source);
    let chars: Vec<char> = source.chars().collect();
    if chars.len() > CHARS_MAX {
        issues.report_nowhere(format!("expression code point size exceeds limit: size: {}, limit {CHARS_MAX}", chars.len()));
        return Err(issues);
    }
    let Some(tokens) = tokens(&chars) else { return Err(syntax::issues(source)) };
    let mut parser = Parser { chars, tokens, next: 0, nodes: Nodes::default(), issues, depth: 0 };
    let parsed = parser.expr().and_then(|part| if parser.peek().kind == TokenKind::End { Ok(part) } else { Err(Stop::Syntax) });
    let mut issues = parser.issues;
    match parsed {
        Ok(part) if issues.is_empty() => return Ok(Parsed { expr: part.expr, nodes: parser.nodes.count }),
        Ok(_) => {}
        Err(Stop::Syntax) => return Err(syntax::issues(source)),
        Err(Stop::Deep(why)) => issues.report_nowhere(why),
        Err(Stop::Large) => issues.report_nowhere("expression is too large with its macros expanded"),
    }
    Err(issues)
}

struct Parser {
    chars: Vec<char>,
    tokens: Vec<Token>,
    next: usize,
    nodes: Nodes,
    issues: Issues,
    depth: u32,
}

/// Operators between operands: how they are written, their names, and how tightly they bind.
const OPERATORS: [(&str, &str, u8); 14] = [
    ("||", operator::OR, 1),
    ("&&", operator::AND, 2),
    ("<", "_<_", 3),
    ("<=", "_<=_", 3),
    (">=", "_>=_", 3),
    (">", "_>_", 3),
    ("==", operator::EQUALS, 3),
    ("!=", operator::NOT_EQUALS, 3),
    ("in", operator::IN, 3),
    ("+", operator::ADD, 4),
    ("-", "_-_", 4),
    ("*", "_*_", 5),
    ("/", "_/_", 5),
    ("%", "_%_", 5),
];

/// Operands and operators that are not applied yet.
#[derive(Default)]
struct Pending {
    operands: Vec<Part>,
    operators: Vec<(&'static str, u8, usize)>,
    conjunction: Terms,
    disjunction: Terms,
}

/// The terms of `&&` or `||`, and where the operators are.
#[derive(Default)]
struct Terms {
    parts: Vec<Option<Expr>>,
    operators: Vec<usize>,
    height: u32,
}

impl Terms {
    /// Takes the last operand as a term.
    fn push(&mut self, operands: &mut Vec<Part>, at: usize) {
        if let Some(part) = operands.pop() {
            self.height = self.height.max(part.height);
            self.parts.push(Some(part.expr));
            self.operators.push(at);
        }
    }
}

const LIMIT_EXCEEDED: &str = "expression recursion limit exceeded: 250";

impl Parser {
    fn peek(&self) -> Token {
        self.token(0)
    }

    fn token(&self, ahead: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.next + ahead).min(last)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn is(&self, operator: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Op(found) if found == operator)
    }

    /// Takes an operator, if it is the next token.
    fn taken(&mut self, operator: &str) -> Option<Token> {
        self.is(operator).then(|| self.take())
    }

    fn expect(&mut self, operator: &str) -> Result<Token, Stop> {
        self.taken(operator).ok_or(Stop::Syntax)
    }

    fn text(&self, token: Token) -> String {
        self.chars[token.at..token.end].iter().collect()
    }

    fn leaf(&mut self, at: usize, kind: Kind) -> Part {
        Part { expr: self.nodes.node(place(at), kind), height: 0 }
    }

    /// Reports an error, and returns something that stands for the expression.
    fn wrong(&mut self, at: usize, message: impl Into<String>) -> Part {
        self.issues.report(place(at), message);
        self.leaf(at, Kind::Literal(Literal::Null))
    }

    fn call(&mut self, at: usize, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Stop> {
        let expr = match call_or_macro(&mut self.nodes, place(at), function, target, args) {
            Ok(expr) => expr,
            Err(Refusal(at, message)) => self.wrong(at as usize, message).expr,
        };
        if self.nodes.is_full() { Err(Stop::Large) } else { Ok(expr) }
    }

    fn expr(&mut self) -> Parse {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Stop::Deep(LIMIT_EXCEEDED));
        }
        let condition = self.operators()?;
        let part = match self.taken("?") {
            None => condition,
            Some(token) => {
                let yes = self.operators()?;
                self.expect(":")?;
                let no = self.expr()?;
                let height = over(condition.height.max(yes.height).max(no.height))?;
                let expr = self.call(token.at, operator::CONDITIONAL, None, vec![condition.expr, yes.expr, no.expr])?;
                Part { expr, height }
            }
        };
        self.depth -= 1;
        Ok(part)
    }

    /// Operands and operators between them. One function for all of them: a parenthesis takes little of the stack.
    fn operators(&mut self) -> Parse {
        let mut pending = Pending::default();
        loop {
            let operand = self.unary()?;
            pending.operands.push(operand);
            let TokenKind::Op(symbol) = self.peek().kind else { break };
            let Some((_, name, rank)) = OPERATORS.iter().find(|(known, ..)| *known == symbol) else { break };
            let token = self.take();
            self.reduce(&mut pending, *rank)?;
            match symbol {
                "&&" => pending.conjunction.push(&mut pending.operands, token.at),
                "||" => {
                    self.conjoin(&mut pending)?;
                    pending.disjunction.push(&mut pending.operands, token.at);
                }
                _ => pending.operators.push((name, *rank, token.at)),
            }
        }
        self.reduce(&mut pending, 0)?;
        self.conjoin(&mut pending)?;
        let Some(last) = pending.operands.pop() else { return Err(Stop::Syntax) };
        self.balanced_part(operator::OR, pending.disjunction, last)
    }

    /// Applies the operators that bind as tightly as this rank.
    fn reduce(&mut self, pending: &mut Pending, rank: u8) -> Result<(), Stop> {
        while let Some((name, _, at)) = pending.operators.pop_if(|(_, known, _)| *known >= rank) {
            let (Some(right), Some(left)) = (pending.operands.pop(), pending.operands.pop()) else { return Err(Stop::Syntax) };
            let height = over(left.height.max(right.height))?;
            pending.operands.push(Part { expr: self.call(at, name, None, vec![left.expr, right.expr])?, height });
        }
        Ok(())
    }

    /// Ends the terms of an `&&`.
    fn conjoin(&mut self, pending: &mut Pending) -> Result<(), Stop> {
        let Some(last) = pending.operands.pop() else { return Err(Stop::Syntax) };
        let terms = std::mem::take(&mut pending.conjunction);
        let part = self.balanced_part(operator::AND, terms, last)?;
        pending.operands.push(part);
        Ok(())
    }

    fn balanced_part(&mut self, name: &str, terms: Terms, last: Part) -> Parse {
        let height = terms.height.max(last.height);
        let mut parts = terms.parts;
        parts.push(Some(last.expr));
        Ok(Part { expr: self.balanced(name, &mut parts, &terms.operators)?, height })
    }

    /// A tree of terms that is as flat as can be.
    fn balanced(&mut self, name: &str, terms: &mut [Option<Expr>], operators: &[usize]) -> Result<Expr, Stop> {
        if operators.is_empty() {
            return terms[0].take().ok_or(Stop::Syntax);
        }
        let middle = operators.len() / 2;
        let left = self.balanced(name, &mut terms[..=middle], &operators[..middle])?;
        let right = self.balanced(name, &mut terms[middle + 1..], &operators[middle + 1..])?;
        self.call(operators[middle], name, None, vec![left, right])
    }

    fn unary(&mut self) -> Parse {
        let is_number = matches!(self.token(1).kind, TokenKind::Int | TokenKind::Float);
        let (symbol, name) = match self.peek().kind {
            TokenKind::Op("!") => ("!", operator::NOT),
            TokenKind::Op("-") if !is_number => ("-", operator::NEGATE),
            _ => return self.member(),
        };
        let first = self.take();
        let mut count = 1;
        while self.taken(symbol).is_some() {
            count += 1;
        }
        let part = self.member()?;
        if count % 2 == 0 {
            return Ok(part);
        }
        Ok(Part { expr: self.call(first.at, name, None, vec![part.expr])?, height: part.height })
    }

    fn member(&mut self) -> Parse {
        let mut part = self.primary()?;
        loop {
            part = if let Some(dot) = self.taken(".") {
                self.selected(part, dot)?
            } else if let Some(bracket) = self.taken("[") {
                let name = if self.taken("?").is_some() { operator::OPTIONAL_INDEX } else { operator::INDEX };
                let index = self.expr()?;
                self.expect("]")?;
                let height = over(part.height.max(index.height))?;
                Part { expr: self.call(bracket.at, name, None, vec![part.expr, index.expr])?, height }
            } else {
                return Ok(part);
            };
        }
    }

    /// What follows a dot: a field, or a call.
    fn selected(&mut self, part: Part, dot: Token) -> Parse {
        let is_optional = self.taken("?").is_some();
        let token = self.take();
        if token.kind == TokenKind::Ident && !is_optional && self.is("(") {
            let open = self.take();
            let (args, height) = self.args()?;
            let height = over(part.height.max(height))?;
            let name = self.text(token);
            return Ok(Part { expr: self.call(open.at, &name, Some(part.expr), args)?, height });
        }
        let field = self.field_name(token)?;
        let height = over(part.height)?;
        if is_optional {
            let field = self.nodes.node(place(token.at), Kind::Literal(Literal::String(field.into())));
            let expr = self.nodes.call(place(dot.at), operator::OPTIONAL_SELECT, None, vec![part.expr, field]);
            return Ok(Part { expr, height });
        }
        let select = Select { operand: part.expr, field: field.into(), test: false };
        Ok(Part { expr: self.nodes.node(place(dot.at), Kind::Select(Box::new(select))), height })
    }

    fn field_name(&mut self, token: Token) -> Result<String, Stop> {
        match token.kind {
            TokenKind::Ident => Ok(self.text(token)),
            TokenKind::Escaped => {
                self.issues.report(place(token.at), "unsupported syntax: '`'");
                Ok(String::new())
            }
            _ => Err(Stop::Syntax),
        }
    }

    /// Arguments up to the parenthesis that ends them.
    fn args(&mut self) -> Result<(Vec<Expr>, u32), Stop> {
        let (mut args, mut height) = (Vec::new(), 0);
        if self.taken(")").is_some() {
            return Ok((args, height));
        }
        loop {
            let part = self.expr()?;
            height = height.max(part.height);
            args.push(part.expr);
            if self.taken(",").is_none() {
                self.expect(")")?;
                return Ok((args, height));
            }
        }
    }

    fn primary(&mut self) -> Parse {
        let token = self.peek();
        match token.kind {
            TokenKind::Ident => self.named(token, None),
            TokenKind::Op(".") if self.token(1).kind == TokenKind::Ident => {
                self.take();
                self.named(self.peek(), Some(token))
            }
            TokenKind::Op("(") => {
                self.take();
                let part = self.expr()?;
                self.expect(")")?;
                Ok(part)
            }
            TokenKind::Op("[") => self.list(),
            TokenKind::Op("{") => self.map(),
            _ => self.literal(),
        }
    }

    /// A name, a call, or an object; `dot`: the one before it.
    fn named(&mut self, token: Token, dot: Option<Token>) -> Parse {
        if let Some(length) = self.object_name() {
            return self.object(dot, length);
        }
        self.take();
        let name = self.text(token);
        let start = dot.unwrap_or(token).at;
        let open = self.taken("(");
        let args = open.is_some().then(|| self.args()).transpose()?;
        if is_reserved(&name) {
            return Ok(self.wrong(start, format!("reserved identifier: {name}")));
        }
        let name = if dot.is_some() { format!(".{name}") } else { name };
        match (open, args) {
            (Some(open), Some((args, height))) => Ok(Part { expr: self.call(open.at, &name, None, args)?, height }),
            _ => Ok(self.leaf(token.at, Kind::Ident(name.into()))),
        }
    }

    /// How many tokens the name of an object has that begins here: `a.b.C{`.
    fn object_name(&self) -> Option<usize> {
        let mut length = 1;
        while self.token(length).kind == TokenKind::Op(".") && self.token(length + 1).kind == TokenKind::Ident {
            length += 2;
        }
        (self.token(length).kind == TokenKind::Op("{")).then_some(length)
    }

    fn object(&mut self, dot: Option<Token>, length: usize) -> Parse {
        let mut name = if dot.is_some() { ".".to_owned() } else { String::new() };
        for _ in 0..length {
            let token = self.take();
            name.push_str(&self.text(token));
        }
        let open = self.expect("{")?;
        let (mut fields, mut height) = (Vec::new(), 0);
        while !(self.is("}") || self.is(",") && self.token(1).kind == TokenKind::Op("}")) {
            if !fields.is_empty() {
                self.expect(",")?;
            }
            let optional = self.taken("?").is_some();
            let token = self.take();
            let name = self.field_name(token)?;
            let colon = self.expect(":")?;
            let part = self.expr()?;
            height = height.max(part.height);
            fields.push(Field { at: place(colon.at), name: name.into(), value: part.expr, optional });
        }
        self.taken(",");
        self.expect("}")?;
        Ok(Part { height, ..self.leaf(open.at, Kind::Struct(Box::new(Struct { name: name.into(), fields }))) })
    }

    fn list(&mut self) -> Parse {
        let open = self.take();
        let (mut elements, mut height) = (Vec::new(), 0);
        while !(self.is("]") || self.is(",") && self.token(1).kind == TokenKind::Op("]")) {
            if !elements.is_empty() {
                self.expect(",")?;
            }
            let optional = self.taken("?").is_some();
            let part = self.expr()?;
            height = height.max(part.height);
            elements.push(Element { value: part.expr, optional });
        }
        self.taken(",");
        self.expect("]")?;
        Ok(Part { height, ..self.leaf(open.at, Kind::List(elements)) })
    }

    fn map(&mut self) -> Parse {
        let open = self.take();
        let (mut entries, mut height) = (Vec::new(), 0);
        while !(self.is("}") || self.is(",") && self.token(1).kind == TokenKind::Op("}")) {
            if !entries.is_empty() {
                self.expect(",")?;
            }
            let optional = self.taken("?").is_some();
            let key = self.expr()?;
            self.expect(":")?;
            let value = self.expr()?;
            height = height.max(key.height).max(value.height);
            entries.push(Entry { key: key.expr, value: value.expr, optional });
        }
        self.taken(",");
        self.expect("}")?;
        Ok(Part { height, ..self.leaf(open.at, Kind::Map(entries)) })
    }

    fn literal(&mut self) -> Parse {
        let first = self.take();
        let is_negative = first.kind == TokenKind::Op("-");
        let token = if is_negative { self.take() } else { first };
        let text = self.text(token);
        let signed = if is_negative { format!("-{text}") } else { text.clone() };
        let literal = match token.kind {
            TokenKind::Int => integer(&text, is_negative).map(Literal::Int).ok_or("invalid int literal"),
            TokenKind::Float => {
                signed.parse().ok().filter(|value: &f64| value.is_finite()).map(Literal::Double).ok_or("invalid double literal")
            }
            _ if is_negative => return Err(Stop::Syntax),
            TokenKind::Uint => unsigned(&text[..text.len() - 1]).map(Literal::Uint).ok_or("invalid uint literal"),
            TokenKind::String => unescape(&self.chars[token.at..token.end], false)
                .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "invalid unicode code point"))
                .map(|text| Literal::String(text.into())),
            TokenKind::Bytes => unescape(&self.chars[token.at + 1..token.end], true).map(|bytes| Literal::Bytes(bytes.into())),
            TokenKind::Op("true") => Ok(Literal::Bool(true)),
            TokenKind::Op("false") => Ok(Literal::Bool(false)),
            TokenKind::Op("null") => Ok(Literal::Null),
            _ => return Err(Stop::Syntax),
        };
        Ok(match literal {
            Ok(literal) => self.leaf(first.at, Kind::Literal(literal)),
            Err(message) => self.wrong(first.at, message),
        })
    }
}

/// Returns an offset as nodes have it.
fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The height of an operator over parts of this height.
fn over(height: u32) -> Result<u32, Stop> {
    if height >= DEPTH_MAX { Err(Stop::Deep("max recursion depth exceeded")) } else { Ok(height + 1) }
}

fn unsigned(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn integer(text: &str, is_negative: bool) -> Option<i64> {
    let value = unsigned(text)?;
    if is_negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}
