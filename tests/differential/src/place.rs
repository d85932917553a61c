//! Places in an object: a path of members and indices, as validation names them and as patches reach them.

use serde_json::{Map, Value, json};

use crate::types::{Shape, Types};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Member(String),
    Index(usize),
}

/// A way into an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(pub(crate) Vec<Step>);

impl Path {
    /// Reads `spec.containers[0].env[a.b]`, as causes have it.
    pub(crate) fn parse(text: &str) -> Self {
        let (mut steps, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let (key, after) = inner.split_once(']').unwrap_or((inner, ""));
                steps.push(key.parse().map_or_else(|_| Step::Member(key.to_owned()), Step::Index));
                rest = after.strip_prefix('.').unwrap_or(after);
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                steps.push(Step::Member(rest[..end].to_owned()));
                rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
            }
        }
        Self(steps)
    }

    pub(crate) fn get<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, step| match step {
            Step::Member(name) => value.get(name),
            Step::Index(index) => value.get(index),
        })
    }

    /// Sets the value there; objects on the way are made, elements are not.
    pub(crate) fn set(&self, value: &mut Value, new: Value) {
        let Some((last, way)) = self.0.split_last() else { return };
        let mut at = value;
        for step in way {
            at = match step {
                Step::Member(name) => {
                    if !at.is_object() {
                        *at = Value::Object(Map::new());
                    }
                    at.as_object_mut().expect("just made one").entry(name.clone()).or_insert(Value::Null)
                }
                Step::Index(index) => match at.get_mut(index) {
                    Some(element) => element,
                    None => return,
                },
            };
        }
        match (last, at) {
            (Step::Member(name), Value::Object(members)) => drop(members.insert(name.clone(), new)),
            (Step::Member(name), at) => *at = json!({name.clone(): new}),
            (Step::Index(index), Value::Array(elements)) if *index < elements.len() => elements[*index] = new,
            _ => {}
        }
    }

    pub(crate) fn remove(&self, value: &mut Value) {
        let Some((last, way)) = self.0.split_last() else { return };
        let holder = way.iter().try_fold(value, |value, step| match step {
            Step::Member(name) => value.get_mut(name),
            Step::Index(index) => value.get_mut(index),
        });
        match (last, holder) {
            (Step::Member(name), Some(Value::Object(members))) => drop(members.remove(name)),
            (Step::Index(index), Some(Value::Array(elements))) if *index < elements.len() => drop(elements.remove(*index)),
            _ => {}
        }
    }

    /// The type that holds the last step, and the name of its field: elements and members of maps belong to their field.
    pub(crate) fn field(&self, types: &Types, kind: &str) -> Option<(String, String)> {
        let (mut holder, mut found) = (kind.to_owned(), None);
        let mut shape: Option<Shape> = None;
        for step in &self.0 {
            shape = match (shape, step) {
                (None, Step::Member(name)) => {
                    let field = types.field(&holder, name)?;
                    found = Some((holder.clone(), name.clone()));
                    Some(field.shape.clone())
                }
                (Some(Shape::Array(of) | Shape::Map(of)), _) => Some(*of),
                _ => return None,
            };
            if let Some(Shape::Struct(name)) = &shape {
                holder.clone_from(name);
                shape = None;
            }
        }
        found
    }

    /// As a JSON pointer.
    pub(crate) fn pointer(&self) -> String {
        let step = |step: &Step| match step {
            Step::Member(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => format!("/{index}"),
        };
        self.0.iter().map(step).collect()
    }

    /// A merge patch that sets the value: none if the way leads through a list.
    pub(crate) fn merge_patch(&self, value: Value) -> Option<Value> {
        self.0.iter().rev().try_fold(value, |inner, step| match step {
            Step::Member(name) => Some(json!({name.clone(): inner})),
            Step::Index(_) => None,
        })
    }

    /// A strategic merge patch that sets the value: none if the way leads through a list without a merge key.
    pub(crate) fn strategic_patch(&self, types: &Types, kind: &str, object: &Value, value: Value) -> Option<Value> {
        let mut patch = value;
        for length in (1..=self.0.len()).rev() {
            patch = match &self.0[length - 1] {
                Step::Member(name) => json!({name.clone(): patch}),
                Step::Index(_) => {
                    let way = Self(self.0[..length - 1].to_vec());
                    let (holder, field) = way.field(types, kind)?;
                    let key = types.field(&holder, &field)?.merge_key.clone()?;
                    let known = Self(self.0[..length].to_vec()).get(object)?.get(&key)?.clone();
                    let Value::Object(mut members) = patch else { return None };
                    members.entry(key).or_insert(known);
                    json!([members])
                }
            };
        }
        Some(patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_causes_lead_into_objects() {
        let path = Path::parse("spec.a[1].m[x.y/z]");
        let mut object = json!({"spec": {"a": [1, {"m": {"x.y/z": 2}}]}});
        assert_eq!((path.get(&object), path.pointer().as_str()), (Some(&json!(2)), "/spec/a/1/m/x.y~1z"));
        path.set(&mut object, json!(3));
        Path::parse("spec.a[0]").remove(&mut object);
        Path::parse("status.b").set(&mut object, json!(4));
        assert_eq!(object, json!({"spec": {"a": [{"m": {"x.y/z": 3}}]}, "status": {"b": 4}}));
    }

    #[test]
    fn patches_reach_a_place() {
        let types = Types::parse("a.B v1/B\n c [a.C] patch=merge key=name\n d a.C\na.C\n name string\n q string\n");
        let object = json!({"c": [{"name": "x"}]});
        let path = Path::parse("c[0].q");
        assert_eq!(path.strategic_patch(&types, "a.B", &object, json!("v")), Some(json!({"c": [{"q": "v", "name": "x"}]})));
        assert_eq!((path.merge_patch(json!("v")), path.field(&types, "a.B")), (None, Some(("a.C".to_owned(), "q".to_owned()))));
        assert_eq!(Path::parse("d.q").merge_patch(json!("v")), Some(json!({"d": {"q": "v"}})));
    }
}
