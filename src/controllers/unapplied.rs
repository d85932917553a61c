//! Logs at the start which kinds of stored objects this server does not apply; what is written later is logged by its write.

use memchr::memmem::Finder;

use super::{Controllers, objects::tree};
use cache::state::snapshot::Known;
use registry::Resource;
use storage::write::unapplied::{UNAPPLIED, Unapplied};

/// How long one look waits until a resource is loaded.
const LOOK: std::time::Duration = std::time::Duration::from_secs(10);

/// Objects that are looked at before other tasks have a turn.
const SLICE: usize = 1_000;

pub(super) async fn run(controllers: &Controllers) {
    for row in &UNAPPLIED {
        let Some(resource) = controllers.resources.load().find(row.group, "v1", row.resource).cloned() else { continue };
        while resource.handle.published.wait_until(Known::is_ready, LOOK).await.is_err() {}
        if let Some(name) = first(&resource, row).await {
            controllers.writer.log_unapplied(row, &name);
        }
    }
}

/// The name of one object that is stored and not applied.
async fn first(resource: &Resource, row: &Unapplied) -> Option<String> {
    let mark = Finder::new(row.mark);
    let known = resource.handle.published.known();
    for (nth, object) in known.snapshot.store.scan(b"", b"").enumerate() {
        if nth % SLICE == SLICE - 1 {
            tokio::task::yield_now().await;
        }
        let may_be = mark.find(object.own_tail()).is_some();
        if may_be && tree(resource, object).is_some_and(|object| row.is_in(&object)) {
            return Some(object.name().to_owned());
        }
    }
    None
}
