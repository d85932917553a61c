//! Power loss, full disks and failed syncs under the embedded store: what it promised must be there, what it showed as well, and it stops when it must.
//!
//! `WATCHCACHE_POWER_POINTS` is the number of power losses (30 without it), `WATCHCACHE_POWER_SEED` repeats a run.

#[path = "../../store/src/clients.rs"]
mod clients;
mod disk;
#[path = "../../store/src/history.rs"]
mod history;
mod life;
mod refusals;

use std::{
    io::Write,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::sleep;

use clients::Told;
use disk::{Disk, Fault};
use history::History;
use life::Life;

/// Power losses of a plain `cargo test`.
const POINTS: u32 = 30;
/// Lives of one disk: its store is opened on what the power left of the one before.
const LIVES: u32 = 10;
/// Writes, syncs and changes of length until the power goes, at most: a commit under load has some ten of them.
const CALLS: u64 = 400;
/// The same for the points that are to strike an opening, its recovery included.
const CALLS_OF_AN_OPENING: u64 = 20;
/// Writers, of which each has one request under way.
const WRITERS: usize = 6;
/// How long a life may last when the store makes too few calls.
const LIFE: Duration = Duration::from_secs(3);

/// What a run saw.
#[derive(Debug, Default)]
struct Seen {
    /// The power went before the store was open and read.
    while_opening: u32,
    acknowledged: usize,
    shown: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_goes_at_random_points_and_nothing_promised_is_gone() {
    let from_env = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let points = from_env("WATCHCACHE_POWER_POINTS").and_then(|points| u32::try_from(points).ok()).unwrap_or(POINTS);
    let seed = from_env("WATCHCACHE_POWER_SEED").unwrap_or_else(rand::random);
    say(&format!("power: seed {seed}, {points} points"));
    let (began, mut rng, mut seen) = (Instant::now(), StdRng::seed_from_u64(seed), Seen::default());
    let mut left = points;
    while left > 0 {
        let lives = left.min(LIVES);
        one_disk(lives, power, &mut rng, &mut seen).await.unwrap_or_else(|found| panic!("seed {seed}, {left} points left: {found}"));
        left -= lives;
    }
    let seconds = began.elapsed().as_secs_f64();
    say(&format!("power: {points} points, {seen:?}, {seconds:.1} s"));
    assert!(seen.acknowledged > 0 && seen.shown > 0, "a run without a witness shows nothing");
}

fn power(rng: &mut StdRng) -> Fault {
    let calls = if rng.random_bool(0.3) { CALLS_OF_AN_OPENING } else { CALLS };
    Fault::PowerAt { call: rng.random_range(1..calls), seed: rng.random() }
}

/// The power goes `lives` times; then the store is opened once more, and must work.
async fn one_disk(lives: u32, fault: fn(&mut StdRng) -> Fault, rng: &mut StdRng, seen: &mut Seen) -> Result<(), String> {
    let (mut image, mut history, mut told) = (Vec::new(), History::default(), Told::default());
    let mut opened = false;
    for _ in 0..lives {
        let disk = Disk::with(image, fault(rng));
        match until_the_power_goes(&disk, &mut opened, &mut history, &told, rng).await {
            Ok(now) => {
                let (acknowledged, shown) = now.counts();
                (seen.acknowledged, seen.shown) = (seen.acknowledged + acknowledged, seen.shown + shown);
                told = now;
            }
            // Nobody has looked at what the life before left: its witnesses wait.
            Err(_) if !disk.power() => seen.while_opening += 1,
            Err(found) => return Err(found),
        }
        // A directory whose store was never open begins anew: its file `format` says so (`store/directory`, with tests of its own).
        image = if opened { disk.unplug(rng.random()) } else { Vec::new() };
    }
    let disk = Disk::with(image, Fault::Never);
    let life = Life::begin(&disk).await?;
    judge(&life, &mut history, &told).await?;
    let revision = life.put("last").await?;
    if revision <= history.head() { Err(format!("revision {revision} comes again, {} was known", history.head())) } else { Ok(()) }
}

/// Opens the store, judges what it has, and loads it until the power goes; what the witnesses were told then.
async fn until_the_power_goes(
    disk: &Disk,
    opened: &mut bool,
    history: &mut History,
    told: &Told,
    rng: &mut StdRng,
) -> Result<Told, String> {
    let life = Life::begin(disk).await?;
    *opened = true;
    judge(&life, history, told).await?;
    let now = Told::default();
    let witnesses = clients::start(life.clients(WRITERS + 2), history.head(), rng.random(), &now);
    if rng.random_bool(0.5) {
        // Only what has been judged may be dropped; the answer may be lost with the power.
        let _may_be_late = life.compact(history.head()).await;
    }
    let began = Instant::now();
    while disk.power() && began.elapsed() < LIFE {
        sleep(Duration::from_millis(1)).await;
    }
    disk.unplug(rng.random());
    life.has_stopped().await?;
    life.close().await;
    clients::end(witnesses).await;
    Ok(now)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_lies_about_syncs_is_found_out() {
    let mut rng = StdRng::seed_from_u64(1);
    let found = one_disk(1, |_| Fault::SyncsLieUntil(CALLS), &mut rng, &mut Seen::default()).await;
    let found = found.expect_err("half of all writes is gone");
    assert!(found.contains("an acknowledged change is gone"), "{found}");
}

async fn judge(life: &Life, history: &mut History, told: &Told) -> Result<(), String> {
    let found = clients::check(&mut life.client(), history, told).await.map_err(|error| format!("the store cannot be read: {error}"))?;
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_and_a_failed_sync_stop_the_store_and_lose_nothing_promised() {
    for seed in 0..10 {
        let mut rng = StdRng::seed_from_u64(seed);
        for fault in [Fault::FullAt, Fault::SyncFailsAt] {
            let disk = Disk::with(Vec::new(), fault(rng.random_range(40..CALLS)));
            let (mut history, told) = (History::default(), Told::default());
            let life = Life::begin(&disk).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            judge(&life, &mut history, &told).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let witnesses = clients::start(life.clients(WRITERS + 2), 1, seed, &told);
            life.stops().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            life.has_stopped().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            life.close().await;
            clients::end(witnesses).await;
            let again = Disk::with(disk.unplug(seed), Fault::Never);
            let life = Life::begin(&again).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            judge(&life, &mut history, &told).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(told.counts().0 > 0, "seed {seed}: nothing was promised before the fault");
        }
    }
}

/// A line for the person who runs the tests, whether or not the harness captures output.
fn say(line: &str) {
    // A closed output must not fail a test.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
