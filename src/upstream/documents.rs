//! Upstream's documents (discovery, OpenAPI), kept with their ETags: upstream is asked about each whether it has changed, and sends it only then. Upstream
//! still sees every request and judges it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, request, response};
use parking_lot::Mutex;
use recent::Recent;
use sha2::{Digest, Sha256};

/// Bytes of one document that is kept, and of all: OpenAPI v2 of a large cluster has some 5 MB, and each client's `Accept` has documents of its own.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;
const BYTES_MAX: usize = 64 << 20;
/// Bytes of the copies of documents that are on their way, of all together: they last as long as their clients take to read.
const UNDER_WAY_BYTES_MAX: usize = 64 << 20;
/// What a document takes beside its body and its headers: its key and its place among the others, bytes.
const DOCUMENT_BYTES_LEAST: usize = 1 << 10;
/// What a header takes beside its name and value, bytes.
const HEADER_BYTES_MORE: usize = 96;
/// Headers that belong to a body.
const OF_BODY: [HeaderName; 4] = [CONTENT_TYPE, CONTENT_ENCODING, VARY, ETAG];

/// See the file's header.
#[derive(Debug)]
pub struct DocumentCache {
    kept: Mutex<Recent<DocumentKey, Arc<Document>, ()>>,
    /// Bytes of the copies that are on their way.
    in_transit: Arc<AtomicUsize>,
}

impl Default for DocumentCache {
    fn default() -> Self {
        Self { kept: Mutex::new(Recent::new(BYTES_MAX / DOCUMENT_BYTES_LEAST, BYTES_MAX)), in_transit: Arc::default() }
    }
}

/// The key of a document: a digest of the path, of what of the query an answer depends on, and of the form. What a client writes has any length; its digest has
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DocumentKey([u8; 32]);

impl DocumentKey {
    fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        let mut digest = Sha256::new();
        let mut part = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        part(uri.path().as_bytes());
        // The hash of a document of OpenAPI v3: with another one upstream redirects.
        for value in uri.query().into_iter().flat_map(|query| query.split('&')).filter_map(|pair| pair.strip_prefix("hash=")) {
            part(value.as_bytes());
        }
        for name in [ACCEPT, ACCEPT_ENCODING] {
            part(name.as_str().as_bytes());
            headers.get_all(name).iter().for_each(|value| part(value.as_bytes()));
        }
        Self(digest.finalize().into())
    }
}

/// A cached answer.
#[derive(Debug)]
struct Document {
    headers: HeaderMap,
    etag: HeaderValue,
    body: Bytes,
    /// When upstream sent or confirmed it last, on its caller's clock.
    at_ms: AtomicU64,
}

/// One request for a document, until its answer.
#[derive(Debug)]
pub struct DocumentRequest {
    key: DocumentKey,
    kept: Option<Arc<Document>>,
    /// What the client has.
    has: Option<HeaderValue>,
    in_transit: Arc<AtomicUsize>,
}

/// What becomes of upstream's answer.
#[derive(Debug)]
pub enum CacheOutcome {
    /// It is passed on as it is.
    Pass,
    /// It is passed on, and its body is cached if it comes whole.
    Cache(Box<CachedBody>),
    /// The cached body is valid: the head is made its.
    NotModified(Bytes),
}

/// A body that is being passed on and may be cached.
#[derive(Debug)]
pub struct CachedBody {
    key: DocumentKey,
    headers: HeaderMap,
    etag: HeaderValue,
    length: Option<usize>,
    body: BytesMut,
    at_ms: u64,
    in_transit: InTransit,
}

/// Accounts for the bytes of one copy.
#[derive(Debug)]
struct InTransit {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl DocumentCache {
    /// Makes a request for a document conditional: upstream is asked whether the cached one is still valid. None when it asks for no such document.
    pub fn request(&self, head: &mut request::Parts) -> Option<DocumentRequest> {
        let path = head.uri.path();
        let is_document = ["/api", "/apis"].contains(&path.trim_end_matches('/')) || path.starts_with("/openapi/");
        if head.method != Method::GET || !is_document {
            return None;
        }
        let key = DocumentKey::of(&head.uri, &head.headers);
        let has = head.headers.get(IF_NONE_MATCH).cloned();
        let kept = self.kept.lock().get(&key, ()).cloned();
        if let Some(document) = &kept {
            head.headers.insert(IF_NONE_MATCH, document.etag.clone());
        }
        Some(DocumentRequest { key, kept, has, in_transit: self.in_transit.clone() })
    }

    /// Returns the headers and the body of what is kept of this answer, and when upstream sent or confirmed it last.
    #[must_use]
    pub fn cached_answer(&self, uri: &Uri, headers: &HeaderMap) -> Option<(HeaderMap, Bytes, u64)> {
        let document = self.kept.lock().get(&DocumentKey::of(uri, headers), ()).cloned()?;
        Some((document.headers.clone(), document.body.clone(), document.at_ms.load(Ordering::Relaxed)))
    }

    /// Caches a body that has come whole.
    pub fn keep(&self, cached: CachedBody) {
        let CachedBody { key, headers, etag, length, body, at_ms, in_transit: _under_way } = cached;
        if length.is_some_and(|length| length != body.len()) {
            return;
        }
        let document = Arc::new(Document { headers, etag, body: body.freeze(), at_ms: at_ms.into() });
        let bytes = document.bytes();
        self.kept.lock().put(key, document, bytes, (), None);
    }

    /// Bytes of the cached documents.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.kept.lock().bytes()
    }
}

impl Document {
    /// What it takes.
    fn bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES_MORE).sum();
        self.body.len() + headers + DOCUMENT_BYTES_LEAST
    }
}

impl DocumentRequest {
    /// Evaluates the head of upstream's answer, and makes it the client's.
    #[must_use]
    pub fn outcome(self, head: &mut response::Parts, now_ms: u64) -> CacheOutcome {
        let DocumentRequest { key, kept, has, in_transit } = self;
        if let (StatusCode::NOT_MODIFIED, Some(document)) = (head.status, &kept) {
            document.at_ms.fetch_max(now_ms, Ordering::Relaxed);
        }
        match (head.status, kept) {
            // What the client has is what there is.
            (StatusCode::NOT_MODIFIED, Some(document)) if has.as_ref() != Some(&document.etag) => {
                head.status = StatusCode::OK;
                for name in &OF_BODY {
                    head.headers.remove(name);
                    head.headers.extend(document.headers.get_all(name).iter().map(|value| (name.clone(), value.clone())));
                }
                head.headers.insert(CONTENT_LENGTH, document.body.len().into());
                CacheOutcome::NotModified(document.body.clone())
            }
            (StatusCode::OK, _) => {
                let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
                match head.headers.get(ETAG).cloned() {
                    Some(etag) if length.is_none_or(|length| length <= DOCUMENT_BYTES_MAX) => {
                        let of_body = |name: &HeaderName| {
                            head.headers.get_all(name).iter().map(|value| (name.clone(), value.clone())).collect::<Vec<_>>()
                        };
                        let headers = OF_BODY.iter().flat_map(of_body).collect();
                        let in_transit = InTransit { all: in_transit, own: 0 };
                        CacheOutcome::Cache(Box::new(CachedBody {
                            key,
                            headers,
                            etag,
                            length,
                            body: BytesMut::new(),
                            at_ms: now_ms,
                            in_transit,
                        }))
                    }
                    _ => CacheOutcome::Pass,
                }
            }
            _ => CacheOutcome::Pass,
        }
    }
}

impl CachedBody {
    /// Takes a piece of the body; false when there is too much of it, or of all that are in transit.
    pub fn takes(&mut self, piece: &[u8]) -> bool {
        let has_room = self.body.len() + piece.len() <= DOCUMENT_BYTES_MAX && self.in_transit.takes(piece.len());
        if has_room {
            self.body.extend_from_slice(piece);
        }
        has_room
    }
}

impl InTransit {
    fn takes(&mut self, bytes: usize) -> bool {
        self.own += bytes;
        self.all.fetch_add(bytes, Ordering::Relaxed) + bytes <= UNDER_WAY_BYTES_MAX
    }
}

impl Drop for InTransit {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};

    use super::*;

    fn asked(documents: &DocumentCache, target: &str, headers: &[(&str, &str)]) -> (Option<DocumentRequest>, Option<String>) {
        let mut request = Request::get(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).expect("a request").into_parts();
        let request = documents.request(&mut head);
        (request, head.headers.get(IF_NONE_MATCH).map(|tag| tag.to_str().expect("ASCII").to_owned()))
    }

    fn answer(status: u16, headers: &[(&str, &str)]) -> response::Parts {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).expect("a response").into_parts().0
    }

    fn keep(documents: &DocumentCache, target: &str, headers: &[(&str, &str)], etag: &str, body: &[u8]) {
        let request = asked(documents, target, headers).0.expect("a document");
        let CacheOutcome::Cache(mut cached) =
            request.outcome(&mut answer(200, &[("etag", etag), ("content-type", "a/b"), ("x-other", "1")]), 5)
        else {
            panic!("it is kept")
        };
        assert!(cached.takes(body));
        documents.keep(*cached);
    }

    #[test]
    fn what_has_not_changed_is_not_sent_again() {
        let documents = DocumentCache::default();
        let json = [("accept", "application/json")];
        assert_eq!(asked(&documents, "/apis", &json).1, None);
        keep(&documents, "/apis", &json, "\"1\"", b"groups");
        // Another form, another path and another question know nothing of it.
        for (target, headers) in [("/apis", &[("accept", "*/*")][..]), ("/api", &json)] {
            assert_eq!(asked(&documents, target, headers).1, None, "{target} {headers:?}");
        }
        let (request, tag) = asked(&documents, "/apis", &json);
        assert_eq!(tag.as_deref(), Some("\"1\""));
        let mut head = answer(304, &[("etag", "\"1\""), ("audit-id", "new")]);
        let CacheOutcome::NotModified(body) = request.expect("a document").outcome(&mut head, 9) else { panic!("it is known") };
        assert_eq!((head.status, &body[..], head.headers["content-type"].as_bytes()), (StatusCode::OK, &b"groups"[..], &b"a/b"[..]));
        assert!(head.headers["audit-id"] == "new" && head.headers["content-length"] == "6" && !head.headers.contains_key("x-other"));
        let kept = |target: &str| {
            documents.cached_answer(
                &target.parse().expect("a target"),
                &HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]),
            )
        };
        let (headers, body, at) = kept("/apis").expect("it is kept");
        assert_eq!(
            (&body[..], at, headers["content-type"].as_bytes()),
            (&b"groups"[..], 9, &b"a/b"[..]),
            "confirmed when upstream said so last"
        );
        assert!(kept("/api").is_none());
        // A client that has it hears so; one that has an older one gets it.
        let (request, tag) = asked(&documents, "/apis", &[json[0], ("if-none-match", "\"1\"")]);
        assert!(
            tag.as_deref() == Some("\"1\"") && matches!(request.expect("a document").outcome(&mut answer(304, &[]), 5), CacheOutcome::Pass)
        );
        let (request, tag) = asked(&documents, "/apis", &[json[0], ("if-none-match", "\"0\"")]);
        assert!(
            tag.as_deref() == Some("\"1\"")
                && matches!(request.expect("a document").outcome(&mut answer(304, &[]), 5), CacheOutcome::NotModified(_))
        );
        keep(&documents, "/apis", &json, "\"2\"", b"more groups");
        assert_eq!(asked(&documents, "/apis", &json).1.as_deref(), Some("\"2\""));
    }

    #[test]
    fn nothing_else_is_kept() {
        let documents = DocumentCache::default();
        for target in ["/version", "/apis/apps/v1", "/api/v1", "/api/v1/pods", "/openapi", "/apisx"] {
            assert!(asked(&documents, target, &[]).0.is_none(), "{target}");
        }
        let found = |headers: &[(&str, &str)], status| {
            asked(&documents, "/openapi/v2", &[]).0.expect("a document").outcome(&mut answer(status, headers), 5)
        };
        assert!(matches!(found(&[], 200), CacheOutcome::Pass), "without a tag nobody could ask about it");
        assert!(matches!(found(&[("etag", "\"1\""), ("content-length", "999999999")], 200), CacheOutcome::Pass));
        for status in [304, 403, 406, 503] {
            assert!(matches!(found(&[("etag", "\"1\"")], status), CacheOutcome::Pass), "{status}");
        }
        // A body that was cut off.
        let CacheOutcome::Cache(mut cached) = found(&[("etag", "\"1\""), ("content-length", "9")], 200) else { panic!("it is kept") };
        assert!(cached.takes(b"half"));
        documents.keep(*cached);
        assert_eq!(documents.bytes(), 0);
        let CacheOutcome::Cache(mut cached) = found(&[("etag", "\"1\"")], 200) else { panic!("it is kept") };
        assert!(!cached.takes(&vec![0; DOCUMENT_BYTES_MAX + 1]));
    }

    /// 2,500 requests, each with another query and 117 KB of `Accept`, took 296 MiB for good.
    #[test]
    fn what_a_client_writes_is_not_kept() {
        let documents = DocumentCache::default();
        let accept = "x/a".repeat(40_000);
        for n in 0..100 {
            keep(&documents, &format!("/openapi/v3?n={n}"), &[("accept", &accept), ("accept-encoding", "gzip")], "\"1\"", b"small");
        }
        assert!(documents.bytes() < 2 << 10, "{}", documents.bytes());
        // What the answer depends on tells documents apart.
        keep(&documents, "/openapi/v3/api/v1?hash=1", &[], "\"1\"", b"first");
        assert_eq!(asked(&documents, "/openapi/v3/api/v1?timeout=32s&hash=1", &[]).1.as_deref(), Some("\"1\""));
        assert_eq!(asked(&documents, "/openapi/v3/api/v1?hash=2", &[]).1, None);
        for n in 0..200_000 / DOCUMENT_BYTES_LEAST {
            keep(&documents, &format!("/openapi/v3/{n}"), &[], "\"1\"", b"");
        }
        assert!(documents.bytes() >= 190_000, "each counts, however small: {}", documents.bytes());
    }

    /// Clients that read all but the end of a document kept a copy of it each.
    #[test]
    fn what_is_on_its_way_has_a_limit() {
        let documents = DocumentCache::default();
        let begin = || match asked(&documents, "/openapi/v2", &[]).0.expect("a document").outcome(&mut answer(200, &[("etag", "\"1\"")]), 5)
        {
            CacheOutcome::Cache(cached) => cached,
            other => panic!("{other:?}"),
        };
        let body = vec![0; 8 << 20];
        let (mut open, fit) = (Vec::new(), UNDER_WAY_BYTES_MAX / body.len());
        for n in 0..4 * fit {
            let mut cached = begin();
            if cached.takes(&body) {
                open.push(cached);
            }
            assert_eq!(open.len(), fit.min(n + 1), "who has no room gives back what it has asked for");
        }
        open.into_iter().for_each(|cached| documents.keep(*cached));
        assert!(begin().takes(&body) && documents.in_transit.load(Ordering::Relaxed) == 0, "what has come whole is kept");
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let documents = DocumentCache::default();
        let body = vec![0; 10 << 20];
        for n in 0..20 {
            keep(&documents, &format!("/openapi/v3/{n:02}"), &[], "\"1\"", &body);
            assert!(documents.bytes() <= BYTES_MAX);
        }
        assert_eq!(asked(&documents, "/openapi/v3/19", &[]).1.as_deref(), Some("\"1\""), "the newest is there");
        assert_eq!(asked(&documents, "/openapi/v3/00", &[]).1, None);
    }
}
