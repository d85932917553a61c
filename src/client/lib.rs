//! Speaks to other servers: webhooks, OpenID providers, another Kubernetes API.
//!
//! [`Kubeconfig`] says where a server is and who we are there, [`Login`] follows its file, [`Client`] sends requests with limits,
//! [`retried`] tries again as Kubernetes' webhooks do, and
//! [`SingleFlight`] asks a question once for all that wait for its answer.

mod backoff;
mod client;
mod connector;
mod credentials;
mod kubeconfig;
mod login;
mod node;
mod proxy;
mod single_flight;
mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trust;
mod waiter_limit;

pub use backoff::{WEBHOOK_BACKOFF, WEBHOOK_TRIES, retried};
pub use client::{Answer, CallError, Client, Limits, NdjsonStream, Streamed, root_cause};
pub use connector::{Connector, Made, Versions};
pub use credentials::{Authorization, SentCredentials};
pub use kubeconfig::{Identities, Identity, Kubeconfig, KubeconfigError, KubeconfigFiles};
pub use login::{Derived, Login, Logins};
pub use single_flight::{FlightLimits, SingleFlight, TooMany};
pub use trust::Trust;
pub use waiter_limit::{Waiter, WaiterLimit};

#[cfg(test)]
mod tests;
