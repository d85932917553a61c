//! How many requests are under way at once (`--max-requests-inflight`): a user who leaves answers unread gets 429 in the end, the others do not.

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
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_takes_its_own_share_only() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &["--max-requests-inflight=8", "--authorization-mode=AlwaysAllow"]).await?;
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
