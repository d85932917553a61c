//! JSON patch, RFC 6902, with the liberties of the library that the real server uses: indices from the end, paths without their first slash,
//! `replace` and `copy` of members that are not there, `null` for what is absent.

use serde_json::{Map, Value};

use super::PatchError;
use crate::write::{
    body::{self, Duplicate, parse_patch},
    options::FieldValidation,
};

/// Operations that one patch may have (the real server's limit).
const OPERATIONS_MAX: usize = 10_000;
/// Bytes of JSON that the copies of one patch may make together (the real server's limit).
const COPIED_BYTES_MAX: usize = 3 << 20;
/// Items of lists that the operations of one patch may move or measure together; ours: a list keeps its items in one piece, and ten thousand insertions
/// before a million items would move them for half a minute. As many before ten thousand items are 150 million.
const TOUCHED_MAX: usize = 200_000_000;
/// Maps and lists inside each other that an object may have while a JSON patch is applied to it. Ours: four times what a body may have, for what is deeper
/// costs stack; what comes out is held to the limit of bodies.
const PATCHED_DEPTH_MAX: usize = 512;

/// Applies a patch.
///
/// # Errors
/// `BadRequest` when it is none, `TooLarge` when it has too many operations, `Unapplicable` when one of them fails.
pub(crate) fn apply(target: &Value, patch: &[u8], validation: FieldValidation) -> Result<(Value, Vec<String>), PatchError> {
    let prefix = if validation == FieldValidation::Ignore { "" } else { "error decoding patch: " };
    let refused = |cause: String| PatchError::BadRequest(format!("{prefix}{cause}"));
    let (value, duplicates) = parse_patch(patch, "struct field jsonPatchOp.value").map_err(refused)?;
    let (operations, mut warnings) = read(value).map_err(refused)?;
    let duplicate_warnings = duplicates.iter().map(|duplicate| match duplicate {
        Duplicate::Field(path) => format!("json patch duplicate field \"{path}\""),
        Duplicate::Line(text) => text.clone(),
    });
    warnings.extend(duplicate_warnings);
    let made = run(target, operations).map_err(|stopped| match stopped {
        Stopped::TooMuch(why) => PatchError::TooLarge(why),
        Stopped::Unfit(_) | Stopped::TooDeep => PatchError::Unapplicable,
    })?;
    Ok((made, warnings))
}

/// Why a patch that a policy made is not applied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inapplicable {
    /// A test of it fails.
    Tested,
    /// It does not fit, in the words of the library that kube-apiserver has.
    Unfit(String),
}

/// Applies a patch that a policy made.
///
/// # Errors
/// It does not fit the object.
pub(crate) fn apply_made(target: &Value, operations: Value) -> Result<Value, Inapplicable> {
    let operations = read(operations).map_err(Inapplicable::Unfit)?.0;
    run(target, operations).map_err(|stopped| match stopped {
        Stopped::TooMuch(why) => Inapplicable::Unfit(why),
        Stopped::Unfit(why) => why,
        Stopped::TooDeep => Inapplicable::Unfit("the object is nested too deeply".to_owned()),
    })
}

/// Why operations end before the last one.
enum Stopped {
    /// They are too many, or move too much.
    TooMuch(String),
    /// One does not apply.
    Unfit(Inapplicable),
    /// What they made is nested too deeply.
    TooDeep,
}

/// Applies operations in their order.
fn run(target: &Value, operations: Vec<Operation>) -> Result<Value, Stopped> {
    if operations.len() > OPERATIONS_MAX {
        let count = operations.len();
        return Err(Stopped::TooMuch(format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}")));
    }
    let mut document = Document { depth_bound: depth(target, &mut 0), root: target.clone(), copied_bytes: 0, touched: 0 };
    for mut operation in operations {
        let applied = document.apply(&mut operation);
        if document.touched > TOUCHED_MAX {
            return Err(Stopped::TooMuch(format!("The operations in a JSON patch may move {TOUCHED_MAX} items of lists together")));
        }
        if applied.is_none() {
            return Err(Stopped::Unfit(document.unfit(&operation)));
        }
    }
    if depth(&document.root, &mut 0) > body::BODY_DEPTH_MAX {
        return Err(Stopped::TooDeep);
    }
    Ok(document.root)
}

/// One operation as it was sent.
struct Operation {
    name: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// The operations, and the warnings about their members.
fn read(value: Value) -> Result<(Vec<Operation>, Vec<String>), String> {
    let items = match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items,
        other => return Err(format!("json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp", go::json::kind(&other))),
    };
    let mut warnings = Vec::new();
    let operations = items.into_iter().enumerate().map(|(index, item)| {
        let mut members = match item {
            Value::Null => Map::new(),
            Value::Object(members) => members,
            other => return Err(format!("json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp", go::json::kind(&other))),
        };
        let mut text = |member: &str| match members.remove(member) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => {
                Err(format!("json: cannot unmarshal {} into Go struct field jsonPatchOp.{member} of type string", go::json::kind(&other)))
            }
        };
        let (name, from, path) = (text("op")?.unwrap_or_default(), text("from")?, text("path")?);
        let value = members.remove("value").unwrap_or_default();
        warnings.extend(members.keys().map(|member| format!("json patch unknown field \"[{index}].{member}\"")));
        Ok(Operation { name, path, from, value })
    });
    let operations = operations.collect::<Result<_, _>>()?;
    Ok((operations, warnings))
}

/// The object while it is patched.
struct Document {
    root: Value,
    copied_bytes: usize,
    /// No part of the root is deeper than this.
    depth_bound: usize,
    /// Items that were moved or measured.
    touched: usize,
}

impl Document {
    /// Applies one operation; nothing when it does not fit.
    fn apply(&mut self, operation: &mut Operation) -> Option<()> {
        let Operation { name, path, from, value } = operation;
        let (path, from, value) = (path.as_deref()?, from.as_deref(), std::mem::take(value));
        match name.as_str() {
            "add" => self.add(path, value),
            "remove" => self.remove(path).map(drop),
            "replace" => self.replace(path, value),
            "move" => {
                let value = self.remove(from?)?;
                self.add(path, value)
            }
            "copy" => {
                let value = self.place(from?)?.read()?.clone();
                self.copied_bytes += value.to_string().len();
                if self.copied_bytes > COPIED_BYTES_MAX { None } else { self.add(path, value) }
            }
            "test" if path.is_empty() => (self.root == value).then_some(()),
            "test" => (*self.place(path)?.read()? == value).then_some(()),
            _ => None,
        }
    }

    /// Returns why an operation did not apply.
    fn unfit(&mut self, operation: &Operation) -> Inapplicable {
        let name = operation.name.as_str();
        let (path, from) = (operation.path.as_deref().unwrap_or_default(), operation.from.as_deref().unwrap_or_default());
        let has_container = |document: &mut Self, path: &str| {
            document.place(path).is_some_and(|place| matches!(place.container, Value::Object(_) | Value::Array(_)))
        };
        let missing = |what: &str| Inapplicable::Unfit(format!("{name} operation does not apply: {what}: missing value"));
        let last = |path: &str| path.rsplit_once('/').map_or_else(String::new, |(_, last)| decoded(last));
        let wrong = |path: &str| {
            let (key, index) = (last(path), last(path).parse::<i64>());
            match index {
                Ok(index) => format!("Unable to access invalid index: {index}: invalid index referenced"),
                Err(_) => format!("Unable to remove nonexistent key: {key}: missing value"),
            }
        };
        let (at_path, at_from) = (has_container(self, path), has_container(self, from));
        match name {
            "add" | "remove" if !at_path => missing(&format!("doc is missing path: \"{path}\"")),
            "add" | "remove" => Inapplicable::Unfit(format!("error in {name} for path: '{path}': {}", wrong(path))),
            "replace" if !at_path => missing(&format!("doc is missing path: {path}")),
            "replace" => missing(&format!("doc is missing key: {path}")),
            "move" | "copy" if !at_from => missing(&format!("doc is missing from path: {from}")),
            "move" | "copy" if !at_path => missing(&format!("doc is missing destination path: {path}")),
            "move" => Inapplicable::Unfit(format!("error in move for path: '{}': {}", last(from), wrong(from))),
            "copy" => Inapplicable::Unfit(format!("error in copy for from: '{from}': {}", wrong(from))),
            "test" if path.is_empty() || at_path => Inapplicable::Tested,
            "test" => missing(&format!("is missing path: {path}")),
            other => Inapplicable::Unfit(format!("Unexpected kind: {other}")),
        }
    }

    fn add(&mut self, path: &str, value: Value) -> Option<()> {
        self.deepen(path, &value)?;
        self.touched += self.place(path)?.add(value)?;
        Some(())
    }

    fn remove(&mut self, path: &str) -> Option<Value> {
        let (value, moved) = self.place(path)?.remove()?;
        self.touched += moved;
        Some(value)
    }

    fn replace(&mut self, path: &str, value: Value) -> Option<()> {
        if !path.is_empty() {
            self.deepen(path, &value)?;
            return self.place(path)?.replace(value);
        }
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return None;
        }
        self.root = value;
        self.depth_bound = self.depth_bound.max(body::BODY_DEPTH_MAX);
        Some(())
    }

    /// Keeps the bound before a value goes to `path`. It comes from the patch or from the root, so its depth is bounded too; only when the bounds are
    /// at the limit are both measured.
    fn deepen(&mut self, path: &str, value: &Value) -> Option<()> {
        let steps = path.matches('/').count();
        let mut grown = steps + self.depth_bound.max(body::BODY_DEPTH_MAX);
        if grown > PATCHED_DEPTH_MAX {
            self.depth_bound = depth(&self.root, &mut self.touched);
            grown = steps + depth(value, &mut self.touched);
        }
        self.depth_bound = self.depth_bound.max(grown);
        (self.depth_bound <= PATCHED_DEPTH_MAX).then_some(())
    }

    /// The place that a path names; what stands before its first `/` counts for nothing, and its last step need not exist.
    fn place(&mut self, path: &str) -> Option<Location<'_>> {
        let (inside, last) = path.rsplit_once('/')?;
        let mut container = &mut self.root;
        for step in inside.split('/').skip(1) {
            container = Location { container, step: decoded(step) }.enter()?;
        }
        Some(Location { container, step: decoded(last) })
    }
}

/// A member of an object or an item of a list, which may not be there.
struct Location<'a> {
    container: &'a mut Value,
    step: String,
}

const NULL: &Value = &Value::Null;

impl<'a> Location<'a> {
    fn enter(self) -> Option<&'a mut Value> {
        match self.container {
            Value::Object(members) => members.get_mut(&self.step),
            Value::Array(items) => {
                let index = index(&self.step, items.len())?;
                items.get_mut(index)
            }
            _ => None,
        }
    }

    /// What is here: an absent member is as good as a null one, an absent item is nothing.
    fn read(self) -> Option<&'a Value> {
        match self.container {
            Value::Object(members) => Some(members.get(&self.step).unwrap_or(NULL)),
            Value::Array(items) => items.get(index(&self.step, items.len())?),
            _ => None,
        }
    }

    /// What was here, and how many items moved.
    fn remove(self) -> Option<(Value, usize)> {
        match self.container {
            Value::Object(members) => members.remove(&self.step).map(|value| (value, 0)),
            Value::Array(items) => {
                let index = index(&self.step, items.len()).filter(|&index| index < items.len())?;
                let moved = items.len() - index;
                Some((items.remove(index), moved))
            }
            _ => None,
        }
    }

    fn replace(self, value: Value) -> Option<()> {
        if let Value::Object(members) = self.container {
            members.insert(self.step, value);
            return Some(());
        }
        *self.enter()? = value;
        Some(())
    }

    /// How many items moved.
    fn add(self, value: Value) -> Option<usize> {
        let mut moved = 0;
        match self.container {
            Value::Object(members) => {
                members.insert(self.step, value);
            }
            Value::Array(items) if self.step == "-" => items.push(value),
            Value::Array(items) => {
                let index = index(&self.step, items.len() + 1).filter(|&index| index <= items.len())?;
                moved = items.len() - index;
                items.insert(index, value);
            }
            _ => return None,
        }
        Some(moved)
    }
}

/// The index that a step names; a negative one counts from the end.
fn index(step: &str, length: usize) -> Option<usize> {
    let index: isize = step.parse().ok()?;
    if index < 0 { length.checked_sub(index.unsigned_abs()) } else { usize::try_from(index).ok() }
}

fn decoded(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Lists and maps inside each other; `measured` counts the values.
fn depth(value: &Value, measured: &mut usize) -> usize {
    *measured += 1;
    match value {
        Value::Array(items) => 1 + items.iter().map(|item| depth(item, measured)).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(|member| depth(member, measured)).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
