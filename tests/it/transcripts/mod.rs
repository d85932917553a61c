//! Scenarios played on ours, compared with what kube-apiserver answered: `tests/transcripts` has both, and tells how to record anew.

mod compare;
mod play;
mod script;
mod sieve;
mod symbols;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};

use self::{
    play::Stage,
    script::{Scenario, Theme},
    sieve::Sieve,
};
use crate::{
    client::Client,
    live::{
        Outcome, free_address,
        peers::{Running, Site},
        say,
    },
};

/// Scenarios at a time: each has its own namespace and its own cluster-wide names.
const AT_ONCE: usize = 6;
/// What a server that is late never loads. kube-apiserver itself has no use for it, and its objects need no defaults.
const LATE: &str = "/registry/controllerrevisions/";
/// Ready but for what is late.
const READY_BUT_LATE: &str = "/readyz?exclude=poststarthook/storage-readiness";
/// Times that a scenario is played that is about time.
const TRIES: usize = 10;
/// Scenarios whose differences are printed; all are counted.
const PRINTED: usize = 60;

/// A scenario's answers with symbols, and its revisions' symbols from the lowest to the highest.
type Played = Result<(Vec<Value>, Vec<String>), String>;

/// Names of scenarios that differ.
type Differ = Result<BTreeSet<String>, Box<dyn std::error::Error>>;

/// Plain `cargo test`: ours with its own store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_store() -> Outcome {
    if env::var_os("WATCHCACHE_RECORD").is_some() {
        return Ok(());
    }
    // Nobody else can reach the store inside of a server.
    judged(chosen(|scenario| !scenario.needs_etcd())?, async |themes| {
        let site = Site::prepare(Path::new(""))?;
        let data = site.path().join("store").display().to_string();
        let (running, client) = ours(&site, "watchcache", &["--data-dir".to_owned(), data]).await?;
        let differ = compared(&Stage { client, second: None, late: None, recording: false, etcd: None }, themes).await;
        running.ended().map_or(differ, |ended| Err(ended.into()))
    })
    .await
}

/// Plain `cargo test`: two of ours on `watchcache store`, for the scenarios that need an etcd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_store_alone() -> Outcome {
    if env::var_os("WATCHCACHE_RECORD").is_some() {
        return Ok(());
    }
    judged(chosen(Scenario::needs_etcd)?, async |themes| {
        let site = Site::prepare(Path::new(""))?;
        let (data, etcd) = (site.path().join("store"), free_address()?);
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
        command.args(["store", "--listen-client-urls", &format!("http://{etcd}"), "--data-dir"]).arg(data);
        let store = site.start("store", command)?;
        on(&site, (store, etcd), themes).await
    })
    .await
}

/// Ours on an etcd of its own; or the recording, which nothing else should disturb.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: WATCHCACHE_TEST_PEERS"]
async fn on_etcd() -> Outcome {
    let peers = PathBuf::from(env::var_os("WATCHCACHE_TEST_PEERS").ok_or("WATCHCACHE_TEST_PEERS does not name a folder with etcd")?);
    let themes = chosen(|_| true)?;
    if env::var_os("WATCHCACHE_RECORD").is_none() {
        return judged(themes, async |themes| {
            let site = Site::prepare(&peers)?;
            let etcd = site.etcd()?;
            on(&site, etcd, themes).await
        })
        .await;
    }
    let site = Site::prepare(&peers)?;
    let etcd = site.etcd()?;
    let (running, address) = site.apiserver("kube-apiserver", etcd.1)?;
    let (second_running, second) = site.apiserver("kube-apiserver-second", etcd.1)?;
    let (client, second) = (site.client(address), site.client(second));
    running.ready(&client).await?;
    second_running.ready(&second).await?;
    let sieve = sieve(&themes, etcd.1).await?;
    let mut late = None;
    if let Some(sieve) = &sieve {
        let flags = ["--storage-media-type=application/json", "--storage-initialization-timeout=1s"];
        let (running, address) = site.apiserver_with("kube-apiserver-late", sieve.address, &flags)?;
        let client = site.client(address);
        running.ready_by(&client, READY_BUT_LATE).await?;
        late = Some((running, client));
    }
    let late_client = late.as_ref().map(|(_, client)| client.clone());
    record(&Stage { client, second: Some(second), late: late_client, recording: true, etcd: Some(etcd) }, &themes).await
}

/// What makes a server late, if a scenario wants one.
async fn sieve(themes: &[Theme], etcd: SocketAddr) -> std::io::Result<Option<Sieve>> {
    let wanted = themes.iter().flat_map(|theme| &theme.scenarios).any(Scenario::needs_late);
    if wanted { Sieve::listen(etcd, LATE).await.map(Some) } else { Ok(None) }
}

/// Two of ours on this etcd, and a late one, compared.
async fn on(site: &Site, etcd: (Running, SocketAddr), themes: &[Theme]) -> Differ {
    let storage = |address| ["--etcd-servers".to_owned(), format!("http://{address}")];
    let (running, client) = ours(site, "watchcache", &storage(etcd.1)).await?;
    let (_second, second) = ours(site, "watchcache-second", &storage(etcd.1)).await?;
    let sieve = sieve(themes, etcd.1).await?;
    let mut late = None;
    if let Some(sieve) = &sieve {
        late = Some(ours_by(site, "watchcache-late", &storage(sieve.address), READY_BUT_LATE).await?);
    }
    let late_client = late.as_ref().map(|(_, client)| client.clone());
    let differ = compared(&Stage { client, second: Some(second), late: late_client, recording: false, etcd: Some(etcd) }, themes).await;
    running.ended().map_or(differ, |ended| Err(ended.into()))
}

/// The scenarios that can be played here, and that `WATCHCACHE_TRANSCRIPTS` leaves.
fn chosen(can: impl Fn(&Scenario) -> bool) -> Result<Vec<Theme>, Box<dyn std::error::Error>> {
    let mut themes = script::themes()?;
    let part = env::var("WATCHCACHE_TRANSCRIPTS").unwrap_or_default();
    for theme in &mut themes {
        theme.scenarios.retain(|scenario| can(scenario) && format!("{}/{}", theme.name, scenario.name).contains(&part));
    }
    Ok(themes)
}

/// Starts one of ours.
async fn ours(site: &Site, name: &str, storage: &[String]) -> Result<(Running, Client), Box<dyn std::error::Error>> {
    ours_by(site, name, storage, "/readyz").await
}

/// Starts one of ours; it can be used when this target says so.
async fn ours_by(site: &Site, name: &str, storage: &[String], ready: &str) -> Result<(Running, Client), Box<dyn std::error::Error>> {
    let address = free_address()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args(["serve", "--controllers=", "--insecure-port", &address.port().to_string()]).args(storage);
    let running = site.start(name, command)?;
    let client = Client::plain(address);
    running.ready_by(&client, ready).await?;
    Ok((running, client))
}

async fn record(stage: &Stage, themes: &[Theme]) -> Outcome {
    let all = script::themes()?;
    let mut failed = 0;
    for (theme, known) in themes.iter().zip(&all) {
        let path = recorded_at(&theme.name);
        let mut records = recorded(&path)?;
        records.retain(|name, _| known.scenarios.iter().any(|scenario| scenario.name == *name));
        for (scenario, played) in played(stage, &theme.scenarios).await {
            match played {
                Ok((answers, order)) => {
                    records.insert(scenario.name.clone(), record_of(scenario, &answers, &order));
                }
                Err(why) => {
                    failed += 1;
                    say(&format!("{}/{}: {why}", theme.name, scenario.name));
                }
            }
        }
        fs::write(path, written(&records))?;
    }
    let count: usize = themes.iter().map(|theme| theme.scenarios.len()).sum();
    say(&format!("transcripts: {} scenarios recorded, {failed} failed", count - failed));
    if failed == 0 { Ok(()) } else { Err("not all scenarios could be recorded".into()) }
}

/// A line for each step, so that a change can be read.
fn written(records: &Map<String, Value>) -> String {
    let scenario = |(name, record): (&String, &Value)| {
        let steps: Vec<String> = record["steps"].as_array().into_iter().flatten().map(|step| format!("  {step}")).collect();
        format!("{}: {{\"order\": {}, \"steps\": [\n{}\n]}}", json!(name), record["order"], steps.join(",\n"))
    };
    format!("{{\n{}\n}}\n", records.iter().map(scenario).collect::<Vec<_>>().join(",\n"))
}

fn record_of(scenario: &Scenario, answers: &[Value], order: &[String]) -> Value {
    let steps: Vec<Value> =
        scenario.steps.iter().zip(answers).map(|(step, answer)| json!({"step": step.shown, "answer": answer})).collect();
    json!({"steps": steps, "order": order})
}

/// Plays themes on new servers each time. A scenario that is about time differs when it does so each time: a second at which the machine stands still is
/// longer than many a watch of these stories.
async fn judged(mut themes: Vec<Theme>, on: impl AsyncFn(&[Theme]) -> Differ) -> Outcome {
    let mut wrong = on(&themes).await?;
    for _ in 1..TRIES {
        let timed = themes.iter().flat_map(|theme| &theme.scenarios).filter(|scenario| scenario.is_timed());
        let timed: BTreeSet<&str> = timed.map(|scenario| scenario.name.as_str()).collect();
        if wrong.is_empty() || !wrong.iter().all(|name| timed.contains(name.as_str())) {
            break;
        }
        say(&format!("transcripts: played again: {wrong:?}"));
        themes.retain(|theme| theme.scenarios.iter().any(|scenario| wrong.contains(&scenario.name)));
        let still = on(&themes).await?;
        wrong.retain(|name| still.contains(name));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} scenarios differ", wrong.len()).into()) }
}

/// Plays and compares; the names of the scenarios that differ.
async fn compared(stage: &Stage, themes: &[Theme]) -> Differ {
    let (mut equal, mut wrong, mut names) = (0, Vec::new(), BTreeSet::new());
    let mut marked: BTreeMap<String, usize> = BTreeMap::new();
    for theme in themes {
        let records = recorded(&recorded_at(&theme.name))?;
        for (scenario, played) in played(stage, &theme.scenarios).await {
            let differences = match (played, records.get(&scenario.name)) {
                (Ok((answers, order)), Some(record)) => {
                    let verdict = compare::compare(scenario, &answers, &order, record);
                    for word in &verdict.marked {
                        *marked.entry(word.clone()).or_default() += 1;
                    }
                    verdict.differences
                }
                (Err(why), _) => vec![why],
                (_, None) => vec!["not recorded".to_owned()],
            };
            if differences.is_empty() {
                equal += 1;
            } else {
                wrong.push(format!("{}/{}\n    {}", theme.name, scenario.name, differences.join("\n    ")));
                names.insert(scenario.name.clone());
            }
        }
    }
    wrong.iter().take(PRINTED).for_each(|text| say(text));
    say(&format!("transcripts: {equal} scenarios equal, {} differ; steps marked {marked:?}", wrong.len()));
    Ok(names)
}

/// Plays scenarios, a few at a time, but alone where etcd is compacted under all; answers come in the order of the file.
async fn played<'a>(stage: &Stage, scenarios: &'a [Scenario]) -> Vec<(&'a Scenario, Played)> {
    let plays = stream::iter(scenarios).map(|scenario| async move {
        let played = play::play(stage, scenario).await;
        let played = played.map_err(|e| e.to_string()).map(|mut answers| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
            let order = symbols::symbolic(&mut answers, &scenario.steps, i64::try_from(now).unwrap_or(i64::MAX));
            (answers, order)
        });
        (scenario, played)
    });
    let at_once = if scenarios.iter().any(Scenario::needs_etcd) { 1 } else { AT_ONCE };
    plays.buffered(at_once).collect().await
}

fn recorded_at(theme: &str) -> PathBuf {
    script::folder().join("recorded").join(format!("{theme}.json"))
}

fn recorded(path: &Path) -> Result<Map<String, Value>, Box<dyn std::error::Error>> {
    if !path.exists() {
        return Ok(Map::new());
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Each scenario is recorded as it is written now, and nothing else is.
#[test]
fn the_record_is_of_these_scenarios() -> Outcome {
    let mut wrong = Vec::new();
    for theme in script::themes()? {
        let records = recorded(&recorded_at(&theme.name))?;
        for scenario in &theme.scenarios {
            let shown: Vec<&str> = scenario.steps.iter().map(|step| step.shown.as_str()).collect();
            let steps = records.get(&scenario.name).and_then(|record| record["steps"].as_array());
            let recorded: Vec<&str> = steps.into_iter().flatten().filter_map(|step| step["step"].as_str()).collect();
            if shown != recorded {
                wrong.push(format!("{}/{}", theme.name, scenario.name));
            }
        }
        let known: BTreeSet<&String> = theme.scenarios.iter().map(|s| &s.name).collect();
        wrong.extend(records.keys().filter(|name| !known.contains(name)).map(|name| format!("{}/{name}: no scenario", theme.name)));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("record anew: {wrong:?}").into()) }
}

/// Every word of a mark is explained, and nothing else is called deliberate.
#[test]
fn marks_are_told() -> Outcome {
    let told = include_str!("../../../docs/conformance.md");
    for scenario in script::themes()?.iter().flat_map(|theme| &theme.scenarios) {
        for (word, _) in scenario.steps.iter().flat_map(|step| &step.marks).chain(&scenario.marks) {
            assert!(told.contains(&format!("| `{word}` |")), "docs/conformance.md does not tell of {word:?}");
        }
    }
    Ok(())
}
