//! Cases against real peers: etcd and kube-apiserver, started here when `WATCHCACHE_TEST_PEERS` names the folder with their programs.
//!
//! | variable | meaning |
//! |---|---|
//! | `WATCHCACHE_TEST_PEERS` | folder with `etcd`, `kube-apiserver` and `kube-controller-manager` (`tests/peers/build.sh` makes it); without it these cases say so and return |
//! | `WATCHCACHE_TEST_SUBJECT` | `watchcache` (default): ours over plain HTTP; `watchcache-secure`: ours over TLS; `kube-apiserver`: a second one in the place of ours, to test the cases |
//! | `WATCHCACHE_PROTO_RECORD` | file into which the case `proto` writes the golden lines of `tests/data/proto/kube.tsv` |
//! | `WATCHCACHE_TEST_LOGS` | folder in which each run's folder stays, with all logs |
//! | `WATCHCACHE_TEST_KUBECTL` | the kubectl to use, else the one in the path; without it the sessions of `session` say so and return |
//! | `WATCHCACHE_CONTROLLERS_SECONDS` | how long kube-controller-manager works at least; one round without it |
//! | `WATCHCACHE_TEST_INFORMER` | the program built from `tests/clients/go`; without it its case says so and returns |
//! | `WATCHCACHE_TEST_KUBE_RS` | the program built from `tests/clients/kube-rs`; likewise |
//! | `WATCHCACHE_CROSSING_SECONDS`, `_SEED` | how long clients move among the servers (20), and the seed of a run to repeat |
//! | `WATCHCACHE_PAGING_OBJECTS` | how many objects are paged (5,000) |

mod clients;
mod controllers;
mod crossing;
pub(crate) mod floor;
mod kubectl;
mod objects;
mod pace;
mod paging;
mod parity;
pub(crate) mod peers;
mod ports;
mod proto;
pub(crate) mod record;
mod rows;
mod session;
mod socket;
mod subject;
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
