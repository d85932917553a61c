//! What the command line says: programs, ports, sizes. Every default and unit is here.

use std::{
    net::Ipv4Addr,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Parser, Subcommand, ValueEnum};

use crate::attack::{Attack, Attacks};

/// Breaks the world around a watch cache and validates what its watchers saw.
#[derive(Clone, Debug, Parser)]
#[command(version, about)]
pub(crate) struct Options {
    /// Which scenario to run.
    #[command(subcommand)]
    pub(crate) scenario: Scenario,
    /// etcd's binary.
    #[arg(long, global = true, env = "FAULTS_ETCD", default_value = "etcd")]
    pub(crate) etcd: PathBuf,
    /// Binary of the server under test.
    #[arg(long, global = true, env = "FAULTS_SERVER", default_value = "watchcache")]
    pub(crate) server: PathBuf,
    /// What the binary is: decides its arguments, and whether a restart may answer 410.
    #[arg(long, global = true, value_enum, default_value_t = Subject::Watchcache)]
    pub(crate) subject: Subject,
    /// Arguments of the server instead of the subject's own; {etcd} and {port} are replaced. Plain HTTP.
    #[arg(long, global = true)]
    pub(crate) server_args: Option<String>,
    /// Further arguments of the server, whatever decides the others.
    #[arg(long, global = true, allow_hyphen_values = true)]
    pub(crate) more_server_args: Option<String>,
    /// First of the 40 ports that a run uses.
    #[arg(long, global = true, default_value_t = 21700)]
    pub(crate) base_port: u16,
    /// Folder for data and logs; a temporary one that vanishes when all is well otherwise.
    #[arg(long, global = true)]
    pub(crate) dir: Option<PathBuf>,
    /// Watchers in the fault scenarios.
    #[arg(long, global = true, default_value_t = 200)]
    pub(crate) watchers: usize,
    /// Acknowledged writes a second in the fault scenarios.
    #[arg(long, global = true, default_value_t = 100)]
    pub(crate) writes_per_second: u32,
    /// Share of those writes that are transactions of 2 to 8 objects, percent. The peer tears such revisions; 0 judges the rest of it.
    #[arg(long, global = true, default_value_t = 5)]
    pub(crate) transactions: u32,
    /// How long a cut of the network lasts, seconds.
    #[arg(long, global = true, default_value_t = 5)]
    pub(crate) cut_seconds: u64,
    /// How long the watchers may take to reach the truth after the last fault and the last write, seconds.
    #[arg(long, global = true, default_value_t = 45)]
    pub(crate) settle_seconds: u64,
    /// Seed of the workload.
    #[arg(long, global = true, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Idle watches of the load scenario, idle connections of the hostile one.
    #[arg(long, global = true, default_value_t = 10_000)]
    pub(crate) idle: usize,
    /// Watchers that see every write of the load scenario.
    #[arg(long, global = true, default_value_t = 100)]
    pub(crate) load_watchers: usize,
    /// Writes a second of the load scenario.
    #[arg(long, global = true, default_value_t = 1000)]
    pub(crate) load_rate: u32,
    /// Length of the load, seconds.
    #[arg(long, global = true, default_value_t = 30)]
    pub(crate) load_seconds: u64,
    /// Watchers of the slow scenario; a tenth of them are slow.
    #[arg(long, global = true, default_value_t = 1000)]
    pub(crate) slow_watchers: usize,
    /// How long they are slow, seconds; the quiet time before it is as long.
    #[arg(long, global = true, default_value_t = 20)]
    pub(crate) slow_seconds: u64,
    /// How much more memory than before the server may take while they are slow, MiB. The ring of one resource holds 64 MiB.
    #[arg(long, global = true, default_value_t = 256)]
    pub(crate) slow_mib: u64,
    /// How much the server may grow under the hostile scenario, MiB. 10,000 connections at 32 KiB are 312 MiB.
    #[arg(long, global = true, default_value_t = 512)]
    pub(crate) hostile_mib: u64,
    /// kube-apiserver of the minor that the server under test is of, for the upgraded scenario and for the server that it feeds.
    #[arg(long, global = true, default_value = "kube-apiserver")]
    pub(crate) kube_apiserver: PathBuf,
    /// kube-apiserver of the next minor.
    #[arg(long, global = true, default_value = "kube-apiserver-next")]
    pub(crate) kube_apiserver_next: PathBuf,
    /// kube-controller-manager, which then works through the replica of that scenario.
    #[arg(long, global = true)]
    pub(crate) kube_controller_manager: Option<PathBuf>,
    /// How long each state of an upgrade lasts, seconds. The replica takes two minutes to believe that a cluster was rolled back.
    #[arg(long, global = true, default_value_t = 30)]
    pub(crate) upgrade_seconds: u64,
    /// Informers of that scenario: half of them want protobuf, half watch a resource that the two minors show in different ways.
    #[arg(long, global = true, default_value_t = 50)]
    pub(crate) informers: usize,
    /// Histories of that scenario: a write and reads after it.
    #[arg(long, global = true, default_value_t = 2_000)]
    pub(crate) histories: usize,
    /// Clients that write and read in it at the same time, each objects of its own.
    #[arg(long, global = true, default_value_t = 16)]
    pub(crate) history_clients: usize,
    /// Reads of each kind, of a busy resource and of an idle one, whose time and cost are measured before; 0 leaves that out.
    #[arg(long, global = true, default_value_t = 0)]
    pub(crate) history_proofs: usize,
    #[command(flatten)]
    pub(crate) attacks: Attacks,
}

/// What runs as the server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// This project's server: plain HTTP, warm start.
    Watchcache,
    /// The same fed by a kube-apiserver (--kube-apiserver) on the etcd, over TLS with a token. What is broken between server and etcd is broken between those
    /// two.
    WatchcacheUpstream,
    /// The peer: TLS and a token, no warm start.
    KubeApiserver,
}

impl Subject {
    /// Whether it is this project's server.
    #[must_use]
    pub(crate) fn is_ours(self) -> bool {
        self != Self::KubeApiserver
    }
}

/// The scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Scenario {
    /// Every one below, in this order.
    All,
    /// Of those the ones in which something breaks: what the watchers see is judged, hardly how soon.
    Faults,
    /// The others of those, in which many come at once: delays are judged.
    Crowds,
    /// etcd is killed and started again under writes.
    EtcdKilled,
    /// The connection to etcd falls silent, writes go on, it heals.
    CutSilent,
    /// The connection to etcd is reset and refused, writes go on, it heals.
    CutReset,
    /// Compaction passes the server while it is cut off.
    Compaction,
    /// Of three members the leader is killed, and comes back.
    LeaderKilled,
    /// Of three members the one that the server follows loses its peers.
    MemberIsolated,
    /// etcd is restored from an older backup; the server sees revisions go back.
    Restored,
    /// The same while the server is cut off, until revisions have passed the old ones.
    RestoredUnseen,
    /// The server is on `watchcache store`, which is saved under writes and restored by its own commands: revisions go far ahead.
    RestoredStore,
    /// The server gets SIGTERM and starts again.
    Restarted,
    /// The server gets SIGKILL and starts again.
    Crashed,
    /// The API server behind a read replica falls silent, is cut off, paused, killed, and shows another certificate.
    UpstreamBroken,
    /// The cluster that an aggregated API server extends falls silent, is cut off, paused, killed, and shows another certificate.
    HostBroken,
    /// A lease revoke and a transaction arrive whole.
    Whole,
    /// Responses that etcd cuts into fragments arrive whole.
    Fragments,
    /// The kube-apiserver that feeds the server is killed and started again, stands still, answers by a trickle, and breaks off in the middle.
    FeederBroken,
    /// Writes, each followed by reads that must be as new, through a server that two kube-apiservers feed, of which one lags; not in `all`.
    Histories,
    /// Idle watches, and a stream of writes that others see.
    Load,
    /// A tenth of the watchers stop reading, read a byte a second, or reset their streams.
    Slow,
    /// Huge headers, half requests, idle connections.
    Hostile,
    /// Clients of `watchcache store` that ask for more than they may have, and do not read it.
    StoreAsked,
    /// The cluster behind a read replica is upgraded to the next minor and rolled back, with two API servers and with one; not in `all`.
    Upgraded,
    /// Every attack below, in this order; not in `all`.
    Attacks,
    /// Three attacks at once while the everyday watchers watch, for as long as one likes; not in `all`.
    Soak,
    #[command(flatten)]
    Attack(Attack),
}

impl Scenario {
    /// What `faults` runs, and `all` first.
    pub(crate) const FAULTS: [Self; 15] = [
        Self::EtcdKilled,
        Self::CutSilent,
        Self::CutReset,
        Self::Compaction,
        Self::LeaderKilled,
        Self::MemberIsolated,
        Self::Restored,
        Self::RestoredUnseen,
        Self::RestoredStore,
        Self::Restarted,
        Self::Crashed,
        Self::UpstreamBroken,
        Self::HostBroken,
        Self::Whole,
        Self::Fragments,
    ];

    /// What `faults` runs of a server that a kube-apiserver feeds: not what asks for revisions of several objects, which that one takes apart.
    pub(crate) const FED: [Self; 12] = [
        Self::EtcdKilled,
        Self::CutSilent,
        Self::CutReset,
        Self::Compaction,
        Self::LeaderKilled,
        Self::MemberIsolated,
        Self::Restored,
        Self::RestoredUnseen,
        Self::RestoredStore,
        Self::Restarted,
        Self::Crashed,
        Self::FeederBroken,
    ];

    /// What `crowds` runs, and `all` then.
    pub(crate) const CROWDS: [Self; 4] = [Self::Load, Self::Slow, Self::Hostile, Self::StoreAsked];

    /// As typed on the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Faults => "faults",
            Self::Crowds => "crowds",
            Self::EtcdKilled => "etcd-killed",
            Self::CutSilent => "cut-silent",
            Self::CutReset => "cut-reset",
            Self::Compaction => "compaction",
            Self::LeaderKilled => "leader-killed",
            Self::MemberIsolated => "member-isolated",
            Self::Restored => "restored",
            Self::RestoredUnseen => "restored-unseen",
            Self::RestoredStore => "restored-store",
            Self::Restarted => "restarted",
            Self::Crashed => "crashed",
            Self::UpstreamBroken => "upstream-broken",
            Self::HostBroken => "host-broken",
            Self::Upgraded => "upgraded",
            Self::Whole => "whole",
            Self::Fragments => "fragments",
            Self::FeederBroken => "feeder-broken",
            Self::Histories => "histories",
            Self::Load => "load",
            Self::Slow => "slow",
            Self::Hostile => "hostile",
            Self::StoreAsked => "store-asked",
            Self::Attacks => "attacks",
            Self::Soak => "soak",
            Self::Attack(attack) => attack.name(),
        }
    }
}

impl Options {
    /// How long a cut lasts.
    #[must_use]
    pub(crate) fn cut(&self) -> Duration {
        Duration::from_secs(self.cut_seconds)
    }

    /// How long the watchers may take to settle.
    #[must_use]
    pub(crate) fn settle(&self) -> Duration {
        Duration::from_secs(self.settle_seconds)
    }

    /// The ports of a run.
    #[must_use]
    pub(crate) fn ports(&self) -> Ports {
        Ports { base: self.base_port }
    }
}

/// How long programs that were killed may hold on to their ports.
const RELEASE: Duration = Duration::from_secs(60);

/// Which port is whose. Nothing else in the harness picks one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    base: u16,
}

impl Ports {
    /// Where etcd's member answers clients.
    #[must_use]
    pub(crate) fn etcd(&self, member: usize) -> u16 {
        self.nth(0, member)
    }

    /// Where etcd's member answers its peers.
    #[must_use]
    pub(crate) fn peer(&self, member: usize) -> u16 {
        self.nth(5, member)
    }

    /// The proxy between the server and the member.
    #[must_use]
    pub(crate) fn etcd_proxy(&self, member: usize) -> u16 {
        self.nth(10, member)
    }

    /// The proxy between the member and its peers.
    #[must_use]
    pub(crate) fn peer_proxy(&self, member: usize) -> u16 {
        self.nth(15, member)
    }

    /// The server under test.
    #[must_use]
    pub(crate) fn server(&self) -> u16 {
        self.base + 20
    }

    /// Its TLS listener, where it has two.
    #[must_use]
    pub(crate) fn secure(&self) -> u16 {
        self.base + 21
    }

    /// The API server behind it, where it has one: upstream of a replica, or the cluster that it extends.
    #[must_use]
    pub(crate) fn upstream(&self) -> u16 {
        self.base + 22
    }

    /// The proxy between the two.
    #[must_use]
    pub(crate) fn upstream_proxy(&self) -> u16 {
        self.base + 23
    }

    /// Where that one listens without TLS, past the proxy.
    #[must_use]
    pub(crate) fn upstream_plain(&self) -> u16 {
        self.base + 24
    }

    /// A second API server behind the server under test.
    #[must_use]
    pub(crate) fn other_upstream(&self) -> u16 {
        self.base + 25
    }

    /// Waits until nobody listens on any of them: the programs of the scenario before are killed, and take a moment to go.
    pub(crate) async fn free(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        for port in self.base..=self.other_upstream() {
            while let Err(error) = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                anyhow::ensure!(began.elapsed() < RELEASE, "port {port} is not free: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    fn nth(self, group: u16, member: usize) -> u16 {
        self.base + group + u16::try_from(member).expect("a handful of members")
    }
}
