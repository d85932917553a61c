//! A cluster that is upgraded to the next minor under a read replica, and rolled back: first with two API servers behind one address, as large clusters do it,
//! then with one that is stopped before the other starts. Informers watch and writers write all the while, through the replica and past it. What the newer one
//! adds to an object must be shown to everybody as long as no older one could have been asked.

mod controllers;
mod lists;
mod servers;
mod stored;
mod writers;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use bytes::Bytes;
use serde_json::json;
use tokio::{sync::watch, time::sleep};

use crate::{
    etcd::Etcd,
    http::Listener,
    object::{Filter, NAMESPACE_PREFIX, Resource},
    options::{Options, Subject},
    reflector::{Habit, Reflector},
    stage::{self, Verdict},
    subject::{Server, Wishes, write_tokens},
    truth::Expected,
    validate::{Expiry, Guarantee, Violation, check},
    wire::Encoding,
};
use controllers::Controllers;
use servers::{Release, Running, Servers};
use stored::Stored;
use writers::Writers;

/// What is written and watched. The replica has the first in memory whatever minor is behind it; the second it forwards while one is behind it that shows them
/// otherwise.
const RESOURCES: [Resource; 2] = [Resource::Autoscalers, Resource::StatefulSets];
/// How long after the last older API server has gone bytes of it may still come.
const UNDER_WAY: Duration = Duration::from_secs(2);
/// How long the replica may take to notice which minor is behind it: it looks every five seconds, and the machine is slow.
const NOTICED: Duration = Duration::from_secs(20);
/// The same of a server that is fed: it asks every ten seconds, and compares what it has within twenty.
const NOTICED_BY_FED: Duration = Duration::from_secs(60);
/// How long anything else may take.
const ANSWER: Duration = Duration::from_secs(120);

/// The times in which no older API server was there.
#[derive(Debug, Default)]
struct Alone(Vec<(Instant, Option<Instant>)>);

impl Alone {
    fn begin(&mut self) {
        self.0.push((Instant::now(), None));
    }

    fn end(&mut self) {
        if let Some((_, until)) = self.0.last_mut() {
            *until = Some(Instant::now());
        }
    }

    /// How long the newer one had been alone at a time in which it was.
    fn since(&self, at: Instant) -> Option<Duration> {
        let (from, _) = self.0.iter().find(|(from, until)| at >= *from && until.is_none_or(|until| at < until))?;
        Some(at.duration_since(*from))
    }
}

/// The informers of one resource, and what was really stored of it.
struct Side {
    stored: Stored,
    informers: Vec<Reflector>,
}

/// Everything that plays.
struct Play<'a> {
    options: &'a Options,
    servers: Servers<'a>,
    replica: Server,
    controllers: Option<Controllers>,
    sides: Vec<Side>,
    stop: watch::Sender<bool>,
    alone: Alone,
    found: Vec<Violation>,
    notes: Vec<(&'static str, String)>,
    compared: lists::Compared,
    slowest: Duration,
}

pub(super) async fn upgraded(options: &Options, dir: &Path) -> Result<Verdict> {
    write_tokens(dir)?;
    let _etcd = Etcd::start(&options.etcd, dir, &options.ports(), &[]).await?;
    let servers = Servers::prepare(options, dir).await?;
    let (here, there) = (options.ports().upstream(), options.ports().other_upstream());
    let first = servers.start(Release::Older, here).await?;
    servers.behind(&[here]);
    make(&servers.listener(here)?).await?;
    let wishes = Wishes { secure: true, args: servers.subject_args()?, ..Wishes::default() };
    let replica = Server::start(options, dir, &[options.ports().etcd(0)], wishes).await?;
    let controllers = Controllers::start(options, dir, &replica.secure).await?;
    let mut play = Play::begin(options, servers, replica, controllers)?;
    let writers = play.writers()?;
    sleep(Duration::from_secs(3)).await;
    play.watch();
    play.state(&first, Release::Older).await?;
    // Two behind one address: the other joins, then the first leaves.
    let second = play.servers.start(Release::Newer, there).await?;
    play.servers.behind(&[here, there]);
    play.pass().await;
    play.leave(first, &[there]).await?;
    play.alone.begin();
    play.state(&second, Release::Newer).await?;
    play.alone.end();
    let first = play.servers.start(Release::Older, here).await?;
    play.servers.behind(&[here, there]);
    play.pass().await;
    play.leave(second, &[here]).await?;
    play.state(&first, Release::Older).await?;
    // One, which is away meanwhile.
    play.leave(first, &[]).await?;
    play.alone.begin();
    let only = play.servers.start(Release::Newer, here).await?;
    play.servers.behind(&[here]);
    play.state(&only, Release::Newer).await?;
    play.leave(only, &[]).await?;
    play.alone.end();
    let only = play.servers.start(Release::Older, here).await?;
    play.servers.behind(&[here]);
    play.state(&only, Release::Older).await?;
    let written = writers.stop().await?;
    play.notes.extend(written.notes());
    for (why, count) in written.refused {
        println!("  writers: {count} times {why}");
    }
    play.verdict(only).await
}

/// Makes the namespaces of the writers, and objects that the two minors show in different ways.
async fn make(upstream: &Listener) -> Result<()> {
    let namespaces =
        (0..stage::NAMESPACES).map(|nth| ("/api/v1/namespaces", json!({"metadata": {"name": format!("{NAMESPACE_PREFIX}{nth}")}})));
    let others = [
        (
            "/apis/storage.k8s.io/v1/csinodes",
            json!({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "nodeID": "i", "topologyKeys": null}]}}),
        ),
        ("/apis/storage.k8s.io/v1/csidrivers", json!({"metadata": {"name": "d.example.org"}, "spec": {}})),
        (
            "/apis/apps/v1/namespaces/default/daemonsets",
            json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
        ),
    ];
    for (path, object) in namespaces.chain(others) {
        let (status, body) = upstream.whole("POST", path, Some(("application/json", Bytes::from(object.to_string()))), ANSWER).await?;
        ensure!(status == 201, "{path}: {status} {}", String::from_utf8_lossy(&body));
    }
    Ok(())
}

impl<'a> Play<'a> {
    fn begin(options: &'a Options, servers: Servers<'a>, replica: Server, controllers: Option<Controllers>) -> Result<Self> {
        let follow = |resource| Ok(Side { stored: Stored::follow(options.ports().etcd(0), resource)?, informers: Vec::new() });
        let sides = RESOURCES.into_iter().map(follow).collect::<Result<_>>()?;
        Ok(Self {
            options,
            servers,
            replica,
            controllers,
            sides,
            stop: watch::Sender::new(false),
            alone: Alone::default(),
            found: Vec::new(),
            notes: Vec::new(),
            compared: lists::Compared::default(),
            slowest: Duration::ZERO,
        })
    }

    fn writers(&self) -> Result<Writers> {
        let ways = [self.replica.secure.clone(), Arc::new(self.servers.balanced()?)];
        let ledgers = self.sides.iter().map(|side| side.stored.ledger.clone()).collect();
        Ok(Writers::start(ledgers, ways, self.options.writes_per_second, self.options.seed))
    }

    /// Starts the informers: both resources and both encodings in turn, with the scopes and starts of everyday watchers.
    fn watch(&mut self) {
        for nth in 0..self.options.informers {
            let encoding = if nth / 2 % 2 == 0 { Encoding::Json } else { Encoding::Protobuf };
            let habit = Habit { encoding, ..stage::habit(nth / 4) };
            let side = &mut self.sides[nth % 2];
            let ledger = side.stored.ledger.clone();
            side.informers.push(Reflector::start(nth, habit, self.replica.secure.clone(), ledger, self.stop.subscribe()));
        }
    }

    fn is_fed(&self) -> bool {
        self.options.subject == Subject::WatchcacheUpstream
    }

    fn noticed(&self) -> Duration {
        if self.is_fed() { NOTICED_BY_FED } else { NOTICED }
    }

    async fn pass(&self) {
        sleep(Duration::from_secs(self.options.upgrade_seconds)).await;
    }

    /// Lets a state last in which there is one API server only; the replica must then list what that one lists, and show no less all the while.
    async fn state(&mut self, server: &Running, release: Release) -> Result<()> {
        let began = Instant::now();
        let (ours, theirs) = (self.replica.secure.clone(), self.servers.listener(server.port)?);
        let ours = &*ours;
        let noticed = loop {
            let asked = began.elapsed();
            let compared = lists::compare(ours, &theirs, release).await?;
            let Some(wrong) = compared.wrong.first().filter(|_| asked < self.noticed()) else { break asked };
            println!(
                "  {release:?}: asked for after {:.1} s {} lists differ, the first: {wrong}",
                asked.as_secs_f64(),
                compared.wrong.len()
            );
            sleep(Duration::from_millis(200)).await;
        };
        self.slowest = self.slowest.max(noticed);
        if let Some(controllers) = &mut self.controllers
            && let Err(error) = controllers.scale(&theirs, ours).await
        {
            self.blame(Guarantee::Complete, format!("{release:?}: {error:#}"));
        }
        let left = Duration::from_secs(self.options.upgrade_seconds).saturating_sub(began.elapsed());
        sleep(left).await;
        let compared = lists::compare(ours, &theirs, release).await?;
        for wrong in &compared.wrong {
            self.blame(Guarantee::Together, format!("{release:?}: {wrong}"));
        }
        self.compared.add(compared);
        self.replica.alive()
    }

    /// One leaves: first the address, then it ends as it is told to.
    async fn leave(&self, server: Running, rest: &[u16]) -> Result<()> {
        self.servers.behind(rest);
        server.process.terminate(ANSWER).await
    }

    fn blame(&mut self, guarantee: Guarantee, detail: String) {
        self.found.push(Violation { guarantee, client: None, detail });
    }

    /// Waits until every informer has the truth, ends everything, and judges.
    async fn verdict(mut self, only: Running) -> Result<Verdict> {
        for side in &mut self.sides {
            side.stored.settled(self.options.ports().etcd(0)).await?;
        }
        let settled = self.settle().await;
        sleep(Duration::from_millis(700)).await;
        self.replica.alive()?;
        let cost = self.replica.cost()?;
        self.stop.send_replace(true);
        let (is_fed, noticed) = (self.is_fed(), self.noticed());
        let mut verdict = Verdict::default();
        let mut late = Duration::ZERO;
        for Side { stored, informers } in self.sides {
            let resource = stored.ledger.resource();
            let values = stored.values();
            let fuller = values.iter().filter(|value| value.is_whole == Some(true)).count();
            self.notes.push(if resource == Resource::Autoscalers {
                ("autoscalers", values.len().to_string())
            } else {
                ("statefulsets", values.len().to_string())
            });
            self.notes.push(("with_newer_fields", fuller.to_string()));
            self.found.extend(stored::lost(&values, &stored.ledger, &self.alone));
            let eras = stored.ledger.eras();
            // A watch that is forwarded is at the mercy of an API server that has just started and remembers nothing.
            let expiry = if resource == Resource::Autoscalers && !is_fed { Expiry::Never } else { Expiry::Anyhow };
            for informer in informers {
                for lesser in informer.lesser() {
                    let Some(since) = self.alone.since(lesser.at) else { continue };
                    if resource == Resource::StatefulSets || is_fed {
                        late = late.max(since);
                        if since < noticed {
                            continue;
                        }
                    } else if since < UNDER_WAY || !stored::has_whole(&values, lesser.key, lesser.revision) {
                        continue;
                    }
                    let detail = format!(
                        "{resource:?} {:x} at {} was shown with less, {since:?} after the older one had gone",
                        lesser.key, lesser.revision
                    );
                    self.found.push(Violation { guarantee: Guarantee::Together, client: Some(informer.number()), detail });
                }
                let (history, delays) = informer.history().await?;
                let expected: Vec<Expected> = eras.iter().map(|era| era.expected(&history.filter)).collect();
                verdict.violations.extend(check(&history, &expected, expiry));
                verdict.count(&history);
                verdict.delayed(&delays);
                verdict.clients += 1;
            }
        }
        verdict.violations.extend(self.found);
        verdict.notes = self.notes;
        verdict.notes.extend(self.compared.notes());
        verdict.notes.extend(self.controllers.map(|controllers| ("pods_after", format!("{}ms", controllers.slowest.as_millis()))));
        verdict.notes.extend([
            ("noticed", format!("{}ms", self.slowest.as_millis())),
            ("defaults_late", format!("{}ms", late.as_millis())),
            ("settled", format!("{}ms", settled.as_millis())),
            ("rss_mib", cost.rss_mib.to_string()),
            ("cpu_s", format!("{:.1}", cost.cpu_seconds)),
        ]);
        self.replica.end().await?;
        only.process.kill().await?;
        Ok(verdict)
    }

    async fn settle(&mut self) -> Duration {
        let began = Instant::now();
        let behind = loop {
            let behind: usize = self.sides.iter().map(Side::behind).sum();
            if behind == 0 || began.elapsed() > self.options.settle() {
                break behind;
            }
            sleep(Duration::from_millis(100)).await;
        };
        if behind > 0 {
            self.blame(Guarantee::Bounded, format!("{behind} informers did not reach the truth within {:?}", self.options.settle()));
        }
        began.elapsed()
    }
}

impl Side {
    /// Informers that do not believe the truth.
    fn behind(&self) -> usize {
        let eras = self.stored.ledger.eras();
        let Some(era) = eras.last() else { return self.informers.len() };
        let truth = |filter: &Filter| era.expected(filter).state_at(u64::MAX);
        self.informers.iter().filter(|informer| !informer.believes(&truth(informer.filter()))).count()
    }
}
