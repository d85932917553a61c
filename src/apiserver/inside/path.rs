//! What lies below `/watchcache/`, beside the documents of `own`.

use super::super::path::{Odd, ResourcePath, Route};

/// The API of the page.
const API: &str = "watchcache/api/v1";

/// What stands before the path of an object, or of a collection, whose history is asked for.
pub(in super::super) const HISTORY: &str = "/watchcache/api/v1/history";

/// A path of the page or of its API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsidePath {
    /// `/watchcache`: the page has a slash at its end.
    Redirect,
    /// `/watchcache/`, which is `index.html`, and the files beside it.
    File(String),
    /// `/watchcache/api/v1`: what there is.
    Paths,
    /// `…/overview`
    Overview,
    /// `…/resources`
    Resources,
    /// `…/watches`
    Watches,
    /// `…/expired-watches`
    ExpiredWatches,
    /// `…/watches/N`
    Watch(u64),
    /// `…/cluster`
    Cluster,
    /// `…/history/` and the path of an object or a collection; none where it is neither.
    History(Option<Box<ResourcePath>>),
}

impl InsidePath {
    /// Reads a path without its first slash and without escapes.
    pub(in super::super) fn parse(path: &str) -> Option<Self> {
        let page = path.strip_prefix("watchcache")?;
        if page.is_empty() {
            return Some(Self::Redirect);
        }
        if let Some(of) = path.strip_prefix(&HISTORY[1..]) {
            return of.starts_with('/').then(|| Self::History(past(of)));
        }
        if let Some(rest) = path.strip_prefix(API) {
            return Some(match rest {
                "" | "/" => Self::Paths,
                "/overview" => Self::Overview,
                "/resources" => Self::Resources,
                "/watches" => Self::Watches,
                "/expired-watches" => Self::ExpiredWatches,
                "/cluster" => Self::Cluster,
                rest => Self::Watch(rest.strip_prefix("/watches/")?.parse().ok()?),
            });
        }
        match page.strip_prefix('/')? {
            "" => Some(Self::File("index.html".to_owned())),
            file if file.contains('/') => None,
            file => Some(Self::File(file.to_owned())),
        }
    }

    /// Whether it tells of the server, not of objects: those have rights of their own.
    pub(in super::super) fn is_of_the_server(&self) -> bool {
        !matches!(self, Self::History(_))
    }
}

/// The object or collection of this path, if it is a plain one.
fn past(of: &str) -> Option<Box<ResourcePath>> {
    match Route::parse_decoded(of, of) {
        Ok(Route::Resource(path)) if !path.legacy_watch && path.subresource.is_none() && path.odd == Odd::default() => Some(Box::new(path)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        let file = |name: &str| Some(InsidePath::File(name.to_owned()));
        for (path, want) in [
            ("watchcache", Some(InsidePath::Redirect)),
            ("watchcache/", file("index.html")),
            ("watchcache/app.js", file("app.js")),
            ("watchcache/../app.js", None),
            ("watchcacher", None),
            ("watchcache/api/v1", Some(InsidePath::Paths)),
            ("watchcache/api/v1/overview", Some(InsidePath::Overview)),
            ("watchcache/api/v1/overview/", None),
            ("watchcache/api/v1/cluster", Some(InsidePath::Cluster)),
            ("watchcache/api/v1/expired-watches", Some(InsidePath::ExpiredWatches)),
            ("watchcache/api/v1/expired-watches/7", None),
            ("watchcache/api/v1/watches/7", Some(InsidePath::Watch(7))),
            ("watchcache/api/v1/watches/-7", None),
            ("watchcache/api/v1/watches/", None),
            ("watchcache/api/v1/history", None),
            ("watchcache/api/v1/historyx", None),
            ("watchcache/api/v1/history/metrics", Some(InsidePath::History(None))),
            ("watchcache/api/v1/history/api/v1/watch/pods", Some(InsidePath::History(None))),
            ("watchcache/api/v1/history/api/v1/namespaces/n/pods/p/status", Some(InsidePath::History(None))),
            ("watchcache/api/v1/history/api/v1/namespaces//pods", Some(InsidePath::History(None))),
            ("watchcache/api/v1/history/watchcache/api/v1/history/api/v1/pods", Some(InsidePath::History(None))),
        ] {
            assert_eq!(InsidePath::parse(path), want, "{path}");
        }
        let Some(InsidePath::History(Some(path))) = InsidePath::parse("watchcache/api/v1/history/apis/apps/v1/namespaces/n/deployments/d")
        else {
            panic!("an object")
        };
        assert_eq!(
            (&*path.group, &*path.resource, path.namespace.as_deref(), path.name.as_deref()),
            ("apps", "deployments", Some("n"), Some("d"))
        );
        let app = |path: &str| InsidePath::parse(path).expect("a path").is_of_the_server();
        assert!(app("watchcache/app.js") && app("watchcache/api/v1/watches/7") && !app("watchcache/api/v1/history/api/v1/pods"));
    }
}
