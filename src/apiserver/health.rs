//! `/healthz`, `/livez`, `/readyz`: which checks there are, and what they say (spec api-surface §1.5).

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use axum::response::Response;
use http::StatusCode;
use tokio::time::sleep;

use super::{
    api::{Api, Host},
    check::{Behind, Check, Wrong},
    context::Authorized,
    path::Health,
};
use auth::{providers::Providers, right::AskingRight};
use go::{quote::quoted, timestamp, url::Query};

/// An answer of a health endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) code: u16,
    pub(super) body: String,
}

/// The whole endpoint: `ok`, or the list of checks when asked for or when one fails.
fn verdict_of(endpoint: Health, checks: &[Check], query: &Query) -> Verdict {
    let name = endpoint.name();
    let excluded: Vec<&str> = query.all("exclude").collect();
    let failed = checks.iter().any(|(check, wrong)| wrong.as_ref().is_some_and(|wrong| wrong.fails) && !excluded.contains(check));
    if !failed && query.first("verbose").is_none() {
        return Verdict { code: 200, body: "ok".to_owned() };
    }
    let mut body = String::new();
    for (check, wrong) in checks {
        body += &match wrong {
            _ if excluded.contains(check) => format!("[+]{check} excluded: ok\n"),
            None => format!("[+]{check} ok\n"),
            Some(Wrong { why, fails: true, is_told: true }) => format!("[-]{check} failed: {why}\n"),
            Some(Wrong { fails: true, .. }) => format!("[-]{check} failed: reason withheld\n"),
            Some(Wrong { why, is_told: true, .. }) => format!("[-]{check} failed, the others stand without it: {why}\n"),
            Some(Wrong { fails: false, .. }) => format!("[-]{check} failed, the others stand without it: reason withheld\n"),
        };
    }
    let unknown: Vec<String> =
        excluded.iter().filter(|name| !checks.iter().any(|(check, _)| check == *name)).map(|name| quoted(name)).collect();
    if !unknown.is_empty() {
        body += &format!("warn: some health checks cannot be excluded: no matches for {}\n", unknown.join(", "));
    }
    body += &format!("{name} check {}\n", if failed { "failed" } else { "passed" });
    Verdict { code: if failed { 500 } else { 200 }, body }
}

/// One check of an endpoint; `None` when there is no such check.
fn one_of(checks: &[Check], name: &str) -> Option<Verdict> {
    let (_, wrong) = checks.iter().find(|(check, _)| *check == name)?;
    Some(match wrong {
        None => Verdict { code: 200, body: "ok".to_owned() },
        Some(Wrong { why, .. }) => Verdict { code: 500, body: format!("internal server error: {why}\n") },
    })
}

/// How long a commit may take before the store counts as standing still.
const STALLED_AFTER: Duration = Duration::from_secs(5);
/// How often that is looked at.
const STALLED_LOOK: Duration = Duration::from_millis(500);

impl Api {
    /// Whether `/readyz` passes.
    pub fn is_ready(&self) -> bool {
        let checks = self.checks(Health::Readyz);
        checks.iter().all(|(_, wrong)| wrong.as_ref().is_none_or(|wrong| !wrong.fails))
    }

    /// What an endpoint looks at.
    pub(super) fn checks(&self, endpoint: Health) -> Vec<Check> {
        let not_loaded = || (!self.condition.loaded.load(Ordering::Relaxed)).then(|| Wrong::fails("not every resource is loaded yet"));
        let source = self.upstream.as_ref().filter(|upstream| upstream.is_source());
        let mut checks: Vec<Check> = vec![("ping", None), ("log", None)];
        match source {
            Some(source) => checks.push(("source", self.source_wrong(&**source, endpoint).map(Wrong::told))),
            None => checks.push(("etcd", self.etcd_wrong(endpoint))),
        }
        if endpoint == Health::Readyz {
            if source.is_none() {
                checks.push(("etcd-readiness", self.etcd_wrong(endpoint)));
            }
            checks.extend(self.review_checks(source.is_some()));
            checks.push(("poststarthook/storage-readiness", not_loaded()));
            match &self.host {
                Some(host) => checks.extend(host.checks(&self.identity.providers)),
                None => checks.extend(self.began()),
            }
            checks.extend(self.upstream.iter().flat_map(|upstream| upstream.checks(&self.resources.load())));
            // Whoever runs them, this server is ready.
            checks.extend((self.condition.controllers)().map(|who| (who, None)));
            checks.push(("stored-values", self.unreadable().map(Wrong::told)));
            let stopping = self.condition.stopping.load(Ordering::Relaxed);
            checks.push(("shutdown", stopping.then(|| Wrong::fails("process is shutting down"))));
        }
        // Who waits for `/healthz` waits for the namespace `default`, as in kube-apiserver: envtest gives it five seconds from then on.
        if endpoint == Health::Healthz && self.host.is_none() {
            checks.extend(self.began());
        }
        if endpoint != Health::Livez && self.condition.embedded {
            // Reads go on without it: a server that no reader may reach would be a worse one.
            checks.push(("store", self.store_wrong().map(Wrong::noted)));
        }
        checks
    }

    /// What a server makes once at its start.
    fn began(&self) -> [Check; 2] {
        let has_roles = self.condition.has_roles.load(Ordering::Relaxed);
        let no_roles = (!has_roles).then(|| Wrong::fails("the default roles are not there yet"));
        let has_objects = self.condition.has_own_objects.load(Ordering::Relaxed);
        let no_objects = (!has_objects).then(|| Wrong::fails("the objects that a server has by itself are not there yet"));
        [("poststarthook/rbac/bootstrap-roles", no_roles), ("poststarthook/bootstrap-controller", no_objects)]
    }

    /// Which resources have stored values that cannot be read here, since when, and the first reason of each.
    fn unreadable(&self) -> Option<String> {
        let mut told = BTreeMap::new();
        for resource in self.resources.load().iter() {
            let (published, name) = (&resource.handle.published, resource.served.storage.path_name());
            let known = published.known();
            let (Some(first), Some(since)) = (known.snapshot.broken.values().next(), published.undecodable_since()) else { continue };
            let mut at = Vec::new();
            timestamp::text_into(since.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64), None, &mut at);
            let (at, count) = (String::from_utf8_lossy(&at), known.snapshot.broken.len());
            told.entry(name.clone()).or_insert_with(|| format!("{name} since {at}, {count} of them, the first: {}", first.why));
        }
        (!told.is_empty()).then(|| told.into_values().collect::<Vec<_>>().join("; "))
    }

    /// Why the embedded store takes no writes.
    fn store_wrong(&self) -> Option<String> {
        match self.condition.store_failed.get() {
            Some(why) => Some(format!("writes are refused until a restart: {why}")),
            None => self.store_stalled().map(|time| format!("writes wait: the disk has not taken one for {} s", time.as_secs())),
        }
    }

    /// Returns how long the embedded store has stood still, if it does.
    pub(super) fn store_stalled(&self) -> Option<Duration> {
        self.condition.store_pulse.as_ref().and_then(|pulse| pulse()).filter(|time| *time > STALLED_AFTER)
    }

    /// Tells the log when the embedded store stands still, and when it goes on.
    pub async fn watch_store(self: Arc<Self>) {
        let mut was_stalled = false;
        loop {
            sleep(STALLED_LOOK).await;
            let stalled = self.store_stalled();
            match (stalled, was_stalled) {
                (Some(time), false) => tracing::warn!(
                    seconds = time.as_secs(),
                    "the embedded store stands still: the disk does not take a write; reads and watches go on"
                ),
                (None, true) => tracing::info!("the embedded store goes on"),
                _ => {}
            }
            was_stalled = stalled.is_some();
        }
    }

    /// What is wrong with the way from etcd to memory. A server whose memory is behind should be left for another one, but nothing is gained by killing it: it
    /// would come back with an empty memory. So only `/readyz` fails.
    fn etcd_wrong(&self, endpoint: Health) -> Option<Wrong> {
        let fed = self.oldest();
        if !fed.is_behind() {
            return None;
        }
        let why = match fed.age() {
            None => "error getting data from etcd: it has not been heard yet".to_owned(),
            Some(age) => {
                let most = self.settings.max_staleness.map_or("of any age".to_owned(), |most| format!("up to {} s", most.as_secs()));
                format!("error getting data from etcd: memory is {} s behind it and answers what may be old ({most})", age.as_secs())
            }
        };
        Some(if endpoint == Health::Readyz { Wrong::fails(why) } else { Wrong::noted(why) })
    }

    /// What is wrong with the way from upstream to memory. Every server like this one has lost the same: reads and watches go on in all of
    /// them.
    fn source_wrong(&self, source: &dyn Behind, endpoint: Health) -> Option<String> {
        let fed = self.oldest();
        let old = fed.is_behind().then(|| {
            let age = fed.age().map_or("of unknown age".to_owned(), |age| format!("up to {} s old", age.as_secs()));
            format!("upstream does not tell what happens there: memory is {age} and answers what may be old")
        });
        let missing = if endpoint == Health::Readyz { source.not_followed(&self.resources.load()) } else { None };
        let all: Vec<String> = old.into_iter().chain(missing).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Whether the cluster that knows the clients lets this server ask about them. Behind it nobody is let in without; a server that
    /// extends it knows the proxy by its
    /// certificate.
    fn review_checks(&self, is_source: bool) -> Vec<Check> {
        let names = if is_source {
            ["upstream-tokenreviews", "upstream-subjectaccessreviews"]
        } else {
            ["host/tokenreviews", "host/subjectaccessreviews"]
        };
        let wrong = |right: &AskingRight| {
            right.wrong().map(|why| if is_source { Wrong { is_told: true, ..Wrong::fails(why) } } else { Wrong::noted(why) })
        };
        let tokens = self.identity.providers.right().map(|right| (names[0], wrong(right)));
        tokens.into_iter().chain(self.access.right().map(|right| (names[1], wrong(&right)))).collect()
    }

    /// Why etcd is not healthy, as a component's status says it.
    pub(super) fn etcd_failure(&self) -> Option<String> {
        self.etcd_wrong(Health::Readyz).map(|wrong| wrong.why)
    }

    /// Answers a health endpoint, or one check of it.
    pub(super) fn health(&self, context: &Authorized, endpoint: Health, check: Option<&str>) -> Response {
        let (reply, query) = (&context.reply, &context.line.query);
        let checks = self.checks(endpoint);
        let verdict = match check {
            None => {
                let is_excluded = |check: &str| query.all("exclude").any(|excluded| excluded == check);
                for (check, wrong) in checks.iter().filter(|(check, _)| !is_excluded(check)) {
                    self.metrics.slis.checked(check, endpoint.name(), wrong.is_none());
                }
                verdict_of(endpoint, &checks, query)
            }
            Some(name) => match one_of(&checks, name) {
                Some(verdict) if verdict.code == 200 => return reply.plain(StatusCode::OK, verdict.body),
                Some(verdict) => verdict,
                None => return reply.page_not_found(),
            },
        };
        reply.text(StatusCode::from_u16(verdict.code).expect("200 or 500"), verdict.body)
    }
}

impl Host {
    /// Nothing is served before it is known once who may come and which namespaces there are; later, what was known counts.
    pub(super) fn checks(&self, providers: &Providers) -> [Check; 4] {
        let wrong = |(why, was_known): (String, bool)| if was_known { Wrong::noted(why) } else { Wrong::fails(why) };
        let noted = |found: &ArcSwapOption<String>| found.load_full().map(|why| Wrong::noted(String::clone(&why)));
        [
            ("host/authentication-configmap", providers.host_wrong().map(wrong)),
            ("host/namespaces", self.namespaces.wrong().map(wrong)),
            ("definitions", noted(&self.definitions_wrong)),
            ("orphaned-objects", noted(&self.orphaned)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(wrong: bool) -> Vec<Check> {
        vec![("ping", None), ("etcd", wrong.then(|| Wrong::fails("it is away")))]
    }

    #[test]
    fn says_ok_or_lists() {
        let ask = |wrong, query| verdict_of(Health::Readyz, &checks(wrong), &Query::parse(query));
        assert_eq!(ask(false, ""), Verdict { code: 200, body: "ok".to_owned() });
        assert_eq!(ask(false, "verbose").body, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n");
        assert_eq!(ask(true, "").body, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n");
        assert_eq!(ask(true, "exclude=etcd").code, 200);
        assert_eq!(
            ask(true, "verbose&exclude=etcd&exclude=zzz").body,
            "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"zzz\"\nreadyz check passed\n"
        );
        assert_eq!(one_of(&checks(true), "etcd").map(|v| v.body), Some("internal server error: it is away\n".to_owned()));
        assert_eq!(one_of(&checks(true), "nope"), None);
        let noted = [("ping", None), ("store", Some(Wrong::noted("full")))];
        let ask = |query| verdict_of(Health::Readyz, &noted, &Query::parse(query));
        assert_eq!(ask(""), Verdict { code: 200, body: "ok".to_owned() });
        assert_eq!(ask("verbose").body, "[+]ping ok\n[-]store failed, the others stand without it: reason withheld\nreadyz check passed\n");
        assert_eq!(one_of(&noted, "store").map(|verdict| verdict.code), Some(500));
    }
}
