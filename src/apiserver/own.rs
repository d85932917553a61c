//! What this program says of itself: `/metrics`, and the pages under `/watchcache/`, for on a read replica `/version` and the like are the kube-apiserver's.

use std::{sync::atomic::Ordering, time::Duration};

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::{api::Api, path::OwnPage, respond::Reply};
use cache::state::snapshot::Fed;
use registry::{Resource, ServedResources};
use telemetry::{
    ResourceFigures,
    build::{COMMIT, VERSION},
};

impl Api {
    /// The feed that is furthest behind its etcd.
    pub(super) fn oldest(&self) -> &Fed {
        self.condition.feeds.iter().max_by_key(|fed| fed.age().unwrap_or(Duration::MAX)).expect("objects come from somewhere")
    }

    /// Whether objects come from an API server, and not from an etcd.
    pub(super) fn is_fed_by_upstream(&self) -> bool {
        self.upstream.as_ref().is_some_and(|upstream| upstream.is_source())
    }

    /// How old what memory has of a resource may be; none before it is known, and of a resource that is not in memory because nobody asked
    /// for it.
    pub(super) fn age_of(&self, resource: &Resource) -> Option<Duration> {
        let published = &resource.handle.published;
        let is_there = !self.is_fed_by_upstream() || published.known().is_ready();
        published.fed().age().filter(|_| is_there)
    }

    /// What `/metrics` answers.
    pub(super) fn metrics(&self, resources: &ServedResources) -> Vec<u8> {
        // What is converted is counted with what is stored.
        for resource in resources.iter().filter(|resource| resource.shown.is_none()) {
            let known = resource.handle.published.known();
            let figures = known.is_ready().then(|| ResourceFigures {
                revision: known.revision.0,
                objects: known.snapshot.store.len(),
                object_bytes: known.snapshot.store.bytes(),
                indexes: known.snapshot.store.indexes(),
                history_events: known.snapshot.ring.len(),
                history_bytes: known.snapshot.ring.bytes(),
                oldest_revision: known.snapshot.ring.floor().0,
                undecodable: known.snapshot.broken.len(),
            });
            resource.metrics.show(figures.as_ref());
            resource.metrics.show_age(self.age_of(resource));
        }
        self.metrics.watch_filters_bytes.set(i64::try_from(self.reader.filters().bytes()).unwrap_or(i64::MAX));
        let fed = self.oldest();
        self.metrics.feed_up.set(i64::from(!fed.is_behind()));
        match fed.age() {
            Some(age) => self.metrics.feed_age.set(age.as_secs_f64()),
            None => self.metrics.feed_age.clear(),
        }
        self.metrics.ready.set(i64::from(self.is_ready()));
        if self.condition.embedded {
            self.metrics.store_failed.set_is(self.condition.store_failed.get().is_some());
            self.metrics.store_stalled.set_is(self.store_stalled().is_some());
        }
        self.metrics.render()
    }

    /// Answers one of the pages.
    pub(super) fn own(&self, reply: &Reply, page: OwnPage) -> Response {
        let page = match page {
            OwnPage::Version => json!({ "version": VERSION, "commit": COMMIT }),
            OwnPage::Status => self.own_status(),
        };
        let text = serde_json::to_vec_pretty(&page).expect("a tree of text and numbers is JSON");
        reply.whole(StatusCode::OK, "application/json", text.into())
    }

    /// What kind of server this is.
    pub(super) fn role(&self) -> &'static str {
        match (&self.upstream, &self.host) {
            (Some(_), _) => "read replica",
            (None, Some(_)) => "aggregated API server",
            (None, None) => "API server",
        }
    }

    fn own_status(&self) -> Value {
        let fed = self.oldest();
        json!({
            "version": VERSION,
            "commit": COMMIT,
            "role": self.role(),
            "ready": self.is_ready(),
            "loaded": self.condition.loaded.load(Ordering::Relaxed),
            if self.is_fed_by_upstream() { "source" } else { "etcd" }: {
                "embedded": self.condition.embedded,
                "behind": fed.is_behind(),
                "ageSeconds": fed.age().map(|age| age.as_secs_f64()),
                "revision": fed.revision().0,
                "maxStalenessSeconds": self.settings.max_staleness.map(|most| most.as_secs_f64()),
            },
            "upstream": self.upstream.as_ref().map(|upstream| upstream.status()),
        })
    }
}
