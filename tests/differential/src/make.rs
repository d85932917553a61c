//! Random objects: what a type allows, with values at and beyond their edges.

use std::collections::HashMap;

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

use crate::{
    place::{Path, Step},
    types::{Field, Shape, Types},
};

/// Structs inside of structs that are made at most.
const DEPTH_MAX: usize = 4;
/// Fields that are looked at before the least tried one is taken.
const CANDIDATES: usize = 4;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// What the metadata of the object itself gets: its other members are not the business of its kind.
const OWN_METADATA: [&str; 3] = ["annotations", "generation", "labels"];

/// What allocators choose when nothing is sent, which is nothing here.
const ALLOCATED: [&str; 6] = ["clusterIP", "clusterIPs", "healthCheckNodePort", "ipFamilies", "ipFamilyPolicy", "nodePort"];

const QUANTITIES: [&str; 32] = [
    "0",
    "1",
    "10",
    "1E3",
    "+1",
    "5.",
    "010",
    "1.0005",
    "-1",
    "1Ki",
    "1.5Gi",
    "100m",
    "1000m",
    "1024Ki",
    "0.1",
    "1e3",
    "12e-1",
    "1n",
    "1u",
    "1.5",
    "8Ei",
    "0.5Mi",
    ".5",
    "1000000",
    "2000m",
    "1e0",
    "9223372036854775807",
    "0.0001",
    "1500k",
    "1.50",
    "0.000",
    "100",
];
/// Without the zero time of Go, which a pointer keeps as `null`.
const TIMES: [&str; 4] =
    ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.123456Z", "2030-06-01T12:00:00.5-03:00"];
const ADDRESSES: [&str; 6] = ["10.1.2.3", "192.168.0.1", "fd00::1", "2001:DB8::1", "::ffff:1.2.3.4", "010.001.2.3"];
const TEXTS: [&str; 10] = ["", "a", "b-1", "x.y", "ex.io/a", "v1", "1", "A_b", "true", "a-rather-long-name-of-something"];
const KEYS: [&str; 9] = ["a", "b", "cpu", "memory", "storage", "ex.io/x", "ephemeral-storage", "hugepages-2Mi", "kubernetes.io/x"];

/// Makes and changes objects. What a server has said to be supported is used from then on.
pub(crate) struct Maker<'t> {
    pub(crate) types: &'t Types,
    pub(crate) rng: StdRng,
    /// By type and field.
    supported: HashMap<(String, String), Vec<String>>,
    tried: HashMap<(String, String), u32>,
}

impl<'t> Maker<'t> {
    pub(crate) fn new(types: &'t Types, seed: u64) -> Self {
        Self { types, rng: StdRng::seed_from_u64(seed), supported: HashMap::new(), tried: HashMap::new() }
    }

    /// Remembers the values that a server supports in a field.
    pub(crate) fn learn(&mut self, holder: &str, field: &str, values: Vec<String>) {
        self.supported.insert((holder.to_owned(), field.to_owned()), values);
    }

    /// Changes one field somewhere below one of these members of the object; the place that was changed.
    pub(crate) fn change(&mut self, object: &mut Value, kind: &str, members: &[&str]) -> Option<Path> {
        let (path, field, holder) = self.candidate(object, kind, members, false)?;
        let holds = path.get(object).is_some();
        if holds && self.rng.random_ratio(1, 5) {
            path.remove(object);
        } else {
            let value = self.value(&field.shape, &holder, &field.name, path.0.len().min(DEPTH_MAX) / 2);
            path.set(object, value);
        }
        Some(path)
    }

    /// A field that was tried least, below one of these members: where it is, there or not, and the type that holds it. `prefer_there`: half of the
    /// fields that are looked at are there.
    pub(crate) fn candidate(&mut self, object: &Value, kind: &str, members: &[&str], prefer_there: bool) -> Option<(Path, Field, String)> {
        let mut spots = Vec::new();
        collect(self.types, object, kind, &mut Path::default(), &mut spots);
        let within = |path: &Path| match path.0.first() {
            None => true,
            Some(Step::Member(name)) => members.contains(&name.as_str()),
            Some(Step::Index(_)) => false,
        };
        spots.retain(|(path, _)| within(path));
        let mut best: Option<(u32, Path, Field, String)> = None;
        for _ in 0..CANDIDATES {
            let Some((path, holder)) = spots.choose(&mut self.rng) else { break };
            let there = |field: &Field| path.get(object).is_some_and(|spot| spot.get(&field.name).is_some());
            let only_there = prefer_there && self.rng.random_ratio(1, 2);
            let may = |field: &&Field| may_set(path, holder, &field.name, members) && (!only_there || there(field));
            let fields: Vec<&Field> = self.types.fields(holder).iter().filter(may).collect();
            let Some(field) = fields.choose(&mut self.rng) else { continue };
            let tried = self.tried(holder, &field.name);
            if best.as_ref().is_none_or(|(least, ..)| tried < *least) {
                best = Some((tried, path.clone(), (*field).clone(), holder.clone()));
            }
        }
        let (_, mut path, field, holder) = best?;
        self.try_again(&holder, &field.name);
        path.0.push(Step::Member(field.name.clone()));
        Some((path, field, holder))
    }

    /// How often a field was changed.
    pub(crate) fn tried(&self, holder: &str, field: &str) -> u32 {
        self.tried.get(&(holder.to_owned(), field.to_owned())).copied().unwrap_or(0)
    }

    pub(crate) fn try_again(&mut self, holder: &str, field: &str) {
        *self.tried.entry((holder.to_owned(), field.to_owned())).or_default() += 1;
    }

    /// The fields that the object has, by type and name.
    pub(crate) fn fields(&self, object: &Value, kind: &str) -> Vec<(String, String)> {
        let mut spots = Vec::new();
        collect(self.types, object, kind, &mut Path::default(), &mut spots);
        let of = |(path, holder): &(Path, String)| {
            let members = path.get(object).and_then(Value::as_object).into_iter().flatten();
            let known = members.filter(|(name, value)| !value.is_null() && self.types.field(holder, name).is_some());
            known.map(|(name, _)| (holder.clone(), name.clone())).collect::<Vec<_>>()
        };
        spots.iter().flat_map(of).collect()
    }

    /// A value of this shape for a field.
    pub(crate) fn value(&mut self, shape: &Shape, holder: &str, field: &str, depth: usize) -> Value {
        match shape {
            Shape::String => self.text(holder, field).into(),
            Shape::Int32 => {
                self.pick(&[0, 1, 2, 3, -1, -30, 30, 80, 100, 443, 8080, 65_535, i64::from(i32::MAX), i64::from(i32::MIN)]).into()
            }
            Shape::Int64 => self.pick(&[0, 1, 2, 5, -1, -30, 30, 600, 1000, i64::MAX, i64::MIN, 1 << 40]).into(),
            Shape::Number => json!(1.5),
            Shape::Boolean => self.rng.random::<bool>().into(),
            Shape::Bytes => self.pick(&["", "AA==", "YQ==", "YWJj"]).into(),
            Shape::IntOrString => self.pick(&[json!(0), json!(1), json!(80), json!("25%"), json!("100%"), json!("0%"), json!("http")]),
            Shape::Quantity if self.rng.random_ratio(1, 12) => self.pick(&[json!(0), json!(1), json!(1.5), json!(1000)]),
            Shape::Quantity => self.pick(&QUANTITIES).into(),
            Shape::Time | Shape::MicroTime => self.pick(&TIMES).into(),
            Shape::Any => {
                self.pick(&[json!({}), json!({"a": 1}), json!({"kind": "K", "apiVersion": "ex.io/v1", "b": []}), json!({"c": null})])
            }
            Shape::Array(of) => {
                let count = self.pick(&[0, 1, 1, 1, 2]);
                (0..count).map(|_| self.value(of, holder, field, depth)).collect()
            }
            Shape::Map(of) => {
                let count = self.pick(&[0, 1, 1, 2]);
                let members: Map<String, Value> =
                    (0..count).map(|_| (self.pick(&KEYS).to_owned(), self.value(of, holder, field, depth))).collect();
                Value::Object(members)
            }
            Shape::Struct(name) => self.object(name, depth + 1),
        }
    }

    fn object(&mut self, name: &str, depth: usize) -> Value {
        let types = self.types;
        let mut members = Map::new();
        if depth > DEPTH_MAX {
            return Value::Object(members);
        }
        let odds = match depth {
            0..=1 => 4,
            2 => 6,
            _ => 10,
        };
        for field in types.fields(name).iter().filter(|field| field.name != "managedFields") {
            if field.required && self.rng.random_ratio(19, 20) || self.rng.random_ratio(1, odds) {
                let value = if self.rng.random_ratio(1, 40) { Value::Null } else { self.value(&field.shape, name, &field.name, depth) };
                members.insert(field.name.clone(), value);
            }
        }
        Value::Object(members)
    }

    pub(crate) fn text(&mut self, holder: &str, field: &str) -> String {
        if let Some(supported) = self.supported.get(&(holder.to_owned(), field.to_owned())).cloned()
            && self.rng.random_ratio(9, 10)
        {
            return supported.choose(&mut self.rng).cloned().unwrap_or_default();
        }
        let lower = field.to_lowercase();
        let pool: &[&str] = if lower.ends_with("ip") || lower.ends_with("ips") || lower == "addresses" {
            &ADDRESSES
        } else if lower.ends_with("path") {
            &["/a", "a/b", ""]
        } else if lower.ends_with("protocol") {
            &["TCP", "UDP", "SCTP"]
        } else if lower.ends_with("name") || lower.ends_with("names") {
            &["a", "b-1", "x"]
        } else {
            &TEXTS
        };
        self.pick(pool).to_owned()
    }

    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of.choose(&mut self.rng).cloned().expect("a pool has members")
    }
}

/// Whether a field of the struct at `path` is changed: of the object itself only the members that were asked for, of its metadata only a few.
pub(crate) fn may_set(path: &Path, holder: &str, field: &str, members: &[&str]) -> bool {
    match path.0.as_slice() {
        [] => members.contains(&field) && field != "metadata",
        [Step::Member(name)] if name == "metadata" && holder == OBJECT_META => OWN_METADATA.contains(&field),
        _ => field != "managedFields" && !ALLOCATED.contains(&field),
    }
}

/// Every struct of the tree, with its type.
pub(crate) fn collect(types: &Types, value: &Value, name: &str, path: &mut Path, spots: &mut Vec<(Path, String)>) {
    let Value::Object(members) = value else { return };
    spots.push((path.clone(), name.to_owned()));
    for (member, value) in members {
        let Some(field) = types.field(name, member) else { continue };
        path.0.push(Step::Member(member.clone()));
        descend(types, value, &field.shape, path, spots);
        path.0.pop();
    }
}

fn descend(types: &Types, value: &Value, shape: &Shape, path: &mut Path, spots: &mut Vec<(Path, String)>) {
    match (shape, value) {
        (Shape::Struct(name), value) => collect(types, value, name, path, spots),
        (Shape::Array(of), Value::Array(elements)) => {
            for (index, element) in elements.iter().enumerate() {
                path.0.push(Step::Index(index));
                descend(types, element, of, path, spots);
                path.0.pop();
            }
        }
        (Shape::Map(of), Value::Object(members)) => {
            for (key, member) in members {
                path.0.push(Step::Member(key.clone()));
                descend(types, member, of, path, spots);
                path.0.pop();
            }
        }
        _ => {}
    }
}
