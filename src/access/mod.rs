//! Who may do what here: the authorizers that the flags name, over indexes that follow the cache. Answers from memory; knows no request.

mod follow;
pub mod review;
mod tree;

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::Mode;
use crate::registry::ServedResources;
use auth::authz::node::NodeGraph;
use auth::authz::rbac::{Aggregated, RbacIndex, Refusal, Write};
use auth::authz::{AlwaysAllow, AlwaysDeny, Attributes, Authorizer, Chain, Masters, Rules, Verdict};
use auth::{MASTERS, User};
use follow::{Index, follow};

/// The authorizers, in the order of the flag. Shared by all requests.
pub struct Access {
    chain: Chain,
    allows_everyone: bool,
    rbac: Arc<Following<RbacIndex>>,
    node: Option<Arc<Following<NodeGraph>>>,
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
    pub fn new(modes: &[Mode]) -> Self {
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
        Self { chain: Chain(chain), allows_everyone: modes.first() == Some(&Mode::AlwaysAllow), rbac, node }
    }

    /// Follows the objects that authorizers decide by until the process ends.
    pub async fn follow(self: Arc<Self>, resources: Arc<ArcSwap<ServedResources>>) {
        let node = async {
            if let Some(node) = &self.node {
                follow(&node.0, &resources).await;
            }
        };
        tokio::join!(follow(&self.rbac.0, &resources), node);
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
