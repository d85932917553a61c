//! Background work of a server that is alone on its etcd: compaction, the objects that a kube-apiserver has by itself (`own`), default roles and bindings,
//! the status of definitions and the cleanup after them, and the controllers of kube-controller-manager that it cannot do without; and of a replica in a group,
//! which shares out its watches. It also finds out whether the server is alone.

#![allow(missing_docs, reason = "the program is its only user: a comment stands where it says more than the name")]

mod accounts;
mod authentication;
mod compaction;
mod definitions;
mod detection;
pub mod directory;
mod each_namespace;
mod garbage;
mod keeping;
mod kubernetes;
mod leadership;
mod namespace_deletion;
mod namespaces;
mod objects;
mod orphaned;
mod own;
mod pods;
mod protection;
mod queue;
mod quotas;
mod rbac;
pub mod rebalance;
mod root_ca;
mod selection;
mod services;
mod signer;
mod time;
mod tokens;
mod unapplied;

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{oneshot, watch};

use detection::Neighbour;
pub use keeping::Keeping;
pub use leadership::Standing;
pub use selection::{Controller, Selection};

use auth::access::Access;
use auth::authn::Authenticator;
use etcd::Etcd;
use registry::ServedResources;
use storage::write::{
    Writer,
    write_gate::{Permission, WriteGate},
};
use upstream::host::Namespaces;

/// What the controllers work with.
pub struct Controllers {
    /// The etcd that is kept.
    pub etcd: Etcd,
    /// Those of resources that are kept apart.
    pub etcds_apart: Vec<Etcd>,
    /// `/registry/`.
    pub prefix: Arc<str>,
    /// Writes as any client does.
    pub writer: Arc<Writer>,
    /// What is served.
    pub resources: Arc<ArcSwap<ServedResources>>,
    /// The index of roles, for those that are made of others.
    pub access: Arc<Access>,
    /// Whether the default roles and bindings are there; becomes true once.
    pub has_roles: Arc<AtomicBool>,
    /// Told when a kube-apiserver appears.
    pub write_gate: Arc<WriteGate>,
    /// How often etcd is compacted; zero never.
    pub compaction_interval: Duration,
    /// Writes are allowed whoever else is there.
    pub allow_writes: bool,
    /// Somebody else writes whatever clients ask for.
    pub is_replica: bool,
    /// What this server adds to a cluster that it extends; none when it extends none.
    pub extension: Option<Extension>,
    /// What the Service `default/kubernetes` and its endpoints say.
    pub advertised: Advertised,
    /// The ranges of the addresses of Services, the first one first.
    pub service_ranges: Vec<String>,
    /// What this host is called.
    pub host_name: String,
    /// Whether the other objects that a server has by itself are there; becomes true once.
    pub has_own_objects: Arc<AtomicBool>,
    /// Whom this server believes.
    pub authenticator: Arc<Authenticator>,
    /// Other servers may use the same etcd.
    pub shares_etcd: bool,
    /// The condition `Dangling` of FlowSchemas is kept.
    pub keeps_flow_conditions: bool,
    /// The controllers of `--controllers`.
    pub keeping: Keeping,
    /// Becomes true when the process is stopping.
    pub stopping: watch::Receiver<bool>,
}

/// What this server adds to a cluster.
pub struct Extension {
    /// Directory of the definitions of its resources; none when they are only stored.
    pub definitions: Option<PathBuf>,
    /// What is wrong with files there, for health checks.
    pub wrong: Arc<ArcSwapOption<String>>,
    /// The namespaces of that cluster.
    pub namespaces: Arc<Namespaces>,
    /// The objects whose namespaces that cluster does not have, for health checks.
    pub orphaned: Arc<ArcSwapOption<String>>,
    /// Whether they are deleted.
    pub deletes_orphaned: bool,
}

/// How clients inside of a cluster find this server.
#[derive(Clone, Copy, Debug)]
pub struct Advertised {
    /// The host as others see it; none when they cannot reach it.
    pub address: Option<IpAddr>,
    /// The port of the TLS listener.
    pub port: u16,
    /// Address of the Service.
    pub service: IpAddr,
}

impl Controllers {
    /// Runs until it is dropped or the process is stopping, and tells first whether writes are done; on the etcd of a kube-apiserver it does nothing, for that
    /// server does it.
    pub async fn run(self, told: oneshot::Sender<Permission>) {
        // A replica need not see its kube-apiserver to know of it.
        let neighbour = if self.is_replica { Neighbour::KubeApiserver } else { detection::learn(&self.etcd, &self.prefix).await };
        let permission = detection::permission(neighbour, self.allow_writes);
        self.write_gate.set(permission);
        // Nobody waits for it when the process is stopping.
        let _ = told.send(permission);
        if neighbour == Neighbour::KubeApiserver {
            if !self.is_replica {
                tracing::warn!(
                    writes = self.allow_writes,
                    "a kube-apiserver uses this etcd: compaction, namespaces, definitions and the Service kubernetes are left to it"
                );
            }
            self.has_roles.store(true, Ordering::Relaxed);
            self.has_own_objects.store(true, Ordering::Relaxed);
            return;
        }
        if let Some(extension) = &self.extension {
            // All else is the host's.
            let all = async {
                tokio::join!(
                    detection::watch(&self),
                    compaction::run_all(&self.etcd, &self.etcds_apart, self.compaction_interval),
                    Box::pin(definitions::run(&self)),
                    Box::pin(directory::run(&self, extension)),
                    Box::pin(orphaned::run(&self, extension)),
                    unapplied::run(&self),
                );
            };
            let mut stopping = self.stopping.clone();
            tokio::select! {
                () = all => {}
                () = ended(&mut stopping) => {}
            }
            return;
        }
        let this = Arc::new(self);
        // Each has its own room: all of them on one stack would fill it.
        let all = async {
            tokio::join!(
                detection::watch(&this),
                compaction::run_all(&this.etcd, &this.etcds_apart, this.compaction_interval),
                Box::pin(own::run(&this)),
                Box::pin(definitions::run(&this)),
                Box::pin(rbac::run(&this)),
                Box::pin(keeping::run(&this)),
                unapplied::run(&this),
                Box::pin(services::run(&this)),
            );
        };
        let mut stopping = this.stopping.clone();
        tokio::select! {
            () = all => {}
            () = ended(&mut stopping) => drop(tokio::join!(leadership::release(&this), own::release(&this))),
        }
    }
}

/// Ends when the process is stopping.
async fn ended(stopping: &mut watch::Receiver<bool>) {
    // One who is gone cannot tell, and is stopping as well.
    drop(stopping.wait_for(|stopping| *stopping).await);
}
