//! A server that is fed by a kube-apiserver, without etcd: its answers are newer than any write before them, it goes on while upstream is away, and says so.

mod acting;
mod first;
mod scope;

use std::{env, net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Outcome, free_address,
    gate::{Gate, Network},
    peers::{Running, Site},
    shown,
};
use crate::{alone::asked, client::Client};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How long it may take until memory is known to be old, or follows again: pauses between tries are up to a minute.
const NOTICED: Duration = Duration::from_secs(90);
/// How long upstream's answer about a token counts while it answers.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long a read from memory may take: before it is known that upstream is away, and then.
const AT_FIRST: Duration = Duration::from_secs(4);
const AT_ONCE: Duration = Duration::from_secs(1);
/// Between two looks at what is to happen soon.
const SOON: Duration = Duration::from_millis(100);
/// Writes, each of which is read at once.
const WRITES: usize = 30;

/// A server that is fed by a kube-apiserver through a network that can be cut. They are ended in the order of the fields.
struct Fed {
    _ours: Running,
    _theirs: Running,
    _etcd: Running,
    gate: Gate,
    site: Site,
    ours_at: SocketAddr,
    theirs_at: SocketAddr,
}

impl Fed {
    /// One with these flags more, when it is ready.
    async fn start(flags: impl FnOnce(&Site) -> Vec<String>) -> Result<Self, Box<dyn std::error::Error>> {
        let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS is not set")?;
        let site = Site::prepare(&programs)?;
        let (etcd, etcd_at) = site.etcd()?;
        let (theirs, theirs_at) = site.apiserver("kube-apiserver", etcd_at)?;
        theirs.ready(&site.client(theirs_at)).await?;
        let (gate, ours_at) = (Gate::before(theirs_at).await?, free_address()?);
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
        command.args(["serve", "--insecure-port=0"]).args(site.fed_by(gate.address)?).args(site.listening(ours_at)).args(flags(&site));
        let ours = site.start("watchcache", command)?;
        ours.ready(&site.client(ours_at)).await?;
        Ok(Self { _ours: ours, _theirs: theirs, _etcd: etcd, gate, site, ours_at, theirs_at })
    }
}

async fn create(client: &Client, name: &str) -> Outcome {
    let map = json!({"metadata": {"name": name}});
    asked(client, ("POST", MAPS), Some(&map), 201).await.map_err(|error| error.to_string())?;
    Ok(())
}

/// The names of a list's objects.
async fn names(client: &Client, query: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let list: Value = asked(client, ("GET", &format!("{MAPS}{query}")), None, 200).await.map_err(|error| error.to_string())?;
    Ok(list["items"].as_array().into_iter().flatten().filter_map(|item| Some(item["metadata"]["name"].as_str()?.to_owned())).collect())
}

#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn fed_by_an_api_server() -> Outcome {
    let fed = Fed::start(|_| Vec::new()).await?;
    let Fed { site, gate, ours_at, theirs_at, .. } = &fed;
    let (ours_at, theirs_at) = (*ours_at, *theirs_at);
    let (ours, theirs) = (site.client(ours_at), site.client(theirs_at));

    // Who has no rights upstream has none here, but to read what there is.
    let (jane, started) = (site.client_of(ours_at, "janetoken"), site.client_of(ours_at, "janetoken"));
    assert_eq!(started.fetch("/apis").await?.status, 200);
    let refused = async |client: Client| client.fetch(MAPS).await.map(|answer| answer.status).map_err(|error| format!("refused: {error}"));
    assert_eq!((refused(jane).await?, refused(ours.without_token()).await?), (403, 403));
    assert_eq!(refused(site.client_of(ours_at, "nobodys")).await?, 401);

    // Each read sees the write before it, wherever that was sent.
    for number in 0..WRITES {
        let name = format!("map-{number:03}");
        create(if number % 2 == 0 { &theirs } else { &ours }, &name).await?;
        let query = if number % 3 == 0 { "" } else { "?limit=500" };
        assert!(names(&ours, query).await?.contains(&name), "{name} is missing");
    }
    let forwarded = asked(&ours, ("GET", "/api/v1/secrets"), None, 200).await.map_err(|error| format!("forwarded: {error}"))?;
    assert_eq!(forwarded["kind"], "SecretList");
    let followed = async {
        while names(&ours, "?resourceVersion=0").await? != names(&theirs, "").await? {
            sleep(Duration::from_millis(50)).await;
        }
        Outcome::Ok(())
    };
    timeout(NOTICED, followed).await.map_err(|_| "memory does not have what upstream has")??;
    let target = format!("{MAPS}?watch=1&resourceVersion=0");
    let watch = ours.watch(&target).await.map_err(|error| format!("a watch: {error}"))?;
    let mut watch = watch.map_err(|answer| format!("a watch: {answer:?}"))?;

    scope::changes(&ours, &theirs).await?;
    shown::upstream(&ours, true, true).await?;

    // Upstream is gone: what may be old is answered and told to be old, the rest is not answered as if it were new.
    gate.set(Network::Cut);
    let began = Instant::now();
    loop {
        let answer = ours.whole("GET", &format!("{MAPS}?resourceVersion=0"), &[], b"").await;
        let answer = answer.map_err(|error| format!("without upstream: {error}"))?;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        if answer.header("warning").next().is_some_and(|warning| warning.starts_with("110")) {
            break;
        }
        assert!(began.elapsed() < NOTICED, "nobody is told that memory is old");
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(ours.fetch(MAPS).await?.status, 503);
    shown::upstream(&ours, true, false).await?;
    // Of a token that upstream was not asked about for a while it is asked again, and not waited for.
    sleep(ASKED_AGAIN_AFTER).await;
    for most in [AT_FIRST, AT_ONCE] {
        let began = Instant::now();
        assert_eq!(ours.fetch(&format!("{MAPS}?resourceVersion=0")).await?.status, 200);
        assert!(began.elapsed() < most, "a read from memory took {:?}", began.elapsed());
    }
    for client in [&ours, &started] {
        let kept = client.fetch("/apis").await?;
        assert_eq!(kept.status, 200, "{}", String::from_utf8_lossy(&kept.body));
        assert!(String::from_utf8_lossy(&kept.body).contains("\"apps/v1\""));
    }
    let health = ours.fetch("/readyz?verbose").await?;
    assert_eq!(health.status, 200);
    assert!(String::from_utf8_lossy(&health.body).contains("[-]upstream failed, the others stand without it"));
    assert_eq!(site.client_of(ours_at, "viewtoken").fetch(MAPS).await?.status, 503, "a client that was not seen before is not let in");

    // It comes back, and nothing is missing.
    create(&theirs, "while-away").await?;
    gate.set(Network::Passes);
    let seen = async {
        while let Some(frame) = watch.next().await.map_err(|error| format!("the watch broke off: {error}"))? {
            if String::from_utf8_lossy(&frame.line).contains("\"while-away\"") {
                return Outcome::Ok(());
            }
        }
        Err("the watch has ended".into())
    };
    timeout(NOTICED, seen).await.map_err(|_| "the watch does not tell what happened meanwhile")??;
    assert!(names(&ours, "?resourceVersion=0").await?.contains(&"while-away".to_owned()));
    Ok(())
}
