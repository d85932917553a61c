//! What cel-go made of expressions, and what differs here.

use serde_json::Value as Json;
use watchcache_cel::{Bindings, Env, Path, Range, Sizes, Type, Value};

/// What the oracle says of sizes: of variables whose names begin with `sized`, by the length of their path.
struct PathSizes;

impl Sizes for PathSizes {
    fn size(&self, path: Option<&Path>, _kind: &Type) -> Option<Range> {
        let path = path?.join(".");
        path.starts_with("sized").then_some(Range { min: 0, max: path.len() as u64 })
    }
}

/// Returns what differs of a case: what, what cel-go has, and what is here.
pub(crate) fn differences(case: &Json, source: &str) -> Vec<(&'static str, String, String)> {
    let is_kubernetes = case["k"] == true;
    let mut env = if is_kubernetes { watchcache_cel::environment() } else { Env::new(watchcache_cel::standard::shared()) };
    for (name, variable) in case["v"].as_object().into_iter().flatten() {
        env = env.variable(name, type_of(variable["t"].as_str().expect("a type")));
    }
    let number = |name: &str| case[name].as_u64().unwrap_or(0);
    let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
    let program = match env.compile(source) {
        Ok(program) => program,
        Err(watchcache_cel::Refused::Compilation(issues)) => return unequal([("issues", text("issues"), issues.to_string())]),
        Err(watchcache_cel::Refused::Instantiation(why)) => {
            return unequal([("issues", text("issues"), String::new()), ("plan", text("plan"), why)]);
        }
    };
    let mut found = unequal([("issues", text("issues"), String::new()), ("type", text("type"), type_text(program.result_type()))]);
    if !found.is_empty() {
        return found;
    }
    let estimate = program.estimate(&env, &PathSizes);
    found.extend(unequal([("estimate", format!("{}..{}", number("min"), number("max")), format!("{}..{}", estimate.min, estimate.max))]));
    let mut bindings = Bindings::default();
    for (name, variable) in case["v"].as_object().into_iter().flatten() {
        if let Some(json) = variable.get("j").filter(|json| !json.is_null() || variable["t"] == "null") {
            bindings = bindings.with(name, Value::of_json(json));
        }
    }
    let evaluated = program.evaluate(&bindings, if is_kubernetes { 1_000_000 } else { u64::MAX });
    found.extend(unequal([("plan", text("plan"), String::new())]));
    if found.is_empty() {
        found.extend(match &evaluated.result {
            Ok(value) => unequal([("error", text("error"), String::new()), ("value", text("value"), shown(value))]),
            Err(error) => unequal([("error", text("error"), error.to_string())]),
        });
        found.extend(unequal([("cost", number("cost").to_string(), evaluated.cost.to_string())]));
    }
    found
}

fn unequal<const N: usize>(all: [(&'static str, String, String); N]) -> Vec<(&'static str, String, String)> {
    all.into_iter().filter(|(_, expected, found)| expected != found).collect()
}

/// Reads a type, as `list(map(string, dyn))`.
fn type_of(text: &str) -> Type {
    let (name, params) = text.split_once('(').unwrap_or((text, ""));
    let params = params.strip_suffix(')').unwrap_or(params);
    let mut depth = 0;
    let comma = params.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    match name {
        "list" => Type::list(type_of(params)),
        "optional_type" => Type::optional(type_of(params)),
        "map" => {
            let (keys, values) = params.split_at(comma.expect("two types"));
            Type::map(type_of(keys), type_of(values[1..].trim()))
        }
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "bool" => Type::Bool,
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "type" => Type::Type(None),
        other => Type::object(other),
    }
}

/// Prints a type as cel-go's `Type.String` does.
fn type_text(kind: &Type) -> String {
    let params: Vec<_> = kind.params().into_iter().map(type_text).collect();
    if params.is_empty() { kind.name().to_owned() } else { format!("{}({})", kind.name(), params.join(", ")) }
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Uint(value) => format!("{value}u"),
        Value::Double(_) => format!("d{value}"),
        Value::String(text) => serde_json::to_string(&**text).expect("a text"),
        Value::Bytes(bytes) => format!("b{}", base64(bytes)),
        Value::Timestamp(time) => format!("t{time}"),
        Value::Duration(nanos) => format!("{nanos}ns"),
        Value::Optional(Some(value)) => format!("some({})", shown(value)),
        Value::Optional(None) => "none".to_owned(),
        Value::List(list) => {
            let elements: Vec<_> =
                list.iter().map(|element| element.map_or_else(|error| error.to_string(), |value| shown(&value))).collect();
            format!("[{}]", elements.join(","))
        }
        Value::Map(map) => {
            let entry = |(key, value): (Value<'_>, watchcache_cel::Outcome<'_>)| {
                format!("{}:{}", shown(&key), value.map_or_else(|error| error.to_string(), |value| shown(&value)))
            };
            let mut entries: Vec<_> = map.entries().into_iter().map(entry).collect();
            entries.sort();
            format!("{{{}}}", entries.join(","))
        }
        Value::Type(name) => format!("type {name}"),
        Value::Opaque(opaque) => opaque.type_name().to_owned(),
        other => other.to_string(),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let bits = part.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            out.push(if at <= part.len() { digit } else { '=' });
        }
    }
    out
}
