//! What tells managers apart: a name, an operation, a version and a subresource, as the text that kube-apiserver makes of them.

use serde_json::Value;

use crate::write::tree;
use go::json::string_into;

/// A manager of fields. Whoever applies is one in all versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identifier {
    pub(super) manager: String,
    pub(super) operation: String,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Identifier {
    /// Reads that of an entry of `managedFields`.
    pub(super) fn of(entry: &Value) -> Self {
        let text = |name: &str| tree::text(entry, &[name]).to_owned();
        let (operation, mut api_version) = (text("operation"), text("apiVersion"));
        if operation == "Apply" {
            api_version.clear();
        }
        Self { manager: text("manager"), operation, api_version, subresource: text("subresource") }
    }

    /// Reads back what [`Self::text`] has written.
    pub(super) fn parse(text: &str) -> Self {
        Self::of(&serde_json::from_str(text).unwrap_or_default())
    }

    /// Writes it as JSON: managers are sorted by this text where conflicts are told.
    pub(super) fn text(&self) -> String {
        let mut out = Vec::new();
        let members = [
            ("manager", &self.manager),
            ("operation", &self.operation),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        for (name, value) in members.into_iter().filter(|(_, value)| !value.is_empty()) {
            out.push(if out.is_empty() { b'{' } else { b',' });
            string_into(name, &mut out);
            out.push(b':');
            string_into(value, &mut out);
        }
        if out.is_empty() {
            out.push(b'{');
        }
        out.push(b'}');
        String::from_utf8(out).expect("texts are UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manager_is_told_by_what_does_not_change() {
        let entry = |operation: &str| json!({"manager": "a<b", "operation": operation, "apiVersion": "v1", "time": "x", "fieldsV1": {}, "subresource": "status"});
        let update = Identifier::of(&entry("Update"));
        assert_eq!(update.text(), r#"{"manager":"a\u003cb","operation":"Update","apiVersion":"v1","subresource":"status"}"#);
        assert_eq!(Identifier::parse(&update.text()), update);
        assert_eq!(Identifier::of(&entry("Apply")).text(), r#"{"manager":"a\u003cb","operation":"Apply","subresource":"status"}"#);
        assert_eq!(Identifier::default().text(), "{}");
    }
}
