//! The objects that tokens are bound to, looked up in the cache.

use crate::User;
use crate::authn::{Directory, Kind, Object};
use registry::ServedResources;

/// What the names of service accounts begin with.
const ACCOUNT: &str = "system:serviceaccount:";

/// The cache as tokens' checks see it.
pub struct Cached<'a> {
    resources: &'a ServedResources,
    /// `/registry/`.
    prefix: &'a str,
}

impl<'a> Cached<'a> {
    /// What is served now; `prefix` is `/registry/`.
    #[must_use]
    pub fn new(resources: &'a ServedResources, prefix: &'a str) -> Self {
        Self { resources, prefix }
    }

    /// Whether this is the user of a service account, by one of its tokens, that is not there any more.
    pub(super) fn lacks(&self, user: &User) -> bool {
        let Some((namespace, name)) = user.name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':')) else { return false };
        !user.uid.is_empty() && self.object(Kind::ServiceAccount, namespace, name).is_none_or(|account| account.uid() != user.uid)
    }
}

impl Directory for Cached<'_> {
    fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<Object> {
        let resource = self.resources.find("", "v1", kind.resource())?;
        let (prefix, storage) = (self.prefix, &resource.served.storage.id);
        let key = if namespace.is_empty() { format!("{prefix}{storage}/{name}") } else { format!("{prefix}{storage}/{namespace}/{name}") };
        let known = resource.handle.published.known();
        let found = known.snapshot.known_part(key.as_bytes())?;
        let mut json = Vec::new();
        resource.encoders.whole().encoder.object_into(found, &mut json);
        Object::from_json(&json).ok()
    }
}
