//! Tells which reads need etcd, so that a server that is cut off from it can proxy those to its upstream.

use super::{
    options::ListOptions,
    plan::{self, GetPlan, ListRequest, Source, Start, Wait, WatchPlan},
    serve::Reader,
    target::Target,
};
use cache::state::snapshot::Known;

impl Reader {
    /// Returns whether a LIST asks etcd, or waits for what memory does not have yet. One that is refused needs nothing.
    #[must_use]
    pub fn list_needs_etcd(&self, target: &Target, options: &ListOptions) -> bool {
        let known = target.resource.handle.published.known();
        let plan = ListRequest::read(options, target.scope()).and_then(|request| plan::list(&request, &self.state(target, &known)));
        match plan.map(|plan| plan.source) {
            Ok(Source::Consistent { .. } | Source::Etcd(_)) => true,
            Ok(Source::Cache { at_least, .. }) => at_least.is_some_and(|revision| revision > known.revision),
            Ok(Source::Snapshot { at, .. }) => {
                at > known.revision || at < known.snapshot.ring.floor() || at < target.resource.handle.published.fed().compacted()
            }
            Err(_) => false,
        }
    }

    /// Returns the same of a GET.
    #[must_use]
    pub fn get_needs_etcd(&self, target: &Target, known: &Known, resource_version: &str) -> bool {
        match plan::get(resource_version, &self.state(target, known)) {
            Ok(GetPlan::Etcd { .. }) => true,
            Ok(GetPlan::Cache { wait }) => is_late(wait, known),
            Err(_) => false,
        }
    }

    /// Returns the same of a WATCH, whose options are defaulted: also of one that begins after what memory has, for it would stay silent.
    #[must_use]
    pub fn watch_needs_etcd(&self, target: &Target, known: &Known, options: &ListOptions) -> bool {
        match plan::watch(options, &self.state(target, known)) {
            Ok(WatchPlan::Stream { start: Start::AfterNewest, .. }) => true,
            Ok(WatchPlan::Stream { start: Start::After(revision), .. }) if revision > known.revision => true,
            Ok(WatchPlan::Stream { wait, .. }) => is_late(wait, known),
            Ok(WatchPlan::Lost(_) | WatchPlan::Error(_)) | Err(_) => false,
        }
    }
}

fn is_late(wait: Wait, known: &Known) -> bool {
    match wait {
        Wait::Nothing => false,
        Wait::Consistent => true,
        Wait::AtLeast(revision) => revision > known.revision,
    }
}
