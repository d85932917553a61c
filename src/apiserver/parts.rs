//! Which parts the path of a resource must have: a namespace, a name, a subresource that exists (spec api-surface §1.1).

use http::Method;

use super::{
    path::ResourcePath,
    resource_request::{ResourceRequest, is_get},
    status::Status,
};
use registry::Resource;

/// What a built-in in a namespace says when the path has none.
pub(super) const NO_NAMESPACE: &str = "Namespace parameter required.";

/// Namespaced objects are named with their namespace, cluster-scoped ones without (spec api-surface §1.1). Only reads see all namespaces of a custom
/// resource at once; a built-in's path exists for them, and the method is refused.
pub(super) fn is_in_scope(resource: &Resource, path: &ResourcePath, method: &Method) -> bool {
    let custom = resource.served.is_custom();
    // A built-in's route has so many parts and no more.
    if path.odd.longer && !custom || path.odd.no_namespace && !resource.served.namespaced {
        return false;
    }
    match (resource.served.namespaced, &path.namespace, &path.name) {
        (false, Some(_), _) => false,
        // Where a built-in's route has a namespace there may be none in the path.
        (true, None, _) if path.odd.no_namespace && !custom => true,
        (true, None, _) if path.odd.no_name && !custom => false,
        (true, None, Some(_)) => custom && path.legacy_watch,
        (true, None, None) if resource.served.is_custom() => is_get(resource, method) || path.legacy_watch,
        _ => true,
    }
}

impl ResourceRequest<'_> {
    /// Whether there is such a subresource at all.
    pub(super) fn has_path(&self) -> Result<(), Status> {
        let served = &self.resource.served;
        if self.path.subresource.as_deref().is_some_and(|sub| !served.has_subresource(sub)) {
            return Err(self.no_subresource());
        }
        Ok(())
    }

    /// Whether the path says what this method needs: a name before a subresource, and a namespace before a name.
    pub(super) fn has_names(&self, method: &Method) -> Result<(), Status> {
        let ResourcePath { odd, name, subresource, legacy_watch, .. } = self.path;
        let served = &self.resource.served;
        if odd.no_name
            && let Some(subresource) = subresource
        {
            let verbs: &[&str] = match *method {
                Method::GET => &["get"],
                Method::PUT => &["update"],
                Method::PATCH => &["patch"],
                Method::POST => &["create"],
                _ => &[],
            };
            let is_written = matches!(*method, Method::PUT | Method::PATCH);
            return Err(match verbs.iter().any(|verb| served.subresource_with(subresource, verb).is_some()) {
                true if !served.is_custom() || is_written => Status::bad_request("name must be provided"),
                _ => self.unsupported_without_name(method),
            });
        }
        if odd.no_namespace && name.is_some() && !legacy_watch && !served.is_custom() {
            return Err(Status::bad_request(NO_NAMESPACE));
        }
        Ok(())
    }

    /// 405; of a custom resource in the words for a collection, since there is no name.
    fn unsupported_without_name(&self, method: &Method) -> Status {
        let served = &self.resource.served;
        match *method {
            Method::GET | Method::HEAD if served.is_custom() => Status::verb_not_supported("list", &served.group, &served.resource),
            Method::DELETE if served.is_custom() => Status::verb_not_supported("deletecollection", &served.group, &served.resource),
            _ => self.unsupported(method),
        }
    }

    fn no_subresource(&self) -> Status {
        let served = &self.resource.served;
        match (served.is_custom(), self.path.name.as_deref()) {
            (true, name) => Status::not_found(&served.group, &served.resource, name.unwrap_or_default()),
            _ => Status::not_found_generic(),
        }
    }
}
