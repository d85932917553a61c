//! A tenth of the watchers stop reading, read a byte a second or reset their streams: the others notice nothing, memory is bounded, and the slow
//! ones go on from where they were or are told 410.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::{sync::watch, time::sleep};

use crate::{
    brake::Manner,
    object::{Filter, Select},
    options::Options,
    reflector::{Habit, Start},
    stage::{Stage, Verdict, delay_ms},
    validate::{Expiry, Guarantee},
    wire::Encoding,
    writer::Workload,
};

/// What the slow watch: so much that no socket buffer holds it.
const HEAVY: &str = "faults-heavy";
/// Bytes of payload there; with 60 writes a second 29 MB a minute, and a socket holds 4 MB (Linux, `tcp_wmem`).
const HEAVY_BYTES: usize = 8_000;
/// Writes a second of the heavy objects, and of the everyday ones that all others watch.
const RATE: u32 = 60;
/// The p99 of the others may be this many times the larger of before and after, or this much more: on a busy machine a small number
/// doubles by itself.
const RATIO: f64 = 1.5;
const SLACK_MS: usize = 100;
/// Comparisons of which one has to be so: what the slow do to the others they do each time, a busy machine does not.
const ROUNDS: usize = 3;
/// How long writers and watchers take to find their pace.
const BEGINNING: Duration = Duration::from_secs(3);
/// Time between two looks at the server's memory.
const LOOK: Duration = Duration::from_millis(500);

pub(super) async fn slow(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut stage = Stage::single(options, dir).await?;
    let (bad, others) = (options.slow_watchers / 10, options.slow_watchers - options.slow_watchers / 10);
    let signal = watch::Sender::new(false);
    stage.watch_as((0..others).map(honest).collect()).await;
    stage.watch_as((0..bad).map(|nth| ill_mannered(nth, &signal)).collect()).await;
    let time = Duration::from_secs(options.slow_seconds);
    let mut before = written(&stage, None, time, others).await?;
    let mut round = 1;
    let (meanwhile, after, caught_up) = loop {
        let meanwhile = written(&stage, Some(&signal), time, others).await?;
        let caught_up = stage.settle().await;
        let after = written(&stage, None, time, others).await?;
        if meanwhile.rss_mib > before.rss_mib + options.slow_mib {
            stage.blame(Guarantee::Bounded, format!("the server grew from {} to {} MiB", before.rss_mib, meanwhile.rss_mib));
        }
        if round == ROUNDS || !meanwhile.is_late(&before, &after) {
            break (meanwhile, after, caught_up);
        }
        (before, round) = (after, round + 1);
    };

    stage.note("rounds", round.to_string());
    stage.note("slow", format!("{bad}/{}", options.slow_watchers));
    stage.note("caught_up", format!("{}ms", caught_up.as_millis()));
    let three = [&before, &meanwhile, &after];
    let shown = |of: fn(&Watched) -> String| three.map(of).join(">");
    stage.note("others_events", shown(|w| w.events.to_string()));
    stage.note("others_p50_ms", shown(|w| w.p50.to_string()));
    stage.note("others_p99_ms", shown(|w| w.p99.to_string()));
    stage.note("ratio", format!("{:.2}", 2.0 * meanwhile.p99 as f64 / (before.p99 + after.p99).max(1) as f64));
    stage.note("peak_rss_mib", shown(|w| w.rss_mib.to_string()));
    stage.note("cpu_s_by_time", shown(|w| format!("{:.1}", w.cpu_seconds)));
    if meanwhile.is_late(&before, &after) {
        stage.blame(Guarantee::Bounded, format!("the others' p99 was {} ms, not {} or {}", meanwhile.p99, before.p99, after.p99));
    }
    stage.verdict(Expiry::BelowFloor).await
}

/// One of those who always read: an everyday namespace each.
fn honest(nth: usize) -> Habit {
    let filter = Filter { namespace: Some(format!("faults-{}", nth % 4)), select: Select::All };
    Habit { filter, start: Start::ListNewest, watch_seconds: 3600, brake: None, encoding: Encoding::Json }
}

fn ill_mannered(nth: usize, signal: &watch::Sender<bool>) -> Habit {
    let manner = [Manner::Stops, Manner::Trickles, Manner::Resets][nth % 3];
    let filter = Filter { namespace: Some(HEAVY.into()), select: Select::All };
    Habit { filter, start: Start::ListNewest, watch_seconds: 3600, brake: Some((manner, signal.subscribe())), encoding: Encoding::Json }
}

/// What the others saw in a time, and what it cost.
struct Watched {
    events: u64,
    p50: usize,
    p99: usize,
    /// The most that it was.
    rss_mib: u64,
    cpu_seconds: f64,
}

impl Watched {
    /// Whether the others were late, compared with the larger of two quiet times.
    fn is_late(&self, before: &Self, after: &Self) -> bool {
        let quiet = before.p99.max(after.p99);
        self.p99 as f64 > quiet as f64 * RATIO && self.p99 > quiet + SLACK_MS
    }
}

/// The same load each time; while `signal` is on, the slow are slow.
async fn written(stage: &Stage, signal: Option<&watch::Sender<bool>>, time: Duration, others: usize) -> Result<Watched> {
    let everyday = stage.write(&Workload { rate: RATE, ..stage.workload() }).await?;
    let heavy = Workload { namespaces: vec![HEAVY.into()], rate: RATE, payload_bytes: HEAVY_BYTES, transactions: 0, ..stage.workload() };
    let heavy = stage.write(&heavy).await?;
    // The first seconds, in which writers and watchers begin, do not count.
    watched(stage, BEGINNING, others).await?;
    if let Some(signal) = signal {
        signal.send_replace(true);
    }
    let watched = watched(stage, time, others).await?;
    if let Some(signal) = signal {
        signal.send_replace(false);
    }
    everyday.stop().await?;
    heavy.stop().await?;
    Ok(watched)
}

async fn watched(stage: &Stage, time: Duration, others: usize) -> Result<Watched> {
    let (began, first, at_first) = (Instant::now(), stage.server.cost()?, stage.delays(others));
    let mut rss_mib = first.rss_mib;
    while began.elapsed() < time {
        sleep(LOOK).await;
        rss_mib = rss_mib.max(stage.server.cost()?.rss_mib);
    }
    let mut delays = stage.delays(others);
    for (now, then) in delays.iter_mut().zip(at_first) {
        *now -= then;
    }
    Ok(Watched {
        events: delays.iter().map(|n| u64::from(*n)).sum(),
        p50: delay_ms(&delays, 50),
        p99: delay_ms(&delays, 99),
        rss_mib,
        cpu_seconds: stage.server.cost()?.cpu_seconds - first.cpu_seconds,
    })
}
