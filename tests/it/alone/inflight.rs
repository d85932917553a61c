//! How many requests are under way at once (`--max-requests-inflight`), and how many watches are open (`--watches-bytes-limit`): a user who has too many gets
//! 429, the others do not.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Failure, Outcome, asked, secure::start};
use crate::live::{free_address, peers::Site};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Together more than sockets and the server's buffers hold.
const OBJECTS: usize = 12;
const BYTES: usize = 900_000;

/// How long a place may take to be free again.
const PATIENCE: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_takes_its_own_share_only() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let flags = ["--max-requests-inflight=8", "--authorization-mode=AlwaysAllow", "--request-timeout=1h"];
    let server = start(dir.path(), &site, listener, &flags).await?;
    let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
    for nth in 0..OBJECTS {
        let map = json!({"metadata": {"name": format!("m{nth}")}, "data": {"text": "x".repeat(BYTES)}});
        asked(&admin, ("POST", MAPS), Some(&map), 201).await?;
    }
    let mut unread = Vec::new();
    for nth in 0..7 {
        unread.push(jane.watch(MAPS).await?.map_err(|answer| format!("list {nth}: {}", answer.status))?);
    }
    let refused = jane.whole("GET", "/version", &[], b"").await?;
    assert_eq!((refused.status, refused.header("retry-after").collect()), (429, vec!["1"]));
    assert_eq!(refused.body, b"Too many requests, please try again later.\n");
    // Writes have places of their own, and others find the last one, also for a watch, which gives it back.
    let map = json!({"metadata": {"name": "small"}});
    asked(&jane, ("POST", MAPS), Some(&map), 201).await?;
    let bob = [("Impersonate-User".to_owned(), "bob".to_owned())];
    for _ in 0..3 {
        assert_eq!(admin.whole("GET", &format!("{MAPS}/small"), &bob, b"").await?.status, 200);
        assert_eq!(admin.whole("GET", &format!("{MAPS}?watch=1&timeoutSeconds=1"), &bob, b"").await?.status, 200);
    }
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(admin.watch(MAPS).await?.map_err(|answer| format!("an administrator is refused: {}", answer.status))?);
    }
    assert_eq!(jane.whole("GET", "/readyz", &[], b"").await?.status, 200);
    let metrics = String::from_utf8(server.client().fetch("/metrics").await?.body.to_vec())?;
    assert!(!metrics.contains("apiserver_request_terminations_total{code=\"429\""), "/version is no resource");
    assert_eq!(jane.whole("GET", &format!("{MAPS}/small"), &[], b"").await?.status, 429);
    let metrics = String::from_utf8(server.client().fetch("/metrics").await?.body.to_vec())?;
    assert!(metrics.contains("apiserver_request_terminations_total{code=\"429\""), "a refused GET is counted");
    // When a client leaves, its places are free.
    drop(unread);
    let began = Instant::now();
    while jane.whole("GET", "/version", &[], b"").await?.status != 200 {
        if began.elapsed() > PATIENCE {
            return Err(Failure::from("the places stay taken"));
        }
        sleep(Duration::from_millis(20)).await;
    }
    server.kill()?;
    Ok(())
}

/// 102 watches; one user has at most 68 of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_leave_room_for_others() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &["--watches-bytes-limit=1Mi", "--authorization-mode=AlwaysAllow"]).await?;
    let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
    let watch = format!("{MAPS}?watch=1");
    let mut open = Vec::new();
    let refused = loop {
        match jane.watch(&watch).await? {
            Ok(watch) => open.push(watch),
            Err(answer) => break answer,
        }
        assert!(open.len() < 102, "watches have no end");
    };
    assert_eq!((refused.status, open.len()), (429, 68));
    let again = jane.whole("GET", &watch, &[], b"").await?;
    assert_eq!((again.status, again.header("retry-after").collect()), (429, vec!["1"]));
    assert_eq!(again.body, b"Too many requests, please try again later.\n");
    assert_eq!(jane.whole("GET", MAPS, &[], b"").await?.status, 200, "lists are no watches");
    let bob = [("Impersonate-User".to_owned(), "bob".to_owned())];
    assert_eq!(admin.whole("GET", &format!("{watch}&timeoutSeconds=1"), &bob, b"").await?.status, 200);
    let others = futures_util::future::try_join_all((0..60).map(|_| admin.watch(&watch))).await?;
    assert!(others.iter().all(Result::is_ok), "an administrator is refused");
    drop((others, open));
    let began = Instant::now();
    while jane.whole("GET", &format!("{watch}&timeoutSeconds=1"), &[], b"").await?.status != 200 {
        if began.elapsed() > PATIENCE {
            return Err(Failure::from("what was counted stays counted"));
        }
        sleep(Duration::from_millis(20)).await;
    }
    server.kill()?;
    Ok(())
}
