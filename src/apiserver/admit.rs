//! Admission: before anything is written, `admission` judges it. It comes where kube-apiserver has it, with the objects that are there then.

use std::sync::Arc;

use arc_swap::Guard;
use serde_json::Value;

use super::{api::Api, path::ResourcePath};
use admission::{Attributes, Cluster, Kind, Operation, Refusal};
use auth::User;
use auth::authz::{self, Authorizer, Decision, Resource, Target};
use registry::ServedResources;
use storage::write::failure::{StatusSubject, WriteError};

/// The verb of a kubelet that asks for a token of an audience which its pod does not name.
const REQUEST_AUDIENCE: &str = "request-serviceaccounts-token-audience";

/// Group and resource of the signers of certificates, which exist for the authorizers only.
const SIGNERS: (&str, &str) = ("certificates.k8s.io", "signers");

/// Who judges the writes of one request.
pub(super) struct Admission<'a> {
    api: &'a Api,
    user: &'a User,
    path: &'a ResourcePath,
    /// The node whose kubelet asks, if it is one.
    node: Option<&'a str>,
}

impl<'a> Admission<'a> {
    /// Returns who judges what this user writes there; nobody if the user may write what the authorizers allow: no kubelet (or they are not asked what
    /// kubelets may), and a resource that is judged for kubelets only.
    pub(super) fn of(api: &'a Api, user: &'a User, path: &'a ResourcePath) -> Option<Self> {
        let node = admission::node_of(&user.name, &user.groups).filter(|_| api.access.restricts_nodes());
        let is_judged = node.is_some() || admission::judges_everybody(&path.group, &path.resource);
        is_judged.then_some(Self { api, user, path, node })
    }

    /// Judges an object that is to be written, with the one that it replaces.
    pub(super) fn confirm_put(&self, authorizer: &dyn Authorizer, object: &Value, old: Option<&Value>) -> Result<(), WriteError> {
        self.confirm(authorizer, if old.is_some() { Operation::Update } else { Operation::Create }, Some(object), old)
    }

    /// Judges an object that is to be deleted.
    pub(super) fn confirm_deletion(&self, authorizer: &dyn Authorizer, old: &Value) -> Result<(), WriteError> {
        self.confirm(authorizer, Operation::Delete, None, Some(old))
    }

    fn confirm(
        &self,
        authorizer: &dyn Authorizer,
        operation: Operation,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), WriteError> {
        let path = self.path;
        let own = || object.and_then(|object| object["metadata"]["name"].as_str()).unwrap_or_default();
        let write = Attributes {
            user: &self.user.name,
            operation,
            group: &path.group,
            resource: &path.resource,
            subresource: path.subresource.as_deref().unwrap_or_default(),
            namespace: path.namespace.as_deref().unwrap_or_default(),
            name: path.name.as_deref().unwrap_or_else(own),
            object,
            old,
        };
        let known = Known { resources: self.api.resources.load(), prefix: self.api.reader.prefix(), user: self.user, authorizer };
        admission::admit(self.node, &write, &known).map_err(|refusal| match refusal {
            Refusal::Forbidden { name, why } => {
                let of = StatusSubject { group: path.group.clone(), kind: path.resource.clone(), name };
                WriteError::Forbidden { of, why, cause: None }
            }
            Refusal::NotFound { kind, name } => WriteError::NotFound(StatusSubject { group: String::new(), kind: kind.to_owned(), name }),
        })
    }
}

/// What the cache and the authorizers know.
struct Known<'a> {
    resources: Guard<Arc<ServedResources>>,
    /// `/registry/`.
    prefix: &'a str,
    user: &'a User,
    authorizer: &'a dyn Authorizer,
}

impl Cluster for Known<'_> {
    fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        let (group, resource) = kind.resource();
        let resource = self.resources.find(group, "v1", resource)?;
        let prefix = resource.served.storage.key_prefix(self.prefix);
        let key = if namespace.is_empty() { format!("{prefix}{name}") } else { format!("{prefix}{namespace}/{name}") };
        let known = resource.handle.published.known();
        let mut json = Vec::new();
        resource.encoders.whole().encoder.object_into(known.snapshot.store.find(key.as_bytes())?, &mut json);
        serde_json::from_slice(&json).ok()
    }

    fn may_act_for_signer(&self, verb: &'static str, signer: &str) -> bool {
        let resource = Resource { group: SIGNERS.0, version: "*", resource: SIGNERS.1, name: signer, ..Resource::default() };
        let asked = authz::Attributes { user: self.user, verb, target: Target::Resource(resource) };
        self.authorizer.decide(&asked).decision == Decision::Allow
    }

    fn may_request_audience(&self, namespace: &str, account: &str, audience: &str) -> bool {
        let (version, resource, name) = ("v1", audience, account);
        let target = Target::Resource(Resource { namespace, version, resource, name, ..Resource::default() });
        let asked = authz::Attributes { user: self.user, verb: REQUEST_AUDIENCE, target };
        self.authorizer.decide(&asked).decision == Decision::Allow
    }
}
