//! The types that a schema gives its values in expressions, with the sizes that costs are estimated by.

use std::{collections::BTreeMap, sync::Arc};

use cel::{Type, escape};
use schema::View;

/// Bytes of the largest request that kube-apiserver takes, as its estimates have it.
pub(crate) const REQUEST_BYTES_MAX: i64 = 3 << 20;

/// What a text is at most in JSON, with its quotation marks.
const DURATION_BYTES_MAX: i64 = 32;
const DATE_TIME_BYTES_MAX: i64 = 32;
const DATE_BYTES: i64 = 12;
/// What a text is at least.
const DURATION_BYTES_MIN: i64 = 3;
const DATE_TIME_BYTES_MIN: i64 = 21;
const STRING_BYTES_MIN: i64 = 2;

/// A type with its sizes.
#[derive(Debug)]
pub(crate) struct Decl {
    pub(crate) kind: DeclKind,
    /// Elements of a list or map, bytes of a text; 0 of anything else.
    pub(crate) elements_max: i64,
    /// Bytes that a value takes at least in JSON.
    pub(crate) bytes_min: i64,
}

/// What a type is.
#[derive(Debug)]
pub(crate) enum DeclKind {
    /// One of the language's own.
    Simple(Type),
    List(Arc<Decl>),
    /// From texts to these.
    Map(Arc<Decl>),
    /// Fields by the names that expressions have for them.
    Object(BTreeMap<String, Arc<Decl>>),
}

impl Decl {
    /// Returns the type of a schema's values; none of what expressions do not see. `is_root`: it is the schema of a whole object.
    pub(crate) fn of(view: View<'_>, is_root: bool) -> Option<Arc<Self>> {
        if view.is_int_or_string() {
            let elements_max = view.length_max().map_or(REQUEST_BYTES_MAX - 2, runes);
            return Some(Self::simple(Type::Dyn, elements_max, 1));
        }
        match view.kind() {
            "array" => {
                let items = view.items()?;
                let of = Self::of(items, items.is_embedded())?;
                let elements_max = view.items_max().map_or_else(|| (REQUEST_BYTES_MAX - 2) / (of.bytes_min + 1), |max| max.max(0));
                Some(Arc::new(Self { kind: DeclKind::List(of), elements_max, bytes_min: 2 }))
            }
            "object" if is_root => Some(Self::object(view, true)),
            "object" => match view.additional() {
                Some(values) => {
                    let of = Self::of(values, values.is_embedded())?;
                    // A key, its quotation marks, a colon and a comma.
                    let elements_max = view.properties_max().map_or_else(|| (REQUEST_BYTES_MAX - 2) / (of.bytes_min + 6), |max| max.max(0));
                    Some(Arc::new(Self { kind: DeclKind::Map(of), elements_max, bytes_min: 2 }))
                }
                None => Some(Self::object(view, false)),
            },
            "string" => Some(Self::string(view)),
            "boolean" => Some(Self::simple(Type::Bool, 0, 4)),
            "number" => Some(Self::simple(Type::Double, 0, 1)),
            "integer" => Some(Self::simple(Type::Int, 0, 1)),
            _ => None,
        }
    }

    fn simple(kind: Type, elements_max: i64, bytes_min: i64) -> Arc<Self> {
        Arc::new(Self { kind: DeclKind::Simple(kind), elements_max, bytes_min })
    }

    fn string(view: View<'_>) -> Arc<Self> {
        let any = REQUEST_BYTES_MAX - 2;
        match view.format() {
            "byte" => Self::simple(Type::Bytes, view.length_max().map_or(any, |max| max.max(0)), STRING_BYTES_MIN),
            "duration" => Self::simple(Type::Duration, DURATION_BYTES_MAX, DURATION_BYTES_MIN),
            "date" => Self::simple(Type::Timestamp, DATE_BYTES, DATE_BYTES),
            "date-time" => Self::simple(Type::Timestamp, DATE_TIME_BYTES_MAX, DATE_TIME_BYTES_MIN),
            _ => {
                let choice = || view.longest_choice().map_or(any, |bytes| i64::try_from(bytes).unwrap_or(any));
                Self::simple(Type::String, view.length_max().map_or_else(choice, runes), STRING_BYTES_MIN)
            }
        }
    }

    fn object(view: View<'_>, is_root: bool) -> Arc<Self> {
        let mut fields = BTreeMap::new();
        let mut bytes_min = 2;
        let hides = is_root && !has_head(view);
        for (name, property) in view.properties() {
            if hides && HEAD.contains(&name) {
                continue;
            }
            let Some(of) = Self::of(property, property.is_embedded()) else { continue };
            if view.required().iter().any(|required| **required == *name) && !property.has_default() {
                bytes_min += i64::try_from(name.len()).unwrap_or(i64::MAX / 2) + of.bytes_min + 4;
            }
            if let Some(name) = escape(name) {
                fields.insert(name, of);
            }
        }
        if hides {
            let text = || Self::simple(Type::String, REQUEST_BYTES_MAX - 2, STRING_BYTES_MIN);
            let metadata = ["name", "generateName"].map(|name| (name.to_owned(), text())).into();
            let metadata = Arc::new(Self { kind: DeclKind::Object(metadata), elements_max: 0, bytes_min: 2 });
            // Those that are required count, as any other.
            for (name, of) in [("apiVersion", text()), ("kind", text()), ("metadata", metadata)] {
                if view.required().iter().any(|required| **required == *name) {
                    bytes_min += i64::try_from(name.len()).unwrap_or_default() + of.bytes_min + 4;
                }
                fields.insert(name.to_owned(), of);
            }
        }
        Arc::new(Self { kind: DeclKind::Object(fields), elements_max: 0, bytes_min })
    }

    /// Returns the type of a field by the name that expressions have for it.
    pub(crate) fn field(&self, name: &str) -> Option<&Arc<Self>> {
        match &self.kind {
            DeclKind::Object(fields) => fields.get(name),
            _ => None,
        }
    }

    /// Returns the type of what a list or map has.
    pub(crate) fn element(&self) -> Option<&Arc<Self>> {
        match &self.kind {
            DeclKind::List(of) | DeclKind::Map(of) => Some(of),
            _ => None,
        }
    }

    /// Returns the type for expressions. An object has this name; those inside of it have names below it.
    pub(crate) fn named(&self, name: &str) -> Type {
        match &self.kind {
            DeclKind::Simple(kind) => kind.clone(),
            DeclKind::List(of) => Type::list(of.named(&format!("{name}.@idx"))),
            DeclKind::Map(of) => Type::map(Type::String, of.named(&format!("{name}.@elem"))),
            DeclKind::Object(_) => Type::object(name),
        }
    }
}

/// Members of every whole object.
const HEAD: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Whether a schema declares all of the head of an object that expressions may see.
pub(crate) fn has_head(view: View<'_>) -> bool {
    let is = |of: View<'_>, name: &str, kind: &str| of.property(name).is_some_and(|property| property.kind() == kind);
    let metadata = view.property("metadata").filter(|metadata| metadata.kind() == "object");
    is(view, "kind", "string")
        && is(view, "apiVersion", "string")
        && metadata.is_some_and(|metadata| is(metadata, "name", "string") && is(metadata, "generateName", "string"))
}

/// Bytes that so many characters take at most.
fn runes(count: i64) -> i64 {
    count.max(0).saturating_mul(4)
}
