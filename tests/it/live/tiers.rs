//! Servers that are fed by servers that are fed by a kube-apiserver: what the last one answers is as new as the kube-apiserver, or says that it may not be;
//! loops are noticed.

use std::{env, net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Outcome, free_address,
    gate::{Gate, Network},
    peers::{Running, Site},
};
use crate::{alone::asked, client::Client};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SOON: Duration = Duration::from_secs(60);
/// Writes, each of which is read at once from the last tier.
const WRITES: usize = 30;

/// A server that is fed by another one.
fn tier(site: &Site, name: &str, upstream: SocketAddr, flags: &[&str]) -> Result<(Running, SocketAddr), Box<dyn std::error::Error>> {
    let at = free_address()?;
    Ok((tier_at(site, name, (upstream, at), flags)?, at))
}

fn tier_at(
    site: &Site,
    name: &str,
    (upstream, at): (SocketAddr, SocketAddr),
    flags: &[&str],
) -> Result<Running, Box<dyn std::error::Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args(["serve", "--insecure-port=0"]).args(site.fed_by_as(name, upstream)?).args(site.listening(at)).args(flags);
    Ok(site.start(name, command)?)
}

async fn create(client: &Client, name: &str) -> Outcome {
    asked(client, ("POST", MAPS), Some(&json!({"metadata": {"name": name}})), 201).await.map_err(|error| error.to_string())?;
    Ok(())
}

async fn names(client: &Client, query: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let list: Value = asked(client, ("GET", &format!("{MAPS}{query}")), None, 200).await.map_err(|error| error.to_string())?;
    Ok(list["items"].as_array().into_iter().flatten().filter_map(|item| Some(item["metadata"]["name"].as_str()?.to_owned())).collect())
}

/// Waits until memory has the resource.
async fn followed((running, at): &(Running, SocketAddr), site: &Site) -> Outcome {
    let client = site.client(*at);
    let is_there = async {
        while !running.log().lines().any(|line| line.contains("follows a resource of upstream") && line.contains("configmaps")) {
            names(&client, "?resourceVersion=0").await?;
            sleep(Duration::from_millis(100)).await;
        }
        Outcome::Ok(())
    };
    timeout(SOON, is_there).await.map_err(|_| "configmaps are not followed")?
}

#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn three_tiers() -> Outcome {
    let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS is not set")?;
    let site = Site::prepare(&programs)?;
    let (_etcd, etcd_at) = site.etcd()?;
    let (kube, theirs_at) = site.apiserver("kube-apiserver", etcd_at)?;
    kube.ready(&site.client(theirs_at)).await?;
    let gate = Gate::before(theirs_at).await?;
    let (mut upstream, mut tiers) = (gate.address, Vec::new());
    for name in ["first", "second", "third"] {
        let (running, at) = tier(&site, name, upstream, &[])?;
        running.ready(&site.client(at)).await.map_err(|error| format!("{name}: {error}"))?;
        tiers.push((running, at));
        upstream = at;
    }
    let clients: Vec<Client> = tiers.iter().map(|(_, at)| site.client(*at)).collect();
    let (theirs, last) = (site.client(theirs_at), &clients[2]);
    for tier in &tiers {
        followed(tier, &site).await?;
    }

    // Each read from the last tier sees the write before it, wherever that was sent.
    for number in 0..WRITES {
        let name = format!("map-{number:03}");
        create(if number % 2 == 0 { &theirs } else { last }, &name).await?;
        let query = if number % 3 == 0 { "" } else { "?limit=500" };
        assert!(names(last, query).await?.contains(&name), "{name} is missing");
    }
    assert_eq!(names(last, "").await?, names(&theirs, "").await?);

    // A watch of the last tier goes on through a cut at the first one, which answers nothing meanwhile as if it were new.
    let target = format!("{MAPS}?watch=1&resourceVersion=0&allowWatchBookmarks=true");
    let mut watch = last.watch(&target).await.map_err(|error| error.to_string())?.map_err(|answer| format!("a watch: {answer:?}"))?;
    gate.set(Network::Cut);
    sleep(Duration::from_secs(1)).await;
    create(&theirs, "while-away").await?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        let answer = last.whole("GET", MAPS, &[], b"").await.map_err(|error| format!("without the kube-apiserver: {error}"))?;
        assert!(answer.status >= 500, "{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
        sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(last.fetch(&format!("{MAPS}?resourceVersion=0")).await?.status, 200);
    gate.set(Network::Passes);
    let seen = async {
        while let Some(frame) = watch.next().await.map_err(|error| format!("the watch broke off: {error}"))? {
            if String::from_utf8_lossy(&frame.line).contains("\"while-away\"") {
                return Outcome::Ok(());
            }
        }
        Err("the watch has ended".into())
    };
    timeout(SOON, seen).await.map_err(|_| "the last tier does not tell what happened meanwhile")??;
    assert!(names(last, "").await?.contains(&"while-away".to_owned()));
    Ok(())
}

/// A tier that answers from memory says so, and so does who is fed by it.
#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn a_tier_that_answers_from_memory() -> Outcome {
    let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS is not set")?;
    let site = Site::prepare(&programs)?;
    let (_etcd, etcd_at) = site.etcd()?;
    let (kube, theirs_at) = site.apiserver("kube-apiserver", etcd_at)?;
    kube.ready(&site.client(theirs_at)).await?;
    let gate = Gate::before(theirs_at).await?;
    let cached = tier(&site, "cached", gate.address, &["--consistent-reads=cached"])?;
    cached.0.ready(&site.client(cached.1)).await?;
    let proving = tier(&site, "proving", cached.1, &[])?;
    proving.0.ready(&site.client(proving.1)).await?;
    let (theirs, last) = (site.client(theirs_at), site.client(proving.1));
    create(&theirs, "first").await?;
    followed(&cached, &site).await?;
    followed(&proving, &site).await?;
    gate.set(Network::Silent);
    create(&theirs, "second").await?;
    let answer = last.whole("GET", MAPS, &[], b"").await.map_err(|error| error.to_string())?;
    let is_told = answer.header("warning").any(|warning| warning.starts_with("299 watchcache"));
    assert!(answer.status >= 500 || is_told, "{}: what may be old is answered as if it were new", answer.status);
    gate.set(Network::Passes);
    Ok(())
}

/// Two servers, each fed by the other one: neither has anything, and both say so at once.
#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn a_loop_is_noticed() -> Outcome {
    let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS is not set")?;
    let site = Site::prepare(&programs)?;
    let (one_at, other_at) = (free_address()?, free_address()?);
    let one = tier_at(&site, "one", (other_at, one_at), &[])?;
    let other = tier_at(&site, "other", (one_at, other_at), &[])?;
    let began = Instant::now();
    let is_told = |running: &Running| {
        running.log().contains("508") || running.log().contains("this server itself") || running.log().contains("its own")
    };
    while !(is_told(&one) || is_told(&other)) {
        assert!(began.elapsed() < SOON, "nobody notices: {}\n{}", one.log(), other.log());
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
