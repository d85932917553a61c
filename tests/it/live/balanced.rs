//! Three read replicas behind HAProxy with the configuration of `deploy/haproxy`: those who watch and write through it notice nothing of a rolling restart.

mod stage;
mod watcher;
mod writer;

use std::{
    env,
    fmt::{self, Display},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{Outcome, objects, record, say};
use crate::guarantees::{self, Filter, Limits, Truth};
use stage::{Counted, Stage};
use watcher::{Lived, Watcher};
use writer::{Load, Written};

/// Watchers, and writes a second, when nothing else is said.
const WATCHERS: usize = 150;
const WRITES: u32 = 50;
/// Watchers of one namespace: so many see each event.
const WATCHERS_OF_ONE: usize = 30;
/// How long events come before, between and after the restarts.
const STRETCH: Duration = Duration::from_secs(5);
/// How long all watchers together may take to begin, and to see the end.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long replicas of a group may take to share out their watches, one part in ten and so many more or less.
const EVEN: Duration = Duration::from_secs(120);
const EVEN_SLACK: f64 = 4.0;
/// Violations that are printed; the count is of all.
const PRINTED: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd, kube-apiserver and haproxy: WATCHCACHE_TEST_PEERS"]
async fn a_rolling_restart_is_not_noticed() -> Outcome {
    let (watchers, rate) = (number("WATCHCACHE_BALANCED_WATCHERS", WATCHERS)?, number("WATCHCACHE_BALANCED_WRITES", WRITES)?);
    let namespaces: Vec<String> = (0..watchers.div_ceil(WATCHERS_OF_ONE)).map(|nth| format!("balanced-{nth}")).collect();
    let mut stage = Stage::set().await?;
    objects::create(&stage.writers(), namespaces.iter().map(|name| objects::namespace(name)).collect()).await?;
    let load = Load { namespaces: namespaces.clone(), rate };
    load.prepare(&stage.writers()).await?;
    let floor = record::revision(stage.etcd_at).await?;

    let before = stage.counted().await?;
    let (begun, mut following) = (Arc::new(Semaphore::new(0)), JoinSet::new());
    for nth in 0..watchers {
        let namespace = &namespaces[nth % namespaces.len()];
        following.spawn(Watcher::new(nth, stage.watchers(), namespace).follow(Arc::clone(&begun)));
    }
    timeout(PATIENCE, begun.acquire_many(u32::try_from(watchers)?)).await.map_err(|_| "not all watchers have begun")??.forget();

    let writers = load.start(&stage.writers());
    sleep(STRETCH).await;
    for nth in 0..stage.replicas.len() {
        stage.restart(nth).await?;
        sleep(STRETCH).await;
    }
    let (open, even_after) = evened(&stage, watchers as u64).await?;
    let written = writers.stop().await?;
    writer::end(&stage.writers(), &namespaces).await?;

    let truth = record::truth(stage.etcd_at, "configmaps", floor).await?;
    let parts: Vec<Truth> = namespaces.iter().map(|name| truth.under(&format!("{name}/"))).collect();
    let mut verdict = Verdict { watchers, written, counted: stage.counted().await?.since(before), open, even_after, ..Verdict::default() };
    let waited = timeout(PATIENCE, async {
        while let Some(ended) = following.join_next().await {
            let (nth, history, lived) = ended??;
            verdict.judge(&parts[nth % parts.len()], &history);
            verdict.lived.add(lived);
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    let unfinished = waited.await.map_err(|_| format!("not all watchers have seen the end: {verdict}"));
    verdict.lost = verdict.written.lost(&truth);
    say(&format!("live balanced: {verdict}"));
    if !verdict.written.failed.is_empty() {
        stage.timeouts()?.iter().take(PRINTED).for_each(|line| say(line));
    }
    unfinished??;
    let wrong = verdict.wrong();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Waits until the replicas have about as many watches each; how many they have then, and how long it took, if it came to that.
async fn evened(stage: &Stage, watchers: u64) -> Result<(Vec<u64>, Option<Duration>), Box<dyn std::error::Error>> {
    let began = Instant::now();
    loop {
        let open = stage.open_watches().await?;
        let share = watchers as f64 / open.len() as f64;
        let is_even = open.iter().all(|count| (*count as f64 - share).abs() <= share / 10.0 + EVEN_SLACK);
        if is_even && open.iter().sum::<u64>() == watchers {
            return Ok((open, Some(began.elapsed())));
        }
        if began.elapsed() > EVEN {
            return Ok((open, None));
        }
        sleep(Duration::from_secs(1)).await;
    }
}

fn number<T: FromStr>(variable: &str, otherwise: T) -> Result<T, T::Err> {
    env::var(variable).map_or(Ok(otherwise), |text| text.parse())
}

/// What came of it.
#[derive(Default)]
struct Verdict {
    watchers: usize,
    written: Written,
    lived: Lived,
    counted: Counted,
    /// Watches that each replica has in the end.
    open: Vec<u64>,
    /// How soon after the last restart they were even.
    even_after: Option<Duration>,
    /// Events, all watchers together.
    events: usize,
    broken: Vec<String>,
    lost: Vec<String>,
}

impl Verdict {
    /// Every event once and in order, and all else that is promised.
    fn judge(&mut self, truth: &Truth, history: &guarantees::History) {
        self.events += history.seen.iter().filter_map(guarantees::Seen::change).count();
        self.broken.extend(guarantees::broken(history, truth, &Limits::default()).iter().map(ToString::to_string));
        let Some(guarantees::Seen::Listed(page)) = history.seen.first() else {
            self.broken.push(format!("{}: it has not begun with a list", history.client));
            return;
        };
        let shown: Vec<_> =
            history.seen.iter().filter_map(guarantees::Seen::change).map(|c| (c.item.revision, c.kind, &c.item.key)).collect();
        let due = truth.outcomes(&Filter::all(), page.revision);
        if shown != due.iter().map(|c| (c.item.revision, c.kind, &c.item.key)).collect::<Vec<_>>() {
            self.broken.push(format!("{}: it saw {} events of {}, or in another order", history.client, shown.len(), due.len()));
        }
    }

    /// What must not be.
    fn wrong(&self) -> Vec<String> {
        let mut wrong: Vec<String> = self.broken.iter().chain(&self.lost).take(PRINTED).cloned().collect();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                wrong.push(what.to_owned());
            }
        };
        must(self.broken.is_empty() && self.lost.is_empty(), "promises are broken or writes lost");
        must(self.written.failed.is_empty(), "writes have failed");
        must(self.lived.cut == 0, "streams have been cut");
        must(self.lived.unreached == 0, "the balancer has not reached a replica");
        must(self.lived.refused.keys().all(|code| *code == 429), "watches have been refused");
        must(self.counted.lists == self.watchers as u64, "there are not as many lists as watchers: somebody has listed again");
        must(self.counted.gone == 0 && self.lived.relists == 0, "a revision was too old");
        must(self.lived.gaps.len() >= self.watchers, "hardly a stream has moved");
        must(self.even_after.is_some(), "the watches are not even");
        must(self.open.iter().sum::<u64>() == self.watchers as u64, "the replicas do not have the watches of all watchers");
        wrong
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lived, counted, written, .. } = self;
        writeln!(f, "{} watchers saw {} events; {} broken promises", self.watchers, self.events, self.broken.len())?;
        writeln!(
            f,
            "  streams: {} ended well, {} cut, {} connections failed, refused {:?}; resumed after {}",
            lived.ended,
            lived.cut,
            lived.unreached,
            lived.refused,
            quantiles(&lived.gaps)
        )?;
        writeln!(
            f,
            "  replicas: {} lists, {} times 410, {} times 429; watches in the end {:?}, even after {:.0?}",
            counted.lists, counted.gone, counted.busy, self.open, self.even_after
        )?;
        write!(
            f,
            "  writes: {} ({:.0}/s), {} lost, failed {:?}; answered after {}",
            written.done.len(),
            written.per_second,
            self.lost.len(),
            written.failed,
            quantiles(&written.took)
        )
    }
}

/// Median, 99th percentile and the longest.
fn quantiles(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |part: f64| times.get(((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1))).copied().unwrap_or_default();
    format!("p50 {:.1?}, p99 {:.1?}, at most {:.1?} ({})", at(0.5), at(0.99), at(1.0), times.len())
}
