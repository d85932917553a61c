//! The reflector against a server that answers as it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{Namespaces, Phase, Unknown};
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
    let namespaces = Namespaces::new(Login::read("--kubeconfig", &file).expect("a kubeconfig")).expect("a client");
    tokio::select! {
        () = namespaces.follow() => unreachable!("it follows for ever"),
        done = timeout(Duration::from_secs(20), work(&namespaces)) => done.expect("in time"),
    }
}

async fn until(namespaces: &Namespaces, name: &str, expected: Option<Phase>) {
    while namespaces.phase(name, "jane".into()).await != Ok(expected) {
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
        assert_eq!(namespaces.phase("a", "jane".into()).await, Ok(Some(Phase::Terminating)));
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
        assert_eq!(namespaces.phase("new", "jane".into()).await, Ok(Some(Phase::Active)));
        assert_eq!(namespaces.phase("leaving", "jane".into()).await, Ok(Some(Phase::Terminating)));
        assert_eq!(namespaces.phase("none", "jane".into()).await, Ok(None));
        assert_eq!(namespaces.phase("forbidden", "jane".into()).await, Err(Unknown::NoAnswer("not for you".to_owned())));
        assert_eq!(namespaces.phase("No/Name?x=y", "jane".into()).await, Ok(None), "what no namespace is called is in no URL");
    })
    .await;
    assert_eq!(asked(&server, "x=y"), 0);
}

/// One user's writes into namespaces that do not exist took all turns: those of others into new ones were 500.
#[tokio::test]
async fn who_makes_names_up_leaves_room_for_others() {
    let server = Server::start(|asked| match (asked.uri.path(), asked.uri.query()) {
        (path, None) if path.contains("/hang-") => Reaction::Hang,
        ("/api/v1/namespaces/new", None) => Reaction::json(&namespace("new", "9", "Active")),
        (_, Some(query)) if query.contains("watch") => Reaction::Hang,
        _ => list(&[], "7", ""),
    })
    .await;
    following(&server, async |namespaces| {
        let greedy =
            (0..400).map(|nth| namespaces.phase(if nth < 100 { "hang-all" } else { ["hang-a", "hang-b"][nth % 2] }, "greedy".into()));
        let (mut greedy, honest) = (join_all(greedy), async {
            while asked(&server, "/hang-") < 3 {
                sleep(Duration::from_millis(5)).await;
            }
            timeout(Duration::from_secs(2), namespaces.phase("new", "jane".into())).await
        });
        let said = tokio::select! {
            said = honest => said,
            _ = &mut greedy => unreachable!("they hang"),
        };
        assert_eq!(said, Ok(Ok(Some(Phase::Active))));
    })
    .await;
    assert_eq!(asked(&server, "/hang-all"), 1, "once for all who wait");
}

#[tokio::test]
async fn too_many_questions_of_one_user_are_told_as_that() {
    let server = Server::start(|asked| match asked.uri.query() {
        None => Reaction::Hang,
        Some(query) if query.contains("watch") => Reaction::Hang,
        Some(_) => list(&[], "7", ""),
    })
    .await;
    following(&server, async |namespaces| {
        let names: Vec<String> = (0..200).map(|nth| format!("hang-{nth}")).collect();
        let mut all: FuturesUnordered<_> = names.iter().map(|name| namespaces.phase(name, "greedy".into())).collect();
        let first = all.next().await.expect("there are some");
        assert!(matches!(first, Err(Unknown::TooMany(_))), "{first:?}");
    })
    .await;
    assert!(asked(&server, "/hang-") <= 8, "eight at once");
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
        assert_eq!(namespaces.phase("a", "jane".into()).await, Ok(Some(Phase::Active)));
        while watches.load(Ordering::Relaxed) < 6 || namespaces.wrong().is_some() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(asked(&server, "limit=500"), 6);
}
