//! Functions of strings, in version 2 of cel-go's library.

use super::{
    args::{Rows, int, list, part, parts, text},
    costs,
};
use crate::{
    functions::{Function, Work},
    library::{format_text, strings},
    types::Type::{self, Dyn, Int, String as Str},
    value::{Error, Outcome, Value},
};

pub(super) fn functions() -> Rows {
    let mut rows = vec![
        Function::new("charAt").member("string_char_at_int", [Str, Int], Str, |_, args| {
            let index = int(args, 1)?;
            part(text(args, 0)?, |text| strings::char_at(text, index))
        }),
        Function::new("indexOf").member("string_index_of_string", [Str, Str], Int, index_of).member(
            "string_index_of_string_int",
            [Str, Str, Int],
            Int,
            index_of,
        ),
        Function::new("lastIndexOf")
            .member("string_last_index_of_string", [Str, Str], Int, |_, args| {
                Ok(Value::Int(strings::last_index_of(text(args, 0)?, text(args, 1)?)))
            })
            .member("string_last_index_of_string_int", [Str, Str, Int], Int, |_, args| {
                strings::last_index_of_before(text(args, 0)?, text(args, 1)?, int(args, 2)?).map(Value::Int).map_err(Error::new)
            }),
        Function::new("format").member("string_format", [Str, Type::list(Dyn)], Str, |_, args| {
            format_text::formatted(text(args, 0)?, list(args, 1)?).map(Value::string)
        }),
        Function::new("strings.quote").global("strings_quote", [Str], Str, |_, args| Ok(Value::string(strings::quoted(text(args, 0)?)))),
        Function::new("join")
            .member("list_join", [Type::list(Str)], Str, join)
            .member("list_join_string", [Type::list(Str), Str], Str, join)
            .costs(costs::joined, costs::joined_estimate),
    ];
    rows.extend(replacements());
    rows.extend(same_size().map(|function| function.costs(costs::followed, costs::target_estimate)));
    rows
}

/// Functions that search the whole text and make another.
fn replacements() -> [Function; 2] {
    let texts = || Type::list(Str);
    [
        Function::new("replace")
            .member("string_replace_string_string", [Str, Str, Str], Str, replace)
            .member("string_replace_string_string_int", [Str, Str, Str, Int], Str, replace)
            .costs(costs::followed_twice, costs::replaced_estimate),
        Function::new("split")
            .member("string_split_string", [Str, Str], texts(), split)
            .member("string_split_string_int", [Str, Str, Int], texts(), split)
            .costs(costs::followed_twice, costs::split_estimate),
    ]
}

/// Functions whose result counts as large as the text.
fn same_size() -> [Function; 4] {
    [
        Function::new("lowerAscii")
            .member("string_lower_ascii", [Str], Str, |_, args| Ok(Value::string(text(args, 0)?.to_ascii_lowercase()))),
        Function::new("upperAscii")
            .member("string_upper_ascii", [Str], Str, |_, args| Ok(Value::string(text(args, 0)?.to_ascii_uppercase()))),
        Function::new("trim").member("string_trim", [Str], Str, |_, args| part(text(args, 0)?, |text| Ok(strings::trim(text)))),
        Function::new("substring")
            .member("string_substring_int", [Str, Int], Str, |_, args| {
                let start = int(args, 1)?;
                part(text(args, 0)?, |text| strings::substring(text, start))
            })
            .member("string_substring_int_int", [Str, Int, Int], Str, |_, args| {
                let (start, end) = (int(args, 1)?, int(args, 2)?);
                part(text(args, 0)?, |text| strings::substring_to(text, start, end))
            }),
    ]
}

fn index_of<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let offset = if args.len() > 2 { int(args, 2)? } else { 0 };
    strings::index_of(text(args, 0)?, text(args, 1)?, offset).map(Value::Int).map_err(Error::new)
}

fn replace<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let times = if args.len() > 3 { int(args, 3)? } else { -1 };
    Ok(Value::string(strings::replace(text(args, 0)?, text(args, 1)?, text(args, 2)?, times)))
}

fn split<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let most = if args.len() > 2 { int(args, 2)? } else { -1 };
    let separator = text(args, 1)?;
    parts(text(args, 0)?, |text| Ok(strings::split(text, separator, most)))
}

fn join<'v>(_work: &mut Work, args: &[Value<'v>]) -> Outcome<'v> {
    let separator = if args.len() > 1 { text(args, 1)? } else { "" };
    let mut joined = String::new();
    for (at, element) in list(args, 0)?.iter().enumerate() {
        joined.push_str(if at == 0 { "" } else { separator });
        match element? {
            Value::String(text) => joined.push_str(&text),
            other => return Err(Error::new(format!("join: invalid input: {other}"))),
        }
    }
    Ok(Value::string(joined))
}
