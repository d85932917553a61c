//! Which handler answers a request: axum's routes for what has a fixed path, and one handler for resources (docs/decisions/0002).

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, Request, State},
    response::Response,
    routing::any,
};
use http::{Method, StatusCode, Uri};
use tower::ServiceExt;

use super::{
    accept::Asked,
    api::Api,
    content_type::{self, OBJECTS},
    context::Authorized,
    discovery::{discovery, document},
    inside, openapi,
    other_server::not_served,
    path::{Health, OwnPage, PathError, Route, TokenDocument, Zpage},
    respond::{Reply, not_found},
    staleness,
    status::Status,
};
use catalogue::discovery::version;
use telemetry::{CONTENT_TYPE, SLIS_CONTENT_TYPE};

/// Paths besides the API groups that `/` lists.
const PATHS: &[&str] =
    &["/flagz", "/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/readyz", "/statusz", "/version"];

/// Returns the routes of all that is no resource. A path is matched in the form that `Route::path` gives it.
pub(super) fn routes(api: Arc<Api>) -> Router {
    let mut routes = Router::new()
        .route("/", any(root))
        .route("/api", any(core_versions))
        .route("/api/{version}", any(core_resources))
        .route("/apis", any(groups))
        .route("/apis/{group}", any(group))
        .route("/apis/{group}/{version}", any(group_resources))
        .route("/version", any(release))
        .route("/openapi/{*document}", any(openapi::serve))
        .route("/.well-known/openid-configuration", any(token_configuration))
        .route("/openid/v1/jwks", any(token_keys))
        .route("/metrics", any(metrics))
        .route("/metrics/slis", any(slis))
        .route("/statusz", any(statusz))
        .route("/flagz", any(flagz))
        .route("/watchcache/version", any(own_version))
        .route("/watchcache/status", any(own_status));
    for endpoint in Health::ALL {
        let (whole, check) = (format!("/{}", endpoint.name()), format!("/{}/{{*check}}", endpoint.name()));
        routes = routes
            .route(&whole, any(move |State(api): State<Arc<Api>>, context: Authorized| async move { api.health(&context, endpoint, None) }))
            .route(
                &check,
                any(move |State(api): State<Arc<Api>>, context: Authorized, Path(check): Path<String>| async move {
                    api.health(&context, endpoint, Some(&check))
                }),
            );
    }
    routes.with_state(api)
}

/// Answers a request by the handler of its route.
pub(super) async fn answer(api: &Arc<Api>, routes: &Router, context: Authorized, mut request: Request) -> Response {
    match &context.line.route {
        Ok(Route::Inside(path)) => Box::pin(inside::serve(api, &context, path, request)).await,
        Ok(Route::Resource(path)) => staleness::serve(api, &context, path, request).await,
        Ok(route) => match route.path() {
            Some(path) => {
                if path != request.uri().path() {
                    let Ok(uri) = Uri::try_from(&*path) else { return too_long(api, &context, route) };
                    *request.uri_mut() = uri;
                }
                request.extensions_mut().insert(context);
                routes.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
            }
            None => not_found(&context.reply, &api.resources.load().catalogue, route.group()),
        },
        Err(PathError::BadEscape) => context.reply.bad_request_line(),
        Err(PathError::NoRequestInfo(text)) => context.reply.no_request_info(text.clone()),
    }
}

/// Answers a path that is too long for a URI once it has its escapes: nothing has such a name.
fn too_long(api: &Api, context: &Authorized, route: &Route) -> Response {
    match route {
        Route::Resources { group, .. } => not_found(&context.reply, &api.resources.load().catalogue, Some(group)),
        Route::OpenApi(rest) if rest.starts_with("v3/") => openapi::no_document(&context.reply),
        _ => context.reply.page_not_found(),
    }
}

async fn root(State(api): State<Arc<Api>>, context: Authorized) -> Response {
    context.reply.whole(StatusCode::OK, "application/json", api.resources.load().catalogue.paths(PATHS))
}

async fn core_versions(State(api): State<Arc<Api>>, context: Authorized, request: Request) -> Response {
    let resources = api.resources.load();
    let catalogue = &resources.catalogue;
    if request.method() != Method::GET {
        return context.refused(&Status::method_not_allowed());
    }
    if !catalogue.has_built_ins() {
        return context.reply.page_not_found();
    }
    let address = context.conn.local.to_string();
    discovery(
        &context.reply,
        Asked::RoutedDiscovery,
        request.headers(),
        || catalogue.api_versions(&address),
        || catalogue.aggregated_core(),
    )
}

/// The aggregator asks for no method here, the router of built-in groups does.
async fn groups(State(api): State<Arc<Api>>, context: Authorized, request: Request) -> Response {
    let resources = api.resources.load();
    let catalogue = &resources.catalogue;
    discovery(&context.reply, Asked::Discovery, request.headers(), || catalogue.api_group_list(), || catalogue.aggregated_groups())
}

async fn group(State(api): State<Arc<Api>>, context: Authorized, Path(group): Path<String>, request: Request) -> Response {
    let resources = api.resources.load();
    let catalogue = &resources.catalogue;
    // Of a method the router of built-in groups asks where it does not know the path.
    if request.method() != Method::GET && context.line.ends_with_slashes && catalogue.is_built_in_group(&group) {
        return context.refused(&Status::method_not_allowed());
    }
    match catalogue.api_group(&group) {
        Some(found) => document(&context.reply, Asked::Document, request.headers(), &found),
        None => context.reply.page_not_found(),
    }
}

async fn core_resources(api: State<Arc<Api>>, context: Authorized, Path(version): Path<String>, request: Request) -> Response {
    group_resources(api, context, Path((String::new(), version)), request).await
}

async fn group_resources(
    State(api): State<Arc<Api>>,
    context: Authorized,
    Path((group, version)): Path<(String, String)>,
    request: Request,
) -> Response {
    let resources = api.resources.load();
    let catalogue = &resources.catalogue;
    let asked = if catalogue.is_built_in_group_version(&group, &version) { Asked::RoutedDocument } else { Asked::Document };
    match catalogue.api_resource_list(&group, &version) {
        Some(_) if asked == Asked::RoutedDocument && request.method() != Method::GET => context.refused(&Status::method_not_allowed()),
        Some(found) => document(&context.reply, asked, request.headers(), &found),
        None => not_served(&context.reply, &resources, api.reader.prefix(), (&group, &version)),
    }
}

async fn release(context: Authorized, request: Request) -> Response {
    if request.method() != Method::GET {
        return context.refused(&Status::method_not_allowed());
    }
    let mut reply: Reply = context.reply.clone();
    match content_type::routed(request.headers(), &OBJECTS[..1], true).and_then(|()| reply.negotiate(Asked::JsonDocument)) {
        Ok(_) => reply.whole(StatusCode::OK, "application/json", version()),
        Err(status) => reply.status(&status),
    }
}

async fn token_configuration(State(api): State<Arc<Api>>, context: Authorized) -> Response {
    api.token_document(&context.reply, TokenDocument::Configuration)
}

async fn token_keys(State(api): State<Arc<Api>>, context: Authorized) -> Response {
    api.token_document(&context.reply, TokenDocument::Keys)
}

async fn metrics(State(api): State<Arc<Api>>, context: Authorized) -> Response {
    context.reply.whole(StatusCode::OK, CONTENT_TYPE, api.metrics(&api.resources.load()).into())
}

async fn slis(State(api): State<Arc<Api>>, context: Authorized) -> Response {
    context.reply.whole(StatusCode::OK, SLIS_CONTENT_TYPE, api.metrics.slis.render().into())
}

async fn statusz(State(api): State<Arc<Api>>, context: Authorized, request: Request) -> Response {
    api.zpage(&context, Zpage::Statusz, request.headers())
}

async fn flagz(State(api): State<Arc<Api>>, context: Authorized, request: Request) -> Response {
    api.zpage(&context, Zpage::Flagz, request.headers())
}

async fn own_version(State(api): State<Arc<Api>>, context: Authorized) -> Response {
    api.own(&context.reply, OwnPage::Version)
}

async fn own_status(State(api): State<Arc<Api>>, context: Authorized) -> Response {
    api.own(&context.reply, OwnPage::Status)
}

impl Api {
    /// Answers with a document about tokens of service accounts, where this server issues any.
    fn token_document(&self, reply: &Reply, document: TokenDocument) -> Response {
        match &*self.identity.discovery.load() {
            Some(discovery) => reply.discovery(discovery, document),
            None => reply.page_not_found(),
        }
    }
}
