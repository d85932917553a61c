//! The namespace of a new object must be there and stay (spec api-surface §5.5).

use super::{
    Writer,
    failure::{Named, Terminating, WriteError},
    place::{Current, Place},
    tree,
};

impl Writer {
    /// Whether an object may be created at this place.
    pub(super) async fn namespace_takes(&self, place: &Place) -> Result<(), WriteError> {
        let Some(namespace) = &place.namespace else { return Ok(()) };
        let found = self.namespace(namespace).await?;
        let missing = || Named { group: String::new(), kind: "namespaces".to_owned(), name: namespace.clone() };
        let found = found.ok_or_else(|| WriteError::NotFound(missing()))?;
        if tree::text(&found.tree, &["status", "phase"]) == "Terminating" {
            return Err(WriteError::Forbidden {
                of: place.named(),
                why: format!("unable to create new content in namespace {namespace} because it is being terminated"),
                cause: Some(Terminating { namespace: namespace.clone() }),
            });
        }
        Ok(())
    }

    /// kube-apiserver waits 50 ms for its cache before it asks etcd; asking at once comes to the same.
    async fn namespace(&self, name: &str) -> Result<Option<Current>, WriteError> {
        let shelf = self.shelf.load();
        let Some(resource) = shelf.find("", "v1", "namespaces").cloned() else { return Ok(None) };
        let place = Place { resource, namespace: None, name: name.to_owned() };
        match self.cached(&place) {
            Some(found) => Ok(Some(found)),
            None => self.fresh(&place).await,
        }
    }
}
