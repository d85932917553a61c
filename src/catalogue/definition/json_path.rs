//! Paths into objects as definitions name them: the simple ones of columns and scale, and those that a schema must know.

use serde_json::Value;

use super::tree::{entries, has_entries, member};
use model::invalid::FieldError;
use schema::field_path::{tokens, unquoted};

/// What is wrong with the path of a printer column or of scale.
pub(super) fn wrong_simple_path(path: &str, field: &str) -> Option<FieldError> {
    let invalid = |why| Some(FieldError::invalid(field, &Value::from(path), why));
    match path.chars().next() {
        None => invalid("must not be empty"),
        Some('.') => None,
        Some(_) => invalid("must be a simple json path starting with ."),
    }
}

/// Where a path leads in a schema: its steps as a field path, and the schema there (`None` under `additionalProperties: true`).
pub(super) struct Found<'s> {
    pub(super) path: String,
    pub(super) schema: Option<&'s Value>,
}

/// Follows a path of member names and, with `brackets`, of `['key']`. The error's text is that of apiextensions' `ValidFieldPath`.
pub(super) fn follow<'s>(path: &str, schema: &'s Value, brackets: bool) -> Result<Found<'s>, String> {
    const END: &str = "unexpected end of JSON path";
    let mut found = Found { path: String::new(), schema: Some(schema) };
    let mut tokens = tokens(path).into_iter();
    while let Some(token) = tokens.next() {
        match token {
            "." => found.step(tokens.next().ok_or(END)?)?,
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let key = tokens.next().ok_or(END)?;
                let is_quoted = key.len() >= 2 && key.starts_with('\'') && key.ends_with('\'');
                if !is_quoted {
                    return Err(format!("expected single quoted string but got {key}"));
                }
                found.step(&unquoted(key).ok_or("invalid string literal")?)?;
                match tokens.next().ok_or(END)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

impl Found<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        const UNKNOWN: &str = "does not refer to a valid field";
        let schema = self.schema.ok_or(UNKNOWN)?;
        if has_entries(schema, "properties") {
            self.path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
            self.schema = Some(entries(schema, "properties").find(|(property, _)| *property == name).ok_or(UNKNOWN)?.1);
        } else {
            let inner = member(schema, "additionalProperties").ok_or(UNKNOWN)?;
            self.path = format!("{}[{name}]", self.path);
            self.schema = Some(inner).filter(|inner| inner.is_object());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::follow;
    use corpus::Subject;

    #[test]
    fn paths_lead_through_properties_and_maps() {
        let leaf = json!({"type": "string"});
        let schema = json!({"properties": {"a": {"additionalProperties": leaf}, "it's": leaf, "b": {"additionalProperties": true}}});
        let check = |path: &str, brackets, want: Result<(&str, bool), &str>| {
            let found = follow(path, &schema, brackets);
            let found = found.as_ref().map(|found| (&*found.path, found.schema.is_some())).map_err(|why| &**why);
            assert_eq!(found, want, "{path}");
        };
        check(".a.x", false, Ok(("a[x]", true)));
        check(".a['x.y']", true, Ok(("a[x.y]", true)));
        check("['it\\'s']", true, Ok(("it's", true)));
        check(".b.x", false, Ok(("b[x]", false)));
        check("", false, Ok(("", true)));
        check(".b.x.y", false, Err("does not refer to a valid field"));
        check(".a['x'", true, Err("unexpected end of JSON path"));
        check(".a['x'.", true, Err("expected ] but got ."));
        check(".a[x]", true, Err("expected single quoted string but got x"));
        check(".a['x']", false, Err("array notation is not allowed"));
    }

    #[test]
    fn corpus() {
        Subject {
            name: "json-paths",
            law: |input| {
                let path = String::from_utf8_lossy(input);
                let leaf = json!({"type": "string"});
                let map = json!({"additionalProperties": {"properties": {"a": leaf}}});
                let schema = json!({"properties": {"spec": {"properties": {"a": leaf, "m": map, "é": leaf}}, "it's": leaf, "b": {"additionalProperties": true}}});
                let followed = |brackets| follow(&path, &schema, brackets).map(|found| (found.path, found.schema.cloned()));
                let simple = followed(false);
                assert!(simple.is_err() || simple == followed(true), "brackets are only more");
                followed(true).is_ok()
            },
            words: &[".", "..", "[", "]", "['", "']", "'", "\\'", ".spec", ".m", ".a", "['it\\'s']", "*", "@", "[?(@.a)]", "$", "{", "}"],
            long: &[["", ".b", ""], ["", "['b']", ""], ["['", "\\'", "']"], ["", "'", ""], ["", "[", ""]],
        }
        .check();
    }
}
