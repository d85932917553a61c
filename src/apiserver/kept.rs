//! Upstream's documents while upstream is away: those that clients need to start are fetched ahead, others are there if a client asked for them before. Who may
//! read them our own authorizers say.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use axum::{extract::Request, response::Response};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode, Uri,
    header::{ACCEPT, AGE, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, WARNING},
};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use upstream::{Answer, AuthMode, Visit, Whole};

use super::{
    accept::Asked,
    check::Behind,
    context::Authorized,
    discovery::{discovery, document},
    forward::{Replica, looker},
    line::RequestLine,
    path::Route,
    respond::Reply,
};
use catalogue::discovery::{AGGREGATED_MEDIA_TYPE, Aggregated};

/// How often it is looked whether the documents have changed, how soon again if that failed, and how often it is looked whether upstream has answered at all.
const FETCH_EVERY: Duration = Duration::from_secs(30);
const FETCH_AGAIN: Duration = Duration::from_secs(5);
const FIRST_LOOKS: Duration = Duration::from_millis(250);
/// How long all of them may take together.
const FETCH_MAX: Duration = Duration::from_secs(120);
/// Bytes of one of them, and how many there may be: two for each group and a few.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;
const DOCUMENTS_MAX: usize = 4_096;
/// Bytes of all.
const BYTES_MAX: usize = 64 << 20;
const JSON: &str = "application/json";
/// The two that tell of all groups.
const ROOTS: [&str; 2] = ["/api", "/apis"];
/// What clients are told; kubectl prints it once, for it does not change.
const AWAY: HeaderValue =
    HeaderValue::from_static(r#"299 watchcache "the API server behind this one does not answer, this is what it said before""#);

/// What clients need to start: discovery in both forms, the resources of each version, `/version` and the index of OpenAPI v3. Larger documents are too seldom
/// needed.
#[derive(Default)]
pub(super) struct Essentials(ArcSwapOption<Fetched>);

/// What upstream said.
struct Fetched {
    plain: BTreeMap<String, Bytes>,
    aggregated: BTreeMap<&'static str, Aggregated>,
    /// When it said so last.
    at: Instant,
}

/// A document that is answered though upstream is away.
#[derive(Clone)]
pub(super) struct Kept {
    how: How,
    age: Duration,
}

#[derive(Clone)]
enum How {
    /// One that was fetched ahead, in the form that the client accepts.
    Ahead(Arc<Fetched>),
    /// One that was asked for in this very form.
    AsAsked(HeaderMap, Bytes),
}

impl Essentials {
    /// How old they are; none before they are there.
    pub(super) fn age(&self) -> Option<Duration> {
        self.0.load().as_ref().map(|fetched| fetched.at.elapsed())
    }
}

impl Fetched {
    /// Returns the path under which a route's document is.
    fn path(&self, route: &Route) -> Option<Cow<'static, str>> {
        let is_one = match route {
            Route::CoreVersions | Route::Groups | Route::Group(_) | Route::Resources { .. } | Route::Version => true,
            Route::OpenApi(rest) => rest == "v3",
            _ => false,
        };
        route.path().filter(|path| is_one && self.plain.contains_key(&**path))
    }
}

impl Kept {
    /// What is kept of the answer to this request.
    pub(super) fn find(replica: &Replica, line: &RequestLine, request: &Request) -> Option<Self> {
        if let Some((headers, body, at)) = replica.documents.cached_answer(request.uri(), request.headers()) {
            return Some(Self { how: How::AsAsked(headers, body), age: Duration::from_millis(replica.now_ms().saturating_sub(at)) });
        }
        let fetched = replica.essentials.0.load_full()?;
        fetched.path(line.route.as_ref().ok()?)?;
        Some(Self { age: fetched.at.elapsed(), how: How::Ahead(fetched) })
    }

    /// Answers with it, and says that it is kept and how old it is.
    pub(super) fn answer(self, context: &Authorized, request: &Request) -> Response {
        let reply = &context.reply;
        let mut response = match &self.how {
            How::AsAsked(headers, body) => as_asked(reply, headers, body, request),
            How::Ahead(fetched) => ahead(reply, fetched, &context.line, request),
        };
        response.headers_mut().insert(AGE, self.age.as_secs().into());
        response.headers_mut().append(WARNING, AWAY);
        response
    }
}

fn as_asked(reply: &Reply, headers: &HeaderMap, body: &Bytes, request: &Request) -> Response {
    if let Some(etag) = headers.get(ETAG).filter(|etag| request.headers().get(IF_NONE_MATCH) == Some(*etag)) {
        return reply.not_modified(etag);
    }
    let mut response = reply.whole(StatusCode::OK, JSON, body.clone());
    for (name, value) in headers {
        response.headers_mut().insert(name.clone(), value.clone());
    }
    response.headers_mut().insert(CONTENT_LENGTH, body.len().into());
    response
}

fn ahead(reply: &Reply, fetched: &Fetched, line: &RequestLine, request: &Request) -> Response {
    let Ok(route) = &line.route else { return reply.page_not_found() };
    let Some((path, plain)) = fetched.path(route).and_then(|path| fetched.plain.get(&*path).map(|plain| (path, plain))) else {
        return reply.page_not_found();
    };
    match (route, fetched.aggregated.get(&*path)) {
        (Route::CoreVersions | Route::Groups, Some(aggregated)) => {
            discovery(reply, Asked::Discovery, request.headers(), || plain.clone(), || aggregated)
        }
        (Route::Version | Route::OpenApi(_), _) => reply.whole(StatusCode::OK, JSON, plain.clone()),
        _ => document(reply, Asked::Document, request.headers(), plain),
    }
}

impl Replica {
    /// Fetches the documents again and again, until the process ends. Where clients bring their own tokens nobody may read them but they, and this server
    /// itself if it is somebody there.
    pub async fn keep(self: Arc<Self>) {
        let mut told = None;
        loop {
            let is_allowed = self.is_source || self.upstream.now().auth_mode() != AuthMode::OwnToken;
            let mut pause = if is_allowed && self.answers() { FETCH_AGAIN } else { FIRST_LOOKS };
            if pause == FETCH_AGAIN {
                match timeout(FETCH_MAX, self.fetch_all()).await.unwrap_or_else(|_| Err("it does not answer in time".to_owned())) {
                    Ok(fetched) => {
                        self.essentials.0.store(Some(Arc::new(fetched)));
                        (pause, told) = (FETCH_EVERY, None);
                    }
                    Err(why) if told.as_ref() == Some(&why) => {}
                    Err(why) => {
                        tracing::info!(%why, "upstream's documents are not kept for when it is away");
                        told = Some(why);
                    }
                }
            }
            sleep(pause).await;
        }
    }

    /// All of them; those from before if upstream says that nothing has changed.
    async fn fetch_all(&self) -> Result<Fetched, String> {
        let before = self.essentials.0.load_full();
        let (at, upstream) = (Instant::now(), self.upstream.now());
        let visit =
            if upstream.auth_mode() == AuthMode::OwnToken { Some((upstream.visit().await?, self.ourselves(&upstream)?)) } else { None };
        let mut aggregated = BTreeMap::new();
        let mut is_same = before.is_some();
        for path in ROOTS {
            let known = before.as_ref().and_then(|before| before.aggregated.get(path));
            let (status, headers, body) = self.fetch(visit.as_ref(), path, AGGREGATED_MEDIA_TYPE, known.map(|known| &*known.etag)).await?;
            let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
            match (status, known, text(ETAG)) {
                (StatusCode::NOT_MODIFIED, Some(known), _) => drop(aggregated.insert(path, known.clone())),
                (StatusCode::OK, _, Some(etag)) if text(CONTENT_TYPE).is_some_and(|of| of.contains("as=APIGroupDiscoveryList")) => {
                    is_same = false;
                    aggregated.insert(path, Aggregated { body, etag: etag.trim_matches('"').to_owned() });
                }
                // One that does not have this form.
                (StatusCode::OK | StatusCode::NOT_ACCEPTABLE, ..) => is_same = false,
                (status, ..) => return Err(format!("{path} is answered {}", status.as_u16())),
            }
        }
        if let Some(before) = before.filter(|_| is_same) {
            return Ok(Fetched { plain: before.plain.clone(), aggregated, at });
        }
        let mut plain = BTreeMap::new();
        let mut bytes: usize = aggregated.values().map(|document| document.body.len()).sum();
        let mut paths: Vec<String> = ["/apis", "/api", "/version", "/openapi/v3"].map(str::to_owned).to_vec();
        while let Some(path) = paths.pop() {
            let (status, _, body) = self.fetch(visit.as_ref(), &path, JSON, None).await?;
            // Of another API server that does not answer, for one.
            if status != StatusCode::OK {
                continue;
            }
            if ROOTS.contains(&path.as_str()) {
                paths.extend(named(&path, &serde_json::from_slice(&body).map_err(|error| error.to_string())?));
            }
            bytes += body.len();
            if plain.len() >= DOCUMENTS_MAX || bytes > BYTES_MAX {
                return Err("there are too many".to_owned());
            }
            plain.insert(path, body);
        }
        Ok(Fetched { plain, aggregated, at })
    }

    /// One of them, as somebody without any rights asks for it, or as this server itself on its visit.
    async fn fetch(
        &self,
        visit: Option<&(Visit, HeaderMap)>,
        path: &str,
        accept: &'static str,
        etag: Option<&str>,
    ) -> Result<(StatusCode, HeaderMap, Bytes), String> {
        let conditions = |headers: &mut HeaderMap| {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(&format!("\"{etag}\"")).ok()) {
                headers.insert(IF_NONE_MATCH, etag);
            }
        };
        if let Some((visit, who)) = visit {
            let mut headers = who.clone();
            conditions(&mut headers);
            let Whole { status, headers, body } = visit.get(path, headers).await?;
            return if body.len() > DOCUMENT_BYTES_MAX { Err(format!("{path} is too long")) } else { Ok((status, headers, body)) };
        }
        let upstream = self.upstream.now();
        let mut request = self.look_request(upstream.auth_mode())?;
        conditions(request.headers_mut());
        *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
        let Answer { response, .. } = upstream.send(request, looker(upstream.auth_mode())).await.map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, DOCUMENT_BYTES_MAX).collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok((head.status, head.headers, body))
    }
}

/// The paths of the groups and versions that a root names.
fn named(root: &str, document: &Value) -> Vec<String> {
    let texts = |list: &Value| list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    if root == "/api" {
        return texts(&document["versions"]).iter().map(|version| format!("/api/{version}")).collect();
    }
    let groups = document["groups"].as_array().into_iter().flatten();
    groups
        .flat_map(|group| {
            let versions = group["versions"].as_array().into_iter().flatten().filter_map(|version| version["groupVersion"].as_str());
            group["name"].as_str().into_iter().chain(versions).map(|part| format!("/apis/{part}")).collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roots_name_their_groups_and_versions() {
        assert_eq!(named("/api", &json!({"kind": "APIVersions", "versions": ["v1"]})), ["/api/v1"]);
        let groups =
            json!({"groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1"}, {"groupVersion": "apps/v2"}]}, {"name": 7}]});
        assert_eq!(named("/apis", &groups), ["/apis/apps", "/apis/apps/v1", "/apis/apps/v2"]);
        assert_eq!(named("/apis", &json!("nonsense")), <[&str; 0]>::default());
    }
}
