//! Reads over a source that is no etcd: it is asked how far it is, of each resource by itself, and memory must have come as far, in time that pays.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::{
    latest_revision::{Latest, LatestRevision},
    serve::{FRESHNESS_WAIT, Reader},
};
use cache::state::snapshot::{Fed, Known};
use model::{ResourceId, Shape, Storage};

/// How long a list waits for memory to be proven, and from how many objects in memory on it is worth a wait for the source's own silence: a smaller list is
/// forwarded faster.
const PROOF_WAIT: Duration = Duration::from_millis(50);
const PROOF_OBJECTS: usize = 500;

/// Asks a source that is no etcd for its latest revision of a stored resource.
pub(super) type Question = Arc<dyn Fn(Arc<Storage>) -> BoxFuture<'static, Latest> + Send + Sync>;

/// The questions to a source that has a revision line for each resource; a resource that nobody asks about is forgotten when there are many.
pub(super) struct Elsewhere {
    query: Question,
    asked: Mutex<HashMap<ResourceId, Asked>>,
}

/// A question, and what it is about: a definition may have its objects stored in another version later.
type Asked = (Arc<Storage>, Arc<LatestRevision>);

/// Resources about which questions are kept: more than that are definitions come and gone.
const RESOURCES_MAX: usize = 16_384;

impl Elsewhere {
    fn new(query: Question) -> Self {
        Self { query, asked: Mutex::default() }
    }

    /// The question about this resource.
    pub(super) fn of(&self, storage: &Arc<Storage>) -> Arc<LatestRevision> {
        let mut asked = self.asked.lock();
        if let Some((_, latest)) = asked.get(&storage.id).filter(|(of, _)| is_asked_alike(of, storage)) {
            return latest.clone();
        }
        if asked.len() >= RESOURCES_MAX {
            asked.retain(|_, (_, latest)| Arc::strong_count(latest) > 1);
        }
        let (query, of) = (self.query.clone(), storage.clone());
        let latest = LatestRevision::with(move || query(of.clone()));
        asked.insert(storage.id.clone(), (storage.clone(), latest.clone()));
        latest
    }
}

/// Whether a source is asked the same about both: the version that objects are stored in is that which it is asked for.
fn is_asked_alike(one: &Arc<Storage>, other: &Arc<Storage>) -> bool {
    let version = |storage: &Storage| match &storage.shape {
        Shape::BuiltIn { api_version, .. } => api_version.clone(),
        Shape::Custom { api_versions, .. } => api_versions.first().cloned().unwrap_or_default(),
        Shape::Definition => String::new(),
    };
    Arc::ptr_eq(one, other) || (&one.resource, version(one)) == (&other.resource, version(other))
}

/// What waits for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// A list or a GET.
    List,
    /// A watch from a revision that the client names: nobody may have it yet.
    Watch,
    /// A watch from what there is now.
    WatchOfNewest,
}

impl Reader {
    /// Asks this source how far it is, instead of an etcd. What memory is not proven for soon is out of reach, and so is what only an etcd has.
    #[must_use]
    pub fn asking(mut self, question: Question) -> Self {
        self.elsewhere = Some(Arc::new(Elsewhere::new(question)));
        self
    }

    /// Takes what memory has for the newest that there is: reads that should be consistent may be old.
    #[must_use]
    pub fn taking_memory(mut self) -> Self {
        self.takes_memory = true;
        self
    }

    /// Whether memory counts as the newest.
    #[must_use]
    pub fn takes_memory(&self) -> bool {
        self.takes_memory
    }

    /// How long a read waits for memory to come as far as it must.
    pub(super) fn wait_limit(&self, fed: &Fed, known: &Known, reads: Reads) -> Duration {
        match &self.elsewhere {
            Some(_) if fed.is_mute() && reads != Reads::Watch => PROOF_WAIT,
            Some(_) if known.snapshot.store.len() < PROOF_OBJECTS && reads == Reads::List => PROOF_WAIT,
            _ => FRESHNESS_WAIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Revision;

    /// A resource's question is shared by all who ask, and says nothing of another resource.
    #[tokio::test]
    async fn each_resource_has_its_own_question() {
        let elsewhere = Elsewhere::new(Arc::new(|storage| {
            let revision = Revision(if storage.id.contains("config") { 7 } else { 9 });
            Box::pin(async move { Ok(revision) })
        }));
        let maps = Arc::new(Storage::test_config_maps());
        let pods = Arc::new(Storage { id: "pods".into(), ..Storage::test_config_maps() });
        assert!(Arc::ptr_eq(&elsewhere.of(&maps), &elsewhere.of(&maps)));
        assert_eq!((elsewhere.of(&maps).get().await, elsewhere.of(&pods).get().await), (Ok(Revision(7)), Ok(Revision(9))));
    }

    /// A definition may have its objects stored in another version from now on, and the old one may be gone.
    #[tokio::test]
    async fn a_resource_is_asked_about_as_it_is_stored_now() {
        let elsewhere = Elsewhere::new(Arc::new(|storage| {
            let Shape::Custom { api_versions, .. } = &storage.shape else { panic!("a custom resource") };
            let revision = Revision(if api_versions[0] == "ex.io/v1" { 7 } else { 9 });
            Box::pin(async move { Ok(revision) })
        }));
        let stored = |versions: &[&str]| {
            let api_versions = versions.iter().map(|version| (*version).to_owned()).collect();
            let shape = Shape::Custom { kind: "Widget".to_owned(), api_versions, schema: None };
            Arc::new(Storage { shape, ..Storage::test_config_maps() })
        };
        let before = stored(&["ex.io/v1"]);
        assert_eq!(elsewhere.of(&before).get().await, Ok(Revision(7)));
        assert!(Arc::ptr_eq(&elsewhere.of(&before), &elsewhere.of(&stored(&["ex.io/v1", "ex.io/v2"]))), "the same is asked");
        assert_eq!(elsewhere.of(&stored(&["ex.io/v2", "ex.io/v1"])).get().await, Ok(Revision(9)));
    }
}
