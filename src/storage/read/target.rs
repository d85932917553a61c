//! Resolves what a read is about: the served resource, its cacher, the keys and the filter.

use std::sync::Arc;

use bytes::Bytes;

use super::plan::{Refusal, Scope};
use cache::dispatch::{GroupKey, SharedFilter};
use cache::state::learner::Reader;
use codec::{Encoder, compared};
use model::{
    Filter,
    selector::{Field, FieldMatcher, FieldTerm, LabelMatcher, LabelSelector, parse},
    shard::Shard,
};
use registry::{
    Resource,
    representation::{NamedEncoder, Representation},
};

/// The target of one read.
pub struct Target {
    pub resource: Arc<Resource>,
    /// Key prefix of what is in scope, with a slash at its end: `/registry/pods/ns/`.
    pub prefix: Bytes,
    /// Where keys of continue tokens begin: the prefix that the path names, whatever the selectors narrow. So a token fits every request on the same
    /// path, as it does on a kube-apiserver.
    pub base: Bytes,
    /// The one key that is meant, when it can be computed (spec list-watch §2.11).
    pub key: Option<Bytes>,
    /// Scope and selectors.
    pub filter: Filter,
    /// Whether a label or field selector was given, also one that became the scope; a shard is none (spec list-watch §11).
    selects: bool,
    /// The encoder of its representation.
    named: NamedEncoder,
    /// Who reads, for his share of the learned indexes.
    pub(super) reader: Reader,
}

/// Scope of a request as the path and the query name it.
pub struct RequestScope<'a> {
    /// Namespace in the path.
    pub namespace: Option<&'a str>,
    /// Name in the path.
    pub name: Option<&'a str>,
    /// `labelSelector`.
    pub labels: &'a str,
    /// `fieldSelector`.
    pub fields: &'a str,
    /// `shardSelector`, when its gate is on.
    pub shard: Option<&'a str>,
}

/// The selectors, parsed and resolved.
struct Selectors {
    labels: LabelSelector,
    fields: Vec<FieldTerm>,
    shard: Option<Shard>,
}

impl Target {
    /// Resolves a collection request. `etcd_prefix` is `/registry/`.
    ///
    /// # Errors
    /// 400 texts, in the order of spec list-watch §1.3 (checks 3, 6, 7), then the 500 of a shard selector (§11). Check 5 (422) lies between parsing and
    /// resolving: `validate` is called there.
    pub fn collection(
        resource: Arc<Resource>,
        etcd_prefix: &str,
        requested: &RequestScope<'_>,
        validate: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<Self, Refusal> {
        let labels = parse::labels(requested.labels).map_err(Refusal::BadRequest)?;
        let clauses = parse::fields(requested.fields).map_err(Refusal::BadRequest)?;
        validate()?;
        let mut fields = Vec::with_capacity(clauses.len());
        for clause in clauses {
            let field = resource.served.field(&clause.label).map_err(Refusal::BadRequest)?;
            let value = match field {
                Field::Declared(_) => compared(clause.value.into()).into_owned(),
                Field::Name | Field::Namespace => clause.value,
            };
            fields.push(FieldTerm { field, equal: clause.equal, value: value.into() });
        }
        if let Some(name) = requested.name {
            let names_it = |t: &FieldTerm| t.field == Field::Name && t.equal && &*t.value == name;
            if !fields.is_empty() && !fields.iter().any(names_it) {
                return Err(Refusal::BadRequest("fieldSelector metadata.name doesn't match requested name".to_owned()));
            }
        }
        let shard =
            requested.shard.map(Shard::parse).transpose().map_err(|why| Refusal::Internal(format!("invalid shard selector: {why}")))?;
        Ok(Self::scoped(resource, etcd_prefix, requested, Selectors { labels, fields, shard }))
    }

    /// Resolves one object.
    #[must_use]
    pub fn object(resource: Arc<Resource>, etcd_prefix: &str, namespace: Option<&str>, name: &str) -> Self {
        let requested = RequestScope { namespace, name: Some(name), labels: "", fields: "", shard: None };
        Self::scoped(resource, etcd_prefix, &requested, Selectors { labels: LabelSelector::default(), fields: Vec::new(), shard: None })
    }

    /// Lifts exact name and namespace terms into the scope (spec list-watch §4.9); what contradicts them stays a term and matches nothing.
    fn scoped(resource: Arc<Resource>, etcd_prefix: &str, requested: &RequestScope<'_>, selectors: Selectors) -> Self {
        let namespaced = resource.served.namespaced;
        let selects = !selectors.labels.is_empty() || !selectors.fields.is_empty();
        let mut filter = Filter {
            namespace: requested.namespace.map(Into::into),
            name: requested.name.map(Into::into),
            labels: LabelMatcher::new(&selectors.labels),
            fields: FieldMatcher::default(),
            shard: selectors.shard,
        };
        let mut terms = Vec::new();
        for term in selectors.fields {
            let lifted = match term.field {
                Field::Name if term.equal && is_segment(&term.value) => &mut filter.name,
                Field::Namespace if term.equal && namespaced && is_segment(&term.value) => &mut filter.namespace,
                _ => {
                    terms.push(term);
                    continue;
                }
            };
            match lifted {
                None => *lifted = Some(term.value),
                Some(same) if **same == *term.value => {}
                Some(_) => terms.push(term),
            }
        }
        filter.fields = FieldMatcher::new(&terms);
        let whole = resource.served.storage.key_prefix(etcd_prefix);
        let within = |namespace: Option<&str>| match namespace.filter(|_| namespaced) {
            Some(namespace) => format!("{whole}{namespace}/"),
            None => whole.clone(),
        };
        let scope = filter.namespace.as_deref().filter(|_| namespaced);
        let (base, prefix) = (within(requested.namespace), within(scope));
        let key = match &filter.name {
            Some(name) if scope.is_some() || !namespaced => Some(Bytes::from(format!("{prefix}{name}"))),
            _ => None,
        };
        let named = resource.encoders.whole().clone();
        Self { resource, prefix: prefix.into(), base: base.into(), key, filter, selects, named, reader: 0 }
    }

    /// The same in another representation.
    #[must_use]
    pub fn represented_as(self, representation: Representation) -> Self {
        Self { named: self.resource.encoders.get(representation), ..self }
    }

    /// The same for this reader.
    #[must_use]
    pub fn read_by(self, reader: Reader) -> Self {
        Self { reader, ..self }
    }

    /// Returns the encoder of the representation that is asked for.
    #[must_use]
    pub fn encoder(&self) -> &Arc<Encoder> {
        &self.named.encoder
    }

    /// What the plan needs to know of the scope.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope { single_key: self.key.is_some(), selects: self.selects }
    }

    /// Its group of watchers, who hold this filter of it.
    #[must_use]
    pub fn group_key(&self, filter: SharedFilter) -> GroupKey {
        GroupKey { representation: self.named.name.clone(), filter }
    }
}

/// Whether a value can be a part of a key.
fn is_segment(value: &str) -> bool {
    !value.is_empty() && !value.contains('/')
}
