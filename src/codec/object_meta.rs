//! Which values the members of an `ObjectMeta` may have. A custom resource may be stored with others: they are left out, each member whole, as
//! kube-apiserver's decoder does it, and so is what no `ObjectMeta` has.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor},
};
use serde_json::{Map, Value};

use go::time;
use model::Text;

/// Leaves out of a custom resource's metadata what Go would not read.
pub fn coerce(metadata: &mut Map<String, Value>) {
    metadata.retain(|name, value| Check::of(name).is_some_and(|check| check.deserialize(&*value).is_ok()));
}

/// Reads a value of one type and keeps nothing of it; null is of every type.
#[derive(Clone, Copy)]
pub(super) struct Check(Type);

#[derive(Clone, Copy)]
enum Type {
    Text,
    Integer,
    Flag,
    Time,
    Any,
    List(&'static Type),
    Map(&'static Type),
    /// With these members; what else there is does not matter.
    Struct(&'static [(&'static str, Type)]),
}

const OWNER: &[(&str, Type)] = &[
    ("apiVersion", Type::Text),
    ("kind", Type::Text),
    ("name", Type::Text),
    ("uid", Type::Text),
    ("controller", Type::Flag),
    ("blockOwnerDeletion", Type::Flag),
];

const MANAGED_FIELDS: &[(&str, Type)] = &[
    ("manager", Type::Text),
    ("operation", Type::Text),
    ("apiVersion", Type::Text),
    ("time", Type::Time),
    ("fieldsType", Type::Text),
    ("fieldsV1", Type::Any),
    ("subresource", Type::Text),
];

impl Check {
    /// Of a member of the metadata, if there is such a member.
    pub(super) fn of(member: &str) -> Option<Self> {
        let it = match member {
            "name" | "generateName" | "namespace" | "selfLink" | "uid" | "resourceVersion" => Type::Text,
            "generation" | "deletionGracePeriodSeconds" => Type::Integer,
            "creationTimestamp" | "deletionTimestamp" => Type::Time,
            "labels" | "annotations" => Type::Map(&Type::Text),
            "finalizers" => Type::List(&Type::Text),
            "ownerReferences" => Type::List(&Type::Struct(OWNER)),
            "managedFields" => Type::List(&Type::Struct(MANAGED_FIELDS)),
            _ => return None,
        };
        Some(Self(it))
    }
}

impl<'de> DeserializeSeed<'de> for Check {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            // However deep it is.
            Type::Any => IgnoredAny::deserialize(deserializer).map(drop),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Check {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what an ObjectMeta has there")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        if matches!(self.0, Type::Flag) { Ok(()) } else { Err(E::invalid_type(Unexpected::Bool(value), &self)) }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        if matches!(self.0, Type::Integer) { Ok(()) } else { Err(E::invalid_type(Unexpected::Signed(value), &self)) }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        i64::try_from(value).map_or_else(|_| Err(E::invalid_type(Unexpected::Unsigned(value), &self)), |value| self.visit_i64(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let fits = match self.0 {
            Type::Text => true,
            Type::Time => time::seconds(text).is_ok(),
            _ => false,
        };
        if fits { Ok(()) } else { Err(E::invalid_type(Unexpected::Str(text), &self)) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Type::List(of) = self.0 else { return Err(A::Error::invalid_type(Unexpected::Seq, &self)) };
        while seq.next_element_seed(Self(*of))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Text<'de>>()? {
            let of = match self.0 {
                Type::Map(of) => *of,
                Type::Struct(members) => members.iter().find(|(known, _)| *known == name.0).map_or(Type::Any, |(_, of)| *of),
                _ => return Err(A::Error::invalid_type(Unexpected::Map, &self)),
            };
            map.next_value_seed(Self(of))?;
        }
        if matches!(self.0, Type::Map(_) | Type::Struct(_)) { Ok(()) } else { Err(A::Error::invalid_type(Unexpected::Map, &self)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(metadata: Value, expect: &Value) {
        let Value::Object(mut metadata) = metadata else { panic!("{metadata} is no object") };
        coerce(&mut metadata);
        assert_eq!(Value::Object(metadata), *expect);
    }

    #[test]
    fn what_fits_stays() {
        let whole = json!({"name": "a", "generateName": null, "namespace": "n", "uid": "u", "generation": 3, "resourceVersion": "7",
            "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": null, "deletionGracePeriodSeconds": 0,
            "labels": {"a": "b", "c": null}, "annotations": null, "finalizers": ["x.io/f", null],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u", "controller": true, "more": 1}],
            "managedFields": [{"manager": "m", "time": "2026-01-02T03:04:05Z", "fieldsV1": {"f:a": [1]}}, null]});
        check(whole.clone(), &whole);
    }

    #[test]
    fn each_member_that_does_not_fit_goes_whole() {
        let odd = json!({"name": "a", "uid": 7, "generation": "3", "creationTimestamp": "yesterday", "deletionGracePeriodSeconds": 1.5,
            "labels": {"a": 1, "b": "c"}, "annotations": ["x"], "finalizers": {"x": "y"}, "ownerReferences": [{"name": 5}],
            "managedFields": [{"manager": ["m"]}], "clusterName": "old"});
        check(odd, &json!({"name": "a"}));
    }
}
