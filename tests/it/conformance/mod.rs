//! The same answer to the same request: status, headers and bytes of ours and of kube-apiserver for every line of `requests.txt`.
//!
//! Runs like the cases of `live`, when `WATCHCACHE_TEST_PEERS` names the peers. Deliberate differences are marked in the table and told in
//! `docs/conformance.md`.

mod answer;
mod objects;
mod others;
mod symbols;
mod table;

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use tokio::time::{sleep, timeout};

use self::{
    answer::Answer,
    table::{Row, World},
};
use crate::{
    client::Client,
    live::{Outcome, floor::stand, say},
};

/// Requests at a time; some wait 3 s.
const AT_ONCE: usize = 8;
/// Tries until two answers are equal: leases change between two reads.
const TRIES: usize = 4;
/// How much longer one answer may take than the other.
const LATER_AT_MOST: Duration = Duration::from_millis(1_500);
/// How long an answer may take; none waits longer than 5 s.
const PATIENCE: Duration = Duration::from_secs(120);
/// The mark of what a server has not that is fed by an API server; any other must answer it alike.
const NOT_FED: &str = "etcd";
/// How long to wait until memory is up to date again; a busy machine is late.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Differences that are printed; all are counted.
const PRINTED: usize = 40;

#[tokio::test]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn conformance() -> Outcome {
    let floor = stand().await?;
    let (ours, theirs) = (floor.ours(), floor.theirs());
    let old = objects::write(&theirs, floor.etcd_at).await?;
    objects::seen_by(&ours).await?;
    let world = World::of(&theirs, old).await?;
    let rows = table::rows(&world)?;
    let compared: Vec<(&Row, Option<String>)> = stream::iter(&rows)
        .map(|row| {
            let (ours, theirs) = (&ours, &theirs);
            async move { (row, difference(ours, theirs, row).await) }
        })
        .buffered(AT_ONCE)
        .collect()
        .await;

    let is_fed = std::env::var("WATCHCACHE_TEST_SUBJECT").is_ok_and(|subject| subject == "watchcache-upstream");
    let mut deliberate: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (row, difference) in &compared {
        match (difference, row.deliberate) {
            (None, _) => {}
            (Some(_), Some(word)) if is_fed || word != NOT_FED => *deliberate.entry(word).or_default() += 1,
            (Some(text), _) => wrong.push(format!("{}\n{text}", row.shown)),
        }
    }
    say(&format!(
        "conformance: {} requests, {} differ by intention {deliberate:?}, {} differ",
        rows.len(),
        deliberate.values().sum::<usize>(),
        wrong.len()
    ));
    wrong.iter().take(PRINTED).for_each(|text| say(text));
    if rows.len() < 1_000 {
        return Err("the table has become short".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} answers differ", wrong.len()).into()) }
}

/// Every mark in the table is explained, and nothing else is called deliberate.
#[test]
fn deliberate_differences_are_told() {
    let told = include_str!("../../../docs/conformance.md");
    for word in table::marks() {
        assert!(told.contains(&format!("| `{word}` |")), "docs/conformance.md does not tell of {word:?}");
    }
}

/// How the answers to one request differ, if they still do after a few tries.
async fn difference(ours: &Client, theirs: &Client, row: &Row) -> Option<String> {
    let tries = if row.deliberate.is_some() { 1 } else { TRIES };
    let (mut last, mut left, began) = (None, tries, Instant::now());
    while left > 0 {
        left -= 1;
        last = match tokio::join!(asked(ours, row), asked(theirs, row)) {
            ((Ok(ours), _), _) if ours.is_stale() && began.elapsed() < PATIENCE => {
                left += 1;
                sleep(AGAIN_AFTER).await;
                continue;
            }
            ((Ok(ours), took), (Ok(theirs), their_time)) => ours.differs_from(&theirs).or_else(|| later(took, their_time)),
            ((Err(error), _), _) => Some(format!("  ours: {error}")),
            (_, (Err(error), _)) => Some(format!("  theirs: {error}")),
        };
        last.as_ref()?;
    }
    last
}

async fn asked(client: &Client, row: &Row) -> (std::io::Result<Answer>, Duration) {
    let began = Instant::now();
    let whole = timeout(PATIENCE, client.whole(&row.method, &row.target, &row.headers, b"")).await;
    let whole = whole.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
    (whole.map(Answer::of), began.elapsed())
}

fn later(ours: Duration, theirs: Duration) -> Option<String> {
    (ours.abs_diff(theirs) > LATER_AT_MOST).then(|| format!("  time: ours {ours:?}, theirs {theirs:?}"))
}
