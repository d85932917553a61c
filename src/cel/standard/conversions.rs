//! Conversions between types.

use crate::{
    functions::{Code, Function, Work},
    types::Type,
    value::{Error, Outcome, Timestamp, Value, double_text, double_to_int, double_to_uint, duration, duration_text},
};

type Rows = &'static [(&'static str, Type)];

/// Functions that convert, with the types that they convert from.
const CONVERSIONS: [(&str, Type, Code, Rows); 8] = [
    ("bool", Type::Bool, |_, args| converted(args, &Type::Bool), &[("bool_to_bool", Type::Bool), ("string_to_bool", Type::String)]),
    ("bytes", Type::Bytes, |_, args| converted(args, &Type::Bytes), &[("bytes_to_bytes", Type::Bytes), ("string_to_bytes", Type::String)]),
    (
        "double",
        Type::Double,
        |_, args| converted(args, &Type::Double),
        &[
            ("double_to_double", Type::Double),
            ("int64_to_double", Type::Int),
            ("string_to_double", Type::String),
            ("uint64_to_double", Type::Uint),
        ],
    ),
    (
        "duration",
        Type::Duration,
        |_, args| converted(args, &Type::Duration),
        &[("duration_to_duration", Type::Duration), ("int64_to_duration", Type::Int), ("string_to_duration", Type::String)],
    ),
    (
        "int",
        Type::Int,
        |_, args| converted(args, &Type::Int),
        &[
            ("int64_to_int64", Type::Int),
            ("double_to_int64", Type::Double),
            ("duration_to_int64", Type::Duration),
            ("string_to_int64", Type::String),
            ("timestamp_to_int64", Type::Timestamp),
            ("uint64_to_int64", Type::Uint),
        ],
    ),
    (
        "string",
        Type::String,
        |_, args| converted(args, &Type::String),
        &[
            ("string_to_string", Type::String),
            ("bool_to_string", Type::Bool),
            ("bytes_to_string", Type::Bytes),
            ("double_to_string", Type::Double),
            ("duration_to_string", Type::Duration),
            ("int64_to_string", Type::Int),
            ("timestamp_to_string", Type::Timestamp),
            ("uint64_to_string", Type::Uint),
        ],
    ),
    (
        "timestamp",
        Type::Timestamp,
        |_, args| converted(args, &Type::Timestamp),
        &[("timestamp_to_timestamp", Type::Timestamp), ("int64_to_timestamp", Type::Int), ("string_to_timestamp", Type::String)],
    ),
    (
        "uint",
        Type::Uint,
        |_, args| converted(args, &Type::Uint),
        &[
            ("uint64_to_uint64", Type::Uint),
            ("double_to_uint64", Type::Double),
            ("int64_to_uint64", Type::Int),
            ("string_to_uint64", Type::String),
        ],
    ),
];

/// Returns the conversions.
pub(super) fn functions() -> Vec<Function> {
    let a = || Type::param("A");
    let mut functions: Vec<_> = CONVERSIONS
        .into_iter()
        .map(|(name, to, code, rows)| {
            rows.iter().fold(Function::new(name), |function, (id, from)| function.global(id, [from.clone()], to.clone(), code))
        })
        .collect();
    functions.push(Function::new("type").declared("type", [a()], Type::type_of(a())).code(type_of));
    functions.push(Function::new("dyn").declared("to_dyn", [a()], Type::Dyn).code(same));
    functions
}

fn same<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    args.first().cloned().ok_or_else(Error::no_such_overload)
}

fn type_of<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    args.first().map(|value| Value::Type(value.type_name().into())).ok_or_else(Error::no_such_overload)
}

fn converted<'v>(args: &[Value<'v>], to: &Type) -> Outcome<'v> {
    let Some(value) = args.first() else { return Err(Error::no_such_overload()) };
    if to.name() == value.type_name() {
        return Ok(value.clone());
    }
    let converted = match (value, to) {
        (Value::String(text), _) => of_text(text, to),
        (_, Type::Int) => to_int(value),
        (_, Type::Uint) => to_uint(value),
        #[expect(clippy::cast_precision_loss, reason = "the nearest number is asked for")]
        (Value::Int(int), Type::Double) => Some(Ok(Value::Double(*int as f64))),
        #[expect(clippy::cast_precision_loss, reason = "the nearest number is asked for")]
        (Value::Uint(uint), Type::Double) => Some(Ok(Value::Double(*uint as f64))),
        (Value::Int(seconds), Type::Timestamp) => Some(Timestamp::of_seconds(*seconds).map(Value::Timestamp)),
        (_, Type::String) => to_text(value),
        _ => None,
    };
    let refused = || Err(Error::new(format!("type conversion error from '{}' to '{}'", value.type_name(), to.name())));
    converted.unwrap_or_else(refused)
}

fn of_text<'v>(text: &str, to: &Type) -> Option<Outcome<'v>> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    match to {
        Type::Int => text.parse().ok().map(|int| Ok(Value::Int(int))),
        Type::Uint => text.parse().ok().filter(|_| unsigned.len() == text.len()).map(|uint| Ok(Value::Uint(uint))),
        Type::Double => double(text).map(|double| Ok(Value::Double(double))),
        Type::Bool => match text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(Ok(Value::Bool(true))),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(Ok(Value::Bool(false))),
            _ => None,
        },
        Type::Bytes => Some(Ok(Value::Bytes(text.as_bytes().into()))),
        Type::Duration => duration(text).ok().map(|nanos| Ok(Value::Duration(nanos))),
        Type::Timestamp => Timestamp::converted(text).map(|time| time.map(Value::Timestamp)),
        _ => None,
    }
}

/// Reads a number as Go's `ParseFloat` does: what is too large is none.
fn double(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let is_named = text.contains(['n', 'N']);
    (value.is_finite() || is_named && !(value.is_nan() && text.starts_with(['+', '-']))).then_some(value)
}

fn to_int<'v>(value: &Value<'v>) -> Option<Outcome<'v>> {
    let overflow = || Error::new("integer overflow");
    Some(match value {
        Value::Double(double) => double_to_int(*double).map(Value::Int).ok_or_else(overflow),
        Value::Uint(uint) => i64::try_from(*uint).map(Value::Int).map_err(|_| overflow()),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(time) => Ok(Value::Int(time.seconds)),
        _ => return None,
    })
}

fn to_uint<'v>(value: &Value<'v>) -> Option<Outcome<'v>> {
    let overflow = || Error::new("unsigned integer overflow");
    Some(match value {
        Value::Double(double) => double_to_uint(*double).map(Value::Uint).ok_or_else(overflow),
        Value::Int(int) => u64::try_from(*int).map(Value::Uint).map_err(|_| overflow()),
        _ => return None,
    })
}

fn to_text<'v>(value: &Value<'v>) -> Option<Outcome<'v>> {
    Some(match value {
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Timestamp(_) | Value::Type(_) => Ok(Value::string(value.to_string())),
        Value::Double(double) => Ok(Value::string(double_text(*double))),
        Value::Duration(nanos) => Ok(Value::string(duration_text(*nanos))),
        Value::Bytes(bytes) => {
            std::str::from_utf8(bytes).map(Value::string).map_err(|_| Error::new("invalid UTF-8 in bytes, cannot convert to string"))
        }
        _ => return None,
    })
}
