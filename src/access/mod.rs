//! Authorization: the authorizers that the flags name, over indexes that follow the cache. Decides from memory; knows no request.

pub mod directory;
mod follow;
pub mod review;
mod streams;
mod tree;

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::{Authorization, Mode};
use crate::registry::ServedResources;
use auth::authz::RequestInfo;
use auth::authz::node::NodeGraph;
use auth::authz::rbac::{Aggregated, RbacIndex, Refusal, Write};
use auth::authz::{AlwaysAllow, AlwaysDeny, Attributes, Authorizer, Chain, Masters, Rules, Verdict};
use auth::{MASTERS, User};
use directory::Cached;
use follow::{Index, follow};
use std::time::Duration;
use streams::Streams;
pub use streams::{Permission, Refused};
use tokio::sync::Notify;

/// Between two looks at all streams: changes that come in a row are one.
const JUDGE_PAUSE: Duration = Duration::from_millis(100);

/// The authorizers, in the order of the flag. Shared by all requests.
pub struct Access {
    chain: Chain,
    allows_everyone: bool,
    rbac: Arc<Following<RbacIndex>>,
    node: Option<Arc<Following<NodeGraph>>>,
    /// None when streams go on whatever is taken away.
    streams: Option<Arc<Streams>>,
    /// Something that rights come from has changed.
    changed: Notify,
}

/// An index that follows the cache.
#[derive(Default)]
struct Following<I>(ArcSwap<I>);

impl<I: Index> Authorizer for Following<I> {
    fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        self.0.load().decide(asked)
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.0.load().rules_for(user, namespace)
    }
}

impl Access {
    /// The authorizers of these modes. Members of `system:masters` are allowed before any of them is asked.
    #[must_use]
    pub fn new(config: &Authorization) -> Self {
        let modes = &config.modes;
        let rbac = Arc::<Following<RbacIndex>>::default();
        let node = modes.contains(&Mode::Node).then(Arc::<Following<NodeGraph>>::default);
        let authorizer = |mode: &Mode| -> Arc<dyn Authorizer> {
            match (mode, &node) {
                (Mode::AlwaysAllow, _) => Arc::new(AlwaysAllow),
                (Mode::Rbac, _) => rbac.clone(),
                (Mode::Node, Some(node)) => node.clone(),
                (Mode::AlwaysDeny | Mode::Node, _) => Arc::new(AlwaysDeny),
            }
        };
        let chain = std::iter::once(Arc::new(Masters) as Arc<dyn Authorizer>).chain(modes.iter().map(authorizer)).collect();
        Self {
            chain: Chain(chain),
            allows_everyone: modes.first() == Some(&Mode::AlwaysAllow),
            rbac,
            node,
            streams: config.ends_watches.then(Arc::default),
            changed: Notify::new(),
        }
    }

    /// Follows the objects that authorizers decide by until the process ends.
    pub async fn follow(self: Arc<Self>, resources: Arc<ArcSwap<ServedResources>>, prefix: Arc<str>) {
        let node = async {
            if let Some(node) = &self.node {
                follow(&node.0, &resources, &self.changed).await;
            }
        };
        tokio::join!(follow(&self.rbac.0, &resources, &self.changed), node, self.judge(), self.expel(&resources, &prefix));
    }

    /// Ends the streams whose right is taken away.
    async fn judge(&self) {
        let Some(streams) = &self.streams else { return };
        loop {
            self.changed.notified().await;
            let ended = streams.judge(|asked| self.decide(asked)).await;
            if ended > 0 {
                tracing::info!(streams = ended, "ended watches whose users lost the right to them");
            }
            tokio::time::sleep(JUDGE_PAUSE).await;
        }
    }

    /// Ends the streams of deleted service accounts.
    async fn expel(&self, resources: &ArcSwap<ServedResources>, prefix: &str) {
        let Some(streams) = &self.streams else { return };
        let Some(accounts) = resources.load().find("", "v1", "serviceaccounts").cloned() else { return };
        loop {
            let changed = accounts.handle.published.changed();
            {
                let resources = resources.load();
                let directory = Cached::new(&resources, prefix);
                let ended = streams.expel(|user| accounts.handle.published.known().is_ready() && directory.lacks(user));
                if ended > 0 {
                    tracing::info!(streams = ended, "ended watches of deleted service accounts");
                }
            }
            tokio::time::sleep(JUDGE_PAUSE).await;
            changed.await;
        }
    }

    /// Files a stream that this request begins, so that it ends when the right to it is taken away.
    #[must_use]
    pub fn open_stream(&self, user: Arc<User>, info: Arc<RequestInfo>) -> Option<Permission> {
        self.streams.as_ref().map(|streams| streams.open(user, info))
    }

    /// Whether this user is allowed everything, whatever it is: then nothing of the request need be known.
    #[must_use]
    pub fn allows_all(&self, user: &User) -> bool {
        self.allows_everyone || user.groups.iter().any(|group| group == MASTERS)
    }

    /// May they?
    #[must_use]
    pub fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        self.chain.decide(asked)
    }

    /// Whether a role or a binding may be written.
    ///
    /// # Errors
    /// What the answer is instead.
    pub fn confirm_no_escalation(&self, write: &Write<'_>) -> Result<(), Refusal> {
        self.rbac.0.load().confirm_no_escalation(&self.chain, write)
    }

    /// The ClusterRoles that are made of others and have not their rules, with those that they should have.
    #[must_use]
    pub fn aggregated(&self) -> Vec<Aggregated> {
        self.rbac.0.load().aggregated()
    }

    /// What a user may do in a namespace.
    #[must_use]
    pub fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.chain.rules_for(user, namespace)
    }
}
