//! Watches that go on from before what memory reaches back to: upstream may have what came since, so they are forwarded to it, a few and for a short time,
//! after which their clients go on from what memory has.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use fair::{Leaves, Share, Shares};
use http::{HeaderMap, Uri, header::UPGRADE};
use http_body::{Frame, SizeHint};
use model::Revision;

use super::super::{api::Api, check::Behind, line::RequestLine};
use super::{Replica, read};

/// How many of them there may be at once, of one user a part of what is left for others; the others are told to list again.
const WATCHES_MAX: usize = 256;
/// How long one lasts at most, in seconds. Upstream sends those who ask for bookmarks one before the end.
const SECONDS_MAX: u64 = 60;

/// The places of such watches.
pub(super) struct Places(Arc<Shares>);

/// The place of one of them, until it ends.
pub(in super::super) type Place = Arc<Share>;

impl Default for Places {
    fn default() -> Self {
        Self(Shares::new(WATCHES_MAX))
    }
}

impl Places {
    fn take(&self, user: &str) -> Option<Place> {
        self.0.take(user, 1, Leaves::Quarter).map(Arc::new)
    }
}

impl Replica {
    /// Returns a place for a watch from before what memory reaches back to, if upstream answers and there is one.
    pub(in super::super) fn reaches_further(&self, api: &Api, line: &RequestLine, headers: &HeaderMap) -> Option<Place> {
        if !self.is_source
            || !line.is_watch()
            || headers.contains_key(UPGRADE)
            || !line.query.first("sendInitialEvents").unwrap_or("").is_empty()
        {
            return None;
        }
        let from: u64 = line.query.first("resourceVersion")?.parse().ok()?;
        let resource = read(api, self, line)?;
        let known = resource.handle.published.known();
        if !is_upstreams(from, known.snapshot.ring.floor(), known.lost) || !self.answers() {
            return None;
        }
        self.places.take(&fair::asker())
    }
}

/// Returns whether a watch from this revision is upstream's: memory does not reach back to it, and it is not of a history that upstream may no longer have.
/// Where that is in doubt, nobody would tell the client what is no longer so.
fn is_upstreams(from: u64, floor: Revision, lost: Revision) -> bool {
    from != 0 && from < floor.0 && from > lost.0
}

/// The target of a watch that lasts no longer than these may.
pub(super) fn shortened(uri: &Uri) -> Option<Uri> {
    const NAME: &str = "timeoutSeconds";
    let query = uri.query().unwrap_or("");
    let is_time = |pair: &&str| pair.split('=').next() == Some(NAME);
    let asked = query.split('&').find(is_time).and_then(|pair| pair.split_once('=')?.1.parse::<u64>().ok());
    if asked.is_some_and(|seconds| (1..=SECONDS_MAX).contains(&seconds)) {
        return None;
    }
    let others: Vec<&str> = query.split('&').filter(|pair| !is_time(pair)).collect();
    format!("{}?{}&{NAME}={SECONDS_MAX}", uri.path(), others.join("&")).parse().ok()
}

/// The answer to such a watch, which keeps its place until it ends.
pub(super) fn holding(response: Response, place: Option<Place>) -> Response {
    match place {
        None => response,
        Some(place) => response.map(|body| Body::new(Held { body, _place: place })),
    }
}

struct Held {
    body: Body,
    _place: Place,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An etcd that was restored from a backup has other changes at the same revisions: a watch of before goes on nowhere.
    #[test]
    fn a_watch_of_another_history_is_nobodys() {
        let upstreams = |from, floor, lost| is_upstreams(from, Revision(floor), Revision(lost));
        assert!(upstreams(5, 9, 0), "from before the load");
        assert!(!upstreams(9, 9, 0) && !upstreams(0, 9, 0), "memory has it");
        assert_eq!([7, 8].map(|from| upstreams(from, 9, 7)), [false, true], "up to 7 all is in doubt");
    }

    #[test]
    fn a_watch_lasts_a_minute_at_most() {
        let target = |query: &str| {
            let uri = format!("/api/v1/pods?{query}").parse().expect("a target");
            shortened(&uri).and_then(|uri| uri.query().map(str::to_owned)).unwrap_or_else(|| "as it is".to_owned())
        };
        assert_eq!(target("watch=1&timeoutSeconds=30&resourceVersion=5"), "as it is");
        assert_eq!(target("watch=1&timeoutSeconds=300&resourceVersion=5"), "watch=1&resourceVersion=5&timeoutSeconds=60");
        for long in ["0", "", "x", "-1", "1e3"] {
            assert_eq!(target(&format!("timeoutSeconds={long}&watch=1")), "watch=1&timeoutSeconds=60", "{long}");
        }
        assert_eq!(target("watch=1&timeoutSecondsX=3"), "watch=1&timeoutSecondsX=3&timeoutSeconds=60");
        let encoded = target("watch=1&fieldSelector=metadata.name%3Da%26timeoutSeconds=1");
        assert_eq!(encoded, "watch=1&fieldSelector=metadata.name%3Da%26timeoutSeconds=1&timeoutSeconds=60");
    }

    #[test]
    fn one_user_leaves_places_for_others_until_his_watches_end() {
        let places = Places::default();
        let taken: Vec<Response> =
            std::iter::from_fn(|| places.take("one")).map(|place| holding(Response::new(Body::empty()), Some(place))).collect();
        assert!((WATCHES_MAX / 2..WATCHES_MAX).contains(&taken.len()), "{}", taken.len());
        assert!(places.take("other").is_some());
        drop(taken);
        assert_eq!(places.0.all(), 0);
    }
}
