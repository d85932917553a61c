//! Which resources are served now and by which cacher: built-ins at start, custom resources as their definitions come, change and go.
//!
//! Readers look at an immutable [`ServedResources`]; one task replaces it whole.

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

mod definitions;
pub mod representation;
mod resource;
mod services;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    panic::resume_unwind,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use imbl::OrdMap;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle as Runtime,
    sync::{self, mpsc},
};

use cache::cacher::{Handle, cacher};
use cache::source::{driver::Command, load::load};
use catalogue::{Catalogue, ConversionWebhook, DefinedConversion, Offer, Origin, Served};
use codec::Encoder;
use conversion::{Caller, Converter, KeptVersions, View};
use definitions::Definitions;
use etcd::Etcd;
use model::{ByResource, GivenUp, Included, ResourceId, Storage};
use representation::Encoders;
use telemetry::{Metrics, ResourceMetrics};

use cache::dispatch::GroupLimits;
use cache::feed::machine::LoadAt;
use cache::state::{ring::RingLimits, snapshot::Fed};
#[cfg(any(test, feature = "testing"))]
pub use resource::test_resource;
pub use resource::{Resource, Shown};
pub use services::resolver;

/// Everything that is served at one moment.
pub struct ServedResources {
    /// Names, discovery.
    pub catalogue: Catalogue,
    groups: OrdMap<String, Arc<Group>>,
    /// CustomResourceDefinitions, served or not. Absent only before anything is served.
    definitions: Option<Arc<Resource>>,
}

/// The resources of one group by version and plural name.
type Group = BTreeMap<String, BTreeMap<String, Arc<Resource>>>;

impl ServedResources {
    /// A served resource by group, version and plural name.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.groups.get(group)?.get(version)?.get(resource)
    }

    /// The same objects in a version that asks no webhook, if there is one: for who needs their metadata alone, or deletes them.
    #[must_use]
    pub fn unconverted<'a>(&'a self, resource: &'a Arc<Resource>) -> &'a Arc<Resource> {
        if resource.shown.is_none() {
            return resource;
        }
        let Served { group, resource: plural, .. } = &*resource.served;
        let versions = self.groups.get(group).into_iter().flat_map(|group| group.values());
        versions.filter_map(|version| version.get(plural)).find(|sibling| sibling.shown.is_none()).unwrap_or(resource)
    }

    /// The definitions of custom resources, whether or not clients see them.
    #[must_use]
    pub fn definitions(&self) -> Option<&Arc<Resource>> {
        self.definitions.as_ref()
    }

    /// Whether all is there still that `before` had of these groups.
    fn has_all_of(&self, before: &Self, groups: &BTreeSet<String>) -> bool {
        let had = groups.iter().filter_map(|name| before.groups.get(name)).flat_map(|group| group.values()).flat_map(BTreeMap::values);
        had.map(|was| &was.served).all(|was| self.find(&was.group, &was.version, &was.resource).is_some())
    }

    /// Every served resource, for readiness and metrics.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let hidden = self.definitions.iter().filter(|_| !self.catalogue.has_built_ins());
        self.groups.values().flat_map(|group| group.values()).flat_map(BTreeMap::values).chain(hidden)
    }
}

/// The registry's handle of a feed.
#[derive(Clone)]
pub struct FeedHandle {
    /// Commands it.
    pub commands: mpsc::Sender<Command>,
    /// The clock that its cachers follow.
    pub fed: Arc<Fed>,
}

/// Where the feeds of resources come from.
pub enum Feeds {
    /// One of each etcd, for all that it has.
    OfEtcds(ByResource<FeedHandle>),
    /// One of each resource, with a revision line of its own; they are commanded together.
    OfEach {
        commands: mpsc::Sender<Command>,
        /// Makes the clock of a resource.
        clock: Box<dyn Fn() -> Fed + Send + Sync>,
    },
}

impl Feeds {
    /// The feed of a resource that is not followed yet.
    fn of(&self, id: &str) -> FeedHandle {
        match self {
            Self::OfEtcds(feeds) => feeds.of(id).clone(),
            Self::OfEach { commands, clock } => FeedHandle { commands: commands.clone(), fed: Arc::new(clock()) },
        }
    }

    /// What commands the feed of a resource.
    fn commands(&self, id: &str) -> &mpsc::Sender<Command> {
        match self {
            Self::OfEtcds(feeds) => &feeds.of(id).commands,
            Self::OfEach { commands, .. } => commands,
        }
    }
}

/// What a registry depends on.
pub struct Dependencies {
    pub feeds: Feeds,
    /// Where cachers run.
    pub runtime: Runtime,
    /// Limits of each ring.
    pub limits: RingLimits,
    /// How watches of each are served.
    pub groups: GroupLimits,
    /// What the server does without; never looked at here, so that each new cacher is told.
    pub given_up: sync::watch::Receiver<GivenUp>,
    /// Stored resources that are not kept: nothing of them is served.
    pub excluded: BTreeSet<ResourceId>,
    /// Whether values with fields that are not known are served without them.
    pub serve_unknown_fields: bool,
    /// The namespaces of which namespaced resources are kept, and the stored resources that are kept of all even so; none: all.
    pub included: Option<(Vec<String>, Vec<String>)>,
    /// Kubernetes' own groups are those of the cluster that this server extends: of them nothing is served, and of what is stored only the definitions are
    /// kept.
    pub extends: bool,
    pub metrics: Arc<Metrics>,
    /// What all keys begin with: `/registry/`.
    pub prefix: String,
}

/// Starts cachers and replaces what is served.
pub struct Registry {
    deps: Dependencies,
    resources: Arc<ArcSwap<ServedResources>>,
    cachers: HashMap<ResourceId, (Handle, Arc<ResourceMetrics>)>,
    definitions: Definitions,
    offer: Offer,
    /// Who asks the webhook of a definition, by its name, while a version of it is served.
    callers: Mutex<HashMap<String, Weak<Caller>>>,
    /// The versions that are made of stored ones.
    kept: Arc<KeptVersions>,
}

impl Registry {
    /// Starts the built-ins' cachers, or only that of the definitions. They are empty until the feed has loaded them.
    pub async fn start(deps: Dependencies) -> (Self, Arc<ArcSwap<ServedResources>>) {
        let resources = Arc::new(ArcSwap::from_pointee(ServedResources {
            catalogue: Catalogue::extending(Offer::Reads),
            groups: OrdMap::new(),
            definitions: None,
        }));
        let definitions = Definitions::new(deps.metrics.definitions_read.clone());
        let kept = KeptVersions::new(deps.given_up.clone());
        let mut registry = Self {
            deps,
            resources: resources.clone(),
            cachers: HashMap::new(),
            definitions,
            offer: Offer::Reads,
            callers: Mutex::default(),
            kept,
        };
        let storage = &Catalogue::definitions().storage;
        registry.keep(storage.id.clone(), storage.clone()).await;
        registry.begin().await;
        (registry, resources)
    }

    /// The built-ins, with what discovery offers now.
    async fn begin(&mut self) {
        let catalogue = if self.deps.extends { Catalogue::extending(self.offer) } else { Catalogue::offering(&[], self.offer) };
        let groups = catalogue.groups().map(str::to_owned).collect();
        self.replace(catalogue, &groups).await;
    }

    /// What discovery offers from the next catalogue on; to be said before [`Registry::learn_definitions`].
    pub fn offer(&mut self, offer: Offer) {
        self.offer = offer;
    }

    /// Reads the definitions from etcd before the feed begins, so that custom resources are loaded as far back as built-ins. Tries until etcd answers.
    pub async fn learn_definitions(&mut self, etcd: &Etcd, prefix: &str) {
        let Some((handle, metrics)) = self.cachers.get(&Catalogue::definitions().storage.id) else { return };
        let Ok(loaded) = load(etcd, (&handle.storage, None), prefix, LoadAt::Newest, metrics).await else { return };
        self.begin().await;
        self.follow(|definitions| definitions.learn(loaded.objects)).await;
    }

    /// Serves the built-ins at once, and what definitions say when they come through the feed.
    pub async fn expect_definitions(&mut self) {
        self.begin().await;
    }

    /// Follows the definitions until their cacher ends.
    pub async fn follow_definitions(mut self) {
        let Some(handle) = self.cachers.get(&Catalogue::definitions().storage.id).map(|(handle, _)| handle.clone()) else { return };
        let mut known = None;
        loop {
            let (snapshot, keys) = handle.published.next(&mut known).await;
            self.follow(move |definitions| definitions.follow(&snapshot.store, keys)).await;
        }
    }

    /// Serves what the definitions say that are read now. What is written meanwhile waits and is then read at once. The work is done on a thread of its
    /// own, for a definition may have megabytes: the feed and the cachers go on.
    async fn follow(&mut self, read: impl FnOnce(&mut Definitions) -> BTreeSet<String> + Send + 'static) {
        let mut definitions = std::mem::replace(&mut self.definitions, Definitions::new(self.deps.metrics.definitions_read.clone()));
        let resources = self.resources.load_full();
        let work = self.deps.runtime.spawn_blocking(move || {
            let changed = read(&mut definitions);
            let groups = changed.iter().map(|group| (group.as_str(), definitions.of_group(group)));
            let catalogue = resources.catalogue.with_groups(groups);
            (definitions, changed, catalogue)
        });
        match work.await {
            Ok((definitions, changed, catalogue)) => {
                self.definitions = definitions;
                if !changed.is_empty() {
                    self.replace(catalogue, &changed).await;
                }
            }
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The process is stopping.
            Err(_) => {}
        }
    }

    /// Makes cachers match what these groups of the catalogue have, then shows it.
    async fn replace(&mut self, catalogue: Catalogue, changed: &BTreeSet<String>) {
        let storages = changed.iter().flat_map(|group| catalogue.served_in(group)).map(|served| &served.storage);
        let storages = storages.filter(|storage| !self.deps.excluded.contains(&storage.id));
        let wanted: HashMap<ResourceId, Arc<Storage>> = storages.map(|storage| (storage.id.clone(), storage.clone())).collect();
        let is_stale =
            |storage: &Arc<Storage>| changed.contains(&storage.group) && wanted.get(&storage.id).is_none_or(|wanted| wanted != storage);
        let stale: Vec<ResourceId> =
            self.cachers.iter().filter(|(_, (handle, _))| is_stale(&handle.storage)).map(|(id, _)| id.clone()).collect();
        for id in stale {
            self.cachers.remove(&id);
            self.command(&id.clone(), Command::Remove(id)).await;
        }
        for (id, storage) in wanted {
            if !self.cachers.contains_key(&id) {
                self.keep(id, storage).await;
            }
        }
        let before = self.resources.load_full();
        let mut groups = before.groups.clone();
        for name in changed {
            let mut group = Group::new();
            for served in catalogue.served_in(name) {
                let resource = self.resource(served, &before);
                group.entry(served.version.clone()).or_default().extend(resource.map(|resource| (served.resource.clone(), resource)));
            }
            if group.is_empty() {
                groups.remove(name);
            } else {
                groups.insert(name.clone(), Arc::new(group));
            }
        }
        let mut resources = ServedResources { catalogue, groups, definitions: None };
        let Served { group, version, resource, .. } = &**Catalogue::definitions();
        let shown = resources.find(group, version, resource).or(before.definitions.as_ref()).cloned();
        resources.definitions = shown.or_else(|| self.resource(Catalogue::definitions(), &before));
        let resources = Arc::new(resources);
        self.resources.store(resources.clone());
        if !resources.has_all_of(&before, changed) {
            self.forget(resources).await;
        }
    }

    /// The metrics of what is served no more go with it: names may be new ones for ever. Waits until it is done, so that nothing is taken from a resource
    /// that comes back.
    async fn forget(&self, resources: Arc<ServedResources>) {
        let metrics = self.deps.metrics.clone();
        let kept = self.cachers.values().map(|(handle, _)| (handle.storage.group.clone(), handle.storage.resource.clone()));
        let kept: BTreeSet<(String, String)> = kept.collect();
        let work = move || {
            metrics.forget(|group, version, resource| match version {
                Some(version) => resources.find(group, version, resource).is_some(),
                None => kept.contains(&(group.to_owned(), resource.to_owned())),
            });
        };
        match self.deps.runtime.spawn_blocking(work).await {
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // Done, or the process is stopping.
            _ => {}
        }
    }

    async fn keep(&mut self, id: ResourceId, storage: Arc<Storage>) {
        let metrics = Arc::new(self.deps.metrics.resource(&storage.group, &storage.resource));
        let partial = self.deps.included.as_ref().filter(|(_, whole)| storage.namespaced && !whole.iter().any(|name| **name == *id));
        let included = partial.map(|(namespaces, _)| Arc::new(Included::new(namespaces.iter().cloned())));
        let Dependencies { limits, groups, feeds, given_up, .. } = &self.deps;
        let fed = feeds.of(&id).fed;
        let (mut cacher, mut handle, inbox) = cacher(storage.clone(), *limits, *groups, fed, given_up.clone(), metrics.clone());
        cacher.serve_known_parts(self.deps.serve_unknown_fields);
        self.deps.runtime.spawn(cacher.run());
        handle.included.clone_from(&included);
        self.cachers.insert(id.clone(), (handle, metrics));
        self.command(&id, Command::Add(storage, included, inbox)).await;
    }

    async fn command(&self, id: &str, command: Command) {
        // A feed that is gone means that the process is stopping.
        let _ = self.deps.feeds.commands(id).send(command).await;
    }

    /// A served resource over its cacher; one that did not change keeps its encoders, so that its watchers keep their groups.
    fn resource(&self, served: &Arc<Served>, before: &ServedResources) -> Option<Arc<Resource>> {
        let (handle, metrics) = self.cachers.get(&served.storage.id)?;
        let Served { group, version, resource, .. } = &**served;
        if let Some(same) = before.find(group, version, resource)
            && same.served == *served
            && Arc::ptr_eq(same.source(), &handle.published)
        {
            return Some(same.clone());
        }
        let (handle, shown) = match self.shown(served, handle, metrics) {
            Some((handle, shown)) => (handle, Some(shown)),
            None => (handle.clone(), None),
        };
        let webhook = served.conversion_webhook().map(|conversion| match &shown {
            Some(shown) => shown.converter.clone(),
            None => self.converter(served, conversion),
        });
        Some(Arc::new(Resource {
            encoders: Encoders::new(encoder(served), served.clone(), since_epoch),
            handle,
            shown,
            webhook,
            metrics: metrics.clone(),
            requests: Arc::new(self.deps.metrics.served(group, version, resource)),
            served: served.clone(),
        }))
    }

    /// The cacher of a version that is made of the stored objects by what the definition says, and how.
    fn shown(&self, served: &Arc<Served>, source: &Handle, metrics: &Arc<ResourceMetrics>) -> Option<(Handle, Shown)> {
        let conversion = served.defined_conversion()?;
        let converter = self.converter(served, conversion);
        let Dependencies { limits, groups, given_up, runtime, .. } = &self.deps;
        let fed = Arc::new(source.published.fed().beside());
        let (cacher, mut handle, inbox) = cacher(conversion.shown.clone(), *limits, *groups, fed, given_up.clone(), metrics.clone());
        runtime.spawn(cacher.run());
        handle.included.clone_from(&source.included);
        let view = View::follow(runtime, source.published.clone(), converter.clone(), (handle.clone(), inbox), self.kept.clone());
        Some((handle, Shown { converter, view, source: source.published.clone() }))
    }

    fn converter(&self, served: &Served, conversion: &Arc<DefinedConversion>) -> Arc<Converter> {
        let caller = conversion.webhook.as_ref().map(|webhook| self.caller(&conversion.definition, webhook));
        Arc::new(Converter::new(served, conversion.clone(), caller, &self.deps.prefix))
    }

    /// Who asks a definition's webhook: its versions share that, and the limits with it.
    fn caller(&self, definition: &str, webhook: &ConversionWebhook) -> Arc<Caller> {
        let mut callers = self.callers.lock();
        let known = callers.get(definition).and_then(Weak::upgrade).filter(|caller| caller.webhook() == webhook);
        if let Some(caller) = known {
            return caller;
        }
        let resolver = services::resolver(&self.resources, &self.deps.prefix);
        let caller = Arc::new(Caller::new(webhook.clone(), resolver, self.deps.metrics.clone()));
        callers.retain(|_, caller| caller.strong_count() > 0);
        callers.insert(definition.to_owned(), Arc::downgrade(&caller));
        caller
    }
}

/// The clock of ages in Tables.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// How a served resource is written.
fn encoder(served: &Served) -> Encoder {
    let api_version = served.api_version();
    let (kind, list_kind) = (&served.kind, &served.list_kind);
    match &served.origin {
        Origin::Custom(_) => Encoder::custom(&api_version, kind, list_kind),
        Origin::BuiltIn(built_in) => {
            Encoder::built_in_annotated(&api_version, kind, list_kind, &built_in.bookmark_zero, &built_in.bookmark_annotations)
        }
    }
}
