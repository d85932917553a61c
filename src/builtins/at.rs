//! A value inside of an object, and where it is: rules read values with it, and errors take their paths from it.

use std::fmt::{self, Display, Write as _};

use serde_json::{Map, Value};

/// A value and its path. What is not there is null: Go's decoder makes no difference between a member that is absent and one that is null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'p, 'v> {
    up: Option<&'p At<'p, 'v>>,
    step: Step<'p>,
    value: &'v Value,
}

/// The last step of a path.
#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    Member(&'p str),
    Item(usize),
    Key(&'p str),
}

static ABSENT: Value = Value::Null;
static EMPTY: Value = Value::String(String::new());

impl<'p, 'v> At<'p, 'v> {
    /// Returns the whole object. Its own members have paths without a prefix.
    pub(crate) fn root(object: &'v Value) -> Self {
        Self { up: None, step: Step::Member(""), value: object }
    }

    /// Returns a value at a path that is not below an object, such as the `template` of a kind that is judged by itself.
    pub(crate) fn named(name: &'p str, value: &'v Value) -> Self {
        Self { up: None, step: Step::Member(name), value }
    }

    /// Returns a member; its path is `path.name`.
    pub(crate) fn member<'s>(&'s self, name: &'s str) -> At<'s, 'v> {
        At { up: Some(self), step: Step::Member(name), value: self.value.get(name).unwrap_or(&ABSENT) }
    }

    /// Returns an item of a list; its path is `path[index]`.
    pub(crate) fn item<'s>(&'s self, index: usize) -> At<'s, 'v> {
        At { up: Some(self), step: Step::Item(index), value: self.value.get(index).unwrap_or(&ABSENT) }
    }

    /// Returns the value of a key of a map; its path is `path[key]`.
    pub(crate) fn key<'s>(&'s self, key: &'s str) -> At<'s, 'v> {
        At { up: Some(self), step: Step::Key(key), value: self.value.get(key).unwrap_or(&ABSENT) }
    }

    /// Returns this path with another value, such as what Go shows instead.
    pub(crate) fn with<'w>(&'w self, value: &'w Value) -> At<'w, 'w> {
        At { up: self.up, step: self.step, value }
    }

    /// Returns the value as Go shows a text that is no pointer: an absent one is empty.
    pub(crate) fn or_empty(self) -> Self {
        if self.is_absent() { Self { value: &EMPTY, ..self } } else { self }
    }

    /// Returns the items of a list in order; none of what is no list.
    pub(crate) fn items<'s>(&'s self) -> impl ExactSizeIterator<Item = At<'s, 'v>> {
        (0..self.len()).map(|index| self.item(index))
    }

    /// Returns the keys and values of a map, in the order of the keys; none of what is no map.
    pub(crate) fn entries<'s>(&'s self) -> impl Iterator<Item = (&'v str, At<'s, 'v>)>
    where
        'v: 's,
    {
        self.map().into_iter().flatten().map(|(key, value)| (key.as_str(), At { up: Some(self), step: Step::Key(key), value }))
    }

    pub(crate) fn value(&self) -> &'v Value {
        self.value
    }

    pub(crate) fn is_absent(&self) -> bool {
        self.value.is_null()
    }

    pub(crate) fn is_present(&self) -> bool {
        !self.is_absent()
    }

    /// Returns the text; empty when it is absent.
    pub(crate) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// Returns the integer; 0 when it is absent.
    pub(crate) fn integer(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    /// Returns the integer, if there is one.
    pub(crate) fn some_integer(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Returns the boolean; false when it is absent.
    pub(crate) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// Returns the number of items of a list or of entries of a map; 0 of anything else.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    /// Whether it is what Go's zero value becomes: absent, an empty text, 0, false, or a list or map without entries.
    pub(crate) fn is_zero(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::Bool(is) => !is,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
        }
    }

    pub(crate) fn map(&self) -> Option<&'v Map<String, Value>> {
        self.value.as_object()
    }
}

/// The path as errors have it: `spec.containers[0].name`, `data[key]`.
impl Display for At<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begins = self.up.is_none_or(|up| up.up.is_none() && matches!(up.step, Step::Member("")));
        if let Some(up) = self.up {
            up.fmt(f)?;
        }
        match self.step {
            Step::Member(name) if begins => f.write_str(name),
            Step::Member(name) => write!(f, ".{name}"),
            Step::Item(index) => write!(f, "[{index}]"),
            Step::Key(key) => {
                f.write_char('[')?;
                f.write_str(key)?;
                f.write_char(']')
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_written_as_go_writes_it() {
        let object = json!({"spec": {"containers": [{"name": "a"}], "limits": {"cpu": "1"}}});
        let root = At::root(&object);
        let (spec, none) = (root.member("spec"), root.member("none"));
        let (containers, limits) = (spec.member("containers"), spec.member("limits"));
        let first = containers.item(0);
        assert_eq!(first.member("name").to_string(), "spec.containers[0].name");
        assert_eq!(first.member("name").text(), "a");
        assert_eq!(limits.key("cpu").to_string(), "spec.limits[cpu]");
        assert_eq!(limits.entries().map(|(key, at)| format!("{key} {at} {}", at.text())).collect::<Vec<_>>(), ["cpu spec.limits[cpu] 1"]);
        assert!(none.is_absent() && none.member("deep").is_absent());
        assert_eq!(At::named("template", &object).member("spec").to_string(), "template.spec");
    }
}
