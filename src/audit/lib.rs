//! The audit log: which requests are logged (`policy`), the events (`event`, `record`), and the backends (`queue`, `log`, `webhook`).
//!
//! A request has one [`Record`]. At each stage that the policy does not omit, the record's event is encoded and given to each backend. A backend is a [`Queue`]
//! and whoever empties it: the thread of the log, the task of the webhook.

mod event;
mod json;
mod log;
mod policy;
mod queue;
mod record;
mod rotate;
mod webhook;

use std::sync::Arc;

use auth::User;
use auth::authz::RequestInfo;
use prometheus::{IntCounter, IntCounterVec};

pub use event::{Event, Level, Stage};
pub use log::{Format, LogConfig, Rotation, start as start_log};
pub use policy::{Policy, Rule};
pub use queue::{Batching, Mode, Queue, Truncation};
pub use record::{Accountant, Accounted, OBJECT_BYTES_MAX, Record, RequestMeta};
pub use webhook::{SENDING_MAX, WebhookConfig, start as start_webhook};

/// The auditor of a server: its policy, and the backends that get the events.
#[derive(Debug)]
pub struct Audit {
    policy: Policy,
    backends: Arc<Backends>,
}

/// Who gets the events.
#[derive(Debug)]
struct Backends {
    queues: Vec<Queue>,
    counters: Counters,
}

/// What is counted, under kube-apiserver's names.
#[derive(Clone, Debug)]
pub struct Counters {
    /// `apiserver_audit_event_total`.
    pub events: IntCounter,
    /// `apiserver_audit_error_total{plugin}`.
    pub errors: IntCounterVec,
    /// `apiserver_audit_level_total{level}`.
    pub levels: IntCounterVec,
    /// `apiserver_audit_requests_rejected_total`.
    pub rejected: IntCounter,
}

#[cfg(test)]
impl Counters {
    fn of_a_test() -> Self {
        let counter = |name: &str| IntCounter::new(name, "of a test").expect("a name");
        let family =
            |name: &str, label: &str| IntCounterVec::new(prometheus::Opts::new(name, "of a test"), &[label]).expect("a name and a label");
        Self {
            events: counter("events"),
            errors: family("errors", "plugin"),
            levels: family("levels", "level"),
            rejected: counter("rejected"),
        }
    }
}

impl Audit {
    /// Tells these backends what the policy says.
    #[must_use]
    pub fn new(policy: Policy, queues: Vec<Queue>, counters: Counters) -> Self {
        Self { policy, backends: Arc::new(Backends { queues, counters }) }
    }

    /// Returns the record of a request; none when the policy leaves it out. `user` is absent while the request is not authenticated.
    #[must_use]
    pub fn begin(&self, user: Option<&Arc<User>>, info: &RequestInfo, meta: RequestMeta) -> Option<Arc<Record>> {
        let rule = self.policy.rule(user.map(|user| &**user), info);
        self.backends.counters.levels.with_label_values(&[rule.level.name()]).inc();
        (rule.level != Level::None).then(|| Arc::new(Record::new(rule, self.backends.clone(), user, info, meta)))
    }

    /// Waits until the emitted events are written; a backend that is stuck is left behind after its time.
    pub async fn close(&self) {
        for queue in &self.backends.queues {
            queue.close().await;
        }
    }
}
