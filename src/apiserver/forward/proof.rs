//! Proves that the etcd here is upstream's, and that each resource in memory is all that upstream has of it. Nothing is believed of flags: until it is proven,
//! and whenever it turns out to be otherwise, upstream answers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::body::Body;
use axum::extract::Request;
use futures_util::future::join_all;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Limited};
use tokio::time::{Instant, sleep, timeout};
use upstream::{Answer, AuthMode, Listed, Upstream, first_uid, is_of_this_etcd, is_whole};

use super::super::api::Api;
use super::{Replica, looker};
use cache::state::snapshot::Known;
use catalogue::Conversion;
use model::{Epoch, ResourceId, Revision, shard::hash};
use registry::Resource;

/// Resources that are compared at the same time, and the pause after them: a hundred take some two seconds.
const AT_ONCE: usize = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// How often each is compared when nothing was wrong, and when something was or was not to be found out.
const COMPARED_EVERY: Duration = Duration::from_secs(600);
const COMPARED_AGAIN: Duration = Duration::from_secs(15);
/// How soon all of them are compared again when upstream was away once more: one of several servers behind its address may be away for long.
const ANEW_EVERY: Duration = Duration::from_secs(120);
/// How often upstream is asked whose etcd it is.
const PROVEN_EVERY: Duration = Duration::from_secs(60);
/// The same while it is another's.
const ASKED_AGAIN: Duration = Duration::from_secs(5);
/// The same while it is not known; and between two looks for what is due.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long one question may take, and how long memory may take to come as far as its answer.
const QUESTION_TIME: Duration = Duration::from_secs(15);
const FRESH_TIME: Duration = Duration::from_secs(5);
/// Bytes of an answer: one object's metadata.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Failures from which on a resource that was never compared counts as one that upstream does not list.
const FAILURES_MAX: u32 = 8;
/// Namespaces of `--include-namespaces` that are compared, each by itself.
const NAMESPACES_MAX: usize = 64;

/// The namespace that every cluster has, and that is made only once.
const NAMESPACE: &str = "kube-system";
/// What is asked for of one object and the length of a list.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");

/// What is known.
#[derive(Default)]
pub(super) struct Proof {
    cluster: ArcSwap<Cluster>,
    /// Of built-ins, and of others with which something is wrong.
    verdicts: ArcSwap<HashMap<ResourceId, Judged>>,
    /// Every built-in that both have was compared once.
    all_compared: AtomicBool,
    /// How often everything was to be compared anew.
    rounds: AtomicU64,
}

/// Whose etcd it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Cluster {
    #[default]
    Unasked,
    /// It could not be found out now.
    Unknown(String),
    Upstreams,
    /// It cannot be found out at all: nobody may ask.
    Untold(String),
    Anothers(String),
}

/// What is known of one resource, and how people call it: `leases.coordination.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Judged {
    name: String,
    verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Whole,
    /// It may not be found out.
    Untold(String),
    Wrong(String),
}

/// Why a comparison came to nothing.
enum Failed {
    /// Upstream does not let us.
    Forbidden(String),
    /// For now.
    Now(String),
}

/// When a resource was compared last.
struct Compared {
    at: Instant,
    epoch: Epoch,
    round: u64,
    /// When it is due again, if it is not loaded anew.
    again: Duration,
    failures: u32,
}

impl Proof {
    /// Whether requests for this resource may be answered from memory.
    pub(super) fn holds(&self, resource: &Resource) -> bool {
        if !matches!(**self.cluster.load(), Cluster::Upstreams | Cluster::Untold(_)) {
            return false;
        }
        match self.verdicts.load().get(&resource.served.storage.id).map(|judged| &judged.verdict) {
            // A custom resource is where its definition is.
            None => resource.served.is_custom(),
            Some(Verdict::Whole | Verdict::Untold(_)) => true,
            Some(Verdict::Wrong(_)) => false,
        }
    }

    /// What is wrong with the etcd, and whether requests can do without an answer to that.
    pub(super) fn etcd_wrong(&self) -> Option<(String, bool)> {
        match &**self.cluster.load() {
            Cluster::Unasked => Some(("it is not known yet whether this etcd is upstream's".to_owned(), false)),
            Cluster::Unknown(why) | Cluster::Anothers(why) => Some((why.clone(), false)),
            Cluster::Untold(why) => Some((why.clone(), true)),
            Cluster::Upstreams => None,
        }
    }

    /// Which resources are not known to be whole, and whether requests can do without.
    pub(super) fn resources_wrong(&self) -> Option<(String, bool)> {
        if !self.all_compared.load(Ordering::Relaxed) {
            return Some(("not every resource was compared with upstream's yet".to_owned(), false));
        }
        let verdicts = self.verdicts.load();
        let mut wrong: Vec<String> = verdicts
            .values()
            .filter_map(|Judged { name, verdict }| match verdict {
                Verdict::Whole => None,
                Verdict::Untold(why) => Some(format!("{name}: cannot be compared: {why}")),
                Verdict::Wrong(why) => Some(format!("{name}: forwarded: {why}")),
            })
            .collect();
        wrong.sort();
        (!wrong.is_empty()).then(|| (wrong.join("\n"), true))
    }

    /// Forgets what is not compared any longer.
    fn forget(&self, is_gone: impl Fn(&ResourceId) -> bool) {
        let verdicts = self.verdicts.load_full();
        if verdicts.keys().any(&is_gone) {
            let left = verdicts.iter().filter(|(id, _)| !is_gone(id)).map(|(id, judged)| (id.clone(), judged.clone())).collect();
            self.verdicts.store(Arc::new(left));
        }
    }

    /// Upstream was away: it may be another one, on another etcd.
    pub(super) fn begin_anew(&self) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
    }

    fn learn_cluster(&self, now: Cluster) {
        let before = self.cluster.load_full();
        if *before == now {
            return;
        }
        match &now {
            Cluster::Upstreams => tracing::info!("this etcd is upstream's"),
            Cluster::Anothers(why) => tracing::error!(%why, "this etcd is not upstream's: every request is forwarded"),
            Cluster::Untold(why) => tracing::warn!(%why, "it cannot be proven that this etcd is upstream's"),
            Cluster::Unknown(why) => tracing::warn!(%why, "it is not proven yet that this etcd is upstream's: every request is forwarded"),
            Cluster::Unasked => {}
        }
        self.cluster.store(Arc::new(now));
    }

    /// Takes what comparisons have shown; whether anything is forwarded from now on that was not before.
    fn learn(&self, api: &Api, found: Vec<(Arc<Resource>, Verdict)>) -> bool {
        let before = self.verdicts.load_full();
        let mut now = HashMap::clone(&before);
        let mut has_lost = false;
        for (resource, verdict) in found {
            let id = &resource.served.storage.id;
            let is_wrong = matches!(verdict, Verdict::Wrong(_));
            let (was, name) = (before.get(id).map(|judged| &judged.verdict), name(&resource));
            let was_wrong = matches!(was, Some(Verdict::Wrong(_)));
            match &verdict {
                Verdict::Wrong(why) if !was_wrong => {
                    tracing::warn!(resource = name, %why, "this etcd does not have what upstream has of a resource: its requests are forwarded");
                }
                Verdict::Untold(why) if was != Some(&verdict) => {
                    tracing::warn!(resource = name, %why, "a resource cannot be compared with upstream's");
                }
                Verdict::Whole if was_wrong => tracing::info!(resource = name, "a resource is as upstream has it again"),
                _ => {}
            }
            has_lost |= is_wrong && !was_wrong;
            let labels = [&*resource.served.storage.group, &*resource.served.storage.resource];
            api.metrics.incomplete.with_label_values(&labels).set(i64::from(is_wrong));
            if verdict == Verdict::Whole && resource.served.is_custom() {
                now.remove(id);
            } else {
                now.insert(id.clone(), Judged { name, verdict });
            }
        }
        if now != *before {
            self.verdicts.store(Arc::new(now));
        }
        has_lost
    }
}

impl Replica {
    /// Proves and compares, again and again, until the process ends.
    pub async fn prove(self: Arc<Self>, api: Arc<Api>) {
        let mut compared: HashMap<ResourceId, Compared> = HashMap::new();
        api.metrics.etcd_proven.set_is(false);
        let (mut proven, mut round, mut anew): (Option<Instant>, u64, Option<Instant>) = (None, 0, None);
        loop {
            let rounds = self.proof.rounds.load(Ordering::Relaxed);
            if rounds != round && anew.is_none_or(|at| at.elapsed() >= ANEW_EVERY) {
                (proven, round, anew) = (None, rounds, Some(Instant::now()));
            }
            let upstream = self.upstream.now();
            if !upstream.is_verified() || self.follow.is_new() {
                sleep(LOOK_EVERY).await;
                continue;
            }
            if proven.is_none_or(|at| at.elapsed() >= PROVEN_EVERY) {
                let cluster = self.whose(&api, &upstream).await;
                proven = (cluster == Cluster::Upstreams || matches!(cluster, Cluster::Untold(_))).then(Instant::now);
                let is_away = matches!(cluster, Cluster::Unknown(_));
                // What was proven stays so while nobody can be asked.
                if !is_away || !matches!(**self.proof.cluster.load(), Cluster::Upstreams | Cluster::Untold(_)) {
                    self.proof.learn_cluster(cluster);
                }
                api.metrics.etcd_proven.set_is(**self.proof.cluster.load() == Cluster::Upstreams);
            }
            if matches!(**self.proof.cluster.load(), Cluster::Untold(_)) {
                self.proof.all_compared.store(true, Ordering::Relaxed);
                self.trust_all(&api);
                sleep(PROVEN_EVERY).await;
                continue;
            }
            let due = self.due(&api, &mut compared, round);
            let is_anothers = matches!(**self.proof.cluster.load(), Cluster::Anothers(_));
            if due.is_empty() || !matches!(**self.proof.cluster.load(), Cluster::Upstreams) {
                sleep(if is_anothers { ASKED_AGAIN } else { LOOK_EVERY }).await;
                continue;
            }
            let found = join_all(due.iter().map(|resource| self.verdict(&api, &upstream, resource))).await;
            let mut verdicts = Vec::new();
            for (resource, found) in due.into_iter().zip(found) {
                let (id, epoch) = (resource.served.storage.id.clone(), resource.handle.published.known().snapshot.epoch);
                let failures = compared.get(&id).map_or(0, |compared| compared.failures);
                let (verdict, failures) = match found {
                    Ok(verdict) => (Some(verdict), 0),
                    Err(Failed::Forbidden(why)) => (Some(Verdict::Untold(why)), 0),
                    Err(Failed::Now(why)) if failures + 1 == FAILURES_MAX && !self.is_judged(&id) => (Some(Verdict::Wrong(why)), failures),
                    Err(Failed::Now(_)) => (None, failures + 1),
                };
                let again = match verdict {
                    Some(Verdict::Whole) => COMPARED_EVERY,
                    None if !self.is_judged(&id) => LOOK_EVERY,
                    _ => COMPARED_AGAIN,
                };
                compared.insert(id, Compared { at: Instant::now(), epoch, round, again, failures });
                verdicts.extend(verdict.map(|verdict| (resource, verdict)));
            }
            if self.proof.learn(&api, verdicts) {
                self.end_what_is_not_ours(&api);
            }
            sleep(PAUSE).await;
        }
    }

    /// Nobody may ask upstream: what is here counts, and says so.
    fn trust_all(&self, api: &Api) {
        let resources = api.resources.load();
        let judged = |resource: &Arc<Resource>| Judged { name: name(resource), verdict: Verdict::Whole };
        let built_ins = resources.iter().filter(|resource| !resource.served.is_custom());
        let all: HashMap<ResourceId, Judged> = built_ins.map(|r| (r.served.storage.id.clone(), judged(r))).collect();
        self.proof.verdicts.store(Arc::new(all));
    }

    fn is_judged(&self, id: &ResourceId) -> bool {
        self.proof.verdicts.load().contains_key(id)
    }

    /// A few resources that were not compared for long, or were loaded anew since.
    fn due(&self, api: &Api, compared: &mut HashMap<ResourceId, Compared>, round: u64) -> Vec<Arc<Resource>> {
        let resources = api.resources.load();
        let mut due: Vec<Arc<Resource>> = Vec::new();
        let mut has_new = false;
        let mut all: HashSet<ResourceId> = HashSet::new();
        for resource in resources.iter() {
            let id = &resource.served.storage.id;
            let is_asked = !matches!(resource.served.conversion, Conversion::Defined(_))
                && (resource.served.is_custom() || self.follow.reads(&resource.served, None));
            if !is_asked || !all.insert(id.clone()) {
                continue;
            }
            let known = resource.handle.published.known();
            has_new |= !resource.served.is_custom() && known.is_ready() && known.snapshot.broken.is_empty() && !self.is_judged(id);
            if !known.is_ready() || !known.snapshot.broken.is_empty() {
                continue;
            }
            let is_due = compared
                .get(id)
                .is_none_or(|last| (last.epoch, last.round) != (known.snapshot.epoch, round) || last.at.elapsed() >= last.again);
            if is_due && due.len() < AT_ONCE {
                due.push(resource.clone());
            }
        }
        compared.retain(|id, _| all.contains(id));
        self.proof.forget(|id| !all.contains(id));
        if !has_new && api.condition.loaded.load(Ordering::Relaxed) {
            self.proof.all_compared.store(true, Ordering::Relaxed);
        }
        due
    }

    /// Whose etcd it is: the uid of a namespace that is made once for each cluster.
    async fn whose(&self, api: &Api, upstream: &Upstream<Body>) -> Cluster {
        if upstream.auth_mode() == AuthMode::OwnToken {
            return Cluster::Untold("clients bring their own tokens, and this server has none to ask upstream with".to_owned());
        }
        let Some(namespaces) = api.resources.load().find("", "v1", "namespaces").cloned() else {
            // They are left out. Each resource is compared by its revision even so.
            return Cluster::Upstreams;
        };
        let judged = match self.whose_by(api, upstream, &namespaces).await {
            // A write may have come in between.
            Ok(Cluster::Anothers(_)) => self.whose_by(api, upstream, &namespaces).await,
            judged => judged,
        };
        judged.unwrap_or_else(|failed| match failed {
            Failed::Forbidden(why) => Cluster::Untold(why),
            Failed::Now(why) => Cluster::Unknown(why),
        })
    }

    async fn whose_by(&self, api: &Api, upstream: &Upstream<Body>, namespaces: &Resource) -> Result<Cluster, Failed> {
        let storage = &namespaces.served.storage;
        let newest = async || api.reader.latest_revision_of(&storage.id).await.map_err(|_| Failed::Now("etcd does not answer".to_owned()));
        let before = newest().await?;
        let path = format!("/api/v1/namespaces?fieldSelector=metadata.name%3D{NAMESPACE}");
        let (status, body) = self.ask(upstream, &path).await?;
        if status != StatusCode::OK {
            return Err(Failed::Now(format!("upstream answers {} when it is asked for the namespace {NAMESPACE}", status.as_u16())));
        }
        let after = newest().await?;
        let listed = Listed::read(&body).map_err(|why| Failed::Now(format!("upstream's LIST of namespaces: {why}")))?;
        let uid = first_uid(&body).ok_or_else(|| Failed::Now(format!("upstream has no namespace {NAMESPACE} yet")))?;
        let known = namespaces.handle.published.wait_for(before, FRESH_TIME).await;
        let known = known.ok().filter(Known::is_ready).ok_or_else(|| Failed::Now("namespaces are not loaded yet".to_owned()))?;
        let key = format!("{}{NAMESPACE}", storage.key_prefix(api.reader.prefix()));
        Ok(match known.snapshot.known_part(key.as_bytes()) {
            None => Cluster::Anothers(format!(
                "this etcd has no namespace {NAMESPACE} under {}: it is another one than upstream's, or --etcd-prefix is not upstream's",
                api.reader.prefix().trim_end_matches('/')
            )),
            Some(ours) if ours.uid_hash != hash(&uid) => Cluster::Anothers(format!(
                "the namespace {NAMESPACE} has the uid {uid} upstream and another one in this etcd: it is another cluster's (--etcd-servers)"
            )),
            Some(_) => match is_of_this_etcd(before.0, listed.revision, after.0) {
                Ok(()) => Cluster::Upstreams,
                Err(why) => Cluster::Anothers(format!("{why}: this one is a copy of upstream's (--etcd-servers)")),
            },
        })
    }

    /// Compares a resource; what does not fit is looked at twice.
    async fn verdict(&self, api: &Api, upstream: &Upstream<Body>, resource: &Resource) -> Result<Verdict, Failed> {
        match self.compare(api, upstream, resource).await? {
            Verdict::Wrong(_) => self.compare(api, upstream, resource).await,
            fine => Ok(fine),
        }
    }

    async fn compare(&self, api: &Api, upstream: &Upstream<Body>, resource: &Resource) -> Result<Verdict, Failed> {
        let included = resource.handle.included.as_ref();
        let namespaces: Vec<Option<String>> = match included {
            None => vec![None],
            Some(included) => included.names().take(NAMESPACES_MAX).map(|name| Some(name.to_owned())).collect(),
        };
        for namespace in namespaces {
            let verdict = self.compare_in(api, upstream, resource, namespace.as_deref()).await?;
            if verdict != Verdict::Whole {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Whole)
    }

    async fn compare_in(
        &self,
        api: &Api,
        upstream: &Upstream<Body>,
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Result<Verdict, Failed> {
        let (served, published) = (&resource.served, &resource.handle.published);
        let newest =
            async || api.reader.latest_revision_of(&served.storage.id).await.map_err(|_| Failed::Now("etcd does not answer".to_owned()));
        let root = if served.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", served.group) };
        let of = namespace.map(|name| format!("/namespaces/{name}")).unwrap_or_default();
        let path = format!("{root}/{}{of}/{}?limit=1", served.version, served.resource);
        let before = newest().await?;
        let (status, body) = self.ask(upstream, &path).await?;
        if status != StatusCode::OK {
            return Err(Failed::Now(format!("upstream answers {} to a LIST", status.as_u16())));
        }
        let after = newest().await?;
        let listed = Listed::read(&body).map_err(|why| Failed::Now(format!("upstream's LIST: {why}")))?;
        if let Err(why) = is_of_this_etcd(before.0, listed.revision, after.0) {
            return Ok(Verdict::Wrong(why));
        }
        let at = Revision(listed.revision);
        let known = published.wait_for(at, FRESH_TIME).await.map_err(|_| Failed::Now("memory is behind".to_owned()))?;
        if !known.snapshot.broken.is_empty() {
            // Forwarded as it is.
            return Err(Failed::Now("a value cannot be read".to_owned()));
        }
        let store = known.snapshot.exact(at).ok_or_else(|| Failed::Now("memory has forgotten that revision".to_owned()))?;
        let ours = match namespace {
            None => store.len(),
            Some(name) => {
                let prefix = format!("{}{name}/", served.storage.key_prefix(api.reader.prefix()));
                store.scan(prefix.as_bytes(), prefix.as_bytes()).count()
            }
        };
        Ok(is_whole(listed, ours as u64).map_or_else(Verdict::Wrong, |()| Verdict::Whole))
    }

    /// Asks upstream, as ourselves.
    async fn ask(&self, upstream: &Upstream<Body>, path: &str) -> Result<(StatusCode, bytes::Bytes), Failed> {
        let now = |why: String| Failed::Now(why);
        let mut headers: HeaderMap = self.ourselves(upstream).map_err(now)?;
        headers.insert(ACCEPT, METADATA_ONLY);
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| now(error.to_string()))?;
        *request.headers_mut() = headers;
        let asked = async {
            let Answer { response, .. } = upstream.send(request, looker(upstream.auth_mode())).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
            Ok((status, body.to_bytes()))
        };
        let answer: Result<_, String> =
            timeout(QUESTION_TIME, asked).await.unwrap_or_else(|_| Err("upstream does not answer in time".to_owned()));
        match answer.map_err(now)? {
            (status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), _) => {
                Err(Failed::Forbidden(format!("upstream answers {} to {path}: see --upstream-check-groups", status.as_u16())))
            }
            answer => Ok(answer),
        }
    }
}

fn name(resource: &Resource) -> String {
    let storage = &resource.served.storage;
    if storage.group.is_empty() { storage.resource.clone() } else { format!("{}.{}", storage.resource, storage.group) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use registry::test_resource;

    #[test]
    fn memory_answers_only_what_is_known_to_be_whole() {
        let (proof, pods) = (Proof::default(), test_resource("", "pods"));
        let id = pods.served.storage.id.clone();
        let judged = |verdict: Verdict| {
            proof.verdicts.store(Arc::new(HashMap::from([(id.clone(), Judged { name: name(&pods), verdict })])));
        };
        assert!(!proof.holds(&pods) && proof.etcd_wrong().is_some_and(|(_, goes_on)| !goes_on));
        proof.learn_cluster(Cluster::Upstreams);
        assert!(!proof.holds(&pods), "it was not compared yet");
        judged(Verdict::Whole);
        assert!(proof.holds(&pods) && proof.etcd_wrong().is_none());
        judged(Verdict::Untold("no right".to_owned()));
        assert!(proof.holds(&pods));
        judged(Verdict::Wrong("another etcd".to_owned()));
        assert!(!proof.holds(&pods));
        assert!(proof.resources_wrong().is_some_and(|(_, goes_on)| !goes_on), "not all were compared");
        proof.all_compared.store(true, Ordering::Relaxed);
        let wrong = proof.resources_wrong().expect("something is wrong");
        assert!(wrong.1 && wrong.0.contains("pods") && wrong.0.contains("another etcd"), "{wrong:?}");
        judged(Verdict::Whole);
        proof.learn_cluster(Cluster::Anothers("the uid".to_owned()));
        assert!(!proof.holds(&pods) && proof.resources_wrong().is_none());
    }
}
