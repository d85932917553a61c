//! Runs the controllers of `--controllers` while they are this server's to run.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use auth::authn::Issuer;
use tokio::{sync::watch, task::JoinSet};

use super::{
    Controllers, accounts, garbage,
    leadership::{self, Standing},
    namespace_deletion, pods, protection, quotas, root_ca,
    selection::{Controller, Selection},
    signer, time, tokens,
};

/// Which controllers are run, and what they need besides.
pub struct Keeping {
    /// What `--controllers` says.
    pub selection: Selection,
    /// The authorities in `kube-root-ca.crt`, PEM; none are published without.
    pub root_ca: Option<String>,
    /// What this server is called where it agrees with others: a name that no other process has.
    pub identity: String,
    /// Signs the tokens in Secrets; there are none without.
    pub issuer: Option<Arc<Issuer>>,
    /// Who runs the controllers now, for health checks; none where nobody is asked to.
    pub standing: Arc<ArcSwapOption<Standing>>,
}

/// Runs for ever; nothing where no controller is enabled.
pub(super) async fn run(controllers: &Arc<Controllers>) {
    let keeping = &controllers.keeping;
    if keeping.selection.is_empty() {
        return;
    }
    let (sender, mut standing) = watch::channel(Standing::Undecided);
    keeping.standing.store(Some(Arc::new(Standing::Undecided)));
    let work = async {
        loop {
            let now = *standing.borrow_and_update();
            keeping.standing.store(Some(Arc::new(now)));
            let mut running = if now == Standing::Ours { begin(controllers) } else { JoinSet::new() };
            if standing.changed().await.is_err() {
                return;
            }
            // What is on its way to etcd arrives or does not; nothing comes after it.
            running.shutdown().await;
        }
    };
    tokio::join!(leadership::run(controllers, &sender), work);
}

fn begin(controllers: &Arc<Controllers>) -> JoinSet<()> {
    let mut running = JoinSet::new();
    let has = |controller| controllers.keeping.selection.has(controller);
    let all = || controllers.clone();
    if has(Controller::Namespace) {
        running.spawn(namespace_deletion::run(all()));
    }
    if has(Controller::GarbageCollector) {
        running.spawn(garbage::run(all()));
    }
    if has(Controller::ServiceAccount) {
        running.spawn(accounts::run(all()));
    }
    if has(Controller::ServiceAccountToken) {
        running.spawn(tokens::run(all()));
    }
    if has(Controller::RootCaPublisher) {
        running.spawn(root_ca::run(all()));
    }
    if has(Controller::PodGarbageCollector) {
        running.spawn(pods::run(all()));
    }
    if has(Controller::TtlAfterFinished) {
        running.spawn(time::jobs::run(all()));
    }
    if has(Controller::CsrCleaner) {
        running.spawn(time::requests::run(all()));
    }
    if has(Controller::ResourceQuota) {
        running.spawn(quotas::run(all()));
    }
    if has(Controller::ClaimProtection) {
        running.spawn(protection::claims(all()));
    }
    if has(Controller::VolumeProtection) {
        running.spawn(protection::volumes(all()));
    }
    if has(Controller::AttributesClassProtection) {
        running.spawn(protection::classes(all()));
    }
    if has(Controller::TokenCleaner) {
        running.spawn(time::bootstrap_tokens::run(all()));
    }
    if has(Controller::BootstrapSigner) {
        running.spawn(signer::run(all()));
    }
    running
}
