//! Reflectors before an upstream that is told what to say: good, away, out of order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::ledger::Ledger;
use super::policy::Wanted;
use super::{Policy, Reflectors, Source};
use cache::cacher::{Handle, cacher};
use cache::dispatch::GroupLimits;
use cache::source::driver::Command;
use cache::state::ring::RingLimits;
use cache::state::snapshot::{Fed, Known};
use client::testing::{Reaction, ReceivedRequest, Server};
use client::{Kubeconfig, Trust};
use model::{GivenUp, Revision, Storage};
use telemetry::Metrics;

mod doubt;
mod forms;
mod lies;

/// How long something may take that is to happen.
const SOON: Duration = Duration::from_secs(30);

/// A cacher of ConfigMaps that is fed by a server.
struct Bench {
    server: Server,
    handle: Handle,
    commands: tokio::sync::mpsc::Sender<Command>,
    _giving_up: tokio::sync::watch::Sender<GivenUp>,
}

impl Bench {
    async fn before(react: impl Fn(&ReceivedRequest) -> Reaction + Send + Sync + 'static) -> Self {
        let named = Some(vec![Wanted::parse("configmaps").expect("a name")]);
        Self::following(Policy { named, ..Policy::default() }, Duration::from_secs(60), react).await
    }

    async fn following(
        policy: Policy,
        restored_after: Duration,
        react: impl Fn(&ReceivedRequest) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        Self::within(None, policy, restored_after, react).await
    }

    /// One that gives a load up after so long.
    async fn loading_within(time: Duration, policy: Policy, react: impl Fn(&ReceivedRequest) -> Reaction + Send + Sync + 'static) -> Self {
        let adjust = |source: &mut Source| source.load_time = time;
        Self::adjusted(None, policy, adjust, react).await
    }

    async fn within(
        budget: Option<u64>,
        policy: Policy,
        restored_after: Duration,
        react: impl Fn(&ReceivedRequest) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let adjust = |source: &mut Source| {
            source.restored_after = restored_after;
            source.ledger = Ledger::within(budget);
        };
        Self::adjusted(None, policy, adjust, react).await
    }

    /// One that asks with a source like this, and trusts who has signed the certificate of the other server if there is one.
    async fn adjusted(
        other: Option<&Server>,
        policy: Policy,
        adjust: impl FnOnce(&mut Source),
        react: impl Fn(&ReceivedRequest) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        Self::before_release(other, policy, adjust, || Reaction::Answer(404, "application/json", Bytes::new()), react).await
    }

    /// One before a server that says of which release it is.
    async fn before_release(
        other: Option<&Server>,
        policy: Policy,
        adjust: impl FnOnce(&mut Source),
        version: impl Fn() -> Reaction + Send + Sync + 'static,
        react: impl Fn(&ReceivedRequest) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let react = move |asked: &ReceivedRequest| if asked.uri.path() == "/version" { version() } else { react(asked) };
        let server = Server::start(react).await;
        let trust = Trust::from_pem(other.unwrap_or(&server).ca_pem().as_bytes()).expect("an authority");
        let at = Kubeconfig::of_server(&server.url(), trust).expect("a server");
        let mut source = Source::new(Login::of(at), "/registry/").expect("a client");
        adjust(&mut source);
        let (reflectors, commands, _) = Reflectors::new(Arc::new(source), policy);
        tokio::spawn(reflectors.run());
        let storage = Arc::new(Storage::test_config_maps());
        let (giving_up, given_up) = tokio::sync::watch::channel(GivenUp::default());
        let limits = RingLimits { events_max: 100, bytes_max: usize::MAX, window_ms: 0 };
        let metrics = Arc::new(Metrics::new().resource("", "configmaps"));
        let clock = Arc::new(Reflectors::clock());
        let (cacher, handle, inbox) = cacher(storage.clone(), limits, GroupLimits::default(), clock, given_up, metrics);
        tokio::spawn(cacher.run());
        commands.send(Command::Add(storage, None, inbox)).await.expect("they run");
        Self { server, handle, commands, _giving_up: giving_up }
    }

    fn known(&self) -> Known {
        self.handle.published.known()
    }

    fn fed(&self) -> &Fed {
        self.handle.published.fed()
    }

    /// Waits until memory is as is said, `5: a@3 b@5`.
    async fn has(&self, wanted: &str) {
        let reached = async {
            while self.told() != wanted {
                sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(timeout(SOON, reached).await.is_ok(), "{} where {wanted} is wanted", self.told());
    }

    /// The revision, and the objects with theirs.
    fn told(&self) -> String {
        let known = self.known();
        if !known.is_ready() {
            return "not ready".to_owned();
        }
        let prefix = "/registry/configmaps/n/".len();
        let one = |object: &Arc<model::Object>| format!(" {}@{}", String::from_utf8_lossy(&object.key()[prefix..]), object.revision);
        format!("{}:{}", known.revision, known.snapshot.store.scan(b"", b"").map(one).collect::<String>())
    }

    /// The queries of the watches and lists so far.
    fn asked(&self) -> Vec<String> {
        let asked = self.server.asked();
        asked.iter().filter(|asked| asked.uri.path() != "/version").map(|asked| asked.uri.query().unwrap_or("").to_owned()).collect()
    }

    async fn is_asked(&self, times: usize) {
        let asked = async {
            while self.asked().len() < times {
                sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(timeout(SOON, asked).await.is_ok(), "it was asked only {:?}", self.asked());
    }
}

fn object(name: &str, revision: u64) -> String {
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","uid":"u","resourceVersion":"{revision}"}}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn put(name: &str, revision: u64) -> String {
    event("MODIFIED", &object(name, revision))
}

fn gone(name: &str, revision: u64) -> String {
    event("DELETED", &object(name, revision))
}

fn bookmark(revision: u64) -> String {
    event("BOOKMARK", &format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{revision}"}}}}"#))
}

/// The end of the initial events.
fn end(revision: u64) -> String {
    let annotations = r#""annotations":{"k8s.io/initial-events-end":"true"}"#;
    event("BOOKMARK", &format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{revision}",{annotations}}}}}"#))
}

fn error(code: u16) -> String {
    event("ERROR", &format!(r#"{{"kind":"Status","code":{code},"message":"no"}}"#))
}

fn open(lines: &[String]) -> Reaction {
    Reaction::Open(Bytes::from(lines.concat()))
}

/// The answer to who asks how far upstream is.
fn at_revision(revision: u64) -> Reaction {
    listed(revision, "", &[])
}

/// A page of a list.
fn listed(revision: u64, more: &str, items: &[String]) -> Reaction {
    let metadata = format!(r#"{{"resourceVersion":"{revision}"{more}}}"#);
    let body = format!(r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{metadata},"items":[{}]}}"#, items.join(","));
    Reaction::Answer(200, "application/json", body.into())
}

fn ended(lines: &[String]) -> Reaction {
    Reaction::Answer(200, "application/json", Bytes::from(lines.concat()))
}

/// Answers the loads, and then the watches, with these in turn; the last one again and again.
fn in_turn(loads: Vec<Reaction>, watches: Vec<Reaction>) -> impl Fn(&ReceivedRequest) -> Reaction + Send + Sync + 'static {
    let at = [AtomicUsize::new(0), AtomicUsize::new(0)];
    move |asked| {
        let is_load = asked.uri.query().is_some_and(|query| query.contains("sendInitialEvents=true"));
        if asked.uri.query() == Some("limit=1") {
            return at_revision(i64::MAX as u64);
        }
        if asked.uri.query().is_some_and(|query| query.contains("resourceVersionMatch=Exact")) {
            return Reaction::Answer(400, "application/json", Bytes::new());
        }
        let (from, at) = if is_load { (&loads, &at[0]) } else { (&watches, &at[1]) };
        let number = at.fetch_add(1, Ordering::Relaxed).min(from.len() - 1);
        from[number].clone()
    }
}

#[tokio::test]
async fn what_is_told_is_in_memory() {
    let first = [put("a", 3), put("b", 5), end(7), put("c", 9), gone("a", 12), gone("b", 12), bookmark(20)];
    let bench = Bench::before(in_turn(vec![open(&first)], vec![Reaction::Hang])).await;
    bench.has("20: c@9").await;
    let asked = bench.asked();
    let (query, rest) = asked.split_first().expect("it was asked");
    assert!(rest.is_empty() && query.contains("resourceVersionMatch=NotOlderThan") && !query.contains("resourceVersion="), "{asked:?}");
    assert!(!bench.fed().is_behind());
}

/// A watch that ends goes on where it was, without a load.
#[tokio::test]
async fn a_watch_goes_on_where_it_ended() {
    let reactions = in_turn(
        vec![Reaction::After(Duration::from_millis(1_100), Box::new(ended(&[put("a", 3), end(7), bookmark(9)])))],
        vec![ended(&[put("b", 12)]), open(&[put("c", 13)])],
    );
    let bench = Bench::before(reactions).await;
    bench.has("13: a@3 b@12 c@13").await;
    let asked = bench.asked().into_iter().filter(|query| query.contains("watch=true"));
    let from: Vec<_> = asked.skip(1).map(|query| query.rsplit('=').next().unwrap_or("").to_owned()).collect();
    assert_eq!(from, ["9", "12"]);
}

/// What was deleted meanwhile has no revision: memory is another life, and it is never older than the one before.
#[tokio::test]
async fn after_410_everything_is_loaded_anew() {
    let reactions = in_turn(
        vec![ended(&[put("a", 3), put("b", 4), end(7)]), open(&[put("a", 3), end(5)]), open(&[put("c", 9), end(9)])],
        vec![ended(&[error(410)])],
    );
    let bench = Bench::before(reactions).await;
    bench.has("7: a@3 b@4").await;
    let epoch = bench.known().snapshot.epoch;
    bench.has("9: c@9").await;
    assert!(bench.known().snapshot.epoch > epoch);
    let loads: Vec<_> = bench.asked().into_iter().filter(|query| query.contains("sendInitialEvents")).collect();
    assert!(loads.len() == 3 && loads[1..].iter().all(|query| query.ends_with("&resourceVersion=7")), "{loads:?}");
}

/// An etcd that was restored from a backup has less than clients have seen. That is believed when it is said for a while, and what was seen is lost.
#[tokio::test]
async fn a_restored_upstream_is_believed_after_a_while() {
    let loads = AtomicUsize::new(0);
    let policy = Policy { all: true, ..Policy::default() };
    let bench = Bench::following(policy, Duration::from_secs(3), move |asked| match asked.uri.query().unwrap_or("") {
        query if query.contains("sendInitialEvents") && query.contains("&resourceVersion=50") => {
            Reaction::Answer(504, "application/json", Bytes::new())
        }
        query if query.contains("sendInitialEvents") => match loads.fetch_add(1, Ordering::Relaxed) {
            0 => ended(&[put("a", 3), end(50)]),
            _ => open(&[put("b", 11), end(12)]),
        },
        "limit=1" => Reaction::Answer(403, "application/json", Bytes::new()),
        _ => ended(&[error(410)]),
    })
    .await;
    bench.has("50: a@3").await;
    bench.has("12: b@11").await;
    let known = bench.known();
    assert_eq!((known.lost, known.is_ready()), (Revision(50), true), "a watch from what is lost ends");
}

/// Whatever upstream sends that is out of order, what is known stays, nothing of it is shown, and upstream is asked again.
#[tokio::test]
async fn lies_are_not_shown() {
    let foreign = object("x", 30).replace("ConfigMap", "Secret");
    let lies: Vec<(&str, Reaction)> = vec![
        ("another kind", open(&[event("ADDED", &foreign)])),
        ("no JSON", open(&["{\"type\":\"ADDED\",\"obj\n".to_owned()])),
        ("HTML", Reaction::Answer(200, "text/html", Bytes::from_static(b"<html>\n<body>sign in\n</body></html>\n"))),
        ("a redirect", Reaction::Answer(302, "text/html", Bytes::new())),
        ("an expired token", Reaction::Answer(401, "application/json", Bytes::new())),
        ("half an event", Reaction::CutOff),
        ("no answer", Reaction::Drop),
        ("a line without an end", Reaction::Giant),
        ("a kind of event that is none", open(&[event("TOLD", &object("x", 30))])),
        ("gzip", Reaction::Answer(200, "application/json", Bytes::from_static(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x0a\n"))),
    ];
    let mut cases = JoinSet::new();
    for (name, lie) in lies {
        cases.spawn(async move {
            let reactions = in_turn(vec![ended(&[put("a", 3), end(7)])], vec![lie, open(&[put("b", 40)])]);
            let bench = Bench::before(reactions).await;
            bench.has("40: a@3 b@40").await;
            let is_shown = |known: &Known| known.snapshot.ring.at(0).is_some_and(|event| event.key().ends_with(b"/x"));
            assert!(!is_shown(&bench.known()), "{name}");
            let loads = bench.asked().iter().filter(|query| query.contains("sendInitialEvents")).count();
            assert_eq!(loads, 1, "{name}: it need not be loaded anew");
        });
    }
    cases.join_all().await;
}

/// An event that comes when everything up to it was told already may not be the only one: nobody knows what else is missing.
#[tokio::test]
async fn what_comes_late_has_everything_loaded_anew() {
    let late = [
        ("one that goes back", vec![put("x", 4)]),
        ("one below a bookmark", vec![bookmark(20), put("x", 19)]),
        ("more of a revision that was shown", vec![put("b", 9), put("c", 10), put("x", 9)]),
    ];
    let mut cases = JoinSet::new();
    for (name, late) in late {
        cases.spawn(async move {
            let loads = vec![ended(&[put("a", 3), end(7)]), open(&[put("a", 3), put("x", 19), end(21)])];
            let bench = Bench::before(in_turn(loads, vec![open(&late), Reaction::Hang])).await;
            bench.has("21: a@3 x@19").await;
            let loads: Vec<_> = bench.asked().into_iter().filter(|query| query.contains("sendInitialEvents")).collect();
            assert!(loads.len() == 2 && loads[1].contains("&resourceVersion="), "{name}: {loads:?}");
        });
    }
    cases.join_all().await;
}

/// Clients that have seen everything up to 9 come back with 9: what came late must be in a load that is newer. That nobody has one yet is no sign of a backup.
#[tokio::test]
async fn what_came_late_is_in_a_newer_load() {
    let loads = vec![ended(&[put("a", 3), end(7)]), Reaction::Answer(504, "application/json", Bytes::new()), open(&[put("x", 9), end(10)])];
    let watches = vec![open(&[put("b", 9), put("c", 10), put("x", 9)]), Reaction::Hang];
    let react = in_turn(loads, watches);
    let newest = r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"10"},"items":[]}"#;
    let bench = Bench::following(Policy { all: true, ..Policy::default() }, Duration::ZERO, move |asked| {
        if asked.uri.query() == Some("limit=1") { Reaction::Answer(200, "application/json", newest.into()) } else { react(asked) }
    })
    .await;
    bench.has("7: a@3").await;
    bench.has("10: a@3 b@9 c@10").await;
    let loads = || bench.asked().into_iter().filter(|query| query.contains("sendInitialEvents")).collect::<Vec<_>>();
    bench.is_asked(6).await;
    assert!(loads()[1..].iter().all(|query| query.ends_with("&resourceVersion=11")), "{:?}", loads());
    assert_eq!(bench.told(), "10: a@3 b@9 c@10", "a load that is no newer does not count");
}

/// A load that is out of order leaves nothing behind.
#[tokio::test]
async fn a_load_is_whole_or_nothing() {
    let loads: Vec<(&str, Reaction)> = vec![
        ("an object newer than the load", open(&[put("x", 9), end(7)])),
        ("another kind", open(&[event("ADDED", &object("x", 3).replace("ConfigMap", "Pod")), end(7)])),
        ("no end", ended(&[put("x", 3)])),
        ("an error in it", open(&[put("x", 3), error(500)])),
        (
            "too large a revision",
            Reaction::Answer(
                504,
                "application/json",
                Bytes::from_static(br#"{"kind":"Status","code":504,"message":"Too large resource version"}"#),
            ),
        ),
        ("429", Reaction::Answer(429, "application/json", Bytes::new())),
    ];
    let mut cases = JoinSet::new();
    for (name, load) in loads {
        cases.spawn(async move {
            let bench = Bench::before(in_turn(vec![load, open(&[put("a", 3), end(7)])], vec![Reaction::Hang])).await;
            bench.is_asked(2).await;
            assert!(!bench.known().snapshot.store.scan(b"", b"").any(|object| object.key().ends_with(b"/x")), "{name}");
            bench.has("7: a@3").await;
        });
    }
    cases.join_all().await;
}

/// An upstream that knows no such watch is listed page by page, with smaller pages where they are too large.
#[tokio::test]
async fn without_initial_events_it_is_listed() {
    let page = |next: &str, items: &[String]| {
        let metadata = format!(r#"{{"resourceVersion":"7","continue":"{next}"}}"#);
        let items = items.join(",").replace(r#""kind":"ConfigMap","apiVersion":"v1","#, "");
        Bytes::from(format!(r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{metadata},"items":[{items}]}}"#))
    };
    let (first, second) = (page("t=", &[object("a", 3)]), page("", &[object("b", 5)]));
    let bench = Bench::before(move |asked| match asked.uri.query().unwrap_or("") {
        query if query.contains("sendInitialEvents") => Reaction::Answer(422, "application/json", Bytes::new()),
        "limit=500" => Reaction::Answer(200, "application/json", first.clone()),
        "limit=500&continue=t%3D" => Reaction::Answer(200, "application/json", second.clone()),
        query if query.contains("watch=true") && query.ends_with("resourceVersion=7") => open(&[put("c", 8)]),
        _ => Reaction::Answer(400, "application/json", Bytes::new()),
    })
    .await;
    bench.has("8: a@3 b@5 c@8").await;
}

/// Nobody can ask upstream for progress: another watch, which soon gets a bookmark, proves that nothing has happened.
#[tokio::test]
async fn an_idle_resource_is_proven_by_a_short_watch() {
    let bench = Bench::before(|asked| match asked.uri.query().unwrap_or("") {
        query if query.contains("sendInitialEvents") => open(&[put("a", 3), end(7)]),
        query if query.contains("timeoutSeconds=3&resourceVersion=7") => open(&[bookmark(50)]),
        _ => Reaction::Hang,
    })
    .await;
    bench.has("7: a@3").await;
    assert_eq!(bench.asked().len(), 1, "nobody waits");
    let waits = (0..100).map(|_| bench.handle.published.wait_for(Revision(50), SOON));
    for waited in futures(waits).await {
        assert_eq!(waited, Revision(50));
    }
    assert_eq!(bench.asked().len(), 2, "all share one");
}

/// Whatever an upstream answers to a question for progress that is of no use, it is not asked again at once.
#[tokio::test]
async fn questions_for_progress_have_pauses() {
    let answers = [
        Reaction::Answer(403, "application/json", Bytes::new()),
        Reaction::Answer(429, "application/json", Bytes::new()),
        ended(&[error(410)]),
        open(&[put("b", 8)]),
        ended(&[]),
    ];
    let mut cases = JoinSet::new();
    for answer in answers {
        cases.spawn(async move {
            let bench = Bench::before(move |asked| match asked.uri.query().unwrap_or("") {
                query if query.contains("sendInitialEvents") => open(&[put("a", 3), end(7)]),
                query if query.contains("timeoutSeconds=3&") => answer.clone(),
                _ => Reaction::Hang,
            })
            .await;
            bench.has("7: a@3").await;
            assert!(bench.handle.published.wait_for(Revision(50), Duration::from_millis(750)).await.is_err());
            assert_eq!(bench.asked().len(), 2, "{:?}", bench.asked());
        });
    }
    cases.join_all().await;
}

/// After a deletion nothing more may come for a minute: reads that must be new do not wait for it.
#[tokio::test]
async fn a_resource_whose_last_change_was_a_deletion_is_proven() {
    let bench = Bench::before(|asked| match asked.uri.query().unwrap_or("") {
        query if query.contains("sendInitialEvents") => open(&[put("a", 3), end(7), gone("a", 9)]),
        query if query.contains("timeoutSeconds=3&") => open(&[bookmark(50)]),
        _ => Reaction::Hang,
    })
    .await;
    bench.has("9:").await;
    assert!(bench.handle.published.wait_for(Revision(50), Duration::from_secs(2)).await.is_ok());
}

/// A resource that upstream does not keep in memory gets no bookmark: nobody waits for one again.
#[tokio::test]
async fn a_resource_without_bookmarks_is_known_for_that() {
    let bench = Bench::before(|asked| match asked.uri.query().unwrap_or("") {
        query if query.contains("sendInitialEvents") => open(&[put("a", 3), end(7)]),
        query if query.contains("timeoutSeconds=3&resourceVersion=7") => ended(&[]),
        _ => Reaction::Hang,
    })
    .await;
    bench.has("7: a@3").await;
    assert!(!bench.fed().is_mute() && bench.handle.published.wait_for(Revision(50), Duration::from_secs(1)).await.is_err());
    assert!(bench.fed().is_mute());
}

async fn futures(waits: impl Iterator<Item = impl Future<Output = Result<Known, Known>>>) -> Vec<Revision> {
    let mut all = Vec::new();
    for wait in waits {
        all.push(wait.await.map_or(Revision::ZERO, |known| known.revision));
    }
    all
}

/// A resource is followed when a read asks for it, and no longer when none has for a while.
#[tokio::test]
async fn lazily_it_is_followed_while_it_is_asked_for() {
    let policy = Policy { idle: Some(Duration::from_millis(200)), ..Policy::default() };
    let bench = Bench::following(policy, Duration::from_secs(60), in_turn(vec![open(&[put("a", 3), end(7)])], vec![Reaction::Hang])).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!((bench.told().as_str(), bench.asked().len()), ("not ready", 0));
    bench.fed().want();
    bench.has("7: a@3").await;
    bench.has("not ready").await;
    assert_eq!(bench.known().snapshot.store.len(), 0);
    bench.fed().want();
    bench.has("7: a@3").await;
}

/// Nobody waits for what upstream does not let us see, and what was seen goes when that lasts.
#[tokio::test]
async fn what_is_refused_is_declined() {
    let bench = Bench::before(|_| Reaction::Answer(403, "application/json", Bytes::new())).await;
    let declined = async {
        while !bench.fed().is_declined() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(SOON, declined).await.is_ok());
    drop(bench.commands);
}
