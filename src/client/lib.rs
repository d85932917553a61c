//! Speaks to other servers: webhooks, OpenID providers, another Kubernetes API.
//!
//! [`Kubeconfig`] says where a server is and who we are there, [`Client`] sends requests with limits, [`retried`] tries again as Kubernetes' webhooks do, and
//! [`Questions`] asks a question once for all that wait for its answer.

mod backoff;
mod client;
mod connector;
mod credentials;
mod crowd;
mod kubeconfig;
mod questions;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trust;

pub use backoff::{WEBHOOK_BACKOFF, WEBHOOK_TRIES, retried};
pub use client::{Answer, CallError, Client, Limits, Lines, Streamed, deepest};
pub use connector::{Connector, Made, Versions};
pub use credentials::Authorization;
pub use crowd::{Crowd, Entered};
pub use kubeconfig::{Kubeconfig, KubeconfigError};
pub use questions::{Questions, Room, TooMany};
pub use trust::Trust;

#[cfg(test)]
mod tests;
