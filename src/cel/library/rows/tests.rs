//! Expressions beside what kube-apiserver's environment makes of them: types, estimates, values, errors and costs (`tests/data/cel`).

use std::sync::{Arc, Mutex};

use serde_json::Value as Json;

use super::{AUTHORIZER, authorizer_value, environment};
use crate::{
    env::Env,
    evaluate::Bindings,
    library::{Authorizer, Decision, Question, ResourceCheck, Target},
    program::Refused,
    sizes::{NoSizes, Path, Range, Sizes},
    types::Type,
    value::{Value, double_text},
};

const LIMIT: u64 = 1_000_000;

/// Prints a value as the file has it.
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => go::quote::quoted(text),
        Value::Uint(value) => format!("{value}u"),
        Value::Double(value) => format!("double:{}", double_text(*value)),
        Value::Bytes(bytes) => bytes.iter().fold("b:".to_owned(), |text, byte| format!("{text}{byte:02x}")),
        Value::Timestamp(time) => format!("timestamp:{time}"),
        Value::Duration(_) => format!("duration:{value}"),
        Value::Type(name) => format!("type:{name}"),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("some({})", shown(value)),
        Value::Opaque(opaque) => format!("opaque:{}", opaque.type_name()),
        Value::List(list) => {
            let values: Vec<_> = list.iter().map(|value| shown(&value.expect("a value"))).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Map(map) => {
            let entry = |(key, value): (Value<'_>, crate::Outcome<'_>)| format!("{}: {}", shown(&key), shown(&value.expect("a value")));
            let mut entries: Vec<_> = map.entries().into_iter().map(entry).collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// What is made of an expression, in the columns of the file.
fn made(source: &str) -> Vec<String> {
    let env = environment();
    let program = match env.compile(source) {
        Ok(program) => program,
        Err(Refused::Compilation(issues)) => return vec!["issues".to_owned(), issues.to_string()],
        Err(Refused::Instantiation(why)) => return vec!["refused".to_owned(), why],
    };
    let estimate = program.estimate(&env, &NoSizes);
    let evaluated = program.evaluate(&Bindings::default(), LIMIT);
    let (kind, text) = match &evaluated.result {
        Ok(value) => ("value", shown(value)),
        Err(error) => ("error", error.to_string()),
    };
    let numbers = [estimate.min.to_string(), estimate.max.to_string()];
    let [min, max] = numbers;
    vec![program.result_type().to_string(), min, max, kind.to_owned(), text, evaluated.cost.to_string()]
}

#[test]
fn expressions() {
    let mut different = Vec::new();
    let mut count = 0;
    for line in include_str!("../../../../tests/data/cel/expressions.txt").lines() {
        let row: Vec<Json> = serde_json::from_str(line).expect("a row");
        let row: Vec<&str> = row.iter().map(|column| column.as_str().expect("a text")).collect();
        let [source, want @ ..] = &*row else { panic!("{line}") };
        // What is refused at last has no result; its type and estimate are not looked at.
        let want = if want.get(3) == Some(&"refused") { &want[3..] } else { want };
        let got = made(source);
        count += 1;
        if got != want {
            different.push(format!("{source}\n  got  {got:?}\n  want {want:?}"));
        }
    }
    assert!(count > 500);
    assert!(different.is_empty(), "{} of {count}:\n{}", different.len(), different.join("\n"));
}

/// Sizes that the tests of Kubernetes' libraries assume.
struct Twelve;

impl Sizes for Twelve {
    fn size(&self, _path: Option<&Path>, kind: &Type) -> Option<Range> {
        matches!(kind, Type::String | Type::Bytes).then_some(Range { min: 0, max: 12 })
    }
}

#[derive(Debug)]
struct Everything;

impl Authorizer for Everything {
    fn decide(&self, _question: &Question) -> Decision {
        Decision { allowed: true, ..Decision::default() }
    }
}

/// The tables of `cost_test.go`; costs of evaluations are compared where the expression has no part that is computed once.
#[test]
fn costs_of_calls() {
    let env = Env::new(super::shared()).variable("authorizer", Type::object(AUTHORIZER));
    let mut count = 0;
    for line in include_str!("../../../../tests/data/cel/costs.jsonl").lines() {
        let [source, min, max, spent]: [String; 4] = serde_json::from_str(line).expect("a row");
        let program = env.compile(&source).unwrap_or_else(|why| panic!("{source}: {why}"));
        let estimate = program.estimate(&env, &Twelve);
        assert_eq!((estimate.min.to_string(), estimate.max.to_string()), (min, max), "{source}");
        let bindings = Bindings::default().with("authorizer", authorizer_value(Arc::new(Everything)));
        let evaluated = program.evaluate(&bindings, LIMIT);
        assert!(evaluated.result.is_ok(), "{source}: {:?}", evaluated.result);
        if source.starts_with("authorizer") {
            assert_eq!(evaluated.cost.to_string(), spent, "{source}");
            count += 1;
        }
    }
    assert!(count > 5);
}

/// Remembers what it was asked.
#[derive(Debug, Default)]
struct Listener(Mutex<Vec<Question>>);

impl Authorizer for Listener {
    fn decide(&self, question: &Question) -> Decision {
        self.0.lock().expect("no panic").push(question.clone());
        Decision { allowed: false, reason: "why".to_owned(), error: Some("broken".to_owned()) }
    }
}

#[test]
fn questions_to_the_authorizer() {
    let listener = Arc::new(Listener::default());
    let env = environment().variable("authorizer", Type::object(AUTHORIZER));
    let value = |source: &str| {
        let program = env.compile(source).unwrap_or_else(|why| panic!("{source}: {why}"));
        let bindings = Bindings::default().with("authorizer", authorizer_value(listener.clone()));
        program.evaluate(&bindings, LIMIT).result.map_or_else(|error| error.to_string(), |value| shown(&value))
    };
    let resource = "authorizer.serviceAccount('ns', 'sa').group('g').resource('r').subresource('s').namespace('n').name('x')\
                    .fieldSelector('a=b').labelSelector('c in (d)').check('get')";
    for (source, want) in [
        ("authorizer.path('/p').check('get').allowed()".to_owned(), "false"),
        (format!("{resource}.reason()"), "\"why\""),
        (format!("{resource}.error()"), "\"broken\""),
        (format!("{resource}.errored()"), "true"),
        ("authorizer.path(' ')".to_owned(), "path must not be empty"),
        ("authorizer.group('').resource('')".to_owned(), "resource must not be empty"),
        ("authorizer.serviceAccount('a', 'B')".to_owned(), "Invalid service account name"),
        ("authorizer.serviceAccount('a.b', 'c')".to_owned(), "Invalid service account namespace"),
    ] {
        assert_eq!(value(&source), want, "{source}");
    }
    let asked = listener.0.lock().expect("no panic");
    let target = Target::Resource(ResourceCheck {
        group: "g".to_owned(),
        resource: "r".to_owned(),
        subresource: "s".to_owned(),
        namespace: "n".to_owned(),
        name: "x".to_owned(),
        field_selector: "a=b".to_owned(),
        label_selector: "c in (d)".to_owned(),
    });
    let of_path = Question { account: None, verb: "get".to_owned(), target: Target::Path("/p".to_owned()) };
    let of_resource = Question { account: Some(("ns".to_owned(), "sa".to_owned())), verb: "get".to_owned(), target };
    assert_eq!(*asked, [of_path, of_resource.clone(), of_resource.clone(), of_resource]);
}
