//! When the controllers are ours to run: never while a kube-controller-manager holds its Lease, and by one of ours alone where several share an etcd
//! ([decision 0040](../../docs/decisions/0040-controllers-of-its-own.md)).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{sleep_until, timeout},
};

use super::Controllers;
use cache::state::snapshot::Known;
use model::{Object, Revision};
use registry::Resource;
use storage::write::{Syntax, WriteRequest, failure::WriteError, object_ref::ObjectRef, write_gate::Permission};

/// Where both Leases are.
const NAMESPACE: &str = "kube-system";
/// The Lease of kube-controller-manager.
const THEIRS: &str = "kube-controller-manager";
/// The Lease by which servers like this one on one etcd agree who of them works.
const OURS: &str = "watchcache-controllers";

/// How long a Lease of ours lives.
const LIVES: Duration = Duration::from_secs(15);
/// How often it is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// The work ends when it was not renewed for so long: before anybody else believes that it has ended.
const TRUST: Duration = Duration::from_secs(10);
/// Wait after a failure, and between looks at what tells no change.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a Lease lives that does not say so.
const LIVES_DEFAULT: i64 = 15;
/// A Lease lives no longer, whatever it says: a day.
const LIVES_MAX: i64 = 86_400;

/// Who runs the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not known yet.
    Undecided,
    /// This server.
    Ours,
    /// A kube-controller-manager.
    Theirs,
    /// Another server like this one.
    Peers,
    /// Whoever belongs to the kube-apiserver that has come.
    Apiservers,
}

impl Standing {
    /// Returns its name as a health check.
    #[must_use]
    pub fn check(self) -> &'static str {
        match self {
            Self::Undecided => "controllers/not-decided-yet",
            Self::Ours => "controllers",
            Self::Theirs => "controllers/left-to-kube-controller-manager",
            Self::Peers => "controllers/left-to-another-watchcache",
            Self::Apiservers => "controllers/left-to-the-kube-apiserver",
        }
    }
}

/// What a Lease says.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
}

/// A Lease, and how long it is as it is. Clocks of others are not asked.
#[derive(Debug)]
struct Sighting {
    revision: Revision,
    spec: Spec,
    since: Instant,
}

impl Sighting {
    /// The same Lease as it is seen now; one that has not changed keeps its time.
    fn seen(before: Option<Self>, revision: Revision, spec: impl FnOnce() -> Spec, now: Instant) -> Self {
        before.filter(|before| before.revision == revision).unwrap_or_else(|| Self { revision, spec: spec(), since: now })
    }

    /// When it ends if nobody renews it; none when nobody holds it.
    fn ends(&self) -> Option<Instant> {
        let lives = self.spec.lease_duration_seconds.unwrap_or(LIVES_DEFAULT).clamp(0, LIVES_MAX);
        let is_held = self.spec.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty());
        is_held.then(|| self.since + Duration::from_secs(lives.unsigned_abs()))
    }

    /// When it ends, if somebody holds it now.
    fn holds_until(&self, now: Instant) -> Option<Instant> {
        self.ends().filter(|ends| *ends > now)
    }
}

/// Follows both Leases for ever, and tells who works.
pub(super) async fn run(controllers: &Controllers, standing: &watch::Sender<Standing>) {
    let Some(leases) = controllers.resources.load().find("coordination.k8s.io", "v1", "leases").cloned() else { return };
    let me = &*controllers.keeping.identity;
    let (mut theirs, mut renewed) = (None::<Sighting>, None::<Instant>);
    let mut peers = None::<Sighting>;
    let tell = |now: Standing| {
        let told = standing.send_if_modified(|before| std::mem::replace(before, now) != now);
        if told {
            match now {
                Standing::Ours => tracing::info!("the controllers of this server begin"),
                Standing::Theirs => tracing::info!("the controllers of this server stand back: a kube-controller-manager holds its Lease"),
                Standing::Peers => tracing::info!("the controllers of this server stand back: another watchcache runs them"),
                Standing::Apiservers => tracing::info!("the controllers of this server end: a kube-apiserver has come"),
                Standing::Undecided => {}
            }
        }
    };
    loop {
        let changed = leases.handle.published.changed();
        if leases.handle.published.wait_until(Known::is_ready, PAUSE).await.is_err() {
            // A Lease that is not seen may be held.
            if renewed.is_none_or(|at| at.elapsed() > TRUST) && controllers.shares_etcd {
                tell(Standing::Undecided);
            }
            continue;
        }
        let now = Instant::now();
        theirs = sighting(controllers, &leases, THEIRS, theirs, now);
        if controllers.write_gate.now() == Permission::Denied {
            tell(Standing::Apiservers);
            return;
        }
        let next = if let Some(ends) = theirs.as_ref().and_then(|seen| seen.holds_until(now)) {
            tell(Standing::Theirs);
            renewed = None;
            ends
        } else if !controllers.shares_etcd {
            tell(Standing::Ours);
            now + PAUSE
        } else {
            peers = sighting(controllers, &leases, OURS, peers, now);
            let peer = peers.as_ref().filter(|seen| seen.spec.holder_identity.as_deref() != Some(me));
            if let Some(ends) = peer.and_then(|seen| seen.holds_until(now)) {
                tell(Standing::Peers);
                renewed = None;
                ends
            } else if renewed.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
                renewed.unwrap_or(now) + RENEW_EVERY
            } else {
                let ended = peer.map(|seen| seen.revision);
                let taken = timeout(RENEW_EVERY, take(controllers, &leases, me, ended)).await;
                match taken.unwrap_or_else(|_| Err(WriteError::NotYet("etcd does not answer in time".to_owned()))) {
                    Ok(true) => {
                        // What others see is later than the moment before it was asked for.
                        renewed = Some(now);
                        tell(Standing::Ours);
                        now + RENEW_EVERY
                    }
                    Ok(false) => now + PAUSE,
                    Err(error) => {
                        tracing::debug!(%error, "the Lease of the controllers cannot be written; trying again");
                        if renewed.is_none_or(|at| at.elapsed() > TRUST) {
                            tell(Standing::Undecided);
                        }
                        now + PAUSE
                    }
                }
            }
        };
        tokio::select! {
            () = changed => {}
            // A kube-apiserver that comes is told by no Lease.
            () = sleep_until(next.min(now + RENEW_EVERY).into()) => {}
        }
    }
}

/// The Lease as the cache has it.
fn sighting(controllers: &Controllers, leases: &Arc<Resource>, name: &str, before: Option<Sighting>, now: Instant) -> Option<Sighting> {
    let known = leases.handle.published.known();
    let object = known.snapshot.store.find(&place(leases, name).key(&controllers.prefix))?;
    Some(Sighting::seen(before, object.revision, || spec(object), now))
}

fn spec(object: &Object) -> Spec {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Lease {
        spec: Spec,
    }
    serde_json::from_slice::<Lease>(&[b"{", object.own_tail()].concat()).unwrap_or_default().spec
}

fn place(leases: &Arc<Resource>, name: &str) -> ObjectRef {
    ObjectRef { resource: leases.clone(), namespace: Some(NAMESPACE.to_owned()), name: name.to_owned() }
}

/// Takes or renews our Lease: it is free, ours, or as it was when it ended. Returns whether it is ours.
async fn take(controllers: &Controllers, leases: &Arc<Resource>, me: &str, ended: Option<Revision>) -> Result<bool, WriteError> {
    let now = controllers.writer.now_micros();
    let place = place(leases, OURS);
    let amended = controllers.writer.amend(&place, |lease| claimed(lease, me, ended, &now)).await?;
    if let Some((_, lease)) = amended {
        return Ok(lease["spec"]["holderIdentity"] == me);
    }
    let lease = json!({
        "metadata": {"name": OURS, "namespace": NAMESPACE},
        "spec": {"holderIdentity": me, "leaseDurationSeconds": LIVES.as_secs(), "acquireTime": now, "renewTime": now, "leaseTransitions": 0},
    });
    let ask = WriteRequest::by_server(ObjectRef { name: String::new(), ..place });
    match controllers.writer.create(&ask, Syntax::Json, lease.to_string().as_bytes(), &mut Vec::new()).await {
        Ok(_) => Ok(true),
        Err(WriteError::AlreadyExists { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives up our Lease if it is ours, so that another server need not wait for its end.
pub(super) async fn release(controllers: &Controllers) {
    let leases = controllers.built_in("coordination.k8s.io", "leases");
    let Some(leases) = leases.filter(|_| controllers.shares_etcd && !controllers.keeping.selection.is_empty()) else { return };
    let me = &*controllers.keeping.identity;
    if let Err(error) = controllers.writer.amend(&place(&leases, OURS), |lease| released(lease, me)).await {
        tracing::debug!(%error, "the Lease of the controllers cannot be released");
    }
}

/// The Lease with nobody who holds it, if we did.
fn released(lease: &Value, me: &str) -> Option<Value> {
    let mut new = lease.clone();
    let holder = new.pointer_mut("/spec/holderIdentity").filter(|holder| **holder == me)?;
    *holder = "".into();
    Some(new)
}

/// The Lease as we hold it; none if somebody else does.
fn claimed(lease: &Value, me: &str, ended: Option<Revision>, now: &str) -> Option<Value> {
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or("");
    let revision = lease["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).map(Revision);
    if holder != me && !holder.is_empty() && revision != ended {
        return None;
    }
    let mut new = lease.clone();
    let spec = new.as_object_mut()?.entry("spec").or_insert_with(|| json!({})).as_object_mut()?;
    if holder != me {
        let transitions = spec.get("leaseTransitions").and_then(Value::as_i64).unwrap_or(0);
        spec.insert("leaseTransitions".to_owned(), transitions.saturating_add(1).into());
        spec.insert("acquireTime".to_owned(), now.into());
        spec.insert("holderIdentity".to_owned(), me.into());
    }
    spec.insert("leaseDurationSeconds".to_owned(), LIVES.as_secs().into());
    spec.insert("renewTime".to_owned(), now.into());
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(by: &str, seconds: i64) -> Spec {
        Spec { holder_identity: Some(by.to_owned()), lease_duration_seconds: Some(seconds) }
    }

    #[test]
    fn a_lease_holds_while_it_changes_and_its_time_after() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let seen = Sighting::seen(None, Revision(1), || held("a", 15), start);
        assert!(seen.holds_until(start + second * 14).is_some() && seen.holds_until(start + second * 15).is_none());
        let same = Sighting::seen(Some(seen), Revision(1), || unreachable!("it has not changed"), start + second * 10);
        assert_eq!(same.ends(), Some(start + second * 15));
        let renewed = Sighting::seen(Some(same), Revision(2), || held("a", 15), start + second * 10);
        assert_eq!(renewed.ends(), Some(start + second * 25));
        let released = Sighting::seen(Some(renewed), Revision(3), || held("", 1), start + second * 11);
        assert_eq!(released.ends(), None, "nobody holds it");
    }

    #[test]
    fn odd_lives_are_bounded() {
        let now = Instant::now();
        let ends = |seconds| Sighting { revision: Revision(1), spec: held("a", seconds), since: now }.ends();
        assert_eq!((ends(-5), ends(i64::MAX)), (Some(now), Some(now + Duration::from_secs(86_400))));
    }

    #[test]
    fn ours_is_taken_only_when_it_is_free_ended_or_our_own() {
        let lease = |holder: &str| json!({"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": holder, "leaseTransitions": 3}});
        let taken = |holder: &str, ended: Option<Revision>| claimed(&lease(holder), "me", ended, "now").map(|lease| lease["spec"].clone());
        let new =
            json!({"holderIdentity": "me", "leaseTransitions": 4, "acquireTime": "now", "renewTime": "now", "leaseDurationSeconds": 15});
        assert_eq!(taken("", None).as_ref(), Some(&new));
        assert_eq!(taken("b", Some(Revision(7))).as_ref(), Some(&new), "as it was when it had ended");
        assert_eq!((taken("b", Some(Revision(6))), taken("b", None)), (None, None), "renewed meanwhile, or never seen to end");
        assert_eq!(released(&lease("me"), "me"), Some(lease("")));
        assert_eq!(released(&lease("b"), "me"), None);
        let renewed = json!({"holderIdentity": "me", "leaseTransitions": 3, "renewTime": "now", "leaseDurationSeconds": 15});
        assert_eq!(taken("me", None), Some(renewed));
    }
}
