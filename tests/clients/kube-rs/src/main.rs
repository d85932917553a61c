//! A kube-rs watcher and reflector against a server; succeeds only if its stores equal what kube-apiserver lists from etcd at the end.
//!
//! Two watchers run side by side, one that lists and one that streams its list. This program also makes the writes, and once makes
//! each watcher resume from revision 1, which no server keeps for long: it has to answer 410, and the watcher to start anew.

mod connect;
mod writes;

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Parser;
use futures::StreamExt;
use http::{Request, Uri};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    client::{Body, ClientBuilder},
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher,
    },
};
use tower::util::MapRequestLayer;

use connect::config;
use writes::Writes;

/// How long a watch is asked to last, seconds: the watchers resume this often.
const WATCH_S: u32 = 10;

/// What every fallible step answers.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
struct Options {
    /// URL of the server under test.
    #[arg(long)]
    server: Uri,
    /// Its bearer token, if it wants one.
    #[arg(long)]
    token: Option<String>,
    /// File with its certificate authority, if it speaks TLS.
    #[arg(long)]
    ca: Option<std::path::PathBuf>,
    /// URL of the kube-apiserver that takes the writes and tells the truth.
    #[arg(long)]
    writer: Uri,
    /// Its bearer token.
    #[arg(long)]
    writer_token: Option<String>,
    /// File with its certificate authority.
    #[arg(long)]
    writer_ca: Option<std::path::PathBuf>,
    /// Namespace of the ConfigMaps.
    #[arg(long, default_value = "reflector")]
    namespace: String,
    /// ConfigMaps to begin with.
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// Changes made while the watchers run.
    #[arg(long, default_value_t = 2_000)]
    changes: usize,
    /// The server may still have its whole history, as a kube-apiserver has in the first minutes: no watcher is made to start anew.
    #[arg(long)]
    keeps_history: bool,
    /// Seconds that the watchers may take to be ready, to start anew and to catch up.
    #[arg(long, default_value_t = 120)]
    patience_s: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let patience = Duration::from_secs(options.patience_s);
    let writer = ClientBuilder::try_from(config(&options.writer, options.writer_token.as_deref(), options.writer_ca.as_deref())?)?.build();
    let writes = Writes::new(writer.clone(), &options.namespace, options.objects);
    writes.begin().await?;
    let mut followers = Vec::new();
    for streamed in [false, true] {
        followers.push(Follower::start(&options, streamed)?);
    }
    for follower in &followers {
        follower.ready(patience).await?;
    }
    writes.change(options.changes / 2).await?;
    for follower in followers.iter().filter(|_| !options.keeps_history) {
        follower.age(patience).await?;
    }
    writes.change(options.changes - options.changes / 2).await?;

    let maps: Api<ConfigMap> = Api::namespaced(writer, &options.namespace);
    let truth: BTreeMap<String, ConfigMap> =
        maps.list(&ListParams::default()).await?.into_iter().map(|map| (map.name_any(), map)).collect();
    for follower in &followers {
        follower.equals(&truth, patience).await?;
    }
    Ok(())
}

/// A watcher with its reflector.
struct Follower {
    name: &'static str,
    store: Store<ConfigMap>,
    seen: Arc<Seen>,
    task: tokio::task::JoinHandle<()>,
}

/// What happened on the way.
#[derive(Default)]
struct Seen {
    /// The next watch from a revision asks for revision 1.
    age: AtomicBool,
    /// Times the watcher began to load the whole state.
    loads: AtomicUsize,
    /// Errors that the watcher reported and recovered from.
    errors: AtomicUsize,
}

impl Follower {
    fn start(options: &Options, streamed: bool) -> Result<Self> {
        let seen = Arc::new(Seen::default());
        let wire = Arc::clone(&seen);
        let ageing = MapRequestLayer::new(move |request| aged(request, &wire.age));
        let config = config(&options.server, options.token.as_deref(), options.ca.as_deref())?;
        let client: Client = ClientBuilder::try_from(config)?.with_layer(&ageing).build();
        let maps: Api<ConfigMap> = Api::namespaced(client, &options.namespace);
        let mode = watcher::Config::default().timeout(WATCH_S);
        let mode = if streamed { mode.streaming_lists() } else { mode };
        let (store, writer) = reflector::store();
        let noted = Arc::clone(&seen);
        let events = watcher(maps, mode).default_backoff().reflect(writer);
        let task = tokio::spawn(events.for_each(move |event| {
            match event {
                Ok(watcher::Event::Init) => drop(noted.loads.fetch_add(1, Ordering::SeqCst)),
                Ok(_) => {}
                Err(_) => drop(noted.errors.fetch_add(1, Ordering::SeqCst)),
            }
            std::future::ready(())
        }));
        Ok(Self { name: if streamed { "streaming" } else { "listing" }, store, seen, task })
    }

    async fn ready(&self, patience: Duration) -> Result<()> {
        let began = Instant::now();
        tokio::time::timeout(patience, self.store.wait_until_ready()).await.map_err(|_| format!("{}: not ready", self.name))??;
        println!("kube-rs {}: {} objects in {:?}", self.name, self.store.len(), began.elapsed());
        Ok(())
    }

    /// Makes the watcher resume from a revision that is too old, when the server next ends its watch.
    async fn age(&self, patience: Duration) -> Result<()> {
        let loads = self.seen.loads.load(Ordering::SeqCst);
        self.seen.age.store(true, Ordering::SeqCst);
        within(patience, || self.seen.loads.load(Ordering::SeqCst) > loads)
            .await
            .map_err(|()| format!("{}: a watch from revision 1 did not make it start anew", self.name))?;
        println!("kube-rs {}: started anew after a revision that is too old", self.name);
        Ok(())
    }

    async fn equals(&self, truth: &BTreeMap<String, ConfigMap>, patience: Duration) -> Result<()> {
        let mut difference = None;
        let waited = within(patience, || {
            difference = differs(&self.store, truth);
            difference.is_none()
        });
        waited.await.map_err(|()| format!("{}: {}", self.name, difference.unwrap_or_default()))?;
        let (loads, errors) = (self.seen.loads.load(Ordering::SeqCst), self.seen.errors.load(Ordering::SeqCst));
        println!("kube-rs {}: its store equals the truth, {} objects; {loads} loads, {errors} errors on the way", self.name, truth.len());
        Ok(())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How a store differs from the truth.
fn differs(store: &Store<ConfigMap>, truth: &BTreeMap<String, ConfigMap>) -> Option<String> {
    let state = store.state();
    if state.len() != truth.len() {
        return Some(format!("{} objects in the store, {} in truth", state.len(), truth.len()));
    }
    let wrong = state.iter().find(|map| truth.get(&map.name_any()) != Some(map.as_ref()))?;
    Some(format!("{} is at {:?} in the store, not so in truth", wrong.name_any(), wrong.resource_version()))
}

/// Puts revision 1 into the next watch from a revision, when that is wanted.
fn aged(mut request: Request<Body>, age: &AtomicBool) -> Request<Body> {
    let query = request.uri().query().unwrap_or("");
    let resumes = query.contains("watch=true") && !query.contains("sendInitialEvents=true");
    if resumes && age.swap(false, Ordering::SeqCst) {
        let old = query.split('&').map(|pair| if pair.starts_with("resourceVersion=") { "resourceVersion=1" } else { pair });
        let uri = format!("{}?{}", request.uri().path(), old.collect::<Vec<_>>().join("&"));
        *request.uri_mut() = uri.parse().expect("a URI with another revision is a URI");
    }
    request
}

/// Waits until `done` says so.
async fn within(patience: Duration, mut done: impl FnMut() -> bool) -> std::result::Result<(), ()> {
    let began = Instant::now();
    while !done() {
        if began.elapsed() > patience {
            return Err(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
