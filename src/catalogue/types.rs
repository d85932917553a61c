//! The types of the built-in kinds as data: fields, shapes, and how lists and maps merge.
//!
//! `types.txt` is made from the OpenAPI document of kube-apiserver 1.36.3 by `tests/peers/types.py`; its first lines tell its form.

#[cfg(test)]
mod golden;

use std::{collections::HashMap, sync::LazyLock};

/// The whole file, parsed once. Every name in it lives as long as the program.
static TYPES: LazyLock<Types> = LazyLock::new(|| Types::parse(include_str!("types.txt")));

/// A type with fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeRef(u16);

/// One field of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in JSON.
    pub name: &'static str,
    /// What its value is.
    pub shape: Shape,
    /// Whether OpenAPI requires it: kube-apiserver then writes it even when it is empty.
    pub required: bool,
    /// How a strategic merge patch treats it (spec api-surface §7.3).
    pub merge: Merge,
    /// How server-side apply owns a list (spec api-surface §7.4).
    pub list: Option<List>,
    /// How server-side apply owns a map or struct, when the field says so: it overrules what the type says (`TypeRef::is_atomic`).
    pub map: Option<MapType>,
}

/// What a value is, by JSON and by Go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "scalars are named as Go and OpenAPI name them")]
pub enum Shape {
    String,
    Int32,
    Int64,
    Number,
    Boolean,
    /// Base64 in a JSON string.
    Bytes,
    /// An int32 or a string.
    IntOrString,
    /// `100m`, `1Gi`, or a number.
    Quantity,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with six digits of a second.
    MicroTime,
    /// JSON that Kubernetes does not look into, by the name of its OpenAPI definition: `RawExtension`, `FieldsV1`, `JSON`.
    Any(&'static str),
    Array(Box<Shape>),
    /// Keys are strings.
    Map(Box<Shape>),
    Struct(TypeRef),
}

/// What a strategic merge patch does to a field: Go's tags `patchStrategy` and `patchMergeKey`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// What happens to the value.
    pub strategy: Strategy,
    /// The member by which elements of a merged list of objects are told apart.
    pub key: Option<&'static str>,
    /// Whether clients say with `$retainKeys` which members stay.
    pub retain_keys: bool,
}

/// The part of `patchStrategy` that is about the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Maps merge, lists are replaced.
    #[default]
    None,
    /// Lists merge too.
    Merge,
    /// Maps are replaced too.
    Replace,
}

/// `x-kubernetes-list-type` and `x-kubernetes-list-map-keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum List {
    /// Owned as one.
    Atomic,
    /// Of scalars, each owned alone.
    Set,
    /// Of objects, told apart by these members.
    Map(Vec<&'static str>),
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Owned as one.
    Atomic,
    /// Each member owned alone.
    Granular,
}

/// A kind that a type is the form of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindOf {
    /// Group (empty for core), version, kind.
    One(&'static str, &'static str, &'static str),
    /// A kind of every group version, as `DeleteOptions`.
    Every(&'static str),
}

impl TypeRef {
    /// The type of a built-in kind.
    #[must_use]
    pub fn of(group: &str, version: &str, kind: &str) -> Option<Self> {
        TYPES.by_kind.get(&(group, version, kind)).or_else(|| TYPES.of_every_version.get(kind)).copied()
    }

    /// The type of this OpenAPI definition: `io.k8s.api.core.v1.Pod`.
    #[must_use]
    pub fn named(definition: &str) -> Option<Self> {
        TYPES.by_name.get(definition).copied()
    }

    /// `ObjectMeta`, which custom resources have too.
    #[must_use]
    pub fn object_meta() -> Self {
        Self::named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("the data file has it, as a test says")
    }

    /// Every type, by name.
    #[cfg(test)]
    fn all() -> impl Iterator<Item = Self> {
        (0..TYPES.structs.len()).filter_map(|index| u16::try_from(index).ok().map(Self))
    }

    /// Its fields, by name.
    #[must_use]
    pub fn fields(self) -> &'static [Field] {
        &self.data().fields
    }

    /// The field of this name; case matters.
    #[must_use]
    pub fn field(self, name: &str) -> Option<&'static Field> {
        let fields = self.fields();
        fields.binary_search_by(|field| field.name.cmp(name)).ok().map(|index| &fields[index])
    }

    /// Name of its OpenAPI definition: `io.k8s.api.core.v1.Pod`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.data().name
    }

    /// Name of its Go type without the package: `Pod`.
    #[must_use]
    pub fn go_name(self) -> &'static str {
        self.name().rsplit('.').next().unwrap_or_default()
    }

    /// Name of its Go type with the package, as Go prints it: `v1.Pod`.
    #[must_use]
    pub fn go_type(self) -> &'static str {
        let name = self.name();
        name.rmatch_indices('.').nth(1).map_or(name, |(dot, _)| &name[dot + 1..])
    }

    /// Whether server-side apply owns its values as one.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        self.data().atomic
    }

    /// The kinds it is the form of; empty for a part.
    #[must_use]
    pub fn kinds(self) -> &'static [KindOf] {
        &self.data().kinds
    }

    fn data(self) -> &'static Struct {
        &TYPES.structs[usize::from(self.0)]
    }
}

/// Definitions that are a form of their own, not a struct: name and shape.
pub fn opaque() -> impl Iterator<Item = (&'static str, &'static Shape)> {
    TYPES.opaque.iter().map(|(name, shape)| (*name, shape))
}

struct Types {
    structs: Vec<Struct>,
    opaque: Vec<(&'static str, Shape)>,
    by_name: HashMap<&'static str, TypeRef>,
    by_kind: HashMap<(&'static str, &'static str, &'static str), TypeRef>,
    of_every_version: HashMap<&'static str, TypeRef>,
}

#[derive(Default)]
struct Struct {
    name: &'static str,
    atomic: bool,
    kinds: Vec<KindOf>,
    fields: Vec<Field>,
}

impl Types {
    /// Panics on a file that is not of the form that its head tells: it is compiled in, and a test parses it.
    fn parse(text: &'static str) -> Self {
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let heads = || lines().filter(|line| !line.starts_with(' '));
        let opaque: Vec<_> = heads().filter_map(|line| line.split_once(" = ")).map(|(name, form)| (name, own_form(name, form))).collect();
        let structs = heads().filter(|line| !line.contains(" = ")).map(|line| line.split(' ').next().unwrap_or(line));
        let by_name = structs.enumerate().map(|(index, name)| (name, TypeRef(u16::try_from(index).expect("hundreds of types")))).collect();
        let mut types = Self { structs: Vec::new(), opaque, by_name, by_kind: HashMap::new(), of_every_version: HashMap::new() };
        for line in lines().filter(|line| !line.contains(" = ")) {
            match line.strip_prefix(' ') {
                Some(field) => {
                    let field = types.field(field);
                    types.structs.last_mut().expect("a type's line is before its fields").fields.push(field);
                }
                None => types.structs.push(head(line)),
            }
        }
        for (index, it) in types.structs.iter().enumerate() {
            let it_is = TypeRef(u16::try_from(index).expect("hundreds of types"));
            for kind in &it.kinds {
                match *kind {
                    KindOf::One(group, version, kind) => types.by_kind.insert((group, version, kind), it_is),
                    KindOf::Every(kind) => types.of_every_version.insert(kind, it_is),
                };
            }
        }
        types
    }

    fn field(&self, line: &'static str) -> Field {
        let mut words = line.split(' ');
        let (name, shape) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (name, required) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
        let mut field = Field { name, shape: self.shape(shape), required, merge: Merge::default(), list: None, map: None };
        for (fact, value) in words.filter_map(|word| word.split_once('=')) {
            match fact {
                "patch" => strategy(value, &mut field.merge),
                "key" => field.merge.key = Some(value),
                "list" => field.list = Some(list(value)),
                "map" => field.map = Some(map(value)),
                unknown => panic!("{line}: {unknown}"),
            }
        }
        field
    }

    fn shape(&self, word: &'static str) -> Shape {
        if let Some(element) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            return Shape::Array(Box::new(self.shape(element)));
        }
        if let Some(element) = word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
            return Shape::Map(Box::new(self.shape(element)));
        }
        match word {
            "string" => Shape::String,
            "int32" => Shape::Int32,
            "int64" => Shape::Int64,
            "number" => Shape::Number,
            "boolean" => Shape::Boolean,
            "bytes" => Shape::Bytes,
            name => match self.opaque.iter().find(|(own, _)| *own == name) {
                Some((_, shape)) => shape.clone(),
                None => Shape::Struct(self.by_name[name]),
            },
        }
    }
}

fn own_form(name: &'static str, form: &str) -> Shape {
    match form {
        "quantity" => Shape::Quantity,
        "time" => Shape::Time,
        "micro-time" => Shape::MicroTime,
        "int-or-string" => Shape::IntOrString,
        "any" => Shape::Any(name),
        unknown => panic!("{name}: {unknown}"),
    }
}

fn head(line: &'static str) -> Struct {
    let mut words = line.split(' ');
    let mut it = Struct { name: words.next().unwrap_or_default(), ..Struct::default() };
    for word in words {
        match word.split('/').collect::<Vec<_>>()[..] {
            ["atomic"] => it.atomic = true,
            ["*", kind] => it.kinds.push(KindOf::Every(kind)),
            [version, kind] => it.kinds.push(KindOf::One("", version, kind)),
            [group, version, kind] => it.kinds.push(KindOf::One(group, version, kind)),
            _ => panic!("{line}: {word}"),
        }
    }
    it
}

fn strategy(value: &str, merge: &mut Merge) {
    for word in value.split(',') {
        match word {
            "merge" => merge.strategy = Strategy::Merge,
            "replace" => merge.strategy = Strategy::Replace,
            "retainKeys" => merge.retain_keys = true,
            unknown => panic!("patch strategy {unknown}"),
        }
    }
}

fn map(value: &str) -> MapType {
    match value {
        "atomic" => MapType::Atomic,
        "granular" => MapType::Granular,
        unknown => panic!("map type {unknown}"),
    }
}

fn list(value: &'static str) -> List {
    match value.split_once(':') {
        Some(("map", keys)) => List::Map(keys.split(',').collect()),
        None if value == "atomic" => List::Atomic,
        None if value == "set" => List::Set,
        _ => panic!("list type {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalogue, Offer};

    fn field(group: &str, kind: &str, path: &str) -> &'static Field {
        let mut at = TypeRef::of(group, "v1", kind).expect("a built-in kind");
        let mut found = None;
        for name in path.split('.') {
            let field = at.field(name).unwrap_or_else(|| panic!("{kind} has no {path}: {name}"));
            found = Some(field);
            let mut shape = &field.shape;
            while let Shape::Array(element) | Shape::Map(element) = shape {
                shape = element;
            }
            if let Shape::Struct(it) = shape {
                at = *it;
            }
        }
        found.expect("a path has a name")
    }

    #[test]
    fn every_served_kind_has_a_type() {
        for served in Catalogue::new(&[]).all_served() {
            let (group, version) = (served.group.as_str(), served.version.as_str());
            assert!(TypeRef::of(group, version, &served.kind).is_some(), "{group}/{version} {}", served.kind);
            assert!(TypeRef::of(group, version, &served.list_kind).is_some(), "{group}/{version} {}", served.list_kind);
            for (sub, _) in served.subresources(Offer::Everything).iter().filter(|(sub, _)| !sub.kind.ends_with("Options")) {
                let (group, version) = (sub.group.as_deref().unwrap_or(group), sub.version.as_deref().unwrap_or(version));
                assert!(TypeRef::of(group, version, &sub.kind).is_some(), "{group}/{version} {}", sub.kind);
            }
        }
        for (group, version, kind) in
            [("apps", "v1", "DeleteOptions"), ("", "v1", "Status"), ("", "v1", "Binding"), ("policy", "v1", "Eviction")]
        {
            assert!(TypeRef::of(group, version, kind).is_some(), "{kind}");
        }
        assert_eq!(TypeRef::of("ex.io", "v1", "Widget"), None);
        assert_eq!(TypeRef::of("apps", "v1", "Pod"), None);
    }

    #[test]
    fn fields_have_their_shapes() {
        let check =
            |group: &str, kind: &str, path: &str, expect: Shape| assert_eq!(field(group, kind, path).shape, expect, "{kind} {path}");
        let map = |of| Shape::Map(Box::new(of));
        check("", "ConfigMap", "data", map(Shape::String));
        check("", "ConfigMap", "binaryData", map(Shape::Bytes));
        check("", "ConfigMap", "metadata", Shape::Struct(TypeRef::object_meta()));
        check("", "ConfigMap", "metadata.creationTimestamp", Shape::Time);
        check("", "ConfigMap", "metadata.managedFields.fieldsV1", Shape::Any("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"));
        check("apps", "Deployment", "spec.replicas", Shape::Int32);
        check("apps", "Deployment", "spec.strategy.rollingUpdate.maxSurge", Shape::IntOrString);
        check("", "Pod", "spec.containers.resources.limits", map(Shape::Quantity));
        check("", "Pod", "spec.containers.command", Shape::Array(Box::new(Shape::String)));
        check("coordination.k8s.io", "Lease", "spec.renewTime", Shape::MicroTime);
        check("certificates.k8s.io", "CertificateSigningRequest", "spec.extra", map(Shape::Array(Box::new(Shape::String))));
        assert_eq!(field("", "Pod", "spec").shape, Shape::Struct(TypeRef::named("io.k8s.api.core.v1.PodSpec").expect("a type")));
    }

    #[test]
    fn fields_say_how_they_merge() {
        let merge = |strategy, key, retain_keys| Merge { strategy, key, retain_keys };
        let check =
            |group: &str, kind: &str, path: &str, expect: Merge| assert_eq!(field(group, kind, path).merge, expect, "{kind} {path}");
        check("", "Pod", "spec.containers", merge(Strategy::Merge, Some("name"), false));
        check("", "Pod", "spec.containers.ports", merge(Strategy::Merge, Some("containerPort"), false));
        check("", "Pod", "spec.volumes", merge(Strategy::Merge, Some("name"), true));
        check("", "Pod", "metadata.finalizers", merge(Strategy::Merge, None, false));
        check("", "Pod", "metadata.ownerReferences", merge(Strategy::Merge, Some("uid"), false));
        check("apps", "Deployment", "spec.strategy", merge(Strategy::None, None, true));
        check("", "Pod", "spec.tolerations", Merge::default());
        assert_eq!(field("", "Pod", "spec.containers.ports").list, Some(List::Map(vec!["containerPort", "protocol"])));
        assert_eq!(field("", "Pod", "metadata.finalizers").list, Some(List::Set));
        assert_eq!(field("", "Pod", "spec.tolerations").list, Some(List::Atomic));
        assert_eq!(field("", "Pod", "spec.overhead").list, None);
        let maps = [("Service", "spec.selector"), ("ConfigMap", "data"), ("PersistentVolume", "spec.claimRef")];
        assert_eq!(maps.map(|(kind, path)| field("", kind, path).map), [Some(MapType::Atomic), None, Some(MapType::Granular)]);
        assert!(TypeRef::named("io.k8s.api.core.v1.LocalObjectReference").is_some_and(TypeRef::is_atomic));
        assert!(!TypeRef::object_meta().is_atomic());
    }

    #[test]
    fn types_have_the_names_of_go() {
        let meta = TypeRef::object_meta();
        assert_eq!((meta.go_name(), meta.go_type()), ("ObjectMeta", "v1.ObjectMeta"));
        assert_eq!(TypeRef::of("autoscaling", "v2", "HorizontalPodAutoscaler").map(TypeRef::go_type), Some("v2.HorizontalPodAutoscaler"));
        let pod = TypeRef::of("", "v1", "Pod").expect("a built-in kind");
        assert_eq!((pod.name(), pod.kinds()), ("io.k8s.api.core.v1.Pod", &[KindOf::One("", "v1", "Pod")][..]));
    }

    /// What lookups need: fields in order, and names that are found again.
    #[test]
    fn the_file_is_in_order() {
        for it in TypeRef::all() {
            assert!(it.fields().is_sorted_by(|a, b| a.name < b.name), "{}", it.name());
            assert_eq!(TypeRef::named(it.name()), Some(it));
        }
        assert_eq!(opaque().filter(|(_, shape)| !matches!(shape, Shape::Any(_))).count(), 4);
    }
}
