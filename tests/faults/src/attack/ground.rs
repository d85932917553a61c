//! What an attack stands on: etcd with objects in it, the server with its listeners, and what the attacker knows of both.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use proto::{
    RequestOp,
    testing::{put, txn},
};
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet, time::timeout_at};

use crate::{
    attack::{
        options::{Attack, Attacks},
        others::Others,
    },
    etcd::{self, Etcd},
    feeder::{Feeder, Kitchen},
    http::Listener,
    object::{Draft, Resource::ConfigMaps},
    options::{Options, Subject},
    subject::{Server, Wishes},
};

/// Payload of a small object; with the rest of it 600 bytes.
const PAYLOAD_BYTES: usize = 300;
/// Bytes of a large object: just below what etcd takes.
const LARGE_BYTES: usize = 1_400_000;
/// Small objects in one transaction: etcd takes 128 operations.
const IN_TRANSACTION: usize = 128;
/// etcd's room: 1,000 large objects and their changes fit.
const QUOTA: &str = "--quota-backend-bytes=8589934592";
/// Attackers' connections that are opened at the same time.
const OPENING: usize = 64;

/// Objects that are there before the server starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seed {
    Nothing,
    Small,
    Large,
}

/// What an attacker knows.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The listener without TLS, if there is one.
    pub(crate) plain: Arc<Listener>,
    /// The listener with TLS, for those who have a token.
    pub(crate) secure: Arc<Listener>,
    /// A kube-apiserver feeds the server, and does what that does not.
    pub(crate) is_fed: bool,
    /// How much of everything.
    pub(crate) sizes: Attacks,
    /// How long it goes on.
    pub(crate) time: Duration,
}

impl Target {
    /// The TLS listener, for somebody without a token.
    #[must_use]
    pub(super) fn strange(&self) -> Listener {
        self.secure.without_token()
    }
}

/// The stage of one attack.
pub(super) struct Ground {
    pub(super) server: Server,
    pub(super) target: Target,
    _others: Others,
    _feeder: Option<Feeder>,
    _etcd: Etcd,
}

impl Ground {
    pub(super) async fn start(options: &Options, dir: &Path, attack: Attack, wishes: Wishes) -> Result<Self> {
        let ports = options.ports();
        let etcd = Etcd::start(&options.etcd, dir, &ports, &[QUOTA]).await?;
        match attack.seed() {
            Seed::Nothing => {}
            Seed::Small => seed_small(ports.etcd(0), options.attacks.objects()).await?,
            Seed::Large => seed_large(ports.etcd(0), options.attacks.large_objects()).await?,
        }
        let others = Others::start(attack, options, dir).await?;
        let (mut args, mut feeder) = ([wishes.args, others.args.clone()].concat(), None);
        let is_fed = options.subject == Subject::WatchcacheUpstream;
        if is_fed {
            // Who its users are and what they may do is the feeder's word.
            let judges = if attack.is_of_a_judge() { std::mem::take(&mut args) } else { Vec::new() };
            let kitchen = Kitchen::prepare(options, dir).await?.with(judges);
            feeder = Some(kitchen.start(&[ports.etcd(0)], ports.upstream()).await?);
            args.extend(kitchen.feeds(ports.upstream())?);
        }
        let server = Server::start(options, dir, &[ports.etcd(0)], Wishes { secure: true, args, ..wishes }).await?;
        let (plain, secure) = (server.listener.clone(), server.secure.clone());
        let target = Target { plain, secure, is_fed, sizes: options.attacks.clone(), time: options.attacks.time() };
        Ok(Self { server, target, _others: others, _feeder: feeder, _etcd: etcd })
    }
}

async fn seed_small(port: u16, count: usize) -> Result<()> {
    let mut client = etcd::patient(port)?;
    for first in (0..count).step_by(IN_TRANSACTION) {
        let drafts = (first..(first + IN_TRANSACTION).min(count)).map(|i| Draft {
            namespace: format!("faults-{}", i % 4),
            name: format!("small-{i:06}"),
            tier: u8::try_from(i % 3).expect("below three"),
            seq: i as u64,
            payload_bytes: PAYLOAD_BYTES,
        });
        let puts: Vec<RequestOp> = drafts.map(|d| put(ConfigMaps.etcd_key(&d.namespace, &d.name), d.stored(ConfigMaps)).into()).collect();
        client.txn(txn([], puts)).await?;
    }
    Ok(())
}

/// Puts Pods of 1.4 MB, which nobody else in this harness writes.
pub(crate) async fn seed_large(port: u16, count: usize) -> Result<()> {
    let mut client = etcd::patient(port)?;
    // Annotations of 1 kB each: what makes lists pretty has something to do.
    let annotations: serde_json::Map<_, _> = (0..LARGE_BYTES / 1024).map(|i| (format!("a{i:05}"), json!("x".repeat(1012)))).collect();
    for i in 0..count {
        let name = format!("large-{i:04}");
        let metadata = json!({"name": name, "namespace": "default", "uid": format!("00000000-0000-4000-8000-{i:012}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations});
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata,
            "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Pending"}});
        client.put((format!("/registry/pods/default/{name}"), pod.to_string())).await?;
    }
    Ok(())
}

/// Opens many, some at the same time, until all are there or the time is over; what there is, and how many are not.
pub(super) async fn open_many<T, F, O>(count: usize, end: Instant, open: F) -> (Vec<T>, usize)
where
    T: Send + 'static,
    F: Fn(usize) -> O,
    O: Future<Output = Result<T>> + Send + 'static,
{
    let (mut tasks, at_once) = (JoinSet::new(), Arc::new(Semaphore::new(OPENING)));
    for nth in 0..count {
        let (opening, turn) = (open(nth), at_once.clone());
        tasks.spawn(async move {
            let _turn = turn.acquire_owned().await;
            opening.await
        });
    }
    let mut opened = Vec::new();
    while let Ok(Some(one)) = timeout_at(end.into(), tasks.join_next()).await {
        opened.extend(one.ok().and_then(Result::ok));
    }
    let missing = count - opened.len();
    (opened, missing)
}
