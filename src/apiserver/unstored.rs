//! Resources of which nothing is stored: bindings, component statuses, and reviews.

use axum::{extract::Request, response::Response};
use http::Method;

use super::{
    api::Api, component_statuses, context::Authorized, path::ResourcePath, resource_request::ResourceRequest, respond::not_found, reviews,
    status::Status,
};
use catalogue::Unstored;

/// What is written to by a binding.
const PODS: (&str, &str, &str) = ("", "v1", "pods");

/// Answers a request whose path names such a resource.
pub(super) async fn serve(api: &Api, context: &Authorized, path: &ResourcePath, unstored: &Unstored, request: Request) -> Response {
    if unstored.kind == "ComponentStatus" {
        return Box::pin(component_statuses::serve(api, context, path, unstored, request)).await;
    }
    let resources = api.resources.load_full();
    let missing = || not_found(&context.reply, &resources.catalogue, Some(&path.group));
    let has_place = path.namespace.is_some() || path.odd.no_namespace;
    if path.name.is_some() || path.odd.no_name || path.legacy_watch || unstored.namespaced != has_place {
        return missing();
    }
    if request.method() != Method::POST {
        return context.refused(&Status::method_not_allowed());
    }
    if unstored.kind != "Binding" {
        return Box::pin(reviews::serve(api, context, path, unstored, request)).await;
    }
    let (group, version, resource) = PODS;
    match resources.find(group, version, resource).cloned() {
        Some(resource) => ResourceRequest { api, context, path, resource }.bind(request).await,
        None => missing(),
    }
}
