//! A JSON value as a borrowed tree, without the parts that nobody asked for.

use std::borrow::Cow;

use crate::{encode, skip};
use model::Object;

/// One value. What a printer asks for and does not find is the zero value of its Go type, as after decoding in kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Node<'a> {
    /// Missing, `null`, or skipped.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction that fits; Kubernetes has no larger ones.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// An array.
    Array(Vec<Self>),
    /// An object, in its order. A name that came twice is there twice; the last one counts.
    Object(Vec<(Cow<'a, str>, Self)>),
}

/// What `at` gives when there is nothing.
static NOTHING: Node<'static> = Node::Null;

impl<'a> Node<'a> {
    /// A whole value, of which `want` is kept. It was checked when it came in; `None` when it is no JSON all the same, or when what is wanted is nested
    /// deeper than [`DEPTH_MAX`], a number beyond a float64, or a text with half a surrogate pair.
    pub(super) fn read(json: &'a [u8], want: &Want) -> Option<Self> {
        Reader { text: json, at: 0, depth: 0, managed_end: 0, in_metadata: false }.value(want)
    }

    /// The same of a stored object, whose tail has no first bracket. Managed fields that are not wanted are passed over without a look.
    pub(super) fn of_object(object: &'a Object, want: &Want) -> Option<Self> {
        let managed_end = object.managed_end().unwrap_or(0);
        Reader { text: object.own_tail(), at: 0, depth: 1, managed_end, in_metadata: false }.members(want).map(Self::Object)
    }

    /// A member of an object.
    pub(super) fn at(&self, name: &str) -> &Self {
        match self {
            Self::Object(members) => members.iter().rev().find(|(known, _)| known == name).map_or(&NOTHING, |(_, node)| node),
            _ => &NOTHING,
        }
    }

    /// A member of members: `spec.replicas`.
    pub(super) fn path(&self, path: &str) -> &Self {
        // A search in a text would cost more than these few bytes.
        let (mut node, mut rest) = (self, path);
        while let Some(dot) = rest.bytes().position(|byte| byte == b'.') {
            (node, rest) = (node.at(&rest[..dot]), &rest[dot + 1..]);
        }
        node.at(rest)
    }

    /// Whether a Go pointer to this would not be nil.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self, Self::Null)
    }

    /// The string; empty when it is none.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// The string, or another one when there is none or an empty one.
    pub(super) fn text_or<'n>(&'n self, other: &'n str) -> &'n str {
        match self.text() {
            "" => other,
            text => text,
        }
    }

    /// The integer; 0 when it is none.
    pub(super) fn int(&self) -> i64 {
        match self {
            Self::Int(n) => *n,
            _ => 0,
        }
    }

    /// Whether it is `true`.
    pub(super) fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    /// The elements of an array.
    pub(super) fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// The members of an object, in their order.
    pub(super) fn members(&self) -> &[(Cow<'a, str>, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    /// The members of an object, sorted by name as Go's `range` over sorted keys gives them.
    pub(super) fn sorted(&self) -> Vec<(&str, &Self)> {
        let mut members: Vec<_> = self.members().iter().map(|(name, node)| (&**name, node)).collect();
        members.sort_by_key(|(name, _)| *name);
        members
    }

    /// How many elements or members.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Array(items) => items.len(),
            Self::Object(members) => members.len(),
            _ => 0,
        }
    }

    /// Appends it as Go's `encoding/json` writes decoded JSON: objects sorted.
    pub(super) fn json_into(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Self::Int(n) => out.extend_from_slice(n.to_string().as_bytes()),
            Self::Float(f) => out.extend_from_slice(encode::go_float(*f).as_bytes()),
            Self::Text(text) => encode::string_into(text, out),
            Self::Array(items) => {
                out.push(b'[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    item.json_into(out);
                }
                out.push(b']');
            }
            Self::Object(_) => {
                out.push(b'{');
                for (i, (name, node)) in self.sorted().into_iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    encode::string_into(name, out);
                    out.push(b':');
                    node.json_into(out);
                }
                out.push(b'}');
            }
        }
    }
}

/// Which parts of a value are kept. Elements of an array are wanted as the array is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Want {
    kept: Kept,
    members: Vec<(Box<str>, Want)>,
    /// Members that are not kept although everything is.
    except: Vec<(Box<str>, Want)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kept {
    /// The named members.
    #[default]
    Named,
    /// Everything.
    Whole,
    /// The names of the members, not their values.
    Names,
}

impl Want {
    /// Everything.
    pub(super) fn whole() -> Self {
        Self { kept: Kept::Whole, ..Self::default() }
    }

    /// Everything but the managed fields, which are half of many objects and in no cell of a built-in.
    pub(super) fn unmanaged() -> Self {
        let metadata = Self { except: vec![("managedFields".into(), Self::default())], ..Self::whole() };
        Self { members: vec![("metadata".into(), metadata)], ..Self::whole() }
    }

    /// What the paths name: `spec.containers.name`, with `!` at the end for the names of the members alone (`data!`).
    pub(super) fn paths(paths: &[&str]) -> Self {
        let mut want = Self::default();
        for path in paths {
            let (path, kept) = path.strip_suffix('!').map_or((*path, Kept::Whole), |path| (path, Kept::Names));
            path.split('.').fold(&mut want, |want, name| want.member(name)).kept = kept;
        }
        want
    }

    /// Wants all of what a path leads to.
    pub(super) fn add<'p>(&mut self, path: impl IntoIterator<Item = &'p str>) {
        let mut want = self;
        for name in path {
            if want.kept == Kept::Whole {
                return;
            }
            want = want.member(name);
        }
        *want = Self::whole();
    }

    fn member(&mut self, name: &str) -> &mut Self {
        let at = self.members.iter().position(|(known, _)| **known == *name).unwrap_or_else(|| {
            self.members.push((name.into(), Self::default()));
            self.members.len() - 1
        });
        &mut self.members[at].1
    }

    fn of(&self, name: &[u8]) -> Option<&Self> {
        static WHOLE: Want = Want { kept: Kept::Whole, members: Vec::new(), except: Vec::new() };
        let named = self.members.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, want)| want);
        match self.kept {
            Kept::Named => named,
            Kept::Whole if self.except.iter().any(|(known, _)| known.as_bytes() == name) => None,
            Kept::Whole => named.or(Some(&WHOLE)),
            Kept::Names => None,
        }
    }
}

/// Arrays and objects inside each other, of what is wanted: about what `serde_json` takes. What is passed over may be deeper.
const DEPTH_MAX: usize = 128;

/// Reads JSON that was checked when it came in; `None` of what is none, as far as it is looked at.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    /// Where the value of `metadata.managedFields` ends; 0 when that is not known.
    managed_end: usize,
    /// Whether the value of the outermost object's member that is read is its metadata.
    in_metadata: bool,
}

impl<'a> Reader<'a> {
    /// The next byte that is no white space.
    fn next(&mut self) -> Option<u8> {
        self.at = skip::blank(self.text, self.at);
        self.text.get(self.at).copied()
    }

    fn value(&mut self, want: &Want) -> Option<Node<'a>> {
        match self.next()? {
            b'{' => self.nested(want, Self::members).map(Node::Object),
            b'[' => self.nested(want, Self::items).map(Node::Array),
            b'"' => text(self.string()?).map(Node::Text),
            _ => word(self.skip()?),
        }
    }

    /// What is inside brackets.
    fn nested<T>(&mut self, want: &Want, inside: fn(&mut Self, &Want) -> Option<T>) -> Option<T> {
        self.at += 1;
        self.depth += 1;
        let found = if self.depth > DEPTH_MAX { None } else { inside(self, want) };
        self.depth -= 1;
        found
    }

    fn items(&mut self, want: &Want) -> Option<Vec<Node<'a>>> {
        let mut items = Vec::new();
        while self.next()? != b']' {
            items.push(self.value(want)?);
            self.separator()?;
        }
        self.at += 1;
        Some(items)
    }

    /// The members of an object that is open, and its end.
    fn members(&mut self, want: &Want) -> Option<Vec<(Cow<'a, str>, Node<'a>)>> {
        let mut members = Vec::with_capacity(want.members.len());
        while self.next()? != b'}' {
            let name = self.string()?;
            if self.next()? != b':' {
                return None;
            }
            self.at += 1;
            if self.depth == 1 {
                self.in_metadata = &*name == b"metadata";
            }
            if let Some(inner) = want.of(&name) {
                members.push((text(name)?, self.value(inner)?));
            } else {
                self.next()?;
                if self.depth == 2 && self.in_metadata && self.at < self.managed_end && &*name == b"managedFields" {
                    self.at = self.managed_end;
                } else {
                    self.skip()?;
                }
                if want.kept == Kept::Names {
                    members.push((text(name)?, Node::Null));
                }
            }
            self.separator()?;
        }
        self.at += 1;
        Some(members)
    }

    /// Passes over a comma; without one a bracket comes.
    fn separator(&mut self) -> Option<()> {
        if self.next()? == b',' {
            self.at += 1;
        }
        Some(())
    }

    /// What a string says.
    fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        if self.next()? != b'"' {
            return None;
        }
        let (inside, escaped) = skip::string(self.text, self.at)?;
        let start = self.at;
        self.at += inside.len() + 2;
        if escaped {
            return serde_json::from_slice(&self.text[start..self.at]).ok().map(|text: String| text.into_bytes().into());
        }
        Some(Cow::Borrowed(inside))
    }

    /// The text of the value that begins here.
    fn skip(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.at = skip::end(self.text, start)?;
        Some(&self.text[start..self.at])
    }
}

/// A name or a string that is kept; the others are not read as UTF-8.
fn text(bytes: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    Some(match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok()?.into(),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok()?.into(),
    })
}

/// A value that is neither a string nor nested.
fn word<'a>(text: &[u8]) -> Option<Node<'a>> {
    Some(match text {
        b"null" => Node::Null,
        b"true" => Node::Bool(true),
        b"false" => Node::Bool(false),
        number => {
            let number = std::str::from_utf8(number).ok()?;
            // Rust reads what is too large as infinite, which no JSON can say.
            let float = || number.parse().ok().filter(|float: &f64| float.is_finite()).map(Node::Float);
            number.parse().ok().map(Node::Int).or_else(float)?
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};
    use serde_json::Value;

    use super::*;
    use crate::{Encoder, MetaVersion, ingest};
    use model::{Revision, Storage};

    fn json() -> impl Strategy<Value = Value> {
        let text = "[a-c\"\\\\{}\\[\\]:,é\n ]{0,6}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 6, move |inner| {
            let members = collection::btree_map(text, inner.clone(), 0..6).prop_map(|members| Value::Object(members.into_iter().collect()));
            prop_oneof![collection::vec(inner, 0..6).prop_map(Value::from), members]
        })
    }

    proptest! {
        /// Whatever white space there is.
        #[test]
        fn what_was_written_is_read(value in json(), pretty: bool) {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let shown = read(&text, &Want::whole());
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON"), value);
        }
    }

    /// A ConfigMap with these members of its metadata, and others around it.
    fn config_map(metadata: &[&str], around: &[&str], before: usize) -> Option<Object> {
        let metadata = format!(r#""metadata":{{{}}}"#, metadata.join(","));
        let mut members = around.to_vec();
        members.insert(before.min(around.len()), &metadata);
        let text = format!(r#"{{"kind":"ConfigMap","apiVersion":"v1",{}}}"#, members.join(","));
        ingest(&Storage::test_config_maps(), "/registry/configmaps/".len(), "/registry/configmaps/a/b".into(), text.as_bytes(), Revision(7))
            .ok()
    }

    proptest! {
        /// Wherever managed fields stand, how often, and as what.
        #[test]
        fn managed_fields_are_passed_over(
            metadata in collection::vec(prop_oneof![
                4 => Just(r#""managedFields":[{"a":"]}","managedFields":[1]}]"#),
                1 => Just("\"managedFields\" : [ ] "),
                1 => Just(r#""managed\u0046ields":{"b":[]}"#),
                4 => Just(r#""name":"n""#),
                2 => Just(r#""labels":{"managedFields":"l"}"#),
                1 => Just(r#""resourceVersion":"1""#),
                1 => Just(r#""x":{"managedFields":[2]}"#),
            ], 0..6),
            around in collection::vec(prop_oneof![Just(r#""data":{"managedFields":"d","name":"e"}"#), Just(r#""other":[{"managedFields":[3]}]"#)], 0..3),
            before in 0usize..3,
        ) {
            let object = config_map(&metadata, &around, before).expect("a ConfigMap");
            let text = [b"{", object.own_tail()].concat();
            for want in [Want::unmanaged(), Want::whole(), Want::paths(&["metadata.name", "metadata.labels", "data!", "other"])] {
                prop_assert_eq!(Node::of_object(&object, &want), Node::read(&text, &want));
            }
            let mut shown = Vec::new();
            Encoder::metadata_only(MetaVersion::V1, &Storage::test_config_maps()).object_into(&object, &mut shown);
            let metadata = |text: &[u8]| serde_json::from_slice::<Value>(text).expect("JSON")["metadata"].take();
            prop_assert_eq!(metadata(&shown), metadata(&text));
        }
    }

    #[test]
    fn where_managed_fields_end_is_known() {
        let end = |metadata: &[&str]| {
            let object = config_map(metadata, &[], 0).expect("a ConfigMap");
            object.managed_end().map(|end| String::from_utf8_lossy(&object.own_tail()[end..]).into_owned())
        };
        let (name, managed) = (r#""name":"n""#, r#""managedFields":[{"a":"]"}]"#);
        assert_eq!(end(&[name, managed]).as_deref(), Some("}}"));
        assert_eq!(end(&[managed, name]).as_deref(), Some(r#","name":"n"}}"#));
        let revision = r#""resourceVersion":"12345""#;
        assert_eq!(end(&[managed, revision]).as_deref(), Some(r#","resourceVersion":"7"}}"#));
        assert_eq!(end(&[revision, managed]).as_deref(), Some("}}"));
        assert_eq!((end(&[name]), end(&[managed, name, managed])), (None, None));
    }

    fn read(json: &str, want: &Want) -> String {
        let mut out = Vec::new();
        Node::read(json.as_bytes(), want).expect("JSON").json_into(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    const POD: &str = r#"{"metadata":{"name":"n","managedFields":[{"a":1}],"labels":{"env":"<p>"}},"spec":{"containers":[{"name":"a","env":[1.5,null]},{"name":"b"}]},"data":{"k":"v","j":""}}"#;

    #[test]
    fn what_is_wanted_is_kept() {
        let check = |want: Want, expect: &str| assert_eq!(read(POD, &want), expect);
        check(
            Want::paths(&["metadata.name", "spec.containers.name"]),
            r#"{"metadata":{"name":"n"},"spec":{"containers":[{"name":"a"},{"name":"b"}]}}"#,
        );
        check(Want::paths(&["data!"]), r#"{"data":{"j":null,"k":null}}"#);
        let all = r#"{"data":{"j":"","k":"v"},"metadata":{"labels":{"env":"\u003cp\u003e"},"name":"n"},"spec":{"containers":[{"env":[1.5,null],"name":"a"},{"name":"b"}]}}"#;
        check(Want::unmanaged(), all);
        assert_eq!(read(POD, &Want::whole()).len(), POD.len() + 10, "the escapes of < and >");
    }

    #[test]
    fn what_is_missing_is_zero() {
        let text = br#"{ "a" : null ,"b":{"c":7},"d":18446744073709551615,"e":1,"e":2, "f\u0041":[ ] , "g":-0.5e1 }"#;
        let node = Node::read(text, &Want::whole()).expect("JSON");
        assert_eq!((node.at("fA"), node.at("g")), (&Node::Array(Vec::new()), &Node::Float(-5.0)));
        assert_eq!((node.at("a"), node.path("b.c").int(), node.path("b.x.y").int()), (&Node::Null, 7, 0));
        assert_eq!((node.at("d"), node.at("e").int()), (&Node::Float(18_446_744_073_709_551_615.0), 2));
        for text in ["1e400", "", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "[1", "nul", "{1:2}", &"[".repeat(1_000_000)] {
            assert_eq!(Node::read(text.as_bytes(), &Want::whole()), None, "{text:.20}");
        }
    }
}
