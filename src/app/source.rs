//! Makes what brings the objects: a feed of each etcd, or the reflectors of an API server.

use std::sync::Arc;

use futures_util::future::select_all;

use super::{StartError, backend::Backend, feeds};
use crate::config::{Config, ConsistentReads, SOURCE_FLAG as FLAG};
use cache::source::driver::Driver;
use cache::state::snapshot::Fed;
use client::Logins;
use etcd::EtcdError;
use reflector::{Policy, Reflectors, Source};
use registry::Feeds;
use storage::read::serve::Reader;
use telemetry::Metrics;

/// What brings the objects, until it is told to run.
pub(super) enum Feeding {
    /// Each etcd's changes.
    Etcds(Vec<Driver>),
    /// Each resource's, of an API server.
    Upstream(Box<Reflectors>),
}

/// An API server as the source.
pub(super) struct Upstream {
    source: Arc<Source>,
    policy: Policy,
    consistent_reads: ConsistentReads,
}

/// What the command line asks for: what runs, what the registry works with, and the clocks by which the age of memory is judged.
pub(super) struct Made {
    pub(super) feeding: Feeding,
    pub(super) feeds: Feeds,
    pub(super) clocks: Vec<Arc<Fed>>,
    pub(super) upstream: Option<Upstream>,
}

/// Checks that it can be known where upstream is.
pub(super) fn check(config: &Config) -> Result<(), StartError> {
    match &config.source {
        Some(source) if !source.kubeconfig.exists() => {
            let why = format!("there is no {}: --source=upstream needs {FLAG} where it does not run in a pod", source.kubeconfig.display());
            Err(StartError::Upstream(why))
        }
        _ => Ok(()),
    }
}

/// Makes it. Nothing is asked yet.
pub(super) fn make(backend: &Backend, prefix: &str, config: &Config, logins: &Logins, metrics: &Arc<Metrics>) -> Result<Made, StartError> {
    let Some(asked) = &config.source else {
        // Feeds have clients of their own: their connections live on their runtime, and requests never queue behind a load.
        let (drivers, feeds) = feeds::feeds(&backend.etcds()?, prefix, config, metrics);
        let clocks = feeds.iter().map(|feed| feed.fed.clone()).collect();
        return Ok(Made { feeding: Feeding::Etcds(drivers), feeds: Feeds::OfEtcds(feeds), clocks, upstream: None });
    };
    let wrong = |why: String| StartError::Upstream(format!("{FLAG} {}: {why}", asked.kubeconfig.display()));
    let login = logins.open(FLAG, &asked.kubeconfig).map_err(|error| StartError::Upstream(error.to_string()))?;
    login.must_name_somebody().map_err(wrong)?;
    let source = Arc::new(Source::new(login, prefix).map_err(wrong)?.within(config.memory.budget));
    tracing::info!(upstream = source.server(), "the objects come from an API server");
    for name in asked.policy.unknown(catalogue::built_in_storages()) {
        tracing::warn!(
            name,
            "--resources or --exclude-resources names no resource of Kubernetes' own: it is a custom resource's, or mistaken"
        );
    }
    let (reflectors, commands, clock) = Reflectors::new(source.clone(), asked.policy.clone());
    let feeds = Feeds::OfEach { commands, clock: Box::new(Reflectors::clock) };
    let upstream = Upstream { source, policy: asked.policy.clone(), consistent_reads: asked.consistent_reads };
    Ok(Made { feeding: Feeding::Upstream(Box::new(reflectors)), feeds, clocks: vec![clock], upstream: Some(upstream) })
}

impl Feeding {
    /// Whether it is an etcd's.
    pub(super) fn is_etcds(&self) -> bool {
        matches!(self, Self::Etcds(_))
    }

    /// Runs until a part of it ends, which takes all with it.
    pub(super) async fn run(self) {
        match self {
            Self::Etcds(drivers) => _ = select_all(drivers.into_iter().map(|driver| Box::pin(driver.run()))).await,
            Self::Upstream(reflectors) => reflectors.run().await,
        }
    }
}

impl Upstream {
    /// What is followed.
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The reader that asks upstream how far it is, or leaves what must be new to it, or does without.
    pub(super) fn reader(&self, reader: Reader) -> Reader {
        let reader = if self.consistent_reads == ConsistentReads::Cached { reader.taking_memory() } else { reader };
        let (source, proves) = (self.source.clone(), self.consistent_reads == ConsistentReads::Prove);
        reader.asking(Arc::new(move |storage| {
            let source = source.clone();
            Box::pin(async move {
                match proves {
                    true => source.newest(&storage).await.map_err(EtcdError::Unavailable),
                    false => Err(EtcdError::Unavailable("consistent reads are upstream's".to_owned())),
                }
            })
        }))
    }
}
