//! Who may change which part of the status of a ResourceClaim (the feature gate DRAResourceClaimGranularStatusAuthorization): what a scheduler writes needs
//! `resourceclaims/binding`, what a driver writes of its devices `resourceclaims/driver`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{authorize::refusal, path::ResourcePath, status::Status};
use auth::User;
use auth::authn::node_of_account;
use auth::authz::{Attributes, Authorizer, Decision, Resource, Target};
use model::invalid::FieldError;
use storage::write::failure::{StatusSubject, WriteError};

const GROUP: &str = "resource.k8s.io";
const CLAIMS: &str = "resourceclaims";

/// A change of a claim's status, and who makes it.
pub(super) struct Change<'a> {
    pub(super) user: &'a User,
    pub(super) path: &'a ResourcePath,
    /// `update` or `patch`.
    pub(super) verb: &'static str,
    pub(super) object: &'a Value,
    pub(super) stored: &'a Value,
}

impl Change<'_> {
    /// Whether its author has the rights that it needs; changes of anything else need none.
    ///
    /// # Errors
    /// 422, with kube-apiserver's texts.
    pub(super) fn confirm(&self, authorizer: &dyn Authorizer) -> Result<(), WriteError> {
        if self.path.group != GROUP || self.path.resource != CLAIMS || self.path.subresource.as_deref() != Some("status") {
            return Ok(());
        }
        let mut errors = Vec::new();
        self.confirm_binding(authorizer, &mut errors);
        self.confirm_drivers(authorizer, &mut errors);
        let name = self.path.name.clone().unwrap_or_default();
        let of = StatusSubject { group: GROUP.to_owned(), kind: "ResourceClaim".to_owned(), name };
        if errors.is_empty() { Ok(()) } else { Err(WriteError::Invalid { of, errors }) }
    }

    fn confirm_binding(&self, authorizer: &dyn Authorizer, errors: &mut Vec<FieldError>) {
        let is_changed = |member: &str| !is_same(&self.object["status"][member], &self.stored["status"][member]);
        if !is_changed("allocation") && !is_changed("reservedFor") {
            return;
        }
        let right = Resource { subresource: "binding", ..self.claims() };
        if let Err(why) = self.may(authorizer, self.verb, right) {
            let verb = self.verb;
            let why = format!(
                r#"changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="{verb}" permission: {why}"#
            );
            errors.push(FieldError::forbidden("status.allocation", &why));
        }
    }

    fn confirm_drivers(&self, authorizer: &dyn Authorizer, errors: &mut Vec<FieldError>) {
        let allocation = &self.object["status"]["allocation"];
        if allocation.is_null() {
            return;
        }
        let is_there = allocated_node(allocation).is_some_and(|node| node_of_account(self.user) == Some(node));
        let of_node = is_there.then(|| format!("associated-node:{}", self.verb));
        let verbs: Vec<String> = of_node.into_iter().chain([format!("arbitrary-node:{}", self.verb)]).collect();
        let namespace = self.path.namespace.as_deref().unwrap_or_default();
        for driver in changed_drivers(&self.object["status"]["devices"], &self.stored["status"]["devices"]) {
            let right = Resource { subresource: "driver", namespace, name: driver, ..self.claims() };
            let mut asked = verbs.iter().map(|verb| self.may(authorizer, verb, right));
            // The first no is told, if there is no yes.
            let Some(Err(first)) = asked.next() else { continue };
            if !asked.any(|answer| answer.is_ok()) {
                let verbs = verbs.join(" ");
                let why =
                    format!(r#"changing status.devices requires resource="resourceclaims/driver", verb="[{verbs}]" permission: {first}"#);
                errors.push(FieldError::forbidden("status.devices", &why));
            }
        }
    }

    fn claims(&self) -> Resource<'_> {
        Resource { group: GROUP, version: &self.path.version, resource: CLAIMS, ..Resource::default() }
    }

    fn may(&self, authorizer: &dyn Authorizer, verb: &str, right: Resource<'_>) -> Result<(), String> {
        let asked = Attributes { user: self.user, verb, target: Target::Resource(right) };
        let verdict = authorizer.decide(&asked);
        if verdict.decision == Decision::Allow {
            return Ok(());
        }
        let reason = verdict.reason.to_string();
        let why = match verdict.error {
            Some(error) if reason.is_empty() => error.into(),
            Some(error) => format!("{error}: {reason}"),
            None => reason,
        };
        Err(Status::forbidden_of(GROUP, CLAIMS, right.name, &refusal(&asked, &why)).message)
    }
}

/// Whether two values say the same: what is empty is not there.
fn is_same(one: &Value, other: &Value) -> bool {
    let is_nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    match (one, other) {
        (Value::Object(ones), Value::Object(others)) => {
            let names: BTreeSet<&String> = ones.keys().chain(others.keys()).collect();
            names.into_iter().all(|name| is_same(&one[name], &other[name]))
        }
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| is_same(one, other))
        }
        _ => one == other || is_nothing(one) && is_nothing(other),
    }
}

/// The drivers whose devices are new, gone or changed.
fn changed_drivers<'v>(new: &'v Value, old: &'v Value) -> BTreeSet<&'v str> {
    let key = |device: &'v Value| ["driver", "pool", "device", "shareID"].map(|member| device[member].as_str().unwrap_or_default());
    let by_key =
        |devices: &'v Value| devices.as_array().into_iter().flatten().map(|device| (key(device), device)).collect::<BTreeMap<_, _>>();
    let mut old = by_key(old);
    let mut drivers = BTreeSet::new();
    for device in new.as_array().into_iter().flatten() {
        let key = key(device);
        if !old.remove(&key).is_some_and(|old| is_same(old, device)) {
            drivers.insert(key[0]);
        }
    }
    drivers.extend(old.into_keys().map(|key| key[0]));
    drivers
}

/// The only node that an allocation may be used on.
fn allocated_node(allocation: &Value) -> Option<&str> {
    let only = |value: &'_ Value| -> bool { value.as_array().is_some_and(|items| items.len() == 1) };
    let terms = &allocation["nodeSelector"]["nodeSelectorTerms"];
    let (term, field) = (&terms[0], &terms[0]["matchFields"][0]);
    let has_expressions = term["matchExpressions"].as_array().is_some_and(|items| !items.is_empty());
    let is_one = only(terms) && !has_expressions && only(&term["matchFields"]) && only(&field["values"]);
    let is_name = field["key"] == "metadata.name" && field["operator"] == "In";
    field["values"][0].as_str().filter(|_| is_one && is_name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use auth::authz::Verdict;
    use model::invalid::joined;

    /// Allows what is in it: verb, subresource, namespace, name.
    struct Only(&'static [[&'static str; 4]]);

    impl Authorizer for Only {
        fn decide(&self, asked: &Attributes<'_>) -> Verdict {
            let Target::Resource(of) = asked.target else { return Verdict::no_opinion("") };
            let is_allowed = self.0.contains(&[asked.verb, of.subresource, of.namespace, of.name]);
            if is_allowed { Verdict::ALLOW } else { Verdict::no_opinion("") }
        }
    }

    fn status(allocated: bool, devices: &Value) -> Value {
        let selector = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]});
        let allocation = if allocated { json!({"devices": {}, "nodeSelector": selector}) } else { Value::Null };
        json!({"status": {"allocation": allocation, "devices": devices}})
    }

    fn device(driver: &str, data: i64) -> Value {
        json!({"driver": driver, "pool": "p", "device": "d", "data": {"x": data}})
    }

    fn asked(user: &User, allowed: &'static [[&'static str; 4]], object: &Value, stored: &Value) -> String {
        let path = ResourcePath {
            group: GROUP.to_owned(),
            version: "v1".to_owned(),
            namespace: Some("ns".to_owned()),
            resource: CLAIMS.to_owned(),
            name: Some("c".to_owned()),
            subresource: Some("status".to_owned()),
            legacy_watch: false,
            odd: super::super::path::Odd::default(),
        };
        match (Change { user, path: &path, verb: "update", object, stored }).confirm(&Only(allowed)) {
            Ok(()) => String::new(),
            Err(WriteError::Invalid { errors, .. }) => joined(&errors),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn parts_of_a_status_need_rights() {
        let user = User { name: "u".to_owned(), ..User::default() };
        let (free, bound) = (status(false, &Value::Null), status(true, &json!([])));
        let binding = r#"status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: resourceclaims.resource.k8s.io is forbidden: User "u" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope"#;
        assert_eq!(asked(&user, &[], &bound, &free), binding);
        assert_eq!(asked(&user, &[["update", "binding", "", ""]], &bound, &free), "");
        assert_eq!(asked(&user, &[], &bound, &bound), "");
        let one = status(true, &json!([device("x.io", 1)]));
        let driver = r#"status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io "x.io" is forbidden: User "u" cannot arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "ns""#;
        assert_eq!(asked(&user, &[], &one, &bound), driver);
        assert_eq!(asked(&user, &[], &bound, &one), driver, "one that is gone");
        assert_eq!(asked(&user, &[], &status(true, &json!([device("x.io", 2)])), &one), driver);
        assert_eq!(asked(&user, &[["arbitrary-node:update", "driver", "ns", "x.io"]], &one, &bound), "");
        assert_eq!(asked(&user, &[["associated-node:update", "driver", "ns", "x.io"]], &one, &bound), driver, "it is on no node");
        assert_eq!(
            asked(&user, &[["update", "binding", "", ""]], &status(false, &Value::Null), &one),
            "",
            "its devices go with the allocation"
        );
    }

    #[test]
    fn an_account_of_the_node_has_its_own_verb() {
        let node = |name: &str| vec![("authentication.kubernetes.io/node-name".to_owned(), vec![name.to_owned()])];
        let user = |name: &str| User { name: "system:serviceaccount:ns:plugin".to_owned(), extra: node(name), ..User::default() };
        let (none, one) = (status(true, &Value::Null), status(true, &json!([device("x.io", 1)])));
        let right = &[["associated-node:update", "driver", "ns", "x.io"]];
        assert_eq!(asked(&user("node-a"), right, &one, &none), "");
        assert!(asked(&user("node-b"), right, &one, &none).contains(r#"verb="[arbitrary-node:update]""#));
        assert!(asked(&user("node-a"), &[], &one, &none).contains(r#"verb="[associated-node:update arbitrary-node:update]""#));
    }
}
