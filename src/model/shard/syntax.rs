//! The grammar of CEL as far as a shard selector's refusals need it: what kind of expression stands where. Evaluates nothing.
//!
//! Syntax errors are those of the real server's parser wherever one token decides; it recovers and looks further ahead, this one does not.

use super::lexer::{self, Kind, Token};
use crate::cel_words::is_reserved;

/// An expression; parts that no message speaks of are dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// Terms joined by `||`, two at least.
    Or(Vec<Expr>),
    /// A function or an operator; operators are without their operands.
    Call {
        function: String,
        arguments: Vec<Expr>,
    },
    Ident(String),
    Select(Box<Expr>, String),
    Literal(Literal),
    List,
    Map,
    Struct,
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Text(String),
    /// Any other, by the name of its Go type.
    Other(&'static str),
}

impl Expr {
    /// The number that stands for this kind of expression in the real server's messages.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Or(_) | Self::Call { .. } => 1,
            Self::Ident(_) => 3,
            Self::List => 4,
            Self::Literal(_) => 5,
            Self::Map => 6,
            Self::Select(..) => 7,
            Self::Struct => 8,
        }
    }

    /// `a.b.c`, if the expression is a path; else the kind of what is none.
    pub(super) fn path(&self) -> Result<String, u8> {
        match self {
            Self::Ident(name) => Ok(name.clone()),
            Self::Select(of, name) => Ok(format!("{}.{name}", of.path()?)),
            other => Err(other.kind()),
        }
    }

    /// How many members of members it is.
    fn depth(&self) -> usize {
        let mut expr = self;
        let mut depth = 0;
        while let Self::Select(of, _) = expr {
            (expr, depth) = (of, depth + 1);
        }
        depth
    }

    fn operator(name: &str) -> Self {
        Self::Call { function: name.to_owned(), arguments: Vec::new() }
    }
}

/// Reads a whole expression.
///
/// # Errors
/// What follows `CEL parse error: `.
pub(super) fn parse(text: &str) -> Result<Expr, String> {
    let mut parser = Parser::at(text);
    let expr = parser.expr()?;
    if parser.token.kind == Kind::End {
        return Ok(expr);
    }
    let alone = parser.peek().kind == Kind::End;
    Err(parser.wrong(alone, "<EOF>"))
}

/// Expressions inside one another, and members of members, with brackets or without; the real server stops at 250 of its own rules, one of ours is up to
/// two of them.
const EXPRESSION_DEPTH_MAX: usize = 120;

/// Binary operators but `||`, from the loosest; those of one row bind alike.
const OPERATORS: [&[(&str, &str)]; 4] = [
    &[("&&", "_&&_")],
    &[("==", "_==_"), ("!=", "_!=_"), ("<", "_<_"), ("<=", "_<=_"), (">", "_>_"), (">=", "_>=_"), ("in", "@in")],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

struct Parser<'a> {
    token: Token<'a>,
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn at(text: &'a str) -> Self {
        let (token, rest) = lexer::next(text);
        Self { token, rest, depth: 0 }
    }

    fn advance(&mut self) -> Token<'a> {
        let token = self.token;
        (self.token, self.rest) = lexer::next(self.rest);
        token
    }

    fn peek(&self) -> Token<'a> {
        lexer::next(self.rest).0
    }

    fn sees(&self, text: &str) -> bool {
        matches!(self.token.kind, Kind::Sign | Kind::Ident) && self.token.text == text
    }

    fn takes(&mut self, text: &str) -> bool {
        let sees = self.sees(text);
        if sees {
            self.advance();
        }
        sees
    }

    fn expects(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) {
            return Ok(());
        }
        // What follows a bracket may follow where it is missing, too.
        if self.token.kind == Kind::End && sign != ":" {
            return Err(format!("Syntax error: missing '{sign}' at '<EOF>'"));
        }
        let alone = self.peek().text == sign;
        Err(self.wrong(alone, &format!("'{sign}'")))
    }

    /// The token cannot stand here; `extraneous`: without it the text would go on well.
    fn wrong(&self, extraneous: bool, expected: &str) -> String {
        let text = self.token.text;
        match self.token.kind {
            Kind::Bad => format!("Syntax error: token recognition error at: '{text}'"),
            Kind::End => format!("Syntax error: mismatched input '<EOF>' expecting {expected}"),
            _ if extraneous => format!("Syntax error: extraneous input '{text}' expecting {expected}"),
            _ => format!("Syntax error: mismatched input '{text}' expecting {expected}"),
        }
    }

    /// `a ? b : c`, or less.
    fn expr(&mut self) -> Result<Expr, String> {
        self.expr_or("")
    }

    /// The same, where `besides` could stand, too.
    fn expr_or(&mut self, besides: &str) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return Err("expression recursion limit exceeded: 250".to_owned());
        }
        self.starts(besides)?;
        let mut expr = self.or()?;
        if self.takes("?") {
            self.starts("")?;
            self.or()?;
            self.expects(":")?;
            self.expr()?;
            expr = Expr::operator("_?_:_");
        }
        self.depth -= 1;
        Ok(expr)
    }

    fn or(&mut self) -> Result<Expr, String> {
        let first = self.binary(0)?;
        if !self.sees("||") {
            return Ok(first);
        }
        let mut terms = vec![first];
        while self.takes("||") {
            self.starts("")?;
            match self.binary(0)? {
                // What brackets held is walked from left to right as well.
                Expr::Or(more) => terms.extend(more),
                term => terms.push(term),
            }
        }
        Ok(Expr::Or(terms))
    }

    fn binary(&mut self, row: usize) -> Result<Expr, String> {
        let Some(operators) = OPERATORS.get(row) else { return self.unary() };
        let mut expr = self.binary(row + 1)?;
        while let Some((_, name)) = operators.iter().find(|(sign, _)| self.sees(sign)) {
            self.advance();
            self.starts("")?;
            self.binary(row + 1)?;
            expr = Expr::operator(name);
        }
        Ok(expr)
    }

    fn unary(&mut self) -> Result<Expr, String> {
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let mut odd = false;
            let mut any = false;
            while self.takes(sign) {
                (odd, any) = (!odd, true);
            }
            if !any {
                continue;
            }
            let is_number = matches!(self.token.kind, Kind::Int | Kind::Float);
            self.starts("")?;
            if sign == "-" && odd && is_number {
                return self.literal(true);
            }
            let operand = self.member()?;
            return Ok(if odd { Expr::operator(name) } else { operand });
        }
        self.member()
    }

    fn member(&mut self) -> Result<Expr, String> {
        let mut expr = self.primary()?;
        // What stands in brackets goes on here.
        let mut members = expr.depth();
        loop {
            members += 1;
            if members > EXPRESSION_DEPTH_MAX {
                return Err("max recursion depth exceeded".to_owned());
            }
            if self.takes(".") {
                self.has_no_optional(".?")?;
                if self.token.kind != Kind::Ident || ["in", "true", "false", "null"].contains(&self.token.text) {
                    return Err(format!("Syntax error: no viable alternative at input '.{}'", self.token.text));
                }
                let name = self.advance().text.to_owned();
                expr = if self.takes("(") {
                    Expr::Call { function: name, arguments: self.arguments()? }
                } else {
                    Expr::Select(Box::new(expr), name)
                };
            } else if self.takes("[") {
                self.has_no_optional("[?")?;
                self.expr_or("'?', ")?;
                self.expects("]")?;
                expr = Expr::operator("_[_]");
            } else if self.sees("{") && expr.path().is_ok() {
                self.advance();
                self.entries("}", true)?;
                expr = Expr::Struct;
            } else {
                return Ok(expr);
            }
        }
    }

    /// Optional fields and elements are an extension that is off.
    fn has_no_optional(&self, sign: &str) -> Result<(), String> {
        if self.sees("?") { Err(format!("unsupported syntax '{sign}'")) } else { Ok(()) }
    }

    fn primary(&mut self) -> Result<Expr, String> {
        match (self.token.kind, self.token.text) {
            (Kind::Sign, "(") => {
                self.advance();
                let expr = self.expr()?;
                self.expects(")")?;
                Ok(expr)
            }
            (Kind::Sign, "[") => {
                self.advance();
                self.entries("]", false)?;
                Ok(Expr::List)
            }
            (Kind::Sign, "{") => {
                self.advance();
                self.entries("}", true)?;
                Ok(Expr::Map)
            }
            (Kind::Ident, "true" | "false" | "null") | (Kind::Int | Kind::Uint | Kind::Float | Kind::Text | Kind::Bytes, _) => {
                self.literal(false)
            }
            _ => self.named(),
        }
    }

    /// A name, or the call of a function; a dot may stand before it.
    fn named(&mut self) -> Result<Expr, String> {
        let dot = if self.takes(".") { "." } else { "" };
        if self.token.kind != Kind::Ident || self.token.text == "in" {
            return Err(self.wrong(false, "IDENTIFIER"));
        }
        let name = self.advance().text;
        if is_reserved(name) {
            return Err(format!("reserved identifier: {name}"));
        }
        let function = format!("{dot}{name}");
        if self.takes("(") { Ok(Expr::Call { function, arguments: self.arguments()? }) } else { Ok(Expr::Ident(function)) }
    }

    /// What stands between the brackets of a call, with the closing one.
    fn arguments(&mut self) -> Result<Vec<Expr>, String> {
        let mut arguments = Vec::new();
        if self.takes(")") {
            return Ok(arguments);
        }
        arguments.push(self.expr_or("')', ")?);
        while self.takes(",") {
            arguments.push(self.expr()?);
        }
        self.expects(")")?;
        Ok(arguments)
    }

    /// Elements of a list, a map or a message, up to the closing bracket.
    fn entries(&mut self, close: &str, pairs: bool) -> Result<(), String> {
        while !self.takes(close) {
            self.expr()?;
            if pairs {
                self.expects(":")?;
                self.expr()?;
            }
            if !self.takes(",") {
                return self.expects(close);
            }
        }
        Ok(())
    }

    fn literal(&mut self, negative: bool) -> Result<Expr, String> {
        let Token { kind, text } = self.advance();
        let hex = text.strip_prefix("0x");
        let number = |digits: &str| {
            u64::from_str_radix(hex.map_or(digits, |hex| hex.trim_end_matches(['u', 'U'])), if hex.is_some() { 16 } else { 10 })
        };
        Ok(Expr::Literal(match kind {
            Kind::Text => Literal::Text(lexer::value(text)),
            Kind::Bytes => Literal::Other("[]uint8"),
            Kind::Float => Literal::Other("float64"),
            Kind::Uint => match number(text.trim_end_matches(['u', 'U'])) {
                Ok(_) => Literal::Other("uint64"),
                Err(_) => return Err("invalid uint literal".to_owned()),
            },
            Kind::Int => match number(text) {
                Ok(n) if n <= i64::MAX as u64 + u64::from(negative) => Literal::Other("int64"),
                _ => return Err("invalid int literal".to_owned()),
            },
            _ if text == "null" => Literal::Other("structpb.NullValue"),
            _ => Literal::Other("bool"),
        }))
    }

    /// Whether an expression can begin here.
    fn starts(&self, besides: &str) -> Result<(), String> {
        let begins = |token: Token<'_>| match token.kind {
            Kind::Sign => matches!(token.text, "[" | "{" | "(" | "." | "-" | "!"),
            Kind::Ident => token.text != "in",
            Kind::Bad | Kind::End => false,
            _ => true,
        };
        if begins(self.token) {
            return Ok(());
        }
        let (before, after) = match besides {
            "')', " => ("')', ", ""),
            other => ("", other),
        };
        let expected = format!(
            "{{'[', '{{', '(', {before}'.', '-', '!', {after}'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}}"
        );
        Err(self.wrong(begins(self.peek()), &expected))
    }
}
