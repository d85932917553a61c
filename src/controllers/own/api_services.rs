//! The APIServices of all group versions that this server serves itself, as kube-apiserver registers them: those of Kubernetes' own once at
//! the start, those of definitions while these are there.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep_until;

use super::{
    Controllers, Unready, a_few_at_once,
    availability::{self, RECHECK_EVERY},
    until_done,
};
use crate::{
    objects::{Metadata, deletion, place, tree},
    queue::{After, Queue},
};
use model::Object;
use registry::Resource;
use retry::{Backoff, Reminder};
use storage::write::{Part, failure::WriteError, options::Propagation, write_gate::Permission};

const GROUP: &str = "apiregistration.k8s.io";
/// How an APIService is managed: once, at the start, or always. Others are the administrator's.
const MANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
const AT_START: &str = "onstart";
const ALWAYS: &str = "true";
/// What the versions of definitions have.
const CUSTOM_PRIORITIES: (u32, u32) = (1000, 100);
/// APIServices that are looked at at once.
const WORKERS: usize = 16;
/// Waits after failures.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(60), 0.2);
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);
/// What depends on Services and their endpoints is looked at so long after they have changed.
const SETTLE: Duration = Duration::from_secs(1);

/// One that this server wants, and how it is managed.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    managed: &'static str,
    spec: Value,
}

/// What is known of all APIServices.
struct Registration {
    /// Those of Kubernetes' own, by name.
    built_in: HashMap<String, Wanted>,
    /// The names that each definition wants.
    of_definitions: HashMap<Bytes, Vec<GroupVersion>>,
    /// How many definitions want a name.
    custom: HashMap<String, (GroupVersion, usize)>,
    /// Those that were there at the start.
    at_start: HashSet<String>,
    /// Those that were once as they should be.
    synced: HashSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupVersion {
    group: String,
    version: String,
}

impl GroupVersion {
    fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }

    fn spec(&self, (group_priority, version_priority): (u32, u32)) -> Value {
        let mut spec = json!({"version": self.version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority});
        if !self.group.is_empty() {
            spec["group"] = self.group.as_str().into();
        }
        spec
    }
}

/// What is to be done with an APIService.
#[derive(Debug, PartialEq)]
enum Step {
    Keep,
    Create(Wanted),
    Replace(Value),
    Delete,
}

pub(super) async fn run(controllers: &Arc<Controllers>, unready: Unready) {
    let Some(services) = controllers.built_in(GROUP, "apiservices") else { return };
    let Some(definitions) = controllers.resources.load().definitions().cloned() else { return };
    let mut registration = Registration::new();
    let (mut seen_definitions, mut seen_services) = (None, None);
    let (mut queue, mut reminder) = (Queue::<String>::new(BACKOFF), Reminder::every(REMIND_EVERY));
    // Those of definitions that are there must not be taken for left ones.
    let (snapshot, _) = definitions.handle.published.next(&mut seen_definitions).await;
    for definition in snapshot.store.scan(b"", b"") {
        follow(controllers, &mut registration, definition.key(), Some(definition)).await;
    }
    let (snapshot, _) = services.handle.published.next(&mut seen_services).await;
    registration.at_start = snapshot.store.scan(b"", b"").map(|service| service.name().to_owned()).collect();
    until_done(controllers, "APIServices", || begin(controllers, &services, &registration)).await;
    drop(unready);
    let now = Instant::now();
    registration.names().chain(registration.at_start.iter().cloned()).for_each(|name| queue.add(name, now));
    let mut targets = availability::Targets::new(controllers);
    // A kube-apiserver that comes later keeps its own.
    while controllers.write_gate.now() == Permission::Granted {
        let due: Vec<String> = std::iter::from_fn(|| queue.take(Instant::now())).take(WORKERS).collect();
        let looked = join_all(due.iter().map(|name| look(controllers, &services, &registration, name))).await;
        for (name, looked) in due.iter().zip(looked) {
            let after = match looked {
                Ok(pause) => {
                    registration.synced.insert(name.clone());
                    pause.map_or(After::Rest, After::Wait)
                }
                Err(error) => {
                    if reminder.is_due() {
                        tracing::warn!(%error, apiservice = name, "an APIService cannot be written; trying again");
                    }
                    After::Retry
                }
            };
            queue.done(name, after, Instant::now());
        }
        let next = queue.next_due();
        if next.is_some_and(|next| next <= Instant::now()) {
            continue;
        }
        tokio::select! {
            (snapshot, keys) = services.handle.published.next(&mut seen_services) => {
                let all = || snapshot.store.scan(b"", b"").map(|service| service.name().to_owned()).chain(registration.names()).collect();
                let names: BTreeSet<String> = keys.map_or_else(all, |keys| keys.iter().filter_map(|key| last_part(key)).collect());
                targets.follow(controllers, &services, &snapshot, &names);
                names.into_iter().for_each(|name| queue.add(name, Instant::now()));
            }
            (snapshot, keys) = definitions.handle.published.next(&mut seen_definitions) => {
                let all = || registration.of_definitions.keys().cloned().chain(snapshot.store.scan(b"", b"").map(|found| Bytes::copy_from_slice(found.key()))).collect();
                for key in keys.unwrap_or_else(all) {
                    let names = follow(controllers, &mut registration, &key, snapshot.store.find(&key)).await;
                    names.into_iter().for_each(|name| queue.add(name, Instant::now()));
                }
            }
            () = targets.changed() => targets.names().for_each(|name| queue.add(name.to_owned(), Instant::now() + SETTLE)),
            () = sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => {}
        }
    }
}

/// What stands after the last slash of a key.
fn last_part(key: &[u8]) -> Option<String> {
    let key = std::str::from_utf8(key).ok()?;
    Some(key.rsplit_once('/')?.1.to_owned())
}

/// Brings all to where they should be at the start, many at once: what is missing, and then what they say of themselves.
async fn begin(controllers: &Controllers, services: &Arc<Resource>, registration: &Registration) -> Result<(), WriteError> {
    let missing = registration.names().filter_map(|name| registration.wanted(&name).map(|wanted| wanted.object(&name)));
    controllers.create_missing("", services, missing.collect()).await?;
    let local = registration.names().filter(|name| {
        let there = controllers.cached(&place(services, "", name)).and_then(|found| tree(services, &found));
        there.is_none_or(|there| availability::is_local(&there))
    });
    let told = local.map(|name| async move { availability::tell_local(controllers, &place(services, "", &name)).await });
    a_few_at_once(told).await.into_iter().collect()
}

/// Brings one to where it should be; returns when it is to be looked at again.
async fn look(
    controllers: &Controllers,
    services: &Arc<Resource>,
    registration: &Registration,
    name: &str,
) -> Result<Option<Duration>, WriteError> {
    let target = place(services, "", name);
    let found = controllers.cached(&target).and_then(|found| tree(services, &found));
    match registration.step(name, found.as_ref()) {
        Step::Keep => {}
        Step::Create(wanted) => drop(controllers.create_as("", services, "", &wanted.object(name)).await?),
        Step::Replace(spec) => {
            let change = |current: &Value| {
                let mut new = current.clone();
                new["spec"] = spec.clone();
                (new != *current).then_some(new)
            };
            controllers.writer.amend_part(&target, Part::Main, change).await?;
        }
        Step::Delete => {
            let uid = found.as_ref().map(|found| Metadata::of_tree(found).uid);
            return controllers.delete(&target, &deletion(Propagation::Background, uid)).await.map(|()| None);
        }
    }
    let Some(found) = found else { return Ok(None) };
    if availability::is_local(&found) {
        availability::tell_local(controllers, &target).await?;
        return Ok(None);
    }
    availability::tell_remote(controllers, &target, &found).await?;
    Ok(Some(RECHECK_EVERY))
}

/// Takes in a definition as it is now; returns the names of the APIServices that it wants, and of those that it wanted.
async fn follow(controllers: &Controllers, registration: &mut Registration, key: &[u8], definition: Option<&Arc<Object>>) -> Vec<String> {
    let versions = match definition {
        Some(definition) => controllers.writer.run_offloaded(definition.tail_len(), || served(&[b"{", &*definition.tail()].concat())).await,
        None => Vec::new(),
    };
    registration.follow(key, versions)
}

/// The group versions that a definition serves.
fn served(definition: &[u8]) -> Vec<GroupVersion> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Definition {
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        group: String,
        versions: Vec<Version>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Version {
        name: String,
        served: bool,
    }
    let Spec { group, versions } = serde_json::from_slice::<Definition>(definition).unwrap_or_default().spec;
    let served = versions.into_iter().filter(|version| version.served);
    served.map(|version| GroupVersion { group: group.clone(), version: version.name }).collect()
}

impl Wanted {
    fn object(&self, name: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {MANAGED_LABEL: self.managed}}, "spec": self.spec})
    }
}

impl Registration {
    fn new() -> Self {
        // The group of APIServices themselves has none.
        let own = catalogue::built_in_group_versions().filter(|(group, ..)| *group != GROUP);
        let built_in = own.map(|(group, version, group_priority, version_priority)| {
            let served = GroupVersion { group: group.to_owned(), version: version.to_owned() };
            (served.name(), Wanted { managed: AT_START, spec: served.spec((group_priority, version_priority)) })
        });
        Self {
            built_in: built_in.collect(),
            of_definitions: HashMap::new(),
            custom: HashMap::new(),
            at_start: HashSet::new(),
            synced: HashSet::new(),
        }
    }

    /// Takes in which versions a definition serves now; returns the names of which something may have changed.
    fn follow(&mut self, key: &[u8], versions: Vec<GroupVersion>) -> Vec<String> {
        let before = match versions.is_empty() {
            true => self.of_definitions.remove(key),
            false => self.of_definitions.insert(Bytes::copy_from_slice(key), versions.clone()),
        };
        let mut names = Vec::new();
        for version in &versions {
            self.custom.entry(version.name()).or_insert_with(|| (version.clone(), 0)).1 += 1;
            names.push(version.name());
        }
        for name in before.iter().flatten().map(GroupVersion::name) {
            if let Some((_, count)) = self.custom.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    self.custom.remove(&name);
                }
            }
            names.push(name);
        }
        names
    }

    fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.built_in.keys().chain(self.custom.keys()).cloned()
    }

    fn wanted(&self, name: &str) -> Option<Wanted> {
        let custom = self.custom.get(name).map(|(version, _)| Wanted { managed: ALWAYS, spec: version.spec(CUSTOM_PRIORITIES) });
        custom.or_else(|| self.built_in.get(name).cloned())
    }

    /// kube-aggregator's rules of `checkAPIService`.
    fn step(&self, name: &str, found: Option<&Value>) -> Step {
        let wanted = self.wanted(name);
        let has_synced = self.synced.contains(name);
        if has_synced && wanted.as_ref().is_some_and(|wanted| wanted.managed == AT_START) {
            return Step::Keep;
        }
        let Some(found) = found else { return wanted.map_or(Step::Keep, Step::Create) };
        match found["metadata"]["labels"][MANAGED_LABEL].as_str() {
            Some(ALWAYS) => {}
            Some(AT_START) if self.at_start.contains(name) && !has_synced => {}
            _ => return Step::Keep,
        }
        match wanted {
            None => Step::Delete,
            Some(wanted) if wanted.spec == found["spec"] => Step::Keep,
            Some(wanted) => Step::Replace(wanted.spec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(group: &str, version: &str) -> GroupVersion {
        GroupVersion { group: group.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn definitions_share_their_versions() {
        let mut registration = Registration::new();
        assert_eq!(registration.follow(b"a", vec![of("x.io", "v1"), of("x.io", "v2")]), ["v1.x.io", "v2.x.io"]);
        registration.follow(b"b", vec![of("x.io", "v1")]);
        assert_eq!(registration.wanted("v1.x.io").map(|wanted| wanted.managed), Some(ALWAYS));
        assert_eq!(registration.follow(b"a", vec![]), ["v1.x.io", "v2.x.io"]);
        assert!(registration.wanted("v1.x.io").is_some() && registration.wanted("v2.x.io").is_none());
        registration.follow(b"b", vec![]);
        assert!(registration.wanted("v1.x.io").is_none() && registration.of_definitions.is_empty());
    }

    #[test]
    fn only_served_versions_are_wanted() {
        let definition = json!({"spec": {"group": "x.io", "versions": [{"name": "v1", "served": true, "schema": {"a": [1]}}, {"name": "v2", "served": false}]}});
        assert_eq!(served(definition.to_string().as_bytes()), [of("x.io", "v1")]);
        assert_eq!(served(b"{"), []);
    }

    /// The table above `checkAPIService` of kube-aggregator.
    #[test]
    fn what_is_done_is_what_kube_aggregator_does() {
        let mut registration = Registration::new();
        registration.follow(b"a", vec![of("x.io", "v1")]);
        registration.at_start = ["v1.apps", "v9.old", "v1.x.io"].map(str::to_owned).into();
        let found = |label: &str, spec: Value| json!({"metadata": {"labels": {MANAGED_LABEL: label}}, "spec": spec});
        let step = |registration: &Registration, name: &str, found: Option<Value>| registration.step(name, found.as_ref());
        let apps = registration.wanted("v1.apps").expect("it is served");
        let custom = registration.wanted("v1.x.io").expect("it is wanted");
        assert_eq!(step(&registration, "v1.apps", None), Step::Create(apps.clone()));
        assert_eq!(step(&registration, "v1.x.io", None), Step::Create(custom.clone()));
        assert_eq!(step(&registration, "v1.apps", Some(found(AT_START, json!({})))), Step::Replace(apps.spec.clone()));
        assert_eq!(step(&registration, "v1.batch", Some(found(AT_START, json!({})))), Step::Keep, "it came after the start");
        assert_eq!(step(&registration, "v1.apps", Some(found("", json!({})))), Step::Keep, "nobody's");
        assert_eq!(step(&registration, "v9.old", Some(found(AT_START, json!({})))), Step::Delete);
        assert_eq!(step(&registration, "v9.older", Some(found(ALWAYS, json!({})))), Step::Delete);
        assert_eq!(step(&registration, "v1.x.io", Some(found(ALWAYS, custom.spec.clone()))), Step::Keep);
        assert_eq!(step(&registration, "v9.nobodys", None), Step::Keep);
        registration.synced = ["v1.apps", "v9.old", "v1.x.io"].map(str::to_owned).into();
        assert_eq!(step(&registration, "v1.apps", None), Step::Keep, "once");
        assert_eq!(step(&registration, "v9.old", Some(found(AT_START, json!({})))), Step::Keep, "once");
        assert_eq!(step(&registration, "v1.x.io", None), Step::Create(custom.clone()), "always");
        assert_eq!(step(&registration, "v1.x.io", Some(found(ALWAYS, json!({})))), Step::Replace(custom.spec));
    }
}
