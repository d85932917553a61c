//! Attacks: callers who take what they can get, one kind at a time, beside an honest client who must not notice. What it cost, and whether it was bounded.

mod bodies;
mod defined;
mod definitions;
mod documents;
mod floods;
mod frames;
mod ground;
mod heads;
mod held;
mod honest;
mod lists;
mod options;
mod others;
mod raw;
mod report;
mod strangers;

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use tokio::time::sleep;

pub(crate) use ground::{Target, seed_large};
pub(crate) use options::{Attack, Attacks};
pub(crate) use report::Report;

use crate::{
    attack::{
        ground::{Ground, Seed},
        honest::Honest,
        options::Size,
        report::{Cost, Told},
    },
    options::Options,
    process,
    subject::{HONEST, Wishes},
};

/// How long the server may take from SIGTERM to its end: its own `--shutdown-timeout` of 10 s, and a busy machine.
const SHUTDOWN: Duration = Duration::from_secs(15);
/// The same of the peer, which lets requests end for a minute.
const SHUTDOWN_OF_PEER: Duration = Duration::from_secs(75);
/// Half bodies on connections of their own, and the connections that there are for everyone.
const HALVES: usize = 50;
/// See [`HALVES`].
const FEW_CONNECTIONS: usize = 128;
/// Caches give way, and nothing else does.
const BUDGET: &str = "--memory-budget=1Gi";
/// Connections of strangers, and all that the server has.
const STRANGERS: Size = Size(200, 2000);
/// Connections from one address, and all that the server has: half of the usual limit of open files.
const CONNECTIONS: Size = Size(2000, 9000);

impl Attack {
    fn seed(self) -> Seed {
        match self {
            Self::UnreadLists | Self::UnreadAll | Self::LongSelectors | Self::UnreadWebsocket | Self::AuditStuck => Seed::Small,
            Self::UnreadLarge | Self::UnreadCopies => Seed::Large,
            _ => Seed::Nothing,
        }
    }

    /// Arguments of this project's server besides the usual ones.
    fn args(self, sizes: &Attacks, dir: &Path, hole: &heads::Hole) -> Result<Vec<String>> {
        let connections = match self {
            Self::HeadsWaiting => return hole.is_asked_about_tokens(dir),
            Self::HeadsRoom => return Ok(vec!["--unread-bytes-limit=1Mi".into(), BUDGET.into()]),
            Self::HeadsSelectors => return Ok(vec![BUDGET.into()]),
            Self::AuditStuck => return hole.is_told_of_requests(dir),
            Self::HeadsAudit => return heads::audit(dir),
            Self::HeadsHttp1 => return Ok([heads::audit(dir)?, vec![BUDGET.into()]].concat()),
            Self::HalfBodiesEnded => FEW_CONNECTIONS,
            Self::Strangers | Self::SlowHandshakes => sizes.of(STRANGERS),
            Self::ManyConnections => sizes.of(CONNECTIONS),
            _ => return Ok(Vec::new()),
        };
        Ok(vec!["--max-connections".into(), connections.to_string()])
    }

    /// Whether the attacker comes through the TLS listener; the honest client takes the same.
    fn is_secure(self) -> bool {
        matches!(
            self,
            Self::Strangers
                | Self::SlowHandshakes
                | Self::ManyConnections
                | Self::SettingsFlood
                | Self::FrameFloods
                | Self::HeadsWaiting
                | Self::HeadsSelectors
                | Self::DeadBlocks
                | Self::UpstreamResets
                | Self::OverviewStreams
                | Self::RulesReviews
        )
    }

    /// Whether its arguments are about who a client is and what it may do.
    fn is_of_a_judge(self) -> bool {
        matches!(self, Self::HeadsWaiting | Self::HangingWebhook | Self::LongQuestions)
    }

    /// Whether what it writes stays, and takes memory.
    fn stays(self) -> bool {
        matches!(self, Self::Definitions | Self::ManyDefinitions | Self::LargeDefinition) || self.is_defined()
    }
}

/// Plays one attack, with all its quiet times.
pub(crate) async fn play(attack: Attack, options: &Options, dir: &Path) -> Result<Report> {
    options.ports().free().await?;
    let sizes = &options.attacks;
    let log = floods::Log::of(attack)?;
    let stderr = log.as_ref().map(floods::Log::stderr).transpose()?;
    let hole = heads::Hole::open().await?;
    let wishes = Wishes { secure: true, args: attack.args(sizes, dir, &hole)?, stderr, ..Wishes::default() };
    let mut ground = Ground::start(options, dir, attack, wishes).await?;
    if let Some(log) = &log {
        log.fill()?;
    }
    let listener = if attack.is_secure() { &ground.target.secure } else { &ground.target.plain };
    // Where everybody has a name, the honest one's is not that whose answers wait for the audit webhook.
    let other = (attack == Attack::AuditStuck && ground.target.is_fed).then(|| Arc::new(listener.with_token(HONEST)));
    let own = other.as_ref().unwrap_or(listener);
    let honest = Honest::start(own, &ground.server.plain).await?;
    sleep(Duration::from_secs(1)).await;
    let _of_the_beginning = honest.take();
    let quiet = ground.server.cost()?;
    sleep(sizes.rest()).await;
    let (rest, before) = (honest.take(), ground.server.cost()?);
    ground.server.forget_peak()?;
    let ours = process::cpu_seconds("self")?;

    let mut told = Told::default();
    let idle_cpu = (before.cpu_seconds - quiet.cpu_seconds) / sizes.rest().as_secs_f64();
    run(attack, &mut ground, &mut told, idle_cpu).await.with_context(|| format!("the attack {}", attack.name()))?;

    if let Err(error) = ground.server.alive() {
        told.blame(format!("{error:#}"));
        return Ok(Report::new(attack, sizes, [rest, honest.take()], Cost::dead(before.rss_mib), told));
    }
    let (during, cpu) = (honest.take(), ground.server.cost()?.cpu_seconds - before.cpu_seconds);
    let attacker_cpu_seconds = process::cpu_seconds("self")? - ours;
    sleep(sizes.recovery()).await;
    // What it takes when the attacker has gone counts too.
    let after = ground.server.cost()?;
    let cost = Cost { mib: [before.rss_mib, after.peak_mib, after.rss_mib], cpu_seconds: cpu, attacker_cpu_seconds };
    let afterwards = honest.take();
    for act in honest::Act::ALL {
        if afterwards[act as usize].count == 0 || afterwards[act as usize].max >= honest::PATIENCE.as_secs_f64() * 1000.0 {
            told.blame(format!("{} did not recover: {:?}", act.name(), afterwards[act as usize].failed.last()));
        }
    }
    // It is about to lose its server, and need not tell.
    drop(honest);
    let patience = if options.subject.is_ours() { SHUTDOWN } else { SHUTDOWN_OF_PEER };
    end(attack, &mut ground, patience, &mut told).await?;
    Ok(Report::new(attack, sizes, [rest, during], cost, told))
}

/// SIGTERM has to end it in time, whatever happened before.
async fn end(attack: Attack, ground: &mut Ground, patience: Duration, told: &mut Told) -> Result<()> {
    let held = if attack == Attack::HalfBodiesEnded { Some(bodies::half_connections(&ground.target, HALVES).await) } else { None };
    match ground.server.terminate(patience).await {
        Ok(time) => told.note("sigterm", format!("{:.1}s", time.as_secs_f64())),
        Err(error) => told.blame(format!("{error:#}")),
    }
    drop(held);
    if attack == Attack::Definitions {
        let start = std::time::Instant::now();
        ground.server.start_again().await?;
        told.note("ready_again", format!("{:.1}s", start.elapsed().as_secs_f64()));
    }
    Ok(())
}

async fn run(attack: Attack, ground: &mut Ground, told: &mut Told, idle_cpu: f64) -> Result<()> {
    let target = &ground.target.clone();
    match attack {
        Attack::UnreadLarge => lists::unread_large(ground, told).await,
        Attack::ManyDefinitions => definitions::small(ground, told, idle_cpu).await,
        Attack::HeadsWaiting => heads::waiting(ground, told).await,
        Attack::HeadsRoom => heads::room(ground, told).await,
        Attack::HeadsSelectors => heads::selectors(ground, told).await,
        Attack::HeadsAudit => heads::audited(ground, told).await,
        Attack::HeadsHttp1 => heads::http1(ground, told).await,
        Attack::DeadBlocks => heads::dead(ground, told).await,
        _ if attack.is_defined() => run_defined(attack, target, told).await,
        _ => run_on(attack, target, told).await,
    }
}

/// Runs an attack with what is written once.
async fn run_defined(attack: Attack, target: &Target, told: &mut Told) -> Result<()> {
    match attack {
        Attack::DefinedPatterns => defined::patterns(target, told).await,
        Attack::DefinedColumns => defined::columns(target, told).await,
        Attack::WatchedColumns => defined::watched_columns(target, told).await,
        Attack::DefinedDefaults => defined::defaults(target, told).await,
        Attack::MultipliedDefaults => defined::multiplied(target, told).await,
        Attack::ManyVersions => defined::versions(target, told).await,
        Attack::RulesReviews => defined::rules(target, told).await,
        Attack::OverviewStreams => defined::streams(target, told).await,
        Attack::CertificateRequests => defined::certificates(target, told).await,
        _ => bail!("{} is not about what is written", attack.name()),
    }
}

/// Runs an attack that needs to know no more than where the server is.
async fn run_on(attack: Attack, target: &Target, told: &mut Told) -> Result<()> {
    match attack {
        Attack::LogFull | Attack::LogUnread => floods::resets(target, told).await,
        Attack::UnreadLists => lists::unread(target, told).await,
        Attack::UnreadAll => lists::unread_all(target, told).await,
        Attack::HalfBodies => bodies::half(target, told).await,
        Attack::HalfBodiesEnded => bodies::few_connections(target, HALVES, told).await,
        Attack::SlowBodies => bodies::slow(target, told).await,
        Attack::Strangers => strangers::unsent_refusals(target, target.sizes.of(STRANGERS), told).await,
        Attack::SlowHandshakes => strangers::slow_handshakes(target, target.sizes.of(STRANGERS), told).await,
        Attack::ManyConnections => strangers::silent(target, target.sizes.of(CONNECTIONS), told).await,
        Attack::Definitions => definitions::large_and_many(target, told).await?,
        Attack::LargeDefinition => definitions::largest(target, told).await?,
        Attack::Shadow => definitions::shadow(target, told).await?,
        Attack::LongSelectors => lists::long_selectors(target, told).await,
        Attack::LongSelectorWatches => lists::long_selector_watches(target, told).await,
        Attack::SettingsFlood => floods::settings(target, told).await,
        Attack::FrameFloods => floods::frames(target, told).await,
        Attack::GiantDocuments => documents::giant(target, told).await,
        Attack::UnreadWebsocket => strangers::unread_websockets(target, told).await,
        Attack::BurstConnections => strangers::burst(target, told).await,
        Attack::BurstWatches => lists::burst(target, told).await,
        Attack::LargePatches => held::patches(target, told).await?,
        Attack::UnreadCopies => held::copies(target, told).await?,
        Attack::UnreadPictures => held::snapshots(target, told).await?,
        Attack::UpstreamResets => floods::forwarded(target, told).await,
        Attack::HangingWebhook => others::hanging_webhook(target, told).await?,
        Attack::LongQuestions => others::long_questions(target, told).await?,
        Attack::AuditStuck => held::audited(target, told).await?,
        Attack::ImpersonatedWatches => others::impersonated_watches(target, told).await?,
        _ => bail!("{} needs more than a target", attack.name()),
    }
    Ok(())
}

/// Attacks that any server can bear, and that leave nothing behind in its memory: what is stored, and a webhook, would.
const TURNS: [Attack; 15] = [
    Attack::LogFull,
    Attack::UnreadLists,
    Attack::UnreadAll,
    Attack::SlowBodies,
    Attack::Strangers,
    Attack::SlowHandshakes,
    Attack::ManyConnections,
    Attack::LongSelectors,
    Attack::LongSelectorWatches,
    Attack::FrameFloods,
    Attack::GiantDocuments,
    Attack::UnreadWebsocket,
    Attack::BurstConnections,
    Attack::BurstWatches,
    Attack::UnreadCopies,
];

/// Runs one of [`TURNS`] on a server that others watch, until the time is over; returns its name.
pub(crate) async fn in_turn(nth: usize, target: &Target) -> Result<&'static str> {
    let attack = TURNS[nth % TURNS.len()];
    let mut told = Told::default();
    run_on(attack, target, &mut told).await.with_context(|| format!("the attack {}", attack.name()))?;
    Ok(attack.name())
}

/// Three attacks at once on a server that others watch, until the time is over.
pub(crate) async fn three_at_once(target: &Target) -> Vec<(&'static str, String)> {
    let mut told = [Told::default(), Told::default(), Told::default()];
    let [lists, bodies, settings] = &mut told;
    tokio::join!(lists::unread_pods(target, lists), bodies::half(target, bodies), floods::settings(target, settings));
    told.into_iter().flat_map(|t| t.notes).collect()
}
