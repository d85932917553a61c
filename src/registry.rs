//! Which resources are served now and by which keeper: built-ins at start, custom resources as their definitions come, change and go.
//!
//! Readers look at an immutable [`Shelf`]; one task replaces it whole. Knows no HTTP.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use tokio::{runtime::Handle as Runtime, sync::mpsc};

use crate::{
    cache::{ring::RingLimits, store::Store, view::Fed},
    catalogue::{Catalogue, Definition, Offer, Served},
    codec::form::Form,
    etcd::Etcd,
    keeper::{Handle, keeper},
    model::{ResourceId, Storage},
    read::{shown::Forms, target::Resource},
    source::{driver::Command, load::load, machine::LoadAt},
    telemetry::{Metrics, ResourceMetrics},
};

/// The keeper of CustomResourceDefinitions.
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// Everything that is served at one moment.
pub struct Shelf {
    /// Names, discovery.
    pub catalogue: Catalogue,
    resources: HashMap<(String, String, String), Arc<Resource>>,
}

impl Shelf {
    /// A served resource by group, version and plural name.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), version.to_owned(), resource.to_owned()))
    }

    /// Every resource once per stored kind, for readiness and metrics.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}

/// What a registry works with.
pub struct Parts {
    /// Commands to the feed.
    pub feed: mpsc::Sender<Command>,
    /// The clock that keepers follow.
    pub fed: Arc<Fed>,
    /// Where keepers run.
    pub runtime: Runtime,
    /// Limits of each ring.
    pub limits: RingLimits,
    /// Metric families.
    pub metrics: Arc<Metrics>,
}

/// Starts keepers and replaces the shelf.
pub struct Registry {
    parts: Parts,
    shelf: Arc<ArcSwap<Shelf>>,
    keepers: HashMap<ResourceId, (Handle, Arc<ResourceMetrics>)>,
    definitions: Vec<Definition>,
    offer: Offer,
}

impl Registry {
    /// Starts the built-ins' keepers. They are empty until the feed has loaded them.
    pub async fn start(parts: Parts) -> (Self, Arc<ArcSwap<Shelf>>) {
        let empty = Shelf { catalogue: Catalogue::new(&[]), resources: HashMap::new() };
        let shelf = Arc::new(ArcSwap::from_pointee(empty));
        let mut registry = Self { parts, shelf: shelf.clone(), keepers: HashMap::new(), definitions: Vec::new(), offer: Offer::Reads };
        registry.replace(Catalogue::new(&[])).await;
        (registry, shelf)
    }

    /// What discovery offers from the next catalogue on; to be said before [`Registry::learn_definitions`].
    pub fn offer(&mut self, offer: Offer) {
        self.offer = offer;
    }

    /// Reads the definitions from etcd before the feed begins, so that custom resources are loaded as far back as built-ins (design §3 "Warm
    /// start"). Tries until etcd answers.
    pub async fn learn_definitions(&mut self, etcd: &Etcd, prefix: &str) {
        let Some(storage) = self.keepers.get(DEFINITIONS).map(|(handle, _)| handle.storage.clone()) else { return };
        let Ok(loaded) = load(etcd, &storage, prefix, LoadAt::Newest).await else { return };
        let definitions = definitions(&Store::from_objects(loaded.objects), &definition_form());
        self.replace(Catalogue::offering(&definitions, self.offer)).await;
        self.definitions = definitions;
    }

    /// Follows the definitions until their keeper ends.
    pub async fn follow_definitions(mut self) {
        let Some(handle) = self.keepers.get(DEFINITIONS).map(|(handle, _)| handle.clone()) else { return };
        let form = definition_form();
        let mut seen = None;
        loop {
            let changed = handle.published.changed();
            let known = handle.published.known();
            let now = (known.view.epoch, known.view.applied);
            if known.is_ready() && seen != Some(now) {
                seen = Some(now);
                let definitions = definitions(&known.view.store, &form);
                if definitions != self.definitions {
                    let catalogue = Catalogue::offering(&definitions, self.offer);
                    self.definitions = definitions;
                    self.replace(catalogue).await;
                }
            }
            changed.await;
        }
    }

    /// Makes keepers match the catalogue, then shows it.
    async fn replace(&mut self, catalogue: Catalogue) {
        let wanted: HashMap<ResourceId, Arc<Storage>> = catalogue.storages().iter().map(|s| (s.id.clone(), s.clone())).collect();
        let stale: Vec<ResourceId> = self
            .keepers
            .iter()
            .filter(|(id, (handle, _))| wanted.get(*id).is_none_or(|storage| *storage != handle.storage))
            .map(|(id, _)| id.clone())
            .collect();
        for id in stale {
            self.keepers.remove(&id);
            self.command(Command::Remove(id)).await;
        }
        for (id, storage) in wanted {
            if !self.keepers.contains_key(&id) {
                self.keep(id, storage).await;
            }
        }
        let resources = catalogue.all_served().filter_map(|served| Some((name(served), self.resource(served)?))).collect();
        self.shelf.store(Arc::new(Shelf { catalogue, resources }));
    }

    async fn keep(&mut self, id: ResourceId, storage: Arc<Storage>) {
        let metrics = Arc::new(self.parts.metrics.resource(&storage.group, &storage.resource));
        let (keeper, handle, inbox) = keeper(storage.clone(), self.parts.limits, self.parts.fed.clone(), metrics.clone());
        self.parts.runtime.spawn(keeper.run());
        self.keepers.insert(id, (handle, metrics));
        self.command(Command::Add(storage, inbox)).await;
    }

    async fn command(&self, command: Command) {
        // A feed that is gone means that the process is stopping.
        let _ = self.parts.feed.send(command).await;
    }

    /// A served resource over its keeper; one that did not change keeps its form, so that its watchers keep their groups.
    fn resource(&self, served: &Arc<Served>) -> Option<Arc<Resource>> {
        let (handle, metrics) = self.keepers.get(&served.storage.id)?;
        let before = self.shelf.load();
        let (group, version, resource) = name(served);
        if let Some(same) = before.find(&group, &version, &resource)
            && same.served == *served
            && Arc::ptr_eq(&same.handle.published, &handle.published)
        {
            return Some(same.clone());
        }
        Some(Arc::new(Resource {
            forms: Forms::new(form(served), served.clone(), since_epoch),
            handle: handle.clone(),
            metrics: metrics.clone(),
            requests: Arc::new(self.parts.metrics.served(&group, &version, &resource)),
            served: served.clone(),
        }))
    }
}

/// The clock of ages in Tables.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn name(served: &Served) -> (String, String, String) {
    (served.group.clone(), served.version.clone(), served.resource.clone())
}

/// How a served resource is written.
fn form(served: &Served) -> Form {
    let api_version = served.api_version();
    if served.custom {
        return Form::custom(&api_version, &served.kind, &served.list_kind);
    }
    Form::built_in(&api_version, &served.kind, &served.list_kind, &served.bookmark_zero)
        .with_bookmark_annotations(&served.bookmark_annotations)
}

/// Definitions as their own GET shows them.
fn definition_form() -> Form {
    Form::built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition", "CustomResourceDefinitionList", "")
}

/// The definitions in a picture. One that cannot be read is left out, and the log says so.
fn definitions(store: &Store, form: &Form) -> Vec<Definition> {
    let mut found = Vec::new();
    for object in store.scan(b"/", b"") {
        let mut json = Vec::new();
        form.object_into(object, &mut json);
        match Definition::parse(&json) {
            Ok(definition) if definition.is_served() => found.push(definition),
            Ok(_) => {}
            Err(why) => tracing::warn!(%why, "a definition cannot be read; its resources are not served"),
        }
    }
    found
}
