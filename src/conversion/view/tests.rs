//! A version over a resource's cacher and a webhook that answers as it is told.

use std::sync::atomic::{AtomicU8, AtomicUsize};

use client::testing::{Reaction, Server};
use serde_json::{Value, json};

use super::*;
use crate::{
    Caller, Converter,
    webhook::{ANSWER_BYTES_MAX, WAITING_MAX},
};
use cache::{
    cacher::cacher,
    dispatch::GroupLimits,
    state::{ring::RingLimits, snapshot::Fed},
};
use catalogue::{Catalogue, Served, definition::Definition};
use codec::ingest::ingest;
use model::{GivenUp, Storage};
use telemetry::Metrics;

const PREFIX: &str = "/registry/";
const WAIT: Duration = Duration::from_secs(120);

/// What the webhook does.
#[derive(Default)]
struct Hook {
    mood: AtomicU8,
    calls: AtomicUsize,
    objects: AtomicUsize,
}

const GOOD: u8 = 0;
const REFUSES: u8 = 1;
/// Of more than one object it gives back one.
const HALF: u8 = 2;
const HANGS: u8 = 3;
const HAS_NO_END: u8 = 4;

impl Hook {
    fn set(&self, mood: u8) {
        self.mood.store(mood, Ordering::SeqCst);
    }

    fn count(&self) -> (usize, usize) {
        (self.calls.load(Ordering::SeqCst), self.objects.load(Ordering::SeqCst))
    }

    fn react(&self, body: &[u8]) -> Reaction {
        let review: Value = serde_json::from_slice(body).expect("a review");
        let objects = review["request"]["objects"].as_array().expect("objects");
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.objects.fetch_add(objects.len(), Ordering::SeqCst);
        let converted = objects.iter().map(|object| {
            let mut object = object.clone();
            object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
            object["spec"] = json!({"b": object["spec"]["a"]});
            object
        });
        let mood = self.mood.load(Ordering::SeqCst);
        match mood {
            HANGS => return Reaction::Hang,
            HAS_NO_END => return Reaction::Giant,
            _ => {}
        }
        let result = if mood == REFUSES { json!({"status": "Failure", "message": "no"}) } else { json!({"status": "Success"}) };
        let converted: Vec<Value> = if mood == HALF { converted.take(1).collect() } else { converted.collect() };
        let response = json!({"uid": review["request"]["uid"], "result": result, "convertedObjects": converted});
        Reaction::json(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}))
    }
}

struct Stage {
    hook: Arc<Hook>,
    metrics: Arc<Metrics>,
    storage: Arc<Storage>,
    source: Inbox,
    epoch: u64,
    converter: Arc<Converter>,
    view: View,
    _server: Server,
    _given_up: watch::Sender<GivenUp>,
}

fn served(url: &str, bundle: &str) -> Arc<Served> {
    use serde_json::Value as V;
    let names = json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let version = |name: &str, member: &str, storage: bool| -> V {
        let spec = json!({"type": "object", "properties": {member: {"type": "string"}}});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    let definition = json!({
        "metadata": {"name": "things.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Cluster", "names": names, "versions": [version("v1", "a", true), version("v2", "b", false)],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": bundle}}}},
        "status": {"acceptedNames": names, "storedVersions": ["v1"], "conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]},
    });
    let definition = Definition::parse(definition.to_string().as_bytes()).expect("a definition");
    Catalogue::new(&[definition]).served("ex.io", "v2", "things").expect("it is served").clone()
}

impl Stage {
    async fn new(ring: usize) -> Self {
        let hook = Arc::<Hook>::default();
        let server = Server::start({
            let hook = hook.clone();
            move |request| hook.react(&request.body)
        })
        .await;
        let bundle = base64_of(server.ca_pem());
        let served = served(&format!("{}/convert", server.url()), &bundle);
        let conversion = served.defined_conversion().expect("a webhook makes it").clone();
        let figures = Metrics::new();
        let caller =
            conversion.webhook.clone().map(|webhook| Arc::new(Caller::new(webhook, Arc::new(|_| Err("no".to_owned())), figures.clone())));
        let converter = Arc::new(Converter::new(&served, conversion.clone(), caller, PREFIX));
        let (told, given_up) = watch::channel(GivenUp::Nothing);
        let limits = RingLimits { events_max: ring, bytes_max: usize::MAX, window_ms: 0 };
        let metrics = Arc::new(figures.resource("ex.io", "things"));
        let fed = Arc::new(Fed::default());
        let (main, main_handle, source) =
            cacher(served.storage.clone(), limits, GroupLimits::default(), fed.clone(), given_up.clone(), metrics.clone());
        let (own, handle, inbox) =
            cacher(conversion.shown.clone(), limits, GroupLimits::default(), Arc::new(fed.beside()), given_up, metrics);
        tokio::spawn(main.run());
        tokio::spawn(own.run());
        let runtime = tokio::runtime::Handle::current();
        let kept = KeptVersions::new(told.subscribe());
        let view = View::follow(&runtime, main_handle.published.clone(), converter.clone(), (handle, inbox), kept);
        Self {
            hook,
            metrics: figures,
            storage: served.storage.clone(),
            source,
            epoch: 0,
            converter,
            view,
            _server: server,
            _given_up: told,
        }
    }

    fn object(&self, name: &str, revision: u64) -> Arc<Object> {
        let value = format!(
            r#"{{"apiVersion":"ex.io/v1","kind":"Thing","metadata":{{"name":"{name}","uid":"{name}"}},"spec":{{"a":"{revision}"}}}}"#
        );
        Arc::new(
            ingest(&self.storage, "/registry/ex.io/things/".len(), key(name), value.as_bytes(), Revision(revision)).expect("an object"),
        )
    }

    fn load(&mut self, count: usize, revision: u64) {
        self.epoch += 1;
        let objects = (0..count).map(|nth| self.object(&format!("o{nth:04}"), 1)).collect();
        let (epoch, revision) = (Epoch(self.epoch), Revision(revision));
        self.source.hand(vec![Feed::Reset { epoch, revision, ready_at: revision, objects, broken: Vec::new() }]).expect("a cacher");
        self.source.fed().advance(revision);
    }

    fn put(&self, name: &str, revision: u64) {
        self.change(Change::Put(self.object(name, revision)), revision);
    }

    fn change(&self, change: Change, revision: u64) {
        self.source.hand(vec![Feed::Batch(Batch { revision: Revision(revision), changes: vec![change] })]).expect("a cacher");
        self.source.fed().advance(Revision(revision));
    }

    async fn reaches(&self, revision: u64) -> Known {
        let waited = self.view.published.wait_for(Revision(revision), WAIT).await;
        waited.unwrap_or_else(|known| panic!("it is at {}, {:?}", known.revision, *self.view.standing.borrow()))
    }

    async fn stands(&self, wanted: impl Fn(&Standing) -> bool) {
        let mut standing = self.view.standing.clone();
        timeout(WAIT, standing.wait_for(|standing| wanted(standing))).await.expect("in time").expect("it is followed");
    }
}

fn base64_of(text: &str) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    BASE64_STANDARD.encode(text)
}

fn key(name: &str) -> Bytes {
    format!("/registry/ex.io/things/{name}").into()
}

fn shown(known: &Known, name: &str) -> String {
    let object = known.snapshot.store.find(&key(name)).expect("it is there");
    String::from_utf8_lossy(object.own_tail()).split_once("\"spec\":").expect("a spec").1.to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_object_and_event_is_converted_once_in_order() {
    let mut stage = Stage::new(1_000).await;
    stage.load(250, 5);
    sleep(Duration::from_millis(50)).await;
    assert_eq!(stage.hook.count(), (0, 0), "nobody has asked for it");
    stage.view.awaken(WAIT).await;
    let known = stage.reaches(5).await;
    assert_eq!((known.snapshot.store.len(), shown(&known, "o0007")), (250, r#"{"b":"1"}}"#.to_owned()));
    assert_eq!(stage.hook.count(), (3, 250));
    for revision in 6..=20 {
        stage.put("o0001", revision);
    }
    stage.change(Change::Delete(key("o0002")), 21);
    let known = stage.reaches(21).await;
    assert_eq!(stage.hook.count().1, 265, "a deletion shows what was converted last");
    let seen: Vec<u64> = (0..known.snapshot.ring.len()).filter_map(|at| known.snapshot.ring.at(at)).map(|event| event.revision.0).collect();
    assert_eq!(seen, (6..=21).collect::<Vec<_>>());
    let gone = known.snapshot.ring.at(15).and_then(|event| event.old.clone()).expect("what is gone");
    assert!(String::from_utf8_lossy(gone.own_tail()).contains(r#""spec":{"b":"1"}"#));
    assert!(stage.view.find(&key("o0001"), Revision(20)).is_some() && stage.view.find(&key("o0001"), Revision(19)).is_none());
    // Nothing is written: the version is as new as its resource.
    stage.source.fed().advance(Revision(30));
    stage.reaches(30).await;
    assert_eq!(stage.hook.count().1, 265);
}

/// Others need the room; nobody watches it, and nobody has asked for it in a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_gives_way_is_made_again_for_who_asks() {
    let mut stage = Stage::new(1_000).await;
    stage.load(3, 5);
    stage.view.awaken(WAIT).await;
    stage.stands(|standing| *standing == Standing::Live).await;
    stage.view.asked.evicted.notify_one();
    stage.put("o0001", 6);
    stage.reaches(6).await;
    assert!(stage.view.is_live(), "who has just asked for it may come back");
    let reading = stage.view.awaken(WAIT).await;
    *stage.view.asked.last.lock() -= Duration::from_secs(60);
    stage.view.asked.evicted.notify_one();
    stage.put("o0001", 7);
    stage.reaches(7).await;
    assert!(stage.view.is_live(), "it stays for a reader however long that takes");
    drop(reading);
    stage.view.asked.evicted.notify_one();
    stage.stands(|standing| *standing == Standing::Asleep).await;
    stage.view.awaken(WAIT).await;
    assert_eq!(stage.reaches(7).await.snapshot.store.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_fails_for_a_moment_loses_nothing() {
    let mut stage = Stage::new(1_000).await;
    stage.load(2, 5);
    stage.view.awaken(WAIT).await;
    let life = stage.reaches(5).await.snapshot.epoch;
    stage.hook.set(REFUSES);
    stage.put("o0001", 6);
    stage.put("o0000", 7);
    stage.stands(|standing| *standing == Standing::Late).await;
    let known = stage.view.published.known();
    assert_eq!((known.revision, shown(&known, "o0001"), known.is_ready()), (Revision(5), r#"{"b":"1"}}"#.to_owned(), true));
    stage.hook.set(GOOD);
    let known = stage.reaches(7).await;
    assert_eq!((known.snapshot.epoch, known.snapshot.ring.len(), shown(&known, "o0001")), (life, 2, r#"{"b":"6"}}"#.to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_whose_webhook_fails_is_not_ready_until_it_answers() {
    let mut stage = Stage::new(1_000).await;
    stage.hook.set(REFUSES);
    stage.load(3, 5);
    stage.view.awaken(WAIT).await;
    let why = stage.view.failure().expect("it fails");
    assert_eq!(&*why, "conversion webhook for ex.io/v1, Kind=Thing failed: no");
    assert!(!stage.view.published.known().is_ready());
    stage.hook.set(GOOD);
    assert_eq!(stage.reaches(5).await.snapshot.store.len(), 3);
    assert_eq!(stage.view.failure(), None);
}

/// A webhook may know requests of kube-apiserver alone, which have one object each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_answered_by_half_is_asked_one_by_one() {
    let mut stage = Stage::new(1_000).await;
    stage.hook.set(HALF);
    stage.load(3, 5);
    stage.view.awaken(WAIT).await;
    let known = stage.reaches(5).await;
    assert_eq!((known.snapshot.store.len(), shown(&known, "o0002")), (3, r#"{"b":"1"}}"#.to_owned()));
    assert_eq!(stage.hook.count(), (4, 6));
    let told = String::from_utf8(stage.metrics.render()).expect("text");
    let partial =
        r#"apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_partial_response_failure",result="failure"} 1"#;
    assert!(told.contains(partial) && told.contains(r#"{failure_type="",result="success"} 3"#), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_ring_has_forgotten_is_loaded_with_what_was_converted() {
    let mut stage = Stage::new(4).await;
    stage.load(50, 5);
    stage.view.awaken(WAIT).await;
    let life = stage.reaches(5).await.snapshot.epoch;
    stage.hook.set(REFUSES);
    stage.put("o0001", 6);
    stage.stands(|standing| *standing == Standing::Late).await;
    // More than are kept whatever their age.
    (7..=2_000).for_each(|revision| stage.put("o0002", revision));
    stage.source.fed().advance(Revision(2_000));
    let before = stage.hook.count().1;
    stage.hook.set(GOOD);
    let known = stage.reaches(2_000).await;
    assert_eq!((known.snapshot.store.len(), shown(&known, "o0002")), (50, r#"{"b":"2000"}}"#.to_owned()));
    if known.snapshot.epoch != life {
        assert!(stage.hook.count().1 - before < 50, "only what has changed was converted again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_that_went_back_takes_its_version_with_it() {
    let mut stage = Stage::new(1_000).await;
    stage.load(3, 50);
    stage.view.awaken(WAIT).await;
    stage.reaches(50).await;
    // etcd was restored: what the resource has is of another life.
    stage.source.void_before(Epoch(2));
    stage.stands(|standing| *standing == Standing::Loading).await;
    assert!(!stage.view.published.known().is_ready());
    stage.source.fed().rewind(Revision(20), Revision(50));
    stage.epoch = 1;
    stage.load(2, 20);
    let known = stage
        .view
        .published
        .wait_until(|known| known.is_ready() && known.snapshot.store.len() == 2, WAIT)
        .await
        .ok()
        .expect("it comes back");
    assert_eq!((known.revision, known.lost), (Revision(20), Revision(50)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_hangs_holds_so_many_requests_and_no_more() {
    let stage = Stage::new(1_000).await;
    stage.hook.set(HANGS);
    let object = stage.object("o", 5);
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..=WAITING_MAX {
        let (converter, object) = (stage.converter.clone(), object.clone());
        waiting.spawn(async move { converter.objects(&[object]).await.map(drop) });
    }
    let first = timeout(WAIT, waiting.join_next()).await.expect("one of them need not wait").expect("a task").expect("it ends");
    assert_eq!(first, Err(ConversionError::Busy("things.ex.io".to_owned())));
    assert!(stage.hook.count().0 <= CALLS_AT_ONCE);
    waiting.shutdown().await;
    stage.hook.set(GOOD);
    let made = stage.converter.objects(&[object]).await.expect("it answers again");
    assert_eq!((made.len(), made[0].revision), (1, Revision(5)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_an_end_is_given_up() {
    let stage = Stage::new(1_000).await;
    stage.hook.set(HAS_NO_END);
    let told = stage.converter.objects(&[stage.object("o", 5)]).await.map(drop).expect_err("it is too long").to_string();
    assert!(
        told.contains("failed: Post \"https://localhost:") && told.ends_with(&format!("the answer has more than {ANSWER_BYTES_MAX} bytes")),
        "{told}"
    );
}
