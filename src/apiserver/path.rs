//! A request path becomes a `Route`, by the rules of spec api-surface §1.1 and §1.2, whether or not what it names exists.

use std::borrow::Cow;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::inside::path::InsidePath;
use go::quote::quoted;

/// What a path names. Whether it exists is for the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/`: the list of paths.
    Root,
    /// `/api`: the core group's versions.
    CoreVersions,
    /// `/apis`: the groups.
    Groups,
    /// `/apis/G`.
    Group(String),
    /// `/api/V` (empty group) and `/apis/G/V`: the resources of a version.
    Resources {
        /// API group; empty for core.
        group: String,
        version: String,
    },
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz`, and one check of them.
    Health {
        /// Which of the three.
        endpoint: Health,
        /// `ping` of `/readyz/ping`; may hold slashes.
        check: Option<String>,
    },
    /// `/metrics`.
    Metrics,
    Slis,
    /// `/statusz` and `/flagz`.
    Zpage(Zpage),
    /// `/watchcache/…`: what this program says of itself, also where `/version` and the like are another server's.
    Own(OwnPage),
    /// `/watchcache/…`: the page that shows this server from inside, and its API.
    Inside(InsidePath),
    /// `/openapi/…`: what follows (`v2`, `v3`, `v3/apis/apps/v1`).
    OpenApi(String),
    /// What tells others how to check tokens of service accounts.
    Discovery(TokenDocument),
    /// A resource.
    Resource(ResourcePath),
    /// No form that we know. A Status when it lies in a known built-in group, else text (spec §1.1).
    Unknown {
        /// Group and version that the path begins with, if it does; the version is empty when it is not known where it stands.
        group_version: Option<(String, String)>,
    },
}

/// The documents about tokens of service accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenDocument {
    /// `/.well-known/openid-configuration`
    Configuration,
    /// `/openid/v1/jwks`
    Keys,
}

/// The pages that each component of Kubernetes has of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zpage {
    /// `/statusz`: since when it runs, and which version.
    Statusz,
    /// `/flagz`: its flags.
    Flagz,
}

/// The pages below `/watchcache/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPage {
    /// `/watchcache/version`
    Version,
    /// `/watchcache/status`
    Status,
}

/// The health endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Healthz,
    Livez,
    Readyz,
}

impl Health {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Healthz, Self::Livez, Self::Readyz];

    /// Returns the name, which is also the first part of the path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// A path that names a resource, an object of it, or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// API group; empty for core.
    pub group: String,
    pub version: String,
    /// Namespace. Absent for `namespaces/X` itself, whose name it is; authorization sees X as its namespace too (spec §1.2).
    pub namespace: Option<String>,
    /// Plural resource.
    pub resource: String,
    /// Object.
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// Whether it came as `…/watch/…`: always a watch (spec list-watch §1.1).
    pub legacy_watch: bool,
    /// What no client means, but kube-apiserver's routers take.
    pub odd: Odd,
}

/// What is odd about a path: a part without a text where a name stands, or more parts than there are names for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Odd {
    /// `namespaces//pods`: reads see all namespaces, everything else lacks one.
    pub no_namespace: bool,
    /// `pods//status`: there is no name, and something behind it.
    pub no_name: bool,
    /// Something follows the subresource. Custom resources look no further.
    pub longer: bool,
}

impl ResourcePath {
    /// Whether the name may stand in a path (spec §1.1); a slash cannot reach here, the split ate it. A legacy watch looks at no name: one that cannot be
    /// matches nothing.
    ///
    /// # Errors
    /// The message of a 400.
    pub fn check_name(&self) -> Result<(), String> {
        let name = self.name.as_deref().filter(|_| !self.legacy_watch).unwrap_or_default();
        let why = match name {
            "." => "may not be '.'",
            ".." => "may not be '..'",
            name if name.contains('%') => "may not contain '%'",
            _ => return Ok(()),
        };
        Err(format!("Name parameter invalid: {}: {why}", quoted(name)))
    }
}

/// Why a path is no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathError {
    /// 400 text: a `%` that begins no escape. Go's server reads no further.
    BadEscape,
    /// 500 text with this body (spec api-surface §0: a path that ends at `watch` or `proxy`).
    NoRequestInfo(String),
}

impl Route {
    /// Reads the path of a URI (no query). Percent-encoding is decoded before the split, as Go does.
    ///
    /// # Errors
    /// Escapes that are none, and `…/watch` with nothing after it.
    pub fn parse(raw: &str) -> Result<Route, PathError> {
        if !is_escaped(raw) {
            return Err(PathError::BadEscape);
        }
        Self::parse_decoded(&percent_decode_str(raw).decode_utf8_lossy(), raw)
    }

    /// The same of a path without escapes; `raw` is what a client is told that it has asked for.
    pub(super) fn parse_decoded(path: &str, raw: &str) -> Result<Route, PathError> {
        let Some(path) = path.strip_prefix('/') else { return Ok(UNKNOWN) };
        if let Some(route) = fixed(path) {
            return Ok(route);
        }
        if let Some(inside) = InsidePath::parse(path) {
            return Ok(Route::Inside(inside));
        }
        let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
        // A group or version is never empty; whether a name may be is for what comes behind them.
        let base = if parts.first() == Some(&"apis") { 3 } else { 2 };
        if parts.iter().take(base).any(|part| part.is_empty()) {
            return Ok(nowhere(&parts));
        }
        Ok(match parts.as_slice() {
            ["version"] => Route::Version,
            // A router of its own, as that of the core group.
            ["version", ..] => Route::Unknown { group_version: Some((String::new(), String::new())) },
            ["api"] => Route::CoreVersions,
            ["apis"] => Route::Groups,
            ["apis", group] => Route::Group((*group).to_owned()),
            ["api", version] => Route::Resources { group: String::new(), version: (*version).to_owned() },
            ["apis", group, version] => Route::Resources { group: (*group).to_owned(), version: (*version).to_owned() },
            ["api", version, rest @ ..] => return resource("", version, rest, raw),
            ["apis", group, version, rest @ ..] => return resource(group, version, rest, raw),
            _ => UNKNOWN,
        })
    }

    /// Returns the path of what is neither a resource nor unknown, without what a path may have besides: escapes that are none, slashes at the end.
    pub fn path(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Self::Root => "/",
            Self::CoreVersions => "/api",
            Self::Groups => "/apis",
            Self::Version => "/version",
            Self::Metrics => "/metrics",
            Self::Slis => "/metrics/slis",
            Self::Zpage(Zpage::Statusz) => "/statusz",
            Self::Zpage(Zpage::Flagz) => "/flagz",
            Self::Own(OwnPage::Version) => "/watchcache/version",
            Self::Own(OwnPage::Status) => "/watchcache/status",
            Self::Discovery(TokenDocument::Configuration) => "/.well-known/openid-configuration",
            Self::Discovery(TokenDocument::Keys) => "/openid/v1/jwks",
            Self::Group(group) => return Some(format!("/apis/{}", escaped(group)).into()),
            Self::Resources { group, version } => return Some(version_path(group, version).into()),
            Self::OpenApi(rest) => return Some(format!("/openapi/{}", escaped_parts(rest)).into()),
            Self::Health { endpoint, check: None } => return Some(format!("/{}", endpoint.name()).into()),
            Self::Health { endpoint, check: Some(check) } => return Some(format!("/{}/{}", endpoint.name(), escaped_parts(check)).into()),
            Self::Resource(_) | Self::Inside(_) | Self::Unknown { .. } => return None,
        }))
    }

    /// Returns the group of an unknown path, if it is in one.
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Unknown { group_version } => group_version.as_ref().map(|(group, _)| &**group),
            _ => None,
        }
    }
}

/// Bytes that a part of a path has as they are: those of names.
const PLAIN: &percent_encoding::AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Returns a part of a path with its escapes.
pub(super) fn escaped(part: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(part, PLAIN)
}

/// Returns parts of a path with their escapes.
fn escaped_parts(parts: &str) -> String {
    parts.split('/').map(|part| escaped(part).to_string()).collect::<Vec<_>>().join("/")
}

/// Returns the path of a group's version.
pub(super) fn version_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{}", escaped(version)),
        group => format!("/apis/{}/{}", escaped(group), escaped(version)),
    }
}

/// Whether each `%` has two hexadecimal digits behind it.
fn is_escaped(raw: &str) -> bool {
    raw.split('%').skip(1).all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

const UNKNOWN: Route = Route::Unknown { group_version: None };

/// A path with an empty part in it: what comes before says whose it would be.
fn nowhere(parts: &[&str]) -> Route {
    let group = match parts {
        ["api", ..] => "",
        ["apis", group, ..] if !group.is_empty() => group,
        _ => return UNKNOWN,
    };
    Route::Unknown { group_version: Some((group.to_owned(), String::new())) }
}

/// Paths that tolerate no trailing slash.
fn fixed(path: &str) -> Option<Route> {
    match path {
        "" => return Some(Route::Root),
        "metrics" => return Some(Route::Metrics),
        "metrics/slis" => return Some(Route::Slis),
        "statusz" => return Some(Route::Zpage(Zpage::Statusz)),
        "flagz" => return Some(Route::Zpage(Zpage::Flagz)),
        "watchcache/version" => return Some(Route::Own(OwnPage::Version)),
        "watchcache/status" => return Some(Route::Own(OwnPage::Status)),
        ".well-known/openid-configuration" => return Some(Route::Discovery(TokenDocument::Configuration)),
        "openid/v1/jwks" => return Some(Route::Discovery(TokenDocument::Keys)),
        "apis//" => return Some(UNKNOWN),
        _ => {}
    }
    let (first, rest) = match path.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    let endpoint = match (first, rest) {
        ("healthz", _) => Health::Healthz,
        ("livez", _) => Health::Livez,
        ("readyz", _) => Health::Readyz,
        ("openapi", Some(rest)) if !clean(rest) => return Some(UNKNOWN),
        ("openapi", Some(rest)) => return Some(Route::OpenApi(rest.to_owned())),
        _ => return None,
    };
    match rest {
        Some(check) if !clean(check) => Some(UNKNOWN),
        check => Some(Route::Health { endpoint, check: check.map(str::to_owned) }),
    }
}

fn clean(path: &str) -> bool {
    path.split('/').all(|part| !part.is_empty())
}

/// What follows the version.
fn resource(group: &str, version: &str, rest: &[&str], raw: &str) -> Result<Route, PathError> {
    let (legacy_watch, rest) = match rest {
        ["watch" | "proxy"] => {
            // Go prints the escaped path, with `&<>` as entities.
            let shown = raw.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            return Err(PathError::NoRequestInfo(format!(
                "Internal Server Error: {}: failed to create RequestInfo: unable to determine kind and namespace from url, {shown}\n",
                quoted(&shown)
            )));
        }
        ["watch", rest @ ..] => (true, rest),
        _ => (false, rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize", ..] => (None, rest),
        ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
        _ => (None, rest),
    };
    let no_namespace = namespace.as_deref() == Some("");
    let known = || Route::Unknown { group_version: Some((group.to_owned(), version.to_owned())) };
    let (resource, name, subresource, longer) = match rest {
        [resource] => (*resource, None, None, false),
        [resource, name] => (*resource, Some(*name), None, false),
        [resource, name, "proxy", ..] if !legacy_watch => (*resource, Some(*name), Some("proxy"), false),
        [resource, name, subresource, more @ ..] if !legacy_watch => (*resource, Some(*name), Some(*subresource), !more.is_empty()),
        _ => return Ok(known()),
    };
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let (name, no_name) = (name.and_then(given), name == Some(""));
    Ok(Route::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.filter(|_| !no_namespace),
        resource: resource.to_owned(),
        name,
        // With nothing between two slashes there is no subresource, only more.
        subresource: subresource.and_then(given),
        legacy_watch,
        odd: Odd { no_namespace, no_name, longer },
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `group/version namespace resource name subresource`, `-` for absent.
    fn shown(path: &str) -> String {
        match Route::parse(path) {
            Ok(Route::Resource(p)) => {
                let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
                let watch = if p.legacy_watch { " watch" } else { "" };
                format!("{}/{} {} {} {} {}{watch}", p.group, p.version, or(&p.namespace), p.resource, or(&p.name), or(&p.subresource))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn resources() {
        for (path, expected) in [
            ("/api/v1/pods", "/v1 - pods - -"),
            ("/api/v1/pods/", "/v1 - pods - -"),
            ("/api/v1/pods//", "/v1 - pods - -"),
            ("/api/v1/nodes/n1", "/v1 - nodes n1 -"),
            ("/api/v1/nodes/n1/status", "/v1 - nodes n1 status"),
            ("/api/v1/namespaces", "/v1 - namespaces - -"),
            ("/api/v1/namespaces/x", "/v1 - namespaces x -"),
            ("/api/v1/namespaces/x/status", "/v1 - namespaces x status"),
            ("/api/v1/namespaces/x/finalize", "/v1 - namespaces x finalize"),
            ("/api/v1/namespaces/x/pods", "/v1 x pods - -"),
            ("/api/v1/namespaces/x/pods/p", "/v1 x pods p -"),
            ("/apis/apps/v1/namespaces/x/deployments/d/scale", "apps/v1 x deployments d scale"),
            ("/apis/ex.io/v1/widgets", "ex.io/v1 - widgets - -"),
            ("/api/v1/watch/pods", "/v1 - pods - - watch"),
            ("/api/v1/watch/namespaces/x", "/v1 - namespaces x - watch"),
            ("/api/v1/watch/namespaces/x/pods", "/v1 x pods - - watch"),
            ("/api/v1/watch/namespaces/x/pods/p", "/v1 x pods p - watch"),
            ("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%3Ab", "rbac.authorization.k8s.io/v1 - clusterroles system:a:b -"),
            ("/api/v1/namespaces/x/services/s/proxy/a/b", "/v1 x services s proxy"),
        ] {
            assert_eq!(shown(path), expected, "{path}");
        }
    }

    #[test]
    fn the_rest() {
        let unknown = |group: &str, version: &str| Route::Unknown { group_version: Some((group.to_owned(), version.to_owned())) };
        for (path, expected) in [
            ("/", Route::Root),
            ("/api", Route::CoreVersions),
            ("/api/", Route::CoreVersions),
            ("/apis/", Route::Groups),
            ("/apis/apps/", Route::Group("apps".into())),
            ("/api/v1/", Route::Resources { group: String::new(), version: "v1".into() }),
            ("/apis/apps/v1", Route::Resources { group: "apps".into(), version: "v1".into() }),
            ("/version/", Route::Version),
            ("/readyz", Route::Health { endpoint: Health::Readyz, check: None }),
            ("/livez/poststarthook/x", Route::Health { endpoint: Health::Livez, check: Some("poststarthook/x".into()) }),
            ("/healthz/", UNKNOWN),
            ("/metrics", Route::Metrics),
            ("/metrics/slis", Route::Slis),
            ("/metrics/", UNKNOWN),
            ("/watchcache/version", Route::Own(OwnPage::Version)),
            ("/watchcache/status", Route::Own(OwnPage::Status)),
            ("/watchcache/status/", UNKNOWN),
            ("/watchcache", Route::Inside(InsidePath::Redirect)),
            ("/watchcacher", UNKNOWN),
            ("/openapi/v3/apis/apps/v1", Route::OpenApi("v3/apis/apps/v1".into())),
            ("/openapi/v2/", UNKNOWN),
            ("//api/v1/pods", UNKNOWN),
            ("/api//v1/pods", unknown("", "")),
            ("/apis/apps//v1", unknown("apps", "")),
            ("/apis//apps/v1", UNKNOWN),
            ("/api//", Route::CoreVersions),
            ("/apis//", UNKNOWN),
            ("*", UNKNOWN),
            ("/nope", UNKNOWN),
            ("/apis/apps/v1/watch/deployments/d/status", unknown("apps", "v1")),
        ] {
            assert_eq!(Route::parse(path), Ok(expected), "{path}");
        }
    }

    #[test]
    fn a_part_may_be_empty_where_a_name_stands() {
        let odd = |path: &str| match Route::parse(path) {
            Ok(Route::Resource(ResourcePath { odd, .. })) => odd,
            other => panic!("{path}: {other:?}"),
        };
        let none = Odd::default();
        for (path, shape, want) in [
            ("/api/v1/namespaces//pods", "/v1 - pods - -", Odd { no_namespace: true, ..none }),
            ("/api/v1/namespaces//pods/p", "/v1 - pods p -", Odd { no_namespace: true, ..none }),
            ("/api/v1/watch/namespaces//pods/p", "/v1 - pods p - watch", Odd { no_namespace: true, ..none }),
            ("/api/v1/namespaces//status", "/v1 - namespaces - status", Odd { no_name: true, ..none }),
            ("/api/v1/nodes//status", "/v1 - nodes - status", Odd { no_name: true, ..none }),
            ("/apis/ex.io/v1/widgets/w/status/x/y", "ex.io/v1 - widgets w status", Odd { longer: true, ..none }),
            ("/apis/ex.io/v1/widgets/w//status", "ex.io/v1 - widgets w -", Odd { longer: true, ..none }),
            ("/apis/ex.io/v1/widgets///w", "ex.io/v1 - widgets - -", Odd { no_name: true, longer: true, ..none }),
            ("/api/v1/namespaces/n//pods", "/v1 n  pods -", none),
            ("/api/v1//pods", "/v1 -  pods -", none),
        ] {
            assert_eq!((shown(path).as_str(), odd(path)), (shape, want), "{path}");
        }
    }

    #[test]
    fn bad_names_and_a_watch_of_nothing() {
        let bad = |path: &str| Route::parse(path).expect_err(path);
        for path in ["/api/v1/nodes/%", "/%zz", "/api/v1/nodes/a%2", "/healthz%"] {
            assert_eq!(bad(path), PathError::BadEscape, "{path}");
        }
        let wrong = |path: &str| match Route::parse(path) {
            Ok(Route::Resource(path)) => path.check_name(),
            other => panic!("{path}: {other:?}"),
        };
        let told = |name: &str, why: &str| Err(format!("Name parameter invalid: {name}: {why}"));
        assert_eq!(wrong("/api/v1/nodes/.."), told("\"..\"", "may not be '..'"));
        assert_eq!(wrong("/api/v1/nodes/%2E"), told("\".\"", "may not be '.'"));
        // As Go's %q writes it.
        assert_eq!(wrong("/api/v1/nodes/%1b%C2%A0%25"), told(r#""\x1b\u00a0%""#, "may not contain '%'"));
        assert_eq!(wrong("/api/v1/nodes/a%25b"), told("\"a%b\"", "may not contain '%'"));
        assert_eq!(wrong("/api/v1/watch/nodes/.."), Ok(()));
        assert_eq!(
            bad("/api/v1/watch"),
            PathError::NoRequestInfo(
                "Internal Server Error: \"/api/v1/watch\": failed to create RequestInfo: unable to determine kind and namespace from url, /api/v1/watch\n"
                    .to_owned()
            )
        );
        assert!(matches!(bad("/apis/apps/v1/watch/"), PathError::NoRequestInfo(_)));
    }

    proptest! {
        #[test]
        fn never_panics(path in "(/(api|apis|v1|namespaces|watch|status|[a-z%.]{0,4}|\\PC{0,3})){0,8}/?") {
            let _ = Route::parse(&path);
        }

        #[test]
        fn namespaced_objects_come_back(namespace in "[a-z][a-z0-9-]{0,8}", resource in "[a-z]{3,8}", name in "[a-z][a-z0-9.-]{0,8}") {
            prop_assume!(!matches!(resource.as_str(), "status" | "finalize"));
            let path = ResourcePath {
                group: "ex.io".into(),
                version: "v1".into(),
                namespace: Some(namespace.clone()),
                resource: resource.clone(),
                name: Some(name.clone()),
                ..ResourcePath::default()
            };
            prop_assert_eq!(Route::parse(&format!("/apis/ex.io/v1/namespaces/{namespace}/{resource}/{name}")), Ok(Route::Resource(path)));
        }
    }
}
