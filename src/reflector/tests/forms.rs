//! Protobuf as long as all of it is known, then JSON; and few connections for many resources.

use super::*;
use crate::lines::Form;
use crate::place::Place;
use codec::proto::{envelope_into, field_into, message};

/// A frame of a watch in protobuf; the message has more at its end.
fn frame(kind: &str, json: &str, more: &[u8]) -> Bytes {
    let mut raw = message("v1", "ConfigMap").expect("a message").from_json(json.as_bytes()).expect("an object");
    raw.extend_from_slice(more);
    let (mut object, mut extension, mut event) = (Vec::new(), Vec::new(), Vec::new());
    envelope_into("v1", "ConfigMap", &raw, &mut object);
    field_into(1, &object, &mut extension);
    field_into(1, kind.as_bytes(), &mut event);
    field_into(2, &extension, &mut event);
    let length = u32::try_from(event.len()).expect("a short one");
    [&length.to_be_bytes()[..], &event].concat().into()
}

fn in_protobuf(frames: &[Bytes]) -> Reaction {
    Reaction::Answer(200, "application/vnd.kubernetes.protobuf;stream=watch", frames.concat().into())
}

fn takes_protobuf(asked: &ReceivedRequest) -> bool {
    asked.headers["accept"].to_str().is_ok_and(|accept| accept.contains("protobuf"))
}

/// The load and the events before what is not known count on.
#[tokio::test]
async fn what_is_not_known_is_asked_for_as_json() {
    let unknown = [0xfa, 0x3f, 0x01, b'x'];
    let bench = Bench::before(move |asked| match (asked.uri.query().unwrap_or(""), takes_protobuf(asked)) {
        (query, true) if query.contains("sendInitialEvents") => in_protobuf(&[
            frame("ADDED", &object("a", 3), b""),
            frame("BOOKMARK", r#"{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}"#, b""),
            frame("MODIFIED", &object("b", 8), b""),
            frame("MODIFIED", &object("c", 9), &unknown),
        ]),
        (query, false) if query.contains("watch=true") && query.ends_with("resourceVersion=8") => open(&[put("c", 9), put("d", 12)]),
        ("limit=1", _) => at_revision(20),
        _ => Reaction::Answer(400, "application/json", Bytes::new()),
    })
    .await;
    bench.has("12: a@3 b@8 c@9 d@12").await;
    let loads = bench.asked().iter().filter(|query| query.contains("sendInitialEvents")).count();
    assert_eq!(loads, 1, "nothing is loaded anew");
}

/// A load that has what is not known begins anew, in JSON.
#[tokio::test]
async fn a_load_of_what_is_not_known_is_json() {
    let bench = Bench::before(move |asked| match (asked.uri.query().unwrap_or(""), takes_protobuf(asked)) {
        (query, true) if query.contains("sendInitialEvents") => in_protobuf(&[frame("ADDED", &object("a", 3), &[0xfa, 0x3f, 0x01, b'x'])]),
        (query, false) if query.contains("sendInitialEvents") => open(&[put("a", 3), end(7)]),
        _ => Reaction::Hang,
    })
    .await;
    bench.has("7: a@3").await;
}

/// Half a frame, and one that says that it is longer than any object, are no events.
#[tokio::test]
async fn broken_frames_are_no_events() {
    let whole = frame("MODIFIED", &object("x", 20), b"");
    let half = whole.slice(..whole.len() - 3);
    for broken in [half, Bytes::from_static(b"\xff\xff\xff\xff\x0a\x05ADDED"), Bytes::from_static(b"<html>sign in</html>")] {
        let watches = AtomicUsize::new(0);
        let bench = Bench::before(move |asked| match asked.uri.query().unwrap_or("") {
            query if query.contains("sendInitialEvents") => ended(&[put("a", 3), end(7)]),
            "limit=1" => at_revision(40),
            query if query.contains("Exact") => Reaction::Answer(400, "application/json", Bytes::new()),
            _ => match watches.fetch_add(1, Ordering::Relaxed) {
                0 => in_protobuf(std::slice::from_ref(&broken)),
                _ => open(&[put("b", 40)]),
            },
        })
        .await;
        bench.has("40: a@3 b@40").await;
    }
}

/// The watches of many resources share a connection.
#[tokio::test]
async fn many_resources_are_followed_over_few_connections() {
    let server = Server::start(|_| open(&[put("a", 3)])).await;
    let trust = Trust::from_pem(server.ca_pem().as_bytes()).expect("an authority");
    let source = Source::new(Login::of(Kubeconfig::of_server(&server.url(), trust).expect("a server")), "/registry/").expect("a client");
    let mut open = Vec::new();
    for number in 0..50 {
        let storage = Storage { resource: format!("maps{number}"), ..Storage::test_config_maps() };
        let mut lines = source.watch(&Place::of(&Arc::new(storage), "/registry/"), "resourceVersion=1").await.expect("a watch");
        assert!(lines.form() == Form::Json && lines.next().await.expect("it goes on").is_some());
        open.push(lines);
    }
    assert_eq!((server.connections(), server.asked().len()), (1, 50));
}
