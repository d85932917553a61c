//! Optional values, and the maps that loops of two variables fill.

use crate::{
    ast::operator,
    functions::{Function, Work},
    types::Type,
    value::{Error, Map, Outcome, Value},
};

/// Returns the functions.
pub(super) fn functions() -> Vec<Function> {
    let v = || Type::param("V");
    let optional = || Type::optional(v());
    let list = || Type::list(v());
    let map = || Type::map(Type::param("K"), v());
    vec![
        Function::new("optional.of").global("optional_of", [v()], optional(), |_, args| one(args).map(Value::some)),
        Function::new("optional.ofNonZeroValue").global("optional_ofNonZeroValue", [v()], optional(), of_non_zero),
        Function::new("optional.none").global("optional_none", [], optional(), |_, _| Ok(Value::Optional(None))),
        Function::new("value").member("optional_value", [optional()], v(), value),
        Function::new("hasValue").member("optional_hasValue", [optional()], Type::Bool, has_value),
        Function::new("or").overload(declared_member("optional_or_optional", [optional(), optional()], optional())),
        Function::new("orValue").overload(declared_member("optional_orValue_value", [optional(), v()], v())),
        Function::new(operator::OPTIONAL_SELECT).declared("select_optional_field", [Type::Dyn, Type::String], optional()),
        Function::new(operator::OPTIONAL_INDEX)
            .declared("list_optindex_optional_int", [list(), Type::Int], optional())
            .declared("optional_list_optindex_optional_int", [Type::optional(list()), Type::Int], optional())
            .declared("map_optindex_optional_value", [map(), Type::param("K")], optional())
            .declared("optional_map_optindex_optional_value", [Type::optional(map()), Type::param("K")], optional()),
        Function::new(operator::INDEX).declared("optional_list_index_int", [Type::optional(list()), Type::Int], optional()).declared(
            "optional_map_index_value",
            [Type::optional(map()), Type::param("K")],
            optional(),
        ),
        Function::new("last").member("list_last", [list()], optional(), |_, args| end(args, |length| length.checked_sub(1))),
        Function::new("first").member("list_first", [list()], optional(), |_, args| end(args, |_| Some(0))),
        Function::new("optional.unwrap").global("optional_unwrap", [Type::list(optional())], list(), unwrap),
        Function::new("unwrapOpt").member("optional_unwrapOpt", [Type::list(optional())], list(), unwrap),
        Function::new(operator::MAP_INSERT).global("@mapInsert_map_key_value", [map(), Type::param("K"), v()], map(), insert).global(
            "@mapInsert_map_map",
            [map(), map()],
            map(),
            insert,
        ),
    ]
}

fn declared_member(id: &'static str, args: [Type; 2], result: Type) -> crate::functions::Overload {
    crate::functions::Overload { id, member: true, args: args.into(), result, code: None, spent: None, estimate: None }
}

fn one<'v>(args: &[Value<'v>]) -> Outcome<'v> {
    args.first().cloned().ok_or_else(Error::no_such_overload)
}

fn value<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err(Error::new("optional.none() dereference")),
        _ => Err(Error::no_such_overload()),
    }
}

fn has_value<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(Error::no_such_overload()),
    }
}

fn of_non_zero<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let value = one(args)?;
    Ok(if is_zero(&value) { Value::Optional(None) } else { Value::some(value) })
}

/// Whether a value is the one that its type begins with. Of an object's maps and lists it is never asked.
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Object(object) => !object.is_patch() && object.fields().is_empty(),
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Duration(nanos) => *nanos == 0,
        Value::Timestamp(time) => time.seconds == -62_135_596_800 && time.nanos == 0,
        Value::List(list) => matches!(list, crate::value::List::Made(_)) && list.is_empty(),
        Value::Map(map) => matches!(map, Map::Made(_)) && map.is_empty(),
        _ => false,
    }
}

fn end<'v>(args: &[Value<'v>], at: fn(usize) -> Option<usize>) -> Outcome<'v> {
    let [Value::List(list)] = args else { return Err(Error::no_such_overload()) };
    match at(list.len()).and_then(|at| list.get(at)) {
        Some(value) => value.map(Value::some),
        None => Ok(Value::Optional(None)),
    }
}

fn unwrap<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let [Value::List(list)] = args else { return Err(Error::no_such_overload()) };
    let mut values = Vec::new();
    for element in list.iter() {
        match element? {
            Value::Optional(Some(value)) => values.push((*value).clone()),
            Value::Optional(None) => {}
            other => return Err(Error::new(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::list(values))
}

fn insert<'v>(_: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Map(map), key, value] => map.clone().inserted(key.clone(), value.clone()),
        [Value::Map(map), Value::Map(more)] => {
            more.entries().into_iter().try_fold(Value::Map(map.clone()), |made, (key, value)| match made {
                Value::Map(map) => map.inserted(key, value?),
                _ => Err(Error::no_such_overload()),
            })
        }
        _ => Err(Error::no_such_overload()),
    }
}
