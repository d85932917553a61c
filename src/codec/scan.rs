//! One pass over a stored value: valid or not, where `resourceVersion` belongs, its labels, the text of its declared fields. Builds no tree.

use std::{fmt, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{encode::OBJECT_META, object_meta::Check};
use model::Text;

/// What the pass found.
#[derive(Debug, Default)]
pub(crate) struct Scan<'a> {
    /// `kind`, when it is a string.
    pub kind: Option<Text<'a>>,
    /// Where `resourceVersion` goes.
    pub place: Place,
    /// The value of `metadata.managedFields`, when it stands there once.
    pub managed: Option<Range<usize>>,
    /// `metadata.uid`, when it is a string.
    pub uid: Option<Text<'a>>,
    /// `metadata.labels`, in stored order.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// The text of each asked path, in the order asked; `None` when there is none.
    pub found: Vec<Option<&'a str>>,
    /// `metadata` is missing, null or doubled, a type member is doubled, or one of these names is written with escapes: the value must be written anew
    /// before it can be spliced. So must one that is refused for the type of something in it, if it is a custom resource.
    pub odd: bool,
}

/// Where `resourceVersion` goes; byte offsets in the scanned text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is there: its value stands at start..end.
    Instead(usize, usize),
    /// Before the member whose name's quote is here.
    Before(usize),
    /// After the last member of `metadata`.
    #[default]
    Last,
}

/// In which order the members of `metadata` stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// That of Go's `ObjectMeta`.
    Struct,
    /// Sorted by bytes.
    Sorted,
}

impl Order {
    /// Whether `name` comes after `resourceVersion`.
    fn is_later(self, name: &str) -> bool {
        const AT: usize = 5;
        match self {
            Self::Struct => OBJECT_META[AT + 1..].contains(&name),
            Self::Sorted => name > OBJECT_META[AT],
        }
    }
}

/// How many paths one pass looks for: the bits of a mask.
const PATHS_A_PASS: usize = 64;

/// Scans a whole value.
///
/// # Errors
/// Invalid JSON (also: text after the value, or too little of it), a value that is no object, `metadata` or labels of a wrong type.
pub(crate) fn scan<'a>(text: &'a str, order: Order, paths: &[&[String]]) -> serde_json::Result<Scan<'a>> {
    // Paths into the metadata, or more paths than a mask has bits, are looked for in passes of their own: no real resource has them.
    let plain = paths.len() <= PATHS_A_PASS && !paths.iter().any(|path| path.first().is_some_and(|name| name == "metadata"));
    let mut scan = Scan { odd: true, found: vec![None; paths.len()], ..Scan::default() };
    let asked = if plain { paths } else { &[] };
    let mut top = Top { scan: &mut scan, order, paths: asked, base: text.as_ptr().addr(), types: 0 };
    run(text, &mut top)?;
    if !plain {
        for (group, found) in paths.chunks(PATHS_A_PASS).zip(scan.found.chunks_mut(PATHS_A_PASS)) {
            run(text, Walk { paths: group, found, depth: 0, mask: all(group) })?;
        }
    }
    Ok(scan)
}

fn run<'a>(text: &'a str, seed: impl DeserializeSeed<'a>) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    seed.deserialize(&mut deserializer)?;
    deserializer.end()
}

fn all(paths: &[&[String]]) -> u64 {
    paths.iter().enumerate().fold(0, |mask, (i, _)| mask | 1 << i)
}

/// Of the paths in `mask`, those whose part `depth` is `name`.
fn on(paths: &[&[String]], mask: u64, depth: usize, name: &str) -> u64 {
    let mut rest = mask;
    let mut kept = 0;
    while rest != 0 {
        let i = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        if paths[i].get(depth).is_some_and(|part| part == name) {
            kept |= 1 << i;
        }
    }
    kept
}

/// The object itself.
struct Top<'s, 'a> {
    scan: &'s mut Scan<'a>,
    order: Order,
    paths: &'s [&'s [String]],
    base: usize,
    /// How many `kind` and `apiVersion` members came by.
    types: u8,
}

impl<'a> DeserializeSeed<'a> for &mut Top<'_, 'a> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for &mut Top<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut metadata, mut escaped) = (0, false);
        while let Some(name) = map.next_key::<Text<'a>>()? {
            // Those that are looked for in the bytes later.
            escaped |= name.borrowed().is_none() && matches!(&*name.0, "metadata" | "kind" | "apiVersion");
            match &*name.0 {
                "metadata" => {
                    metadata += 1;
                    let whole = map.next_value_seed(Metadata { scan: self.scan, order: self.order, base: self.base })?;
                    self.scan.odd = !whole;
                }
                "kind" => {
                    self.types = self.types.saturating_add(1);
                    self.scan.kind = Some(map.next_value()?);
                }
                name => {
                    self.types = self.types.saturating_add(u8::from(name == "apiVersion"));
                    let mask = on(self.paths, all(self.paths), 0, name);
                    step(&mut map, self.paths, &mut self.scan.found, 0, mask)?;
                }
            }
        }
        self.scan.odd |= metadata != 1 || self.types > 2 || escaped;
        Ok(())
    }
}

/// `metadata`; gives whether it is an object that can be spliced.
struct Metadata<'s, 'a> {
    scan: &'s mut Scan<'a>,
    order: Order,
    base: usize,
}

impl<'a> DeserializeSeed<'a> for Metadata<'_, 'a> {
    type Value = bool;
    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Metadata<'_, 'a> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata as an object")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<bool, A::Error> {
        let (mut versions, mut managed) = (0, 0);
        let mut later = None;
        while let Some(name) = map.next_key::<Text<'a>>()? {
            // A name with escapes is not borrowed and has no offset; none of the names that matter is written so.
            if let (None, Some(borrowed)) = (later, name.borrowed())
                && self.order.is_later(borrowed)
            {
                later = Some(borrowed.as_ptr().addr() - self.base - 1);
            }
            match &*name.0 {
                "resourceVersion" => {
                    versions += 1;
                    let value = map.next_value::<&RawValue>()?.get();
                    let start = value.as_ptr().addr() - self.base;
                    self.scan.place = Place::Instead(start, start + value.len());
                }
                "managedFields" => {
                    managed += 1;
                    let value = map.next_value::<&RawValue>()?.get();
                    let start = value.as_ptr().addr() - self.base;
                    self.scan.managed = Some(start..start + value.len());
                    if let (Order::Sorted, Some(check)) = (self.order, Check::of("managedFields")) {
                        check.deserialize(&mut serde_json::Deserializer::from_str(value)).map_err(A::Error::custom)?;
                    }
                }
                "labels" => self.scan.labels = map.next_value::<Option<Labels>>()?.unwrap_or_default().0,
                "uid" if self.order == Order::Sorted => self.scan.uid = map.next_value()?,
                // Whatever else it is, it is shown as it is, and hashed as if it were missing.
                "uid" => self.scan.uid = serde_json::from_str(map.next_value::<&RawValue>()?.get()).ok(),
                name if self.order == Order::Sorted => {
                    let check = Check::of(name).ok_or_else(|| A::Error::custom(format_args!("no ObjectMeta has {name:?}")))?;
                    map.next_value_seed(check)?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if versions == 0 {
            self.scan.place = later.map_or(Place::Last, Place::Before);
        }
        if managed > 1 {
            self.scan.managed = None;
        }
        Ok(versions < 2)
    }
}

/// `metadata.labels`; a null value is an empty one, as in Go.
#[derive(Debug, Default)]
struct Labels(Vec<(Box<str>, Box<str>)>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Labels;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels as a map of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut labels: Vec<(Box<str>, Box<str>)> = Vec::new();
                while let Some((Text(key), value)) = map.next_entry::<Text<'de>, Option<Text<'de>>>()? {
                    labels.push((key.into(), value.map_or_else(Box::default, |text| text.0.into())));
                }
                Ok(Labels(labels))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// Looks for paths inside a value that may or may not be an object.
struct Walk<'s, 'a> {
    paths: &'s [&'s [String]],
    found: &'s mut [Option<&'a str>],
    depth: usize,
    mask: u64,
}

impl<'a> DeserializeSeed<'a> for Walk<'_, 'a> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Walk<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Text<'a>>()? {
            let mask = on(self.paths, self.mask, self.depth, &name.0);
            step(&mut map, self.paths, self.found, self.depth, mask)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Reads the value of the member at `depth` that the paths in `mask` go through: keeps its text for those that end here, walks on for the others.
fn step<'a, A: MapAccess<'a>>(
    map: &mut A,
    paths: &[&[String]],
    found: &mut [Option<&'a str>],
    depth: usize,
    mask: u64,
) -> Result<(), A::Error> {
    if mask == 0 {
        map.next_value::<IgnoredAny>()?;
        return Ok(());
    }
    let ends = (0..paths.len()).filter(|i| mask & 1 << i != 0 && paths[*i].len() == depth + 1).fold(0u64, |ends, i| ends | 1 << i);
    let walk = |found| Walk { paths, found, depth: depth + 1, mask: mask & !ends };
    if ends == 0 {
        return map.next_value_seed(walk(found));
    }
    let raw = map.next_value::<&RawValue>()?.get();
    for (i, slot) in found.iter_mut().enumerate() {
        if ends & 1 << i != 0 {
            *slot = Some(raw);
        }
    }
    if mask != ends {
        run(raw, walk(found)).map_err(Error::custom)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(dotted: &[&str]) -> Vec<Vec<String>> {
        dotted.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect()
    }

    fn found<'a>(text: &'a str, dotted: &[&str]) -> Vec<Option<&'a str>> {
        let owned = paths(dotted);
        let asked: Vec<&[String]> = owned.iter().map(Vec::as_slice).collect();
        scan(text, Order::Sorted, &asked).expect("valid").found
    }

    #[test]
    fn finds_the_version() {
        let owned = paths(&["apiVersion", "spec.a"]);
        let borrowed: Vec<&[String]> = owned.iter().map(Vec::as_slice).collect();
        let text = r#"{"apiVersion":"ex.io/v1","kind":"T","metadata":{"name":"t","uid":"u"},"spec":{"a":1}}"#;
        let scan = scan(text, Order::Sorted, &borrowed).expect("an object");
        assert_eq!((scan.odd, scan.found), (false, vec![Some(r#""ex.io/v1""#), Some("1")]));
    }

    #[test]
    fn finds_paths_that_end_together_and_go_through_each_other() {
        let text = r#"{"metadata":{"name":"n"},"spec":{"a":{"b":{"c":1},"d":[1, 2]},"e":null,"f":"\u0041"},"spec2":3}"#;
        assert_eq!(
            found(text, &["spec.a.b.c", "spec.a.b", "spec.a.d", "spec.e", "spec.f", "spec2", "spec2.x", "spec.a.d.q", "no"]),
            [Some("1"), Some(r#"{"c":1}"#), Some("[1, 2]"), Some("null"), Some(r#""\u0041""#), Some("3"), None, None, None]
        );
        let text = r#"{"metadata":{"name":"n","labels":{"y":"7"}},"spec2":3}"#;
        assert_eq!(found(text, &["metadata.name", "spec2", "metadata.labels.y"]), [Some("\"n\""), Some("3"), Some("\"7\"")]);
        let many: Vec<String> = (0..150).map(|i| format!("spec.p{i}")).collect();
        let spec = (0..150).map(|i| format!("\"p{i}\":{i}")).collect::<Vec<_>>().join(",");
        let text = format!("{{\"metadata\":{{}},\"spec\":{{{spec}}}}}");
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let all = found(&text, &many);
        assert!((0..150).all(|i| all[i] == Some(i.to_string().as_str())), "{all:?}");
    }

    #[test]
    fn finds_the_place_of_the_revision() {
        let place = |text, order| scan(text, order, &[]).expect("valid").place;
        let text = r#"{"metadata":{"name":"n","uid":"u","labels":{}}}"#;
        assert_eq!(place(text, Order::Struct), Place::Before(text.find("\"labels").expect("there")));
        assert_eq!(place(text, Order::Sorted), Place::Before(text.find("\"uid").expect("there")));
        assert_eq!(place(r#"{"metadata":{"name":"n","uid":"u"}}"#, Order::Struct), Place::Last);
        assert_eq!(place(r#"{"metadata":{ "resourceVersion" : 5 ,"uid":"u"}}"#, Order::Sorted), Place::Instead(34, 35));
    }

    #[test]
    fn says_when_a_value_must_be_written_anew() {
        let odd = |text| scan(text, Order::Struct, &[]).expect("valid").odd;
        assert!(!odd(r#"{"kind":"K","apiVersion":"v","metadata":{}}"#));
        assert!(odd(r#"{"kind":"K","apiVersion":"v"}"#));
        assert!(odd(r#"{"kind":"K","apiVersion":"v","metadata":null}"#));
        assert!(odd(r#"{"kind":"K","apiVersion":"v","met\u0061data":{}}"#));
        assert!(odd(r#"{"kind":"K","apiVersion":"v","metadata":{},"metadata":{}}"#));
        assert!(odd(r#"{"kind":"K","apiVersion":"v","metadata":{},"kind":"L"}"#));
        assert!(odd(r#"{"kind":"K","apiVersion":"v","metadata":{"resourceVersion":"1","resourceVersion":"2"}}"#));
    }
}
