//! Cases against real peers. They are ignored unless asked for (`-- --include-ignored`), and fail when what they need is not named:
//!
//! | variable | meaning |
//! |---|---|
//! | `WATCHCACHE_TEST_PEERS` | folder with `etcd`, `kube-apiserver`, `kube-controller-manager`, `oidc-provider`, `helm` and `haproxy` (`tests/peers/build.sh` makes it) |
//! | `WATCHCACHE_TEST_SUBJECT` | `watchcache` (default): ours over plain HTTP; `watchcache-secure`: ours over TLS; `watchcache-replica`: ours as a read replica of the kube-apiserver; `watchcache-upstream`: ours fed by the kube-apiserver, without etcd; `kube-apiserver`: a second one in the place of ours, to test the cases |
//! | `WATCHCACHE_PROTO_RECORD` | file into which the case `proto` writes the golden lines of `tests/data/proto/kube.tsv` |
//! | `WATCHCACHE_TEST_LOGS` | folder in which each run's folder stays, with all logs |
//! | `WATCHCACHE_TEST_KUBECTL` | the kubectl to use, else, but for the sessions, the one in the path |
//! | `WATCHCACHE_TEST_PYTHON` | a Python that has the client `kubernetes` (`tests/clients/run.sh SERVER python` makes one), else the `python3` in the path |
//! | `WATCHCACHE_CONTROLLERS_SECONDS` | how long kube-controller-manager works at least; one round without it |
//! | `WATCHCACHE_TEST_INFORMER` | the program built from `tests/clients/go` |
//! | `WATCHCACHE_TEST_KUBE_RS` | the program built from `tests/clients/kube-rs` |
//! | `WATCHCACHE_CROSSING_SECONDS`, `_SEED` | how long clients move among the servers (20), and the seed of a run to repeat |
//! | `WATCHCACHE_BALANCED_WATCHERS`, `_WRITES` | how many watchers there are behind a balancer (150), and writes a second (50); 3,000 need 10,000 open files |
//! | `WATCHCACHE_BALANCED_SERVER` | the replicas' program, if it is to be another one than that of the tests |
//! | `WATCHCACHE_TEST_REVIEWS`, `_SEED` | how many access reviews are compared (400), and the seed of a run to repeat |
//! | `WATCHCACHE_TEST_KUBELET_WRITES`, `_SEED` | how many writes of kubelets are compared (200), and the seed of a run to repeat |
//! | `WATCHCACHE_PAGING_OBJECTS` | how many objects are paged (5,000) |

mod access;
mod aggregated;
mod audit;
mod auth;
mod away;
mod balanced;
mod clients;
mod controllers;
mod crossing;
mod fed;
pub(crate) mod floor;
mod gate;
mod identity;
mod kubeconfig;
mod kubectl;
mod kubelets;
mod layouts;
mod objects;
mod openapi;
mod pace;
mod paging;
mod parity;
pub(crate) mod peers;
mod ports;
mod proto;
pub(crate) mod record;
mod rows;
mod session;
mod shown;
mod socket;
mod subject;
mod tiers;
pub(crate) mod tokens;
mod watch_parity;

use std::io::Write;

pub(crate) use ports::free_address;

/// What a case answers: nothing, or why it failed.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A line for the person who runs the tests, seen whether or not the harness captures output.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A closed output must not fail a test.
    let _ = writeln!(out, "{line}");
}
