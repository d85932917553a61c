//! kube-rs as a follower of `tests/clients/follow.py`, which says what is asked and answered: `kube-rs-follower KUBECONFIG RESTRICTED NAME NAMESPACE`.

use std::{collections::BTreeSet, env, error::Error, fmt::Debug};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{EvictParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher,
    },
};
use serde_json::json;

/// Objects of a page.
const PAGE: u32 = 700;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [kubeconfig, restricted, name, namespace] = &arguments[..] else {
        return Err("it takes KUBECONFIG RESTRICTED NAME NAMESPACE".into());
    };
    let client = Client::try_from(config(kubeconfig).await?)?;
    // By default the client asks again after 429, 503 and 504, for minutes.
    let mut once = config(kubeconfig).await?;
    once.default_retry = false;
    let hasty = Client::try_from(once)?;
    let (followed, own) = (Api::namespaced(client.clone(), namespace), Api::namespaced(client.clone(), name));
    let mut store = None;
    for word in std::io::stdin().lines() {
        match &*word? {
            "answers" => {
                pages(&followed).await?;
                refusals(&own).await?;
                refused(
                    "429",
                    429,
                    "TooManyRequests",
                    Api::<Pod>::namespaced(hasty.clone(), name).evict("guarded", &EvictParams::default()).await,
                );
                if !restricted.is_empty() {
                    let secrets: Api<Secret> = Api::namespaced(Client::try_from(config(restricted).await?)?, name);
                    refused("403", 403, "Forbidden", secrets.list(&ListParams::default()).await);
                }
                applies(&own).await?;
            }
            "late" => late(&followed).await?,
            "follow" => store = Some(follow(followed.clone(), name)),
            "held" => store.iter().flat_map(Store::state).for_each(|map| println!("held {} {}", map.name_any(), revision(&map))),
            other => return Err(format!("it is told {other:?}").into()),
        }
        println!("done");
    }
    Ok(())
}

async fn config(kubeconfig: &str) -> Result<Config> {
    Ok(Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default()).await?)
}

fn check(what: &str, held: bool, found: impl Debug) {
    if held { println!("ok {what}") } else { println!("FAILED {what}: {}", format!("{found:?}").replace('\n', " ")) }
}

/// Checks that a call ends with the client's own error, which tells the server's Status.
fn refused<T: Debug>(what: &str, code: u16, reason: &str, answer: kube::Result<T>) {
    let held = matches!(&answer, Err(kube::Error::Api(status)) if status.code == code && status.reason == reason);
    check(what, held, answer);
}

fn revision(map: &ConfigMap) -> String {
    map.resource_version().unwrap_or_default()
}

fn map(name: &str, value: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}}))?)
}

async fn pages(maps: &Api<ConfigMap>) -> Result<()> {
    let (mut count, mut names, mut following) = (0, BTreeSet::new(), None);
    loop {
        let page = maps.list(&ListParams { continue_token: following, ..ListParams::default().limit(PAGE) }).await?;
        count += page.items.len();
        names.extend(page.items.iter().map(ResourceExt::name_any));
        following = page.metadata.continue_.filter(|token| !token.is_empty());
        if following.is_none() {
            println!("paged {count} {}", names.len());
            return Ok(());
        }
    }
}

async fn refusals(maps: &Api<ConfigMap>) -> Result<()> {
    let creating = PostParams::default();
    refused("404", 404, "NotFound", maps.get("missing").await);
    let stale = maps.create(&creating, &map("one", "1")?).await?;
    refused("409 of what is there", 409, "AlreadyExists", maps.create(&creating, &map("one", "1")?).await);
    maps.patch("one", &PatchParams::default(), &Patch::Merge(json!({"data": {"b": "2"}}))).await?;
    refused("409 of what has changed", 409, "Conflict", maps.replace("one", &creating, &stale).await);
    refused("422", 422, "Invalid", maps.create(&creating, &map("Not_A_Name", "1")?).await);
    Ok(())
}

async fn applies(maps: &Api<ConfigMap>) -> Result<()> {
    let has = |answer: &kube::Result<ConfigMap>, value: &str| {
        answer.as_ref().is_ok_and(|map| map.data.as_ref().is_some_and(|data| data.get("a").is_some_and(|found| found == value)))
    };
    let (first, second) = (PatchParams::apply("first"), PatchParams::apply("second"));
    let answer = maps.patch("applied", &first, &Patch::Apply(map("applied", "1")?)).await;
    check("an apply", has(&answer, "1"), answer);
    let changed = Patch::Apply(map("applied", "2")?);
    refused("409 of an apply", 409, "Conflict", maps.patch("applied", &second, &changed).await);
    let answer = maps.patch("applied", &second.force(), &changed).await;
    check("an apply by force", has(&answer, "2"), answer);
    Ok(())
}

async fn late(maps: &Api<ConfigMap>) -> Result<()> {
    let code = match maps.watch(&WatchParams::default().timeout(5), "1").await {
        Ok(events) => match std::pin::pin!(events).try_next().await? {
            Some(WatchEvent::Error(status)) => Some(status.code),
            _ => None,
        },
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(error) => return Err(error.into()),
    };
    check("410", code == Some(410), code);
    Ok(())
}

/// Starts a watcher with its reflector, and returns the reflector's store.
fn follow(maps: Api<ConfigMap>, name: &str) -> Store<ConfigMap> {
    let (store, writer) = reflector::store();
    let selected = watcher::Config::default().labels(&format!("follower!={name}"));
    let events = watcher(maps, selected).default_backoff().reflect(writer);
    tokio::spawn(events.for_each(|event| {
        match event {
            Ok(watcher::Event::Init) => println!("anew"),
            Ok(watcher::Event::InitApply(map) | watcher::Event::Apply(map)) => println!("put {} {}", map.name_any(), revision(&map)),
            Ok(watcher::Event::Delete(map)) => println!("gone {}", map.name_any()),
            // It goes on by itself after an error.
            Ok(watcher::Event::InitDone) | Err(_) => {}
        }
        std::future::ready(())
    }));
    store
}
