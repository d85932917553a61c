//! Reads the members of a YAML or JSON tree as Go's decoder does: null is nothing, names are case-sensitive, another type is an
//! error that says where.

use std::collections::BTreeSet;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use go::json::kind;
use go::quote::quoted;
use serde_json::Value;

/// Go's `base64.StdEncoding`, which ignores the bits that are left over in the last character.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// A value of a tree, and the path to it; null where there is none.
pub(crate) struct Node<'a> {
    value: &'a Value,
    at: String,
}

impl<'a> Node<'a> {
    /// The root of a tree.
    pub(crate) fn root(value: &'a Value) -> Node<'a> {
        Node { value, at: String::new() }
    }

    /// Whether there is something.
    pub(crate) fn is_there(&self) -> bool {
        !self.value.is_null()
    }

    /// What is there, whatever it is.
    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns an error that says where.
    pub(crate) fn wrong<T>(&self, what: &str) -> Result<T, String> {
        let at = if self.at.is_empty() { "the document" } else { &self.at };
        Err(format!("{at}: {what}"))
    }

    fn expected<T>(&self, wanted: &str) -> Result<T, String> {
        self.wrong(&format!("expected {wanted}, found {}", kind(self.value)))
    }

    /// The member of this name.
    pub(crate) fn member(&self, name: &str) -> Result<Node<'a>, String> {
        let value = match self.value {
            Value::Null => &Value::Null,
            Value::Object(members) => members.get(name).unwrap_or(&Value::Null),
            _ => return self.expected("an object"),
        };
        Ok(Node { value, at: if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) } })
    }

    /// All members.
    pub(crate) fn members(&self) -> Result<Vec<(&'a str, Node<'a>)>, String> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Object(members) => {
                Ok(members.iter().map(|(name, value)| (name.as_str(), Node { value, at: format!("{}.{name}", self.at) })).collect())
            }
            _ => self.expected("an object"),
        }
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Result<Vec<Node<'a>>, String> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => {
                Ok(items.iter().enumerate().map(|(nth, value)| Node { value, at: format!("{}[{nth}]", self.at) }).collect())
            }
            _ => self.expected("a list"),
        }
    }

    /// A text.
    pub(crate) fn text(&self) -> Result<String, String> {
        match self.value {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            _ => self.expected("a string"),
        }
    }

    /// The text of the member of this name.
    pub(crate) fn text_of(&self, name: &str) -> Result<String, String> {
        self.member(name)?.text()
    }

    /// A list of texts.
    pub(crate) fn texts(&self) -> Result<Vec<String>, String> {
        self.items()?.iter().map(Node::text).collect()
    }

    /// True or false.
    pub(crate) fn flag(&self) -> Result<bool, String> {
        match self.value {
            Value::Null => Ok(false),
            Value::Bool(is_set) => Ok(*is_set),
            _ => self.expected("true or false"),
        }
    }

    /// Bytes: base64, whose line breaks do not count, or a list of numbers.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, String> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::String(text) => {
                let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
                BASE64.decode(&text).or_else(|error| self.wrong(&format!("illegal base64 data: {error}")))
            }
            Value::Array(items) => {
                let byte = |item: &Value| if item.is_null() { Some(0) } else { item.as_u64().and_then(|byte| u8::try_from(byte).ok()) };
                items.iter().map(byte).collect::<Option<_>>().map_or_else(|| self.expected("base64"), Ok)
            }
            _ => self.expected("base64"),
        }
    }

    /// A list of objects that have names, each of them once.
    pub(crate) fn named<T>(&self, read: impl Fn(&Node<'a>) -> Result<T, String>) -> Result<Vec<(String, T)>, String> {
        let (mut all, mut names) = (Vec::new(), BTreeSet::new());
        for item in self.items()? {
            let name = item.member("name")?.text()?;
            let value = read(&item)?;
            if !names.insert(name.clone()) {
                return self.wrong(&format!("duplicate name {}", quoted(&name)));
            }
            all.push((name, value));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn base64_is_read_as_go_reads_it() {
        let read = |value: Value| Node::root(&value).bytes().map_err(|why| why.replace("the document: ", ""));
        for text in ["YWJj", "YWJj\n", "YW\r\nJj", "\nY\nW\nJ\nj\n\n"] {
            assert_eq!(read(json!(text)), Ok(b"abc".to_vec()), "{text:?}");
        }
        assert_eq!((read(json!("YWI=\n")), read(json!("YW\nJ="))), (Ok(b"ab".to_vec()), Ok(b"ab".to_vec())), "bits that are left over");
        assert_eq!(read(json!([97, null, 255])), Ok(vec![97, 0, 255]));
        assert_eq!((read(json!("")), read(Value::Null)), (Ok(Vec::new()), Ok(Vec::new())));
        for wrong in
            [json!("YWI"), json!("YW Jj"), json!("YWJj="), json!("YWI=YWJj"), json!("YW-j"), json!("\tYWJj"), json!([256]), json!([1.5])]
        {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
        assert_eq!(read(json!(1)), Err("expected base64, found number".to_owned()));
    }

    #[test]
    fn errors_say_where() {
        let tree = json!({"users": [{"name": "a", "user": {"token": 1, "as-groups": ["x", null]}}, {"name": "a"}]});
        let users = Node::root(&tree).member("users").expect("an object");
        let token = |user: &Node<'_>| user.member("user")?.member("token")?.text();
        assert_eq!(users.named(token), Err("users[0].user.token: expected a string, found number".to_owned()));
        assert_eq!(users.named(|_| Ok(())), Err("users: duplicate name \"a\"".to_owned()));
        let groups = |user: &Node<'_>| user.member("user")?.member("as-groups")?.texts();
        assert_eq!(groups(&users.items().expect("a list")[0]), Ok(vec!["x".to_owned(), String::new()]));
        assert_eq!(Node::root(&json!([])).member("a").map(drop), Err("the document: expected an object, found array".to_owned()));
    }
}
