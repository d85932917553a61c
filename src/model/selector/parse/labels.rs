//! Parses a label selector (spec list-watch §7.1). Knows the grammar; the tokens are cut in `lexer`, the legal words are in `model::legal`.

use std::collections::BTreeSet;

use super::lexer::{END, Kind, Token, tokens};
use crate::{
    invalid::TOLD_BYTES_MAX,
    legal::{wrong_key, wrong_value},
    selector::{LabelOp, LabelRequirement, LabelSelector},
};
use go::quote::quoted;

/// Parses a label selector; requirements come sorted by key, the values of each sorted and without repetition.
///
/// # Errors
/// The message of the 400 (spec list-watch §7.1), byte for byte.
pub fn labels(text: &str) -> Result<LabelSelector, String> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut requirements = parser.selector()?;
    requirements.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(LabelSelector { requirements })
}

type Values = BTreeSet<String>;

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        match self.peek() {
            Token { kind: Kind::End, .. } => return Ok(requirements),
            Token { kind: Kind::Word | Kind::Not, .. } => {}
            found => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", found.text)),
        }
        loop {
            requirements.push(self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?);
            let after = self.take();
            match after.kind {
                Kind::End => return Ok(requirements),
                Kind::Comma => {}
                _ => return Err(format!("found '{}', expected: ',' or 'end of string'", after.text)),
            }
            let next = self.peek();
            if !matches!(next.kind, Kind::Word | Kind::Not) {
                return Err(format!("found '{}', expected: identifier after ','", next.text));
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let mut token = self.take();
        let absent = token.kind == Kind::Not;
        if absent {
            token = self.take();
        }
        if token.kind != Kind::Word {
            return Err(format!("found '{}', expected: identifier", token.text));
        }
        let key = token.text;
        let wrong = wrong_key(key);
        if !wrong.is_empty() {
            return Err(format!("<nil>: Invalid value: {}: {}", quoted(key), wrong.join("; ")));
        }
        let op = if absent {
            LabelOp::Absent
        } else if matches!(self.peek().kind, Kind::End | Kind::Comma) {
            LabelOp::Exists
        } else {
            self.operation(key)?
        };
        Ok(LabelRequirement { key: key.into(), op })
    }

    fn operation(&mut self, key: &str) -> Result<LabelOp, String> {
        let operator = self.take_raw();
        let values = match operator.kind {
            Kind::In | Kind::NotIn => self.set()?,
            Kind::Equals | Kind::DoubleEquals | Kind::NotEquals | Kind::Greater | Kind::Less => self.value()?,
            _ => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", operator.text)),
        };
        checked(key, operator.kind, values)
    }

    /// `(a,b)`; an empty place counts as the empty value.
    fn set(&mut self) -> Result<Values, String> {
        let open = self.take();
        if open.kind != Kind::Open {
            return Err(format!("found '{}' expected: '('", open.text));
        }
        let first = self.peek();
        match first.kind {
            Kind::Word | Kind::Comma => self.members(),
            Kind::Close => {
                self.take();
                Ok(Values::from([String::new()]))
            }
            _ => Err(format!("found '{}', expected: ',', ')' or identifier", first.text)),
        }
    }

    fn members(&mut self) -> Result<Values, String> {
        let mut values = Values::new();
        loop {
            let token = self.take();
            let next = self.peek();
            match token.kind {
                Kind::Word => {
                    values.insert(token.text.to_owned());
                    if !matches!(next.kind, Kind::Comma | Kind::Close) {
                        return Err(format!("found '{}', expected: ',' or ')'", next.text));
                    }
                }
                Kind::Comma => {
                    if values.is_empty() || matches!(next.kind, Kind::Comma | Kind::Close) {
                        values.insert(String::new());
                    }
                }
                _ => return Err(format!("found '{}', expected: ',', or identifier", token.text)),
            }
            if next.kind == Kind::Close {
                self.take();
                return Ok(values);
            }
        }
    }

    /// The one value of `=` and its like; nothing at all is the empty value.
    fn value(&mut self) -> Result<Values, String> {
        if matches!(self.peek().kind, Kind::End | Kind::Comma) {
            return Ok(Values::from([String::new()]));
        }
        let token = self.take();
        match token.kind {
            Kind::Word => Ok(Values::from([token.text.to_owned()])),
            _ => Err(format!("found '{}', expected: identifier", token.text)),
        }
    }

    /// `in` and `notin` are words everywhere but in operator position.
    fn peek(&self) -> Token<'a> {
        let token = self.tokens.get(self.at).copied().unwrap_or(END);
        match token.kind {
            Kind::In | Kind::NotIn => Token { kind: Kind::Word, ..token },
            _ => token,
        }
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn take_raw(&mut self) -> Token<'a> {
        let token = self.tokens.get(self.at).copied().unwrap_or(END);
        self.at += 1;
        token
    }
}

/// The operation, if its values are legal. Every complaint is told, in brackets when there are several; of very many the first.
fn checked(key: &str, operator: Kind, values: Values) -> Result<LabelOp, String> {
    let compares = matches!(operator, Kind::Greater | Kind::Less);
    let bound = values.first().and_then(|v| v.parse::<i64>().ok());
    let mut wrong = Vec::new();
    if let (true, None, Some(value)) = (compares, bound, values.first()) {
        wrong.push(format!("values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer", quoted(value)));
    }
    let mut told_bytes = 0;
    for (index, value) in values.iter().enumerate() {
        let complaints = wrong_value(value);
        if !complaints.is_empty() && told_bytes <= TOLD_BYTES_MAX {
            let complaint = format!("values[{index}][{key}]: Invalid value: {}: {}", quoted(value), complaints.join("; "));
            told_bytes += complaint.len();
            wrong.push(complaint);
        }
    }
    match &wrong[..] {
        [] => {}
        [one] => return Err(one.clone()),
        several => return Err(format!("[{}]", several.join(", "))),
    }
    let set = values.into_iter().map(String::into_boxed_str).collect();
    Ok(match (operator, bound) {
        (Kind::Greater, Some(bound)) => LabelOp::Greater(bound),
        (Kind::Less, Some(bound)) => LabelOp::Less(bound),
        (Kind::NotIn | Kind::NotEquals, _) => LabelOp::NotIn(set),
        _ => LabelOp::In(set),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(values: &[&str]) -> Vec<Box<str>> {
        values.iter().map(|v| Box::from(*v)).collect()
    }

    fn check(text: &str, want: &[(&str, LabelOp)]) {
        let got = labels(text).unwrap_or_else(|e| panic!("{text:?}: {e}"));
        let got: Vec<_> = got.requirements.into_iter().map(|r| (r.key, r.op)).collect();
        let want: Vec<_> = want.iter().map(|(key, op)| (Box::from(*key), op.clone())).collect();
        assert_eq!(got, want, "{text:?}");
    }

    #[test]
    fn accepts() {
        check("", &[]);
        check(" \t", &[]);
        check("\0a=b", &[]);
        check("b,a", &[("a", LabelOp::Exists), ("b", LabelOp::Exists)]);
        check("! a", &[("a", LabelOp::Absent)]);
        check("a=b", &[("a", LabelOp::In(set(&["b"])))]);
        check("a == b", &[("a", LabelOp::In(set(&["b"])))]);
        check("a!=b", &[("a", LabelOp::NotIn(set(&["b"])))]);
        check("a=,b", &[("a", LabelOp::In(set(&[""]))), ("b", LabelOp::Exists)]);
        check("a=", &[("a", LabelOp::In(set(&[""])))]);
        check("a in (c,b,c)", &[("a", LabelOp::In(set(&["b", "c"])))]);
        check("a notin ()", &[("a", LabelOp::NotIn(set(&[""])))]);
        check("a in (,)", &[("a", LabelOp::In(set(&[""])))]);
        check("a in (,b)", &[("a", LabelOp::In(set(&["", "b"])))]);
        check("a in (b,)", &[("a", LabelOp::In(set(&["", "b"])))]);
        check("a in (b,,c)", &[("a", LabelOp::In(set(&["", "b", "c"])))]);
        check("in in (in,notin),notin", &[("in", LabelOp::In(set(&["in", "notin"]))), ("notin", LabelOp::Exists)]);
        check("in=notin", &[("in", LabelOp::In(set(&["notin"])))]);
        check("a>5", &[("a", LabelOp::Greater(5))]);
        check("a<07", &[("a", LabelOp::Less(7))]);
        check("x.y/a=1", &[("x.y/a", LabelOp::In(set(&["1"])))]);
    }

    const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

    /// Spec list-watch §7.1, "Errors", and the branches of the original that it does not list.
    #[test]
    fn refuses() {
        let req = "unable to parse requirement: ";
        let int = "for 'Gt', 'Lt' operators, the value must be an integer";
        let cases = [
            ("a,", "found '', expected: identifier after ','".to_owned()),
            ("a=b,,c", "found ',', expected: identifier after ','".to_owned()),
            ("=", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
            ("(", "found '(', expected: !, identifier, or 'end of string'".to_owned()),
            ("a=b=c", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("a b", format!("{req}found 'b', expected: in, notin, =, ==, !=, gt, lt")),
            ("a!b", format!("{req}found '!', expected: in, notin, =, ==, !=, gt, lt")),
            ("a in b", format!("{req}found 'b' expected: '('")),
            ("a in", format!("{req}found '' expected: '('")),
            ("a===b", format!("{req}found '=', expected: identifier")),
            ("!", format!("{req}found '', expected: identifier")),
            ("!!a", format!("{req}found '!', expected: identifier")),
            ("a in (", format!("{req}found '', expected: ',', ')' or identifier")),
            ("a in (=", format!("{req}found '=', expected: ',', ')' or identifier")),
            ("a in (b", format!("{req}found '', expected: ',' or ')'")),
            ("a in (b c)", format!("{req}found 'c', expected: ',' or ')'")),
            ("a in (b,", format!("{req}found '', expected: ',', or identifier")),
            ("a in (b,!", format!("{req}found '!', expected: ',', or identifier")),
            ("a>x", format!("{req}values[0]: Invalid value: \"x\": {int}")),
            ("a>", format!("{req}values[0]: Invalid value: \"\": {int}")),
            ("a>9223372036854775808", format!("{req}values[0]: Invalid value: \"9223372036854775808\": {int}")),
            ("a>-5", format!("{req}values[0][a]: Invalid value: \"-5\": {VALUE}")),
            ("a<_x", format!("{req}[values[0]: Invalid value: \"_x\": {int}, values[0][a]: Invalid value: \"_x\": {VALUE}]")),
            ("a=_x", format!("{req}values[0][a]: Invalid value: \"_x\": {VALUE}")),
            ("a in (_,b,-)", format!("{req}[values[0][a]: Invalid value: \"-\": {VALUE}, values[1][a]: Invalid value: \"_\": {VALUE}]")),
            ("-a", format!("{req}<nil>: Invalid value: \"-a\": {KEY}")),
            ("é\"", format!("{req}<nil>: Invalid value: \"é\\\"\": {KEY}")),
        ];
        for (text, want) in cases {
            assert_eq!(labels(text).expect_err(text), want, "{text:?}");
        }
        let long = "a".repeat(64);
        assert_eq!(
            labels(&long).expect_err("too long"),
            format!("{req}<nil>: Invalid value: \"{long}\": name part must be no more than 63 bytes")
        );
    }

    /// Each has a complaint that is a hundred times as long.
    #[test]
    fn of_very_many_illegal_values_the_first_are_told() {
        let values: Vec<String> = (0..16_000).map(|n| format!("-{n:x}")).collect();
        let error = labels(&format!("a in ({})", values.join(","))).expect_err("refused");
        assert!((TOLD_BYTES_MAX..TOLD_BYTES_MAX + 20_000).contains(&error.len()), "{} bytes", error.len());
        assert!(
            error.starts_with(r#"unable to parse requirement: [values[0][a]: Invalid value: "-0": a valid label"#) && error.ends_with(']')
        );
    }

    fn requirement() -> impl Strategy<Value = LabelRequirement> {
        let key = prop_oneof![
            "([a-z]{1,5}(\\.[a-z]{1,3})?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?",
            Just("in".to_owned()),
            Just("notin".to_owned())
        ];
        let values = proptest::collection::btree_set("([A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?)?", 1..5);
        let values = values.prop_map(|set| set.into_iter().map(String::into_boxed_str).collect::<Vec<_>>());
        let op = prop_oneof![
            Just(LabelOp::Exists),
            Just(LabelOp::Absent),
            values.clone().prop_map(LabelOp::In),
            values.prop_map(LabelOp::NotIn),
            (0..i64::MAX).prop_map(LabelOp::Greater),
            (0..i64::MAX).prop_map(LabelOp::Less),
        ];
        (key, op).prop_map(|(key, op)| LabelRequirement { key: key.into(), op })
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = labels(&text);
        }

        #[test]
        fn never_panics_on_likely_text(text in "[a-c!=,()<> \0in/-]{0,24}") {
            if let Ok(selector) = labels(&text) {
                prop_assert_eq!(labels(&selector.printed()).expect("a printed selector parses"), selector);
            }
        }

        #[test]
        fn reads_what_it_prints(mut requirements in proptest::collection::vec(requirement(), 0..6)) {
            let text = LabelSelector { requirements: requirements.clone() }.printed();
            requirements.sort_by(|a, b| a.key.cmp(&b.key));
            prop_assert_eq!(labels(&text).expect("a printed selector parses"), LabelSelector { requirements });
        }
    }
}
