//! The composition root: builds every room in order, serves, and drains them in reverse.
//!
//! ```text
//! bind listeners → etcd client → feed and cachers (their own runtime) → registry → serve → SIGTERM → readyz fails → streams end → drain
//! ```

use std::{
    future::pending,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::join_all;
use thiserror::Error;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{self, oneshot},
};

mod admin;
mod advertised;
mod aggregated;
mod alone;
mod audit;
mod backend;
mod cert_dir;
mod certificates;
mod envtest_assets;
mod feeds;
mod files;
mod issuer;
mod keeping;
mod manifests;
mod memory;
mod owner_file;
mod ports;
mod reload;
mod replica;
mod root_ca;
mod services;
mod signals;
mod source;

pub use alone::run_store;
pub use envtest_assets::make as make_envtest_assets;
pub use keeping::keep_store;
pub use manifests::print as print_manifests;

use crate::config::Config;
use ::reload::{FileError, Named};
use apiserver::{
    api::{Api, Condition, Host, Identity, RequestSettings},
    check::Behind,
    forward::Replica,
    inflight::Inflight,
    inside::shown::Inside,
    last_use::LastUses,
    service::Clients,
    stages::Stages,
    staleness,
    started::Started,
};
use auth::access::{Access, AccessError};
use auth::authn::Authenticator;
use auth::providers::{Providers, ProvidersError, Sources};
use backend::Backend;
use cache::dispatch::{GATHER_EACH_US, GroupLimits, Pause};
use cache::state::{ring::RingLimits, snapshot::Known};
use catalogue::Offer;
use client::{Identities, Logins};
use codec::ChunkCache;
use controllers::{Controllers, Extension, Keeping, rebalance};
use etcd::{self, Etcd};
use model::GivenUp;
use registry::{Dependencies, Registry, ServedResources};
use reload::Reloads;
use server::{ListenerError, Listeners, Sockets};
use signals::Signals;
use storage::read::serve::Reader;
use storage::write::{
    WebhookIdentities, Writer,
    write_gate::{Permission, WriteGate},
};
use store::StoreError;
use telemetry::Metrics;

/// How long the controllers may take to end.
const RELEASED_WITHIN: Duration = Duration::from_secs(1);

/// How often the readiness task looks again while etcd is away.
const READY_LOOK: Duration = Duration::from_secs(10);

/// The same of a resource of upstream, which may not have it at all.
const SOURCE_LOOK: Duration = Duration::from_secs(1);

/// After this time `/readyz` passes whatever is still missing (spec list-watch §2.12, `--storage-initialization-timeout`).
const READY_AT_LATEST: Duration = Duration::from_secs(60);
/// The stack of a thread that serves, in bytes. The deepest expression that is accepted takes 1.2 MB of it in a release build, and 3.2 MB in one that is not
/// optimised; what is not used is no memory.
const SERVING_STACK_BYTES: usize = 6 << 20;

/// Why the server did not start, or did not go on; one line each.
#[derive(Debug, Error)]
pub enum StartError {
    /// A file of the authenticators, or with the key that signs tokens.
    #[error(transparent)]
    File(#[from] FileError),
    /// Whom to ask what a user may do.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Whom to ask whose a token is.
    #[error(transparent)]
    Providers(#[from] ProvidersError),
    /// A file in the data directory that cannot be made.
    #[error("{0}")]
    Made(String),
    /// The audit log.
    #[error("{0}")]
    Audit(String),
    /// Who this server is at admission webhooks.
    #[error("{0}")]
    Webhooks(String),
    /// A listener.
    #[error(transparent)]
    Listener(#[from] ListenerError),
    /// The etcd client's settings.
    #[error(transparent)]
    Etcd(#[from] etcd::ConfigError),
    /// The embedded store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The storage of `watchcache store` failed while it ran: it has nothing else to answer from.
    #[error("the embedded store has failed and nothing goes on: {0}")]
    StoreFailed(Arc<str>),
    /// The cluster that this server extends.
    #[error("{0}")]
    Host(String),
    /// Where requests are forwarded to.
    #[error("{0}")]
    Upstream(String),
    /// What is forwarded comes back.
    #[error("--upstream-server is this server itself, and every request that it forwards would come back to it")]
    Loop,
    /// The feed ended while the server ran: a bug, and the log has it.
    #[error("the feed has ended unexpectedly")]
    Feed,
    /// The listeners did while the server ran.
    #[error("the listeners have ended unexpectedly")]
    Listeners,
    /// The system gave no threads, or no signal handler.
    #[error("the runtime cannot start: {0}")]
    Runtime(#[from] std::io::Error),
}

/// Runs the server until SIGTERM or SIGINT, then drains it. A panic of any task or thread that is not a connection's ends the process on the spot
/// (`telemetry::contained`): what has lost a part looks alive and is not.
///
/// # Errors
/// What keeps it from starting: nothing has been served then.
pub fn run(config: Config) -> Result<(), StartError> {
    let serving = Builder::new_multi_thread().enable_all().thread_name("serve").thread_stack_size(SERVING_STACK_BYTES).build()?;
    let feeding = Builder::new_multi_thread().enable_all().worker_threads(config.memory.feed_threads).thread_name("feed").build()?;
    let outcome = serving.block_on(serve(config, &feeding));
    // The feed has been told to stop, or never started; what is left of it holds nothing that must be saved.
    feeding.shutdown_background();
    serving.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn serve(mut config: Config, feeding: &Runtime) -> Result<(), StartError> {
    let (connections, few) = files::connections(&config);
    config.connections.count_max = connections;
    config.warnings.extend(few);
    let metrics = Metrics::new();
    let logins = Arc::<Logins>::default();
    let audit = audit::open(config.audit.as_ref(), &logins, &metrics).map_err(StartError::Audit)?;
    source::check(&config)?;
    let backend = Backend::open(&config)?;
    let sockets = Sockets::bind(&config.listeners.binding())?;
    ports::settle(&mut config.listeners, &sockets).map_err(StartError::Made)?;
    issuer::prepare(&mut config).map_err(StartError::Made)?;
    cert_dir::prepare(&config).map_err(StartError::Made)?;
    let admin = config.listeners.secure.as_ref().and_then(|listener| listener.admin.clone());
    admin.iter().try_for_each(|admin| admin::keep(admin, SystemTime::now())).map_err(StartError::Made)?;
    let root_ca = root_ca::read(config.root_ca_file.as_deref(), admin.as_ref()).map_err(StartError::Made)?;
    let token_issuer = issuer::issuer(&config.issuer)?.map(Arc::new);
    let sources = Sources::read(&config.providers, &logins)?;
    if let Some(anonymous) = sources.anonymous() {
        config.auth.anonymous = anonymous;
    }
    let authenticator = Arc::new(Authenticator::load(&config.auth)?);
    let providers = Providers::start(sources, authenticator.clone(), metrics.clone()).await?;
    let replica = config.replica.as_ref().map(|config| replica::replica(config, &logins, &metrics)).transpose()?;
    let files = config.listeners.secure.as_ref().map(|listener| &listener.files);
    let listeners = Listeners::new(files, sockets, authenticator.handshake_verifier(), metrics.clone())?;
    // Before, there is nothing to drain, and a signal ends the process.
    let mut signals = Signals::listen()?;
    let etcds = backend.etcds()?;
    files::report_flags(&config.warnings, &config.ignored_flags);
    let prefix = format!("{}/", config.etcd.prefix);
    let source::Made { feeding: feed, feeds, clocks, upstream } = source::make(&backend, &prefix, &config, &logins, &metrics)?;
    let excluded = config.replica.iter().flat_map(|replica| &replica.excluded).map(|id| id.as_str().into()).collect();
    let (giving_up, given_up) = sync::watch::channel(GivenUp::default());
    let parts = Dependencies {
        feeds,
        runtime: feeding.handle().clone(),
        limits: ring_limits(&config),
        groups: GroupLimits {
            gather: Pause { most_ms: millis(config.memory.watch_gather), each_us: GATHER_EACH_US },
            ..GroupLimits::default()
        },
        given_up,
        excluded,
        serve_unknown_fields: config.serve_unknown_fields,
        included: config.replica.as_ref().and_then(|replica| replica.included.clone()),
        extends: config.aggregated.is_some(),
        metrics: metrics.clone(),
        prefix: prefix.clone(),
    };
    let (mut registry, resources) = Registry::start(parts).await;
    let (told, permission) = oneshot::channel();
    let mut feed_task = feeding.spawn({
        let (etcd, prefix) = (backend.etcd()?, prefix.clone());
        async move {
            // No word means that the process is stopping.
            let may_write = permission.await == Ok(Permission::Granted);
            registry.offer(if may_write { Offer::Writes } else { Offer::Reads });
            // Every resource is there before the feed begins, so that all of them are loaded warm.
            match feed.is_etcds() {
                true => registry.learn_definitions(&etcd, &prefix).await,
                false => registry.expect_definitions().await,
            }
            tokio::select! {
                () = feed.run() => {}
                () = registry.follow_definitions() => {}
            }
        }
    });
    let probe = tokio::spawn({
        let etcds = etcds.clone();
        async move { drop(join_all(etcds.iter().map(Etcd::probe_capabilities)).await) }
    });
    let write_gate = Arc::new(WriteGate::default());
    let namespaces = config.aggregated.as_ref().map(|aggregated| aggregated::namespaces(aggregated, &logins)).transpose()?;
    let writer = Writer::new(etcds.clone(), &prefix, resources.clone(), write_gate.clone(), namespaces.clone());
    let writer = writer.losing_unknown_fields(config.serve_unknown_fields).keeping_events(config.etcd.event_ttl);
    let writer = writer.admitting(config.plugins.clone()).known_by_webhooks(webhook_identities(&config)?);
    let writer = Arc::new(match services::ranges(&config) {
        Some(ranges) => writer.allocating(ranges),
        None => writer,
    });
    let group = config.replica.as_ref().and_then(|replica| replica.group.clone());
    let dismisses = replica.is_some() && config.times.max_staleness.is_some();
    let access = Arc::new(Access::new(&config.authorization, group.is_some() || dismisses, &logins)?);
    tokio::spawn(access.follow_right());
    if config.source.is_none() {
        feeding.spawn(access.clone().follow(resources.clone()));
        tokio::spawn(access.clone().end_streams(resources.clone(), prefix.as_str().into()));
    } else {
        // Upstream decides: nothing rests on roles or accounts of which memory may be behind.
        tokio::spawn(access.clone().end_streams_of_others());
    }
    let (has_roles, has_own_objects) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let standing = Arc::<ArcSwapOption<_>>::default();
    let (end, ending) = sync::watch::channel(false);
    let (definitions_wrong, orphaned) = (Arc::<ArcSwapOption<String>>::default(), Arc::<ArcSwapOption<String>>::default());
    let controllers = Controllers {
        etcd: etcds.main().clone(),
        etcds_apart: etcds.iter().skip(1).cloned().collect(),
        prefix: prefix.as_str().into(),
        writer: writer.clone(),
        resources: resources.clone(),
        access: access.clone(),
        has_roles: has_roles.clone(),
        write_gate,
        compaction_interval: config.etcd.compaction_interval,
        allow_writes: config.etcd.allow_writes,
        is_replica: replica.is_some(),
        extension: config.aggregated.as_ref().zip(namespaces.clone()).map(|(aggregated, namespaces)| Extension {
            definitions: aggregated.definitions.clone(),
            wrong: definitions_wrong.clone(),
            namespaces,
            orphaned: orphaned.clone(),
            deletes_orphaned: aggregated.deletes_orphaned,
        }),
        advertised: advertised::find(&config),
        service_ranges: config.cluster_addresses.ranges.clone(),
        host_name: advertised::host_name(),
        keeps_flow_conditions: config.keeps_flow_conditions,
        has_own_objects: has_own_objects.clone(),
        authenticator: authenticator.clone(),
        shares_etcd: !backend.is_embedded(),
        stopping: ending,
        keeping: Keeping {
            selection: config.controllers.clone(),
            identity: format!("watchcache_{}", uuid::Uuid::new_v4()),
            root_ca,
            issuer: token_issuer.clone(),
            standing: standing.clone(),
        },
    };
    let mut controllers = tokio::spawn(controllers.run(told));
    // Where others ask for the keys of tokens. Those of a cluster that this server extends, or is in front of, ask that cluster's.
    let is_asked = config.aggregated.is_none() && config.replica.is_none();
    let address = config.listeners.secure.as_ref().map(|listener| listener.address).filter(|_| is_asked);
    let discovery = address.and_then(|address| issuer::discovery(&config.issuer, address, &authenticator.account_keys()));
    let chunks = Arc::new(ChunkCache::new(usize::try_from(config.memory.compressed_lists_bytes_limit).unwrap_or(usize::MAX)));
    tokio::spawn(memory::give_back());
    tokio::spawn(memory::forget(chunks.clone()));
    if let Some(budget) = config.memory.budget {
        metrics.memory_budget.set(i64::try_from(budget).unwrap_or(i64::MAX));
        tokio::spawn(memory::keep(budget, giving_up, chunks.clone(), metrics.clone()));
    }
    let reader = Reader::new(&etcds, &prefix).serving_unknown_fields(config.serve_unknown_fields);
    let reader = upstream.as_ref().map_or_else(|| reader.clone(), |upstream| upstream.reader(reader.clone()));
    let api = Arc::new(Api {
        resources: resources.clone(),
        reader: if replica.is_some() { reader.impatient() } else { reader },
        blocks: chunks,
        writer,
        access,
        audit: audit.clone(),
        upstream: replica.clone().map(|replica| replica as Arc<dyn Behind>),
        host: namespaces.map(|namespaces| Host { namespaces, definitions_wrong, orphaned }),
        inflight: Inflight::new(config.inflight),
        watches: Arc::default(),
        inside: Inside::default(),
        metrics,
        identity: Identity {
            authenticator,
            providers,
            issuer: token_issuer,
            discovery: ArcSwapOption::new(discovery.map(Arc::new)),
            last_uses: LastUses::default(),
        },
        settings: RequestSettings {
            callers: config.listeners.callers.clone(),
            strict_transport: config.listeners.secure.as_ref().and_then(|listener| listener.strict_transport.clone()),
            times: config.times.clone(),
            gates: config.gates,
            shows_inside: config.page,
            started: Started { at: SystemTime::now(), flags: config.flags.clone() },
            max_staleness: config.times.max_staleness,
        },
        condition: Condition {
            feeds: clocks,
            loaded: AtomicBool::new(false),
            has_roles,
            has_own_objects,
            stopping: AtomicBool::new(false),
            embedded: backend.is_embedded(),
            store_pulse: backend.pulse(),
            store_failed: OnceLock::new(),
            controllers: Box::new(move || standing.load().as_deref().map(|standing| standing.check())),
        },
    });
    tokio::spawn({
        let (api, etcd) = (api.clone(), backend.etcd()?);
        async move {
            readiness(api.clone(), resources, upstream.as_ref()).await;
            if let Some(group) = group {
                rebalance::run(etcd, group, api.access.clone()).await;
            }
        }
    });
    tokio::spawn(ports::tell(config.listeners.clone(), api.clone()));
    if let Some(replica) = &replica {
        if config.source.is_none() {
            tokio::spawn(replica.clone().follow_trusted(api.resources.clone(), prefix.as_str().into()));
            tokio::spawn(replica.clone().prove(api.clone()));
        }
        tokio::spawn(replica.clone().look());
        tokio::spawn(replica.clone().follow(api.clone()));
        tokio::spawn(replica.clone().keep());
    }
    if api.condition.embedded {
        tokio::spawn(api.clone().watch_store());
    }
    if dismisses {
        tokio::spawn(staleness::dismiss(api.clone()));
    }
    if let Some((path, _)) = &config.etcd.client_cert {
        certificates::show(&api.metrics, &[Named { flag: certificates::ETCD, path: path.clone() }]);
    }
    let reloads =
        Reloads { api: api.clone(), replica: replica.clone(), logins, tls: listeners.tls(), issuer: config.issuer.clone(), address, admin };
    tokio::spawn(reloads.follow());
    let (stop, stopped) = sync::watch::channel(false);
    backend.keep(stopped.clone(), &api.metrics);
    for (listener, address) in listeners.addresses() {
        tracing::info!(?listener, %address, "serving");
    }
    let clients = Arc::new(Clients {
        authenticator: api.identity.authenticator.clone(),
        stages: Arc::new(Stages::new(api.clone(), replica.clone())),
    });
    let mut serving = tokio::spawn(listeners.serve(clients, config.connections.clone(), config.times.shutdown, stopped));
    let mut listeners_ended = false;
    let fault = loop {
        tokio::select! {
            signal = signals.stop() => {
                tracing::info!(signal, "stopping: readyz fails, streams end");
                break None;
            }
            ended = &mut feed_task => {
                // Without a feed every answer from memory is stale: better no server than one that says it is ready.
                tracing::error!(?ended, "the feed has ended unexpectedly; stopping");
                break Some(StartError::Feed);
            }
            ended = &mut serving => {
                tracing::error!(?ended, "the listeners have ended unexpectedly; stopping");
                listeners_ended = true;
                break Some(StartError::Listeners);
            }
            () = looped(replica.as_deref()) => {
                tracing::error!("--upstream-server is this server itself; stopping");
                break Some(StartError::Loop);
            }
            why = backend.failed(), if api.condition.store_failed.get().is_none() => {
                tracing::error!(%why, "the embedded store has failed: writes are refused until a restart, reads and watches go on from memory");
                // Nobody else sets it.
                let _ = api.condition.store_failed.set(why);
            }
        }
    };
    signals.end_at_next();
    api.condition.stopping.store(true, Ordering::Relaxed);
    if fault.is_none() && !config.times.shutdown_delay.is_zero() {
        tracing::info!(delay = ?config.times.shutdown_delay, "requests are answered for a while longer, until nobody sends them here any more");
        tokio::time::sleep(config.times.shutdown_delay).await;
    }
    // Those that share an etcd give up their Lease. They may have ended long ago.
    let _ = end.send(true);
    if tokio::time::timeout(RELEASED_WITHIN, &mut controllers).await.is_err() {
        controllers.abort();
    }
    // Without a feed the cachers end, and with them every stream, cleanly.
    feed_task.abort();
    probe.abort();
    // The listeners may have stopped already; then there is nobody to tell.
    let _ = stop.send(true);
    if !listeners_ended {
        match serving.await {
            Ok(Ok(0)) => {}
            Ok(Ok(dropped)) => tracing::warn!(dropped, limit = ?config.times.shutdown, "connections did not end in time and were cut"),
            Ok(Err(error)) => return Err(error.into()),
            Err(error) => tracing::error!(%error, "the listeners failed"),
        }
    }
    if let Some(audit) = audit {
        audit.close().await;
    }
    backend.close().await;
    tracing::info!("stopped");
    fault.map_or(Ok(()), Err)
}

async fn looped(replica: Option<&Replica>) {
    match replica {
        Some(replica) => replica.looped().await,
        None => pending().await,
    }
}

fn ring_limits(config: &Config) -> RingLimits {
    RingLimits {
        events_max: config.memory.ring_events_limit,
        bytes_max: usize::try_from(config.memory.ring_bytes_limit).unwrap_or(usize::MAX),
        window_ms: millis(config.memory.history_window),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads who this server is at admission webhooks.
fn webhook_identities(config: &Config) -> Result<WebhookIdentities, StartError> {
    let read = |file: &Option<PathBuf>| match file {
        Some(file) => Identities::read(file)
            .map_err(|why| StartError::Webhooks(format!("--admission-control-config-file: kubeConfigFile {}: {why}", file.display()))),
        None => Ok(Identities::default()),
    };
    let settings = &config.plugins.settings;
    Ok(WebhookIdentities { mutating: read(&settings.mutating_kubeconfig)?, validating: read(&settings.validating_kubeconfig)? })
}

/// Says when every built-in resource is ready, once; and every ten seconds that it is not.
async fn readiness(api: Arc<Api>, resources: Arc<ArcSwap<ServedResources>>, upstream: Option<&source::Upstream>) {
    let began = tokio::time::Instant::now();
    let resources: Vec<_> = resources.load().iter().cloned().collect();
    // Others are loaded when they are asked for.
    let is_awaited = |storage: &model::Storage| upstream.is_none_or(|upstream| upstream.policy().is_followed_from_the_start(storage));
    for resource in resources.into_iter().filter(|resource| resource.shown.is_none() && is_awaited(&resource.served.storage)) {
        let published = &resource.handle.published;
        while published.wait_until(Known::is_ready, if upstream.is_some() { SOURCE_LOOK } else { READY_LOOK }).await.is_err() {
            if published.fed().is_declined() {
                // It is forwarded.
                break;
            }
            tracing::warn!(resource = %resource.encoders.whole().name, "not ready: still loading");
            if began.elapsed() >= READY_AT_LATEST {
                api.condition.loaded.store(true, Ordering::Relaxed);
            }
        }
    }
    api.condition.loaded.store(true, Ordering::Relaxed);
    tracing::info!(seconds = began.elapsed().as_secs_f64(), "ready: every built-in resource is loaded");
}
