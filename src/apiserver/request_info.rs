//! What a request asks to do, as authorizers and the audit log see it: by path, method and query alone, whether or not anything of it exists
//! (spec api-surface §1.2). Pure.

use http::Method;
use percent_encoding::percent_decode_str;

use super::inside::path::HISTORY;
use auth::access::selectors;
use auth::authz::{RequestInfo, Selectors};
use go::url::Query;
use model::selector::parse;
use storage::read::options::ListOptions;

/// Subresources of a namespace: `namespaces/N/status` is of the Namespace, `namespaces/N/pods` is in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Reads path, method and query. A path that has no meaning (`…/watch` with nothing behind it) is no resource: it is refused before anybody authorizes it.
pub(super) fn request_info(method: &Method, raw_path: &str, query: &Query) -> RequestInfo {
    let path = percent_decode_str(raw_path).decode_utf8_lossy().into_owned();
    let mut reader = Reader(RequestInfo { verb: method.as_str().to_ascii_lowercase(), ..RequestInfo::default() });
    // Who asks for what was is judged as who asks for what is, whatever its own parameters.
    let (target, query) = match path.strip_prefix(HISTORY) {
        Some(of) => (of, &Query::default()),
        None => (&*path, query),
    };
    if let Some(rest) = reader.read_prefix(target) {
        reader.read_resource(method, &rest, query);
    }
    RequestInfo { path: path.into(), ..reader.0 }
}

/// What is known so far.
struct Reader(RequestInfo);

impl Reader {
    /// What comes behind the group and version, if it is a resource.
    fn read_prefix(&mut self, path: &str) -> Option<Vec<String>> {
        let trimmed = path.trim_matches('/');
        let parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
        let (group, version, rest) = match parts[..] {
            ["api", version, ref rest @ ..] if !rest.is_empty() => ("", version, rest),
            ["apis", group, version, ref rest @ ..] if !rest.is_empty() => (group, version, rest),
            _ => return None,
        };
        if matches!(rest, ["watch" | "proxy"]) {
            return None;
        }
        (self.0.group, self.0.version) = (group.to_owned(), version.to_owned());
        Some(rest.iter().map(|&part| part.to_owned()).collect())
    }

    fn read_resource(&mut self, method: &Method, rest: &[String], query: &Query) {
        self.0.is_resource = true;
        let mut rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let by_path = matches!(rest[..], ["watch" | "proxy", ..]);
        self.0.verb = if by_path { rest.remove(0) } else { verb(method) }.to_owned();
        if let ["namespaces", namespace, ref more @ ..] = rest[..] {
            self.0.namespace = namespace.to_owned();
            if more.first().is_some_and(|first| !NAMESPACE_SUBRESOURCES.contains(first)) {
                rest = more.to_vec();
            }
        }
        self.0.resource = rest[0].to_owned();
        self.0.name = rest.get(1).copied().unwrap_or_default().to_owned();
        if self.0.verb != "proxy" {
            self.0.subresource = rest.get(2).copied().unwrap_or_default().to_owned();
        }
        if self.0.name.is_empty() && !by_path {
            match self.0.verb.as_str() {
                "get" => self.read_collection(query),
                "delete" => self.0.verb = "deletecollection".to_owned(),
                _ => {}
            }
        }
        if matches!(self.0.verb.as_str(), "list" | "watch" | "deletecollection") && !by_path {
            let of = |name| query.first(name).unwrap_or("");
            let fields = selectors::of_fields(of("fieldSelector")).unwrap_or_default();
            let labels = selectors::of_labels(of("labelSelector")).unwrap_or_default();
            self.0.selectors = Selectors { fields, labels };
        }
    }

    /// Without a name it is a list or a watch; a selector may name the one object that is meant.
    fn read_collection(&mut self, query: &Query) {
        let options = ListOptions::of(query).ok();
        let clauses = options.as_ref().and_then(|options| parse::fields(&options.field_selector).ok());
        // What cannot be read asks for no name; whether it watches still counts.
        self.0.verb = if query.is_true("watch") { "watch" } else { "list" }.to_owned();
        let named = clauses.into_iter().flatten().find(|clause| clause.label == "metadata.name" && clause.equal);
        self.0.name = named.map(|clause| clause.value).filter(|name| is_path_segment(name)).unwrap_or_default();
    }
}

/// The verb of a method on a resource; others have none.
pub(super) fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Whether a name may stand in a path.
fn is_path_segment(name: &str) -> bool {
    !matches!(name, "." | "..") && !name.contains(['/', '%'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verb, then group/version/namespace/resource/subresource/name with `-` for what is empty; or the path.
    fn read(request: &str) -> String {
        let (method, uri) = request.split_once(' ').expect("METHOD PATH");
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let info = request_info(&method.parse().expect("a method"), path, &Query::parse(query));
        if !info.is_resource {
            return format!("{} {}", info.verb, info.path);
        }
        let parts = [&info.group, &info.version, &info.namespace, &info.resource, &info.subresource, &info.name];
        format!("{} {}", info.verb, parts.map(|part| if part.is_empty() { "-" } else { part }).join("/"))
    }

    /// The table of Kubernetes' own documentation and of spec api-surface §1.2.
    #[test]
    fn paths_are_read_as_kube_apiserver_reads_them() {
        for (request, expect) in [
            ("GET /", "get /"),
            ("GET /metrics", "get /metrics"),
            ("POST /healthz/", "post /healthz/"),
            ("GET /api", "get /api"),
            ("GET /api/v1", "get /api/v1"),
            ("GET /apis/apps", "get /apis/apps"),
            ("GET /apis/apps/v1", "get /apis/apps/v1"),
            ("GET /api/v1/namespaces", "list -/v1/-/namespaces/-/-"),
            ("GET /api/v1/namespaces/other", "get -/v1/other/namespaces/-/other"),
            ("PUT /api/v1/namespaces/other/status", "update -/v1/other/namespaces/status/other"),
            ("PUT /api/v1/namespaces/other/finalize", "update -/v1/other/namespaces/finalize/other"),
            ("GET /api/v1/namespaces/other/pods", "list -/v1/other/pods/-/-"),
            ("HEAD /api/v1/namespaces/other/pods", "list -/v1/other/pods/-/-"),
            ("GET /api/v1/namespaces/other/pods/foo", "get -/v1/other/pods/-/foo"),
            ("GET /api/v1/pods?watch=true", "watch -/v1/-/pods/-/-"),
            ("GET /watchcache/api/v1/history/api/v1/namespaces/n/secrets/s", "get -/v1/n/secrets/-/s"),
            (
                "GET /watchcache/api/v1/history/apis/apps/v1/deployments?watch=1&fieldSelector=metadata.name=d",
                "list apps/v1/-/deployments/-/-",
            ),
            ("DELETE /watchcache/api/v1/history/api/v1/namespaces/n", "delete -/v1/n/namespaces/-/n"),
            ("GET /watchcache/api/v1/history/metrics", "get /watchcache/api/v1/history/metrics"),
            ("DELETE /watchcache/api/v1/watches/7", "delete /watchcache/api/v1/watches/7"),
            ("GET /api/v1/pods?watch=0", "list -/v1/-/pods/-/-"),
            ("GET /api/v1/pods?watch=1&limit=x", "watch -/v1/-/pods/-/-"),
            ("GET /api/v1/watch/namespaces/other/pods", "watch -/v1/other/pods/-/-"),
            ("GET /api/v1/watch/pods/a/b", "watch -/v1/-/pods/b/a"),
            ("GET /api/v1/proxy/pods/a/b", "proxy -/v1/-/pods/-/a"),
            ("GET /api/v1/namespaces/other/pods?fieldSelector=metadata.name%3Dfoo", "list -/v1/other/pods/-/foo"),
            ("GET /api/v1/namespaces/other/pods?fieldSelector=metadata.name%3Da%2Fb", "list -/v1/other/pods/-/-"),
            ("GET /api/v1/namespaces/other/pods?fieldSelector=metadata.name!%3Dfoo", "list -/v1/other/pods/-/-"),
            ("DELETE /api/v1/namespaces/other/pods", "deletecollection -/v1/other/pods/-/-"),
            ("DELETE /api/v1/namespaces/other/pods/foo", "delete -/v1/other/pods/-/foo"),
            ("POST /api/v1/namespaces/other/pods/foo/binding", "create -/v1/other/pods/binding/foo"),
            ("PATCH /apis/apps/v1/namespaces/n/deployments/d/scale", "patch apps/v1/n/deployments/scale/d"),
            ("GET /apis/ex.io/v1/widgets/a%2Fb", "get ex.io/v1/-/widgets/b/a"),
            ("OPTIONS /api/v1/pods", " -/v1/-/pods/-/-"),
            ("GET /api/v1/watch", "get /api/v1/watch"),
            ("GET //api/v1/pods//", "list -/v1/-/pods/-/-"),
        ] {
            assert_eq!(read(request), expect, "{request}");
        }
    }
}
