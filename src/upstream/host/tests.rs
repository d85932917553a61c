//! The reflector against a server that answers as it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{Namespaces, Phase};
use client::Kubeconfig;
use client::testing::{Reaction, Server};

fn namespace(name: &str, revision: &str, phase: &str) -> Value {
    json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": revision}, "status": {"phase": phase}})
}

fn list(items: &[Value], revision: &str, next: &str) -> Reaction {
    Reaction::json(
        &json!({"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": revision, "continue": next}, "items": items}),
    )
}

fn events(events: &[(&str, Value)]) -> Reaction {
    let line = |(kind, object): &(&str, Value)| json!({"type": kind, "object": object}).to_string() + "\n";
    Reaction::Answer(200, "application/json", events.iter().map(line).collect::<String>().into())
}

/// Follows the namespaces of this server while `work` looks at them.
async fn following(server: &Server, work: impl AsyncFnOnce(&Namespaces)) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("host");
    std::fs::write(&file, server.kubeconfig("")).expect("written");
    let namespaces = Namespaces::new(Kubeconfig::read("--kubeconfig", &file).expect("a kubeconfig")).expect("a client");
    tokio::select! {
        () = namespaces.follow() => unreachable!("it follows for ever"),
        done = timeout(Duration::from_secs(20), work(&namespaces)) => done.expect("in time"),
    }
}

async fn until(namespaces: &Namespaces, name: &str, expected: Option<Phase>) {
    while namespaces.phase(name).await != Ok(expected) {
        sleep(Duration::from_millis(5)).await;
    }
}

fn asked(server: &Server, what: &str) -> usize {
    server.asked().iter().filter(|asked| asked.uri.to_string().contains(what)).count()
}

#[tokio::test]
async fn all_pages_are_listed_and_then_watched() {
    let watches = Arc::<AtomicUsize>::default();
    let server = Server::start(move |asked| match asked.uri.query() {
        Some(query) if query.contains("watch=true") => {
            match (watches.fetch_add(1, Ordering::Relaxed), query.rsplit_once('=').map(|(_, from)| from)) {
                (0, Some("7")) => events(&[("MODIFIED", namespace("a", "8", "Terminating")), ("ADDED", namespace("c", "9", "Active"))]),
                (1, Some("9")) => events(&[("DELETED", namespace("b", "10", "Active")), ("BOOKMARK", namespace("", "12", ""))]),
                (2, Some("12")) => Reaction::Hang,
                other => unreachable!("{other:?}"),
            }
        }
        Some(query) if query.ends_with("&continue=p%2F2") => list(&[namespace("b", "6", "Active")], "7", ""),
        Some(_) => list(&[namespace("a", "5", "Active")], "7", "p/2"),
        None => Reaction::Answer(404, "application/json", "{}".into()),
    })
    .await;
    following(&server, async |namespaces| {
        until(namespaces, "c", Some(Phase::Active)).await;
        until(namespaces, "b", None).await;
        assert_eq!(namespaces.phase("a").await, Ok(Some(Phase::Terminating)));
        assert_eq!(namespaces.wrong(), None);
    })
    .await;
    assert_eq!((asked(&server, "limit=500"), asked(&server, "/namespaces/a")), (2, 0), "what is known is not asked about");
}

#[tokio::test]
async fn what_is_not_known_is_asked_about() {
    let server = Server::start(|asked| match (asked.uri.path(), asked.uri.query()) {
        ("/api/v1/namespaces/new", None) => Reaction::json(&namespace("new", "9", "Active")),
        ("/api/v1/namespaces/leaving", None) => Reaction::json(&namespace("leaving", "9", "Terminating")),
        ("/api/v1/namespaces/forbidden", None) => {
            Reaction::Answer(403, "application/json", json!({"kind": "Status", "message": "not for you"}).to_string().into())
        }
        (_, None) => Reaction::Answer(404, "application/json", json!({"kind": "Status", "message": "no"}).to_string().into()),
        (_, Some(query)) if query.contains("watch") => Reaction::Hang,
        _ => list(&[], "7", ""),
    })
    .await;
    following(&server, async |namespaces| {
        assert_eq!(namespaces.phase("new").await, Ok(Some(Phase::Active)));
        assert_eq!(namespaces.phase("leaving").await, Ok(Some(Phase::Terminating)));
        assert_eq!(namespaces.phase("none").await, Ok(None));
        assert_eq!(namespaces.phase("forbidden").await, Err("not for you".to_owned()));
        assert_eq!(namespaces.phase("No/Name?x=y").await, Ok(None), "what no namespace is called is in no URL");
    })
    .await;
    assert_eq!(asked(&server, "x=y"), 0);
}

/// 410 in the answer's head, as an event, and events that make no sense: all is listed again. What was known counts meanwhile.
#[tokio::test]
async fn who_is_lost_lists_again() {
    let watches = Arc::<AtomicUsize>::default();
    let server = Server::start({
        let watches = watches.clone();
        move |asked| match asked.uri.query() {
            Some(query) if query.contains("watch=true") => match watches.fetch_add(1, Ordering::Relaxed) {
                0 => Reaction::Answer(410, "application/json", json!({"kind": "Status", "message": "too old"}).to_string().into()),
                1 => events(&[("ERROR", json!({"kind": "Status", "code": 410}))]),
                2 => events(&[("ADDED", namespace("x", "1&x", "Active"))]),
                3 => Reaction::Answer(200, "application/json", "no event\n".into()),
                4 => Reaction::Answer(500, "text/plain", "down".into()),
                _ => Reaction::Hang,
            },
            Some(_) => list(&[namespace("a", "5", "Active")], "7", ""),
            None => Reaction::Answer(404, "application/json", "{}".into()),
        }
    })
    .await;
    following(&server, async |namespaces| {
        while watches.load(Ordering::Relaxed) < 5 {
            sleep(Duration::from_millis(5)).await;
        }
        while namespaces.wrong().is_none() {
            sleep(Duration::from_millis(5)).await;
        }
        let (why, was_known) = namespaces.wrong().expect("the host is down");
        assert!(why.contains("an error on the server") && was_known, "{why}");
        assert_eq!(namespaces.phase("a").await, Ok(Some(Phase::Active)));
        while watches.load(Ordering::Relaxed) < 6 || namespaces.wrong().is_some() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(asked(&server, "limit=500"), 6);
}
