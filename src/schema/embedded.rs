//! Objects inside of objects (`x-kubernetes-embedded-resource`), which have a head of their own.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::{HEAD, Schema, node::Node};

const METADATA: &str = "metadata";

/// The path of a value, as field paths print it: a property behind a dot, a key of a map in brackets.
#[derive(Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    /// Goes to a member; tells where it was.
    pub(crate) fn step(&mut self, name: &str, is_property: bool) -> usize {
        let length = self.0.len();
        let _ = match (is_property, length) {
            (true, 0) => write!(self.0, "{name}"),
            (true, _) => write!(self.0, ".{name}"),
            (false, _) => write!(self.0, "[{name}]"),
        };
        length
    }

    /// Goes to an item; tells where it was.
    pub(crate) fn step_to(&mut self, index: usize) -> usize {
        let length = self.0.len();
        let _ = write!(self.0, "[{index}]");
        length
    }

    pub(crate) fn back(&mut self, length: usize) {
        self.0.truncate(length);
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The path of an item.
    pub(crate) fn at(&self, index: usize) -> String {
        format!("{}[{index}]", self.0)
    }
}

/// An object inside of another.
#[derive(Debug)]
pub struct Embedded<'v> {
    /// Where it is, as field errors tell it.
    pub path: &'v str,
    /// Its members.
    pub members: &'v Map<String, Value>,
}

/// An object inside of another, which may be changed.
#[derive(Debug)]
pub struct EmbeddedMut<'v> {
    /// Where it is, as field errors tell it.
    pub path: &'v str,
    /// Its members.
    pub members: &'v mut Map<String, Value>,
}

impl Schema {
    /// Calls `with` for each object inside of an object; ends with its first error.
    ///
    /// # Errors
    /// That of `with`.
    pub fn each_embedded<E>(&self, object: &Value, with: &mut dyn FnMut(Embedded<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.root.has.embedded { walk(&self.root, object, &mut Path::default(), with) } else { Ok(()) }
    }

    /// Calls `with` for each object inside of an object, which it may change; ends with its first error.
    ///
    /// # Errors
    /// That of `with`.
    pub fn each_embedded_mut<E>(&self, object: &mut Value, with: &mut dyn FnMut(EmbeddedMut<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.root.has.embedded { walk_mut(&self.root, object, &mut Path::default(), with) } else { Ok(()) }
    }
}

impl Schema {
    /// Calls `with` for each object inside of a default, which it may change; for a default inside of the metadata of such an object with an object around it.
    /// A default that is not there any more then is none.
    pub fn each_embedded_in_defaults_mut(&mut self, with: &mut dyn FnMut(EmbeddedMut<'_>)) {
        if self.root.has.embedded && self.root.has.defaults {
            walk_defaults(&mut self.root, with);
        }
    }
}

fn walk_defaults(node: &mut Node, with: &mut dyn FnMut(EmbeddedMut<'_>)) {
    if let Some(mut default) = node.default.take() {
        let walked: Result<(), ()> = walk_mut(node, &mut default, &mut Path::default(), &mut |embedded| {
            with(embedded);
            Ok(())
        });
        debug_assert!(walked.is_ok(), "nothing ends it");
        node.default = Some(default);
    }
    if node.embedded
        && let Some((_, metadata)) = node.properties.iter_mut().find(|(name, _)| &**name == METADATA)
    {
        walk_head_defaults(metadata, &mut vec![METADATA.into()], with);
    }
    node.all_mut().into_iter().for_each(|node| walk_defaults(node, with));
}

/// The defaults of a property at this path in an object inside of another, and of what is below it up to the next such object.
fn walk_head_defaults(node: &mut Node, path: &mut Vec<Box<str>>, with: &mut dyn FnMut(EmbeddedMut<'_>)) {
    if node.embedded {
        return;
    }
    node.default = node.default.take().and_then(|default| left_of(*default, path, with)).map(Box::new);
    for (name, property) in &mut node.properties {
        path.push(name.clone());
        walk_head_defaults(property, path, with);
        path.pop();
    }
}

/// What is left of a value at this path in an object.
fn left_of(value: Value, path: &[Box<str>], with: &mut dyn FnMut(EmbeddedMut<'_>)) -> Option<Value> {
    let mut object = path.iter().rev().fold(value, |inner, name| Value::Object(Map::from_iter([(name.to_string(), inner)])));
    with(EmbeddedMut { path: "", members: object.as_object_mut()? });
    path.iter().try_fold(object, |mut object, name| object.as_object_mut()?.remove(&**name))
}

pub(crate) fn walk<E>(node: &Node, value: &Value, path: &mut Path, with: &mut dyn FnMut(Embedded<'_>) -> Result<(), E>) -> Result<(), E> {
    match value {
        Value::Object(members) => {
            if node.embedded {
                with(Embedded { path: &path.0, members })?;
            }
            for (name, member) in members {
                let Some(Some(of_member)) = node.member(name) else { continue };
                if of_member.has.embedded {
                    let length = path.step(name, node.property(name).is_some());
                    walk(of_member, member, path, with)?;
                    path.back(length);
                }
            }
        }
        Value::Array(items) => {
            let Some(of_items) = node.items.as_deref().filter(|node| node.has.embedded) else { return Ok(()) };
            for (at, item) in items.iter().enumerate() {
                let length = path.step_to(at);
                walk(of_items, item, path, with)?;
                path.back(length);
            }
        }
        _ => {}
    }
    Ok(())
}

pub(crate) fn walk_mut<E>(
    node: &Node,
    value: &mut Value,
    path: &mut Path,
    with: &mut dyn FnMut(EmbeddedMut<'_>) -> Result<(), E>,
) -> Result<(), E> {
    match value {
        Value::Object(members) => {
            if node.embedded {
                with(EmbeddedMut { path: &path.0, members })?;
            }
            for (name, member) in members {
                let Some(Some(of_member)) = node.member(name) else { continue };
                if of_member.has.embedded {
                    let length = path.step(name, node.property(name).is_some());
                    walk_mut(of_member, member, path, with)?;
                    path.back(length);
                }
            }
        }
        Value::Array(items) => {
            let Some(of_items) = node.items.as_deref().filter(|node| node.has.embedded) else { return Ok(()) };
            for (at, item) in items.iter_mut().enumerate() {
                let length = path.step_to(at);
                walk_mut(of_items, item, path, with)?;
                path.back(length);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether a member of a whole object is one that every object has.
pub(crate) fn is_head(name: &str) -> bool {
    HEAD.contains(&name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn those_in_defaults_are_met() {
        let inner = json!({"x-kubernetes-embedded-resource": true});
        let tree = json!({"properties": {"a": {"default": {"e": {"kind": "K"}}, "properties": {"e": inner}}, "b": {"default": {"e": {}}}}});
        let mut schema = Schema::of_tree(&tree).expect("a schema");
        schema.each_embedded_in_defaults_mut(&mut |embedded| drop(embedded.members.insert("met".into(), embedded.path.into())));
        let mut object = json!({});
        schema.set_defaults(&mut object).expect("few defaults");
        assert_eq!(object, json!({"a": {"e": {"kind": "K", "met": "e"}}, "b": {"e": {}}}));
    }

    #[test]
    fn defaults_in_the_metadata_of_one_are_met_inside_of_it() {
        let metadata = json!({"default": {"name": "n", "odd": 1}, "properties": {"name": {"default": "m"}, "odd": {"default": 1},
            "labels": {"properties": {"a": {"default": "b"}}}}});
        let tree = json!({"properties": {"e": {"x-kubernetes-embedded-resource": true, "properties": {"metadata": metadata}}}});
        let mut schema = Schema::of_tree(&tree).expect("a schema");
        schema.each_embedded_in_defaults_mut(&mut |embedded| {
            drop(embedded.members["metadata"].as_object_mut().map(|inner| inner.remove("odd")))
        });
        for (sent, shown) in
            [(json!({}), json!({"name": "n"})), (json!({"metadata": {"labels": {}}}), json!({"name": "m", "labels": {"a": "b"}}))]
        {
            let mut object = json!({"e": sent});
            schema.set_defaults(&mut object).expect("few defaults");
            assert_eq!(object["e"]["metadata"], shown);
        }
    }

    #[test]
    fn each_is_met_at_its_path() {
        let embedded = json!({"x-kubernetes-embedded-resource": true, "properties": {"spec": {"x-kubernetes-embedded-resource": true}}});
        let schema = json!({"properties": {"one": embedded, "l": {"items": embedded}, "m": {"additionalProperties": embedded}, "no": {}}});
        let schema = Schema::of_tree(&schema).expect("a schema");
        let mut object = json!({"one": {"spec": {}}, "l": [1, {}], "m": {"k": {"spec": {}}}, "no": {"spec": {}}});
        let mut met = Vec::new();
        schema
            .each_embedded(&object, &mut |embedded| -> Result<(), ()> {
                met.push(embedded.path.to_owned());
                Ok(())
            })
            .expect("no error");
        assert_eq!(met, ["l[1]", "m[k]", "m[k].spec", "one", "one.spec"]);
        let mut marked = 0;
        let outcome = schema.each_embedded_mut(&mut object, &mut |embedded| {
            embedded.members.insert("kind".into(), "K".into());
            marked += 1;
            if marked == 3 { Err(embedded.path.to_owned()) } else { Ok(()) }
        });
        assert_eq!(outcome, Err("m[k].spec".to_owned()));
        assert_eq!(object["m"]["k"]["kind"], "K");
    }
}
