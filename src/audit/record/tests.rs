//! Records of requests, and the events that are made of them. The lines were recorded from kube-apiserver 1.36.3.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{Audit, Counters, Policy};

fn audit(rules: Value) -> Audit {
    let document = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules});
    Audit::new(Policy::read(&document).expect("a policy").0, Vec::new(), Counters::of_a_test())
}

fn jane() -> Arc<User> {
    let groups = ["dev", "ops", "system:authenticated"].map(str::to_owned).to_vec();
    Arc::new(User { name: "jane".to_owned(), uid: "2".to_owned(), groups, ..User::default() })
}

fn meta() -> RequestMeta {
    RequestMeta {
        id: "play-11".to_owned(),
        uri: "/api/v1/namespaces/default/configmaps/c1?a=<b>".to_owned(),
        user_agent: "curl/7.88.1".to_owned(),
        source_ips: vec!["127.0.0.1".to_owned()],
        received: UNIX_EPOCH + Duration::from_nanos(1_795_370_783_140_269_120),
    }
}

fn info(verb: &str, name: &str) -> RequestInfo {
    RequestInfo {
        verb: verb.to_owned(),
        is_resource: true,
        version: "v1".to_owned(),
        namespace: "default".to_owned(),
        resource: "configmaps".to_owned(),
        name: name.to_owned(),
        ..RequestInfo::default()
    }
}

fn record(level: &str) -> Arc<Record> {
    audit(json!([{"level": level}])).begin(Some(&jane()), &info("get", "c1"), meta()).expect("a level")
}

fn told(record: &Record) -> String {
    let mut out = Vec::new();
    record.event().json_into(true, &mut out);
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn an_event_is_as_kube_apiserver_writes_it() {
    let record = record("RequestResponse");
    let head = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"play-11","stage":"RequestReceived","requestURI":"/api/v1/namespaces/default/configmaps/c1?a=\u003cb\u003e","verb":"get","user":{"username":"jane","uid":"2","groups":["dev","ops","system:authenticated"]},"#;
    let middle = r#""sourceIPs":["127.0.0.1"],"userAgent":"curl/7.88.1","objectRef":{"resource":"configmaps","namespace":"default","name":"c1","apiVersion":"v1"},"#;
    let times = r#""requestReceivedTimestamp":"2026-11-22T18:06:23.140269Z","stageTimestamp":"2026-11-22T18:06:23.140269Z""#;
    assert_eq!(told(&record), format!("{head}{middle}{times}}}"));
    let bob = Arc::new(User {
        name: "bob".to_owned(),
        extra: vec![("b".to_owned(), vec!["1".to_owned()]), ("a".to_owned(), Vec::new())],
        ..User::default()
    });
    record.impersonated(&bob, Some("impersonate:user-info"));
    record.annotate("authorization.k8s.io/reason", "");
    record.annotate("authorization.k8s.io/decision", "forbid");
    record.annotate("authorization.k8s.io/decision", "allow");
    let status = r#""metadata":{},"status":"Failure","message":"no","reason":"Forbidden","details":{},"code":403}"#;
    record.answered(format!("{{\"kind\":\"Status\",\"apiVersion\":\"v1\",{status}\n").as_bytes());
    record.code(403);
    let acting = r#""impersonatedUser":{"username":"bob","extra":{"a":[],"b":["1"]}},"authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"#;
    let answer = format!(r#""responseStatus":{{{status},"responseObject":{{"kind":"Status","apiVersion":"v1",{status},"#);
    let notes = r#","annotations":{"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":""}}"#;
    assert_eq!(told(&record), format!("{head}{acting}{middle}{answer}{times}{notes}"));
}

#[test]
fn nobody_is_an_empty_user() {
    let record =
        audit(json!([{"level": "Metadata"}])).begin(None, &RequestInfo { verb: "get".to_owned(), ..RequestInfo::default() }, meta());
    let text = told(&record.expect("a level"));
    assert!(text.contains(r#""user":{},"sourceIPs""#) && !text.contains("objectRef"), "{text}");
}

#[test]
fn text_is_one_line() {
    let record = record("Metadata");
    let line = |record: &Record| record.event().line();
    assert_eq!(
        line(&record),
        r#"2026-11-22T18:06:23.14026912Z AUDIT: id="play-11" stage="RequestReceived" ip="127.0.0.1" method="get" user="jane" groups="\"dev\",\"ops\",\"system:authenticated\"" as="<self>" asgroups="<lookup>" user-agent="curl/7.88.1" namespace="default" uri="/api/v1/namespaces/default/configmaps/c1?a=<b>" response="<deferred>""#
    );
    record.code(200);
    assert!(line(&record).ends_with(r#" response="200""#));
}

/// Secrets are told only where the policy says so.
#[test]
fn objects_are_told_from_their_level_on() {
    let secret = json!({"metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "7"}, "data": {"a": "hidden"}});
    for (level, request, response) in [("Metadata", false, false), ("Request", true, false), ("RequestResponse", true, true)] {
        let record =
            audit(json!([{"level": level}])).begin(Some(&jane()), &RequestInfo { name: String::new(), ..info("create", "") }, meta());
        let record = record.expect("a level");
        record.requested(&secret, |object| object.to_string().into_bytes());
        record.answered(br#"{"kind":"Secret","data":{"a":"shown"}}"#);
        let text = told(&record);
        assert_eq!((text.contains("hidden"), text.contains("shown")), (request, response), "{level}");
        // What the path does not say is taken from the object at any level.
        assert!(text.contains(r#""namespace":"default","name":"s","uid":"u","apiVersion":"v1","resourceVersion":"7""#), "{text}");
        record.requested_text(b"{\"patch\" : 1}");
        assert_eq!(told(&record).contains(r#""requestObject":{"patch":1}"#), request, "{level}");
    }
}

#[test]
fn what_is_too_large_or_no_json_is_left_out() {
    let record = record("RequestResponse");
    record.requested_text(b"{nojson");
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(OBJECT_BYTES_MAX));
    record.answered(large.as_bytes());
    let text = told(&record);
    assert!(!text.contains("Object\""), "{}", text.len());
    assert!(text.contains(r#""annotations":{"audit.k8s.io/truncated":"true"}"#), "{}", text.len());
}

/// 600 requests of a log whose disk stood still had 16 MiB each.
#[tokio::test]
async fn objects_are_counted_until_all_is_told() {
    let record = record("RequestResponse");
    let held = Arc::<AtomicUsize>::default();
    let counted = held.clone();
    record.count_with(Box::new(move |bytes| {
        counted.fetch_add(bytes, Ordering::Relaxed);
        Box::new(Given(counted.clone(), bytes))
    }));
    let now = || held.load(Ordering::Relaxed);
    for _ in 0..2 {
        record.requested(&json!({"metadata": {}}), |object| object.to_string().into_bytes());
        assert_eq!(now(), 15, "once, however often it is noted");
    }
    record.answered(b"{\"kind\":\"Pod\"}\n");
    assert_eq!(now(), 29);
    record.answered_counted(b"{}\n".to_vec(), Some(Box::new(())));
    assert_eq!((now(), told(&record).contains(r#""responseObject":{}"#)), (15, true));
    assert!(record.emit(Stage::ResponseStarted).await && now() == 15);
    assert!(record.emit(Stage::ResponseComplete).await && now() == 0);
    assert!(!told(&record).contains("Object\""), "nothing is kept of them");
}

/// Takes what was counted back.
struct Given(Arc<AtomicUsize>, usize);

impl Drop for Given {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// What room is asked for is enough, or the queue would have more than its limit.
#[test]
fn an_event_is_no_larger_than_was_foretold() {
    for text in ["", "a", "\u{1b}\"<&", "\u{2028}\u{10ffff}"] {
        let text = text.repeat(500);
        let user = Arc::new(User {
            name: text.clone(),
            uid: text.clone(),
            groups: vec![text.clone(); 9],
            extra: vec![(text.clone(), vec![text.clone(); 9])],
        });
        let meta = RequestMeta { uri: text.clone(), user_agent: text.clone(), source_ips: vec![text.clone(); 9], ..meta() };
        let record = audit(json!([{"level": "RequestResponse"}])).begin(Some(&user), &info("get", &text), meta).expect("a level");
        record.impersonated(&user, Some("impersonate:user-info"));
        record.annotate("a", text.clone());
        record.annotate_end("b", &text);
        record.refused(&text);
        record.requested(&json!({"a": text}), |object| object.to_string().into_bytes());
        record.answered(json!({"a": text}).to_string().as_bytes());
        let bytes_max = record.staged(Stage::ResponseComplete).expect("it is told");
        let event = record.event();
        let mut json = Vec::new();
        event.json_into(true, &mut json);
        assert!(json.len() <= bytes_max && event.line().len() <= bytes_max, "{} {} {bytes_max}", json.len(), event.line().len());
    }
}

#[test]
fn managed_fields_are_left_out_where_the_policy_says_so() {
    let record = audit(json!([{"level": "RequestResponse", "omitManagedFields": true}])).begin(Some(&jane()), &info("get", "c1"), meta());
    let record = record.expect("a level");
    record.requested(&json!({"metadata": {"name": "a", "managedFields": [1]}}), |object| object.to_string().into_bytes());
    record.answered(br#"{"metadata":{"name":"a","managedFields":[1]}}"#);
    let text = told(&record);
    assert!(text.contains(r#""requestObject":{"metadata":{"name":"a"}},"responseObject":{"metadata":{"name":"a"}}"#), "{text}");
}

#[test]
fn a_panic_and_an_early_end_are_told() {
    let status = |record: &Record| {
        let text = told(record);
        let (_, rest) = text.split_once("\"responseStatus\":").expect("a status");
        rest.split_once(",\"request").expect("times").0.to_owned()
    };
    let fallen = record("Metadata");
    fallen.panicked("\"why\"");
    assert_eq!(
        status(&fallen),
        r#"{"metadata":{},"status":"Failure","message":"APIServer panic'd: \"why\"","reason":"InternalError","code":500}"#
    );
    let refused = record("Metadata");
    refused.refused("why");
    refused.code(401);
    assert_eq!(status(&refused), r#"{"metadata":{},"message":"why","code":401}"#);
    refused.answered(br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","code":401}"#);
    refused.code(401);
    assert_eq!(status(&refused), r#"{"metadata":{},"status":"Failure","message":"Unauthorized","code":401}"#);
    let gone = record("Metadata");
    gone.closed_early();
    assert_eq!(status(&gone), r#"{"metadata":{},"status":"Success","message":"Connection closed early","code":200}"#);
    let answered = record("Metadata");
    answered.code(201);
    answered.closed_early();
    assert_eq!(status(&answered), r#"{"metadata":{},"code":201}"#);
}

#[tokio::test]
async fn stages_are_counted_and_some_omitted() {
    let audit = audit(json!([{"level": "Metadata", "omitStages": ["RequestReceived"]}]));
    let record = audit.begin(Some(&jane()), &info("get", "c1"), meta()).expect("a level");
    record.annotate_end("k8s.io/deprecated", "true");
    assert!(record.emit(Stage::RequestReceived).await);
    let events = || audit.backends.counters.events.get();
    assert_eq!(events(), 0);
    assert!(record.emit(Stage::ResponseStarted).await && !told(&record).contains("deprecated"));
    assert!(record.emit(Stage::ResponseComplete).await && told(&record).contains("\"k8s.io/deprecated\":\"true\""));
    assert_eq!(events(), 2);
    assert_eq!(audit.backends.counters.levels.with_label_values(&["Metadata"]).get(), 1);
}

#[test]
fn long_agents_are_cut() {
    let agent = format!("{}é", "a".repeat(1023));
    let record = audit(json!([{"level": "Metadata"}])).begin(None, &info("get", ""), RequestMeta { user_agent: agent, ..meta() });
    let text = told(&record.expect("a level"));
    assert!(text.contains(&format!("\"{}...TRUNCATED\"", "a".repeat(1023))), "{text}");
}
