//! What reads without a revision cost: their time, and how many requests the feeder gets of each.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{ANSWER, KINDS};
use crate::http::Listener;

/// How long a resource is left alone before it is measured: what follows it has come to rest.
const REST: Duration = Duration::from_secs(3);

/// A note for each resource and kind of read: p50/p99 in milliseconds, and LISTs, GETs and watches of the feeder for a hundred reads.
pub(super) async fn measured(server: &Listener, feeder: &Listener, reads: usize) -> Result<Vec<(&'static str, String)>> {
    let mut notes = Vec::new();
    for (kind, [list, get, stream]) in KINDS.iter().zip(NAMES) {
        let (own, one) = (format!("{}?labelSelector=client%3Dnobody", kind.path), format!("{}/seed-0001", kind.path));
        let initial =
            format!("{own}&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1");
        for (name, target, is_watch) in [(list, &own, false), (get, &one, false), (stream, &initial, true)] {
            server.get(&own, ANSWER).await?;
            tokio::time::sleep(REST).await;
            let (before, mut times) = (Asked::of(feeder, kind.name).await?, Vec::new());
            for _ in 0..reads {
                times.push(if is_watch { first_line(server, target).await? } else { whole(server, target).await? });
            }
            // Watches count when they are over.
            tokio::time::sleep(REST).await;
            let after = Asked::of(feeder, kind.name).await?;
            times.sort();
            let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
            let each = |before: u64, after: u64| (after - before) as f64 * 100.0 / reads as f64;
            let [lists, gets, watches] =
                [(before.lists, after.lists), (before.gets, after.gets), (before.watches, after.watches)].map(|(b, a)| each(b, a));
            notes.push((name, format!("{:.1}/{:.1}ms,lists={lists:.0},gets={gets:.0},watches={watches:.0}", at(50), at(99))));
        }
    }
    Ok(notes)
}

const NAMES: [[&str; 3]; 3] = [
    ["busy_list", "busy_get", "busy_stream"],
    ["idle_list", "idle_get", "idle_stream"],
    ["small_idle_list", "small_idle_get", "small_idle_stream"],
];

async fn whole(server: &Listener, target: &str) -> Result<Duration> {
    let mut talk = server.talk().await?;
    let began = Instant::now();
    let (status, _) = tokio::time::timeout(ANSWER, talk.whole("GET", target, None)).await.context("no answer")??;
    ensure!(matches!(status, 200 | 404), "{target}: {status}");
    Ok(began.elapsed())
}

/// Until the bookmark that ends the initial events: there are none that the selector takes.
async fn first_line(server: &Listener, target: &str) -> Result<Duration> {
    let mut talk = server.talk().await?;
    let began = Instant::now();
    let reading = async {
        let answer = talk.ask("GET", target, None).await?;
        ensure!(answer.status() == 200, "{target}: {}", answer.status());
        crate::http::Lines::new(answer.into_body()).next().await
    };
    tokio::time::timeout(ANSWER, reading).await.context("no bookmark")??;
    Ok(began.elapsed())
}

/// Requests that the feeder has answered.
struct Asked {
    lists: u64,
    gets: u64,
    watches: u64,
}

impl Asked {
    async fn of(feeder: &Listener, resource: &str) -> Result<Self> {
        let (status, body) = feeder.get("/metrics", ANSWER).await?;
        ensure!(status == 200, "/metrics: {status}");
        let text = String::from_utf8_lossy(&body);
        let of = |verb: &str| {
            let lines = text.lines().filter(|line| line.starts_with("apiserver_request_total{"));
            let mine =
                lines.filter(|line| line.contains(&format!("resource=\"{resource}\"")) && line.contains(&format!("verb=\"{verb}\"")));
            mine.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
        };
        Ok(Self { lists: of("LIST"), gets: of("GET"), watches: of("WATCH") })
    }
}
