//! A request on a resource that is served: what all that answers it knows.

use std::sync::Arc;

use http::Method;

use super::{api::Api, context::Authorized, path::ResourcePath};
use registry::Resource;

/// GET; for custom resources, which no router guards, HEAD is one too.
pub(super) fn is_get(resource: &Resource, method: &Method) -> bool {
    *method == Method::GET || (*method == Method::HEAD && resource.served.is_custom())
}

/// A request on a resource that is served.
pub(super) struct ResourceRequest<'a> {
    pub(super) api: &'a Api,
    pub(super) context: &'a Authorized,
    pub(super) path: &'a ResourcePath,
    pub(super) resource: Arc<Resource>,
}
