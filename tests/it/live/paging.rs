//! Many objects read page by page while they change: every complete paging is one snapshot, whichever server a page comes from.

use std::{
    env,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{Outcome, floor::stand, pace::Load, record::Growing, say};
use crate::{
    client::{Client, Witness},
    guarantees::{self, Asked, Filter, Limits, Seen},
};

/// Objects when nothing else is said; the 50,000 take minutes to make.
const OBJECTS: usize = 5_000;
/// Objects of a page.
const PAGE: usize = 500;
/// Writes a second that are aimed at.
const RATE: u32 = 500;
/// Complete pagings of each kind.
const ROUNDS: usize = 3;
/// Pagings of each kind that may be refused in the middle, for etcd's history may be compacted meanwhile.
const REFUSED_MAX: usize = 10;
const PATH: &str = "/api/v1/namespaces/pg/configmaps";

/// Whose pages one paging takes.
struct Road {
    name: &'static str,
    servers: Vec<Client>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn paging() -> Outcome {
    let floor = stand().await?;
    let objects = env::var("WATCHCACHE_PAGING_OBJECTS").map_or(Ok(OBJECTS), |s| s.parse())?;
    let seed = rand::random();
    say(&format!("live paging: seed {seed}, {objects} objects"));
    let (ours, theirs) = (floor.ours(), floor.theirs());
    let (_running, second) = floor.another().await?;
    let load = Load { namespaces: &["pg"], objects, rate: RATE, seed };
    let (truth, writers) = load.begin(&floor).await?;

    let roads = [
        Road { name: "ours", servers: vec![ours.clone()] },
        Road { name: "theirs", servers: vec![theirs.clone()] },
        Road { name: "crossing", servers: vec![ours, second, theirs] },
    ];
    let mut rng = StdRng::seed_from_u64(seed);
    let mut violations = 0;
    for road in &roads {
        let mut rounds = Rounds::default();
        while rounds.complete < ROUNDS && rounds.refused < REFUSED_MAX {
            let known = writers.newest().load(Ordering::Relaxed);
            violations += rounds.page(road, Asked::Newest { known }, &truth, &mut rng).await?;
        }
        say(&format!("live paging: {}: {rounds}", road.name));
        if rounds.complete < ROUNDS || rounds.meanwhile == 0 {
            return Err(format!("{}: {rounds}: not enough", road.name).into());
        }
    }
    let (made, rate) = writers.stop().await?;
    say(&format!("live paging: {objects} objects, {made} writes ({rate:.0}/s, {RATE}/s aimed at), {violations} violations"));
    if violations > 0 {
        return Err(format!("seed {seed}: {violations} violations").into());
    }
    Ok(())
}

/// What came of the pagings of one road.
#[derive(Default)]
struct Rounds {
    complete: usize,
    refused: usize,
    pages: usize,
    items: usize,
    /// Revisions that passed while the pages were read.
    meanwhile: u64,
    slowest: Duration,
}

impl Rounds {
    /// Reads all pages, each from a server of the road, and counts what is wrong with them.
    async fn page(&mut self, road: &Road, asked: Asked, truth: &Growing, rng: &mut StdRng) -> Result<usize, Box<dyn std::error::Error>> {
        let filter = Filter::new("pg", |key, _| key.starts_with("pg/"));
        let mut witness = Witness::new(road.name, road.servers[0].clone(), PATH, &[], filter);
        let began = Instant::now();
        let listed = witness.list_across(asked, Some(PAGE), || road.servers[rng.random_range(0..road.servers.len())].clone());
        let Some(revision) = listed.await? else {
            self.refused += 1;
            say(&format!("live paging: {}: {:?}", road.name, witness.history.seen.last()));
            return Ok(0);
        };
        self.slowest = self.slowest.max(began.elapsed());
        self.complete += 1;
        let pages = witness.history.seen.iter().filter_map(|s| if let Seen::Listed(page) = s { Some(page.items.len()) } else { None });
        self.pages += pages.clone().count();
        self.items += pages.sum::<usize>();
        truth.reach(revision).await?;
        self.meanwhile += truth.head() - revision;
        let known = truth.between(revision, revision).ok_or("the truth has forgotten the paging")?;
        let broken = guarantees::broken(&witness.history, &known, &Limits::default());
        for violation in &broken {
            say(&format!("live paging: {violation}"));
        }
        Ok(broken.len())
    }
}

impl std::fmt::Display for Rounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { complete, refused, pages, items, meanwhile, slowest } = self;
        write!(
            f,
            "{complete} pagings of {pages} pages and {items} objects, {meanwhile} revisions meanwhile, {refused} refused, {slowest:?} at most"
        )
    }
}
