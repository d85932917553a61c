//! Authorization: the authorizers that the flags name, over indexes that follow the cache, and webhooks.

mod acting;
mod asker;
pub mod directory;
mod follow;
mod last_verdicts;
mod rate_limiter;
pub mod review;
pub mod selectors;
pub mod settings;
mod streams;
#[cfg(test)]
mod tests;
mod webhooks;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use crate::authn::{Forbidden, Impersonated, Impersonation};
use crate::authz::RequestInfo;
use crate::authz::node::NodeGraph;
use crate::authz::rbac::{Aggregated, RbacIndex, Refusal, Write};
use crate::authz::webhook::Webhook;
use crate::authz::{Affected, AlwaysAllow, AlwaysDeny, Asking, Attributes, Authorizer, Chain, Link, Masters, Open, Paths, Rules, Verdict};
use crate::right::AskingRight;
use crate::{MASTERS, User};
pub use acting::{Impersonator, about};
pub use asker::{Asker, Undecided};
use client::{KubeconfigError, Logins};
use directory::Cached;
use follow::{Index, follow};
use intern::{Guard, Interned, Interner};
use rate_limiter::Rate;
use registry::ServedResources;
use reload::{FileError, Reload, Reloaded};
use settings::{Authorization, Mode};
use streams::{Evaluation, Stream, Streams};
pub use streams::{Opened, Permission, Refused, StillValid};
use webhooks::{QUESTIONS_MAX, Webhooks};

/// Connections that questions to one authorization webhook may need.
pub const CONNECTIONS_EACH: usize = QUESTIONS_MAX;

/// How often open watches are judged again where another server decides.
const JUDGE_AGAIN: Duration = Duration::from_secs(300);

/// Between two looks at all streams: changes that come in a row are one.
const JUDGE_PAUSE: Duration = Duration::from_millis(100);

/// From the goodbye of a connection until its streams end.
const GOODBYE: Duration = Duration::from_millis(200);

/// Streams judged before others run, and those that webhooks are asked about at once: fewer than one user may have questions.
const JUDGED_AT_ONCE: usize = 256;
const ASKED_AT_ONCE: usize = 16;

/// What webhooks are asked about streams that go on: questions and their bytes a second, and between two looks at all of them. A change of roles must not make
/// anybody ask about thousands of watches with long selectors at once.
const ASKED_PACE: Rate = Rate { each: Duration::from_millis(10), bytes_a_second: 512 << 10 };
const ASKED_PAUSE: Duration = Duration::from_secs(2);

/// How long the turn of such a question may be away.
const ASKED_PATIENCE: Duration = Duration::from_secs(30);

/// The authorizers, in the order of the flag. Shared by all requests.
pub struct Access {
    authorizers: Reloaded<Authorizers>,
    rbac: Arc<Following<RbacIndex>>,
    node: Option<Arc<Following<NodeGraph>>>,
    /// Who may act as whom.
    impersonation: Impersonation,
    /// How many of the indexes have not been loaded yet.
    loading: watch::Sender<usize>,
    /// None when streams go on whatever is taken away, and are not moved.
    streams: Option<Arc<Streams>>,
    /// What they were allowed; many ask for the same.
    infos: Arc<Interner<RequestInfo>>,
    /// Whether streams end when their right is taken away.
    ends_streams: bool,
    /// Whether streams may be moved to other replicas.
    moves_streams: bool,
    /// Those from whom a change may have taken a right, until their streams are judged.
    affected: Mutex<Affected>,
    /// There are some.
    changed: Notify,
    /// How often there were, with a number for what was decided before.
    losses: AtomicU64,
    /// There are streams about which webhooks must be asked.
    unknown: Notify,
}

/// Why it is not known who is asked. One line with the flag.
#[derive(Debug, Error)]
pub enum AccessError {
    /// The file of a configuration.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kubeconfig file of a webhook.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
}

/// Whom to ask.
pub struct Authorizers {
    chain: Chain,
    allows_everyone: bool,
    webhooks: Webhooks,
}

impl Authorizers {
    fn new(
        modes: &[Mode],
        rbac: &Arc<Following<RbacIndex>>,
        node: Option<&Arc<Following<NodeGraph>>>,
        logins: &Logins,
    ) -> Result<Self, KubeconfigError> {
        let mut webhooks = Webhooks::default();
        let mut links = vec![Link::Memory(Arc::new(Masters))];
        for mode in modes {
            links.push(match (mode, node) {
                (Mode::AlwaysAllow, _) => Link::Memory(Arc::new(AlwaysAllow)),
                (Mode::Rbac, _) => Link::Memory(rbac.clone()),
                (Mode::Node, Some(node)) => Link::Memory(node.clone()),
                (Mode::AlwaysDeny | Mode::Node, _) => Link::Memory(Arc::new(AlwaysDeny)),
                (Mode::Paths(paths), _) => Link::Memory(Arc::new(Paths(paths.clone()))),
                (Mode::Webhook(call), _) => {
                    webhooks.add(call, logins)?;
                    Link::Webhook(Arc::new(Webhook::new(call.settings.clone())))
                }
            });
        }
        Ok(Self { chain: Chain(links), allows_everyone: modes.first() == Some(&Mode::AlwaysAllow), webhooks })
    }

    /// Whether any of them is not here.
    fn asks_webhooks(&self) -> bool {
        self.chain.0.iter().any(|link| matches!(link, Link::Webhook(_)))
    }

    /// Answers questions of somebody. `work` asks; it runs again, from the beginning, after a webhook had to be asked first.
    async fn ask<T>(&self, asker: &Asker<'_>, work: impl Fn(&Asking<'_>) -> T) -> Result<T, Undecided> {
        let mut asking = self.asking();
        loop {
            let outcome = work(&asking);
            if !self.learn(&mut asking, asker).await? {
                return Ok(outcome);
            }
        }
    }

    /// Questions of one request that waits for others too between them.
    #[must_use]
    pub fn asking(&self) -> Asking<'_> {
        self.chain.asking(now())
    }

    /// Asks the webhook that had to be asked first, if any; then everything is to be asked again, from the beginning. Whether one was asked.
    ///
    /// # Errors
    /// There was no place for the question in time.
    pub async fn learn(&self, asking: &mut Asking<'_>, asker: &Asker<'_>) -> Result<bool, Undecided> {
        let Some(open) = asking.open() else { return Ok(false) };
        let verdict = self.verdict(&open, asker).await?;
        asking.answer(open, verdict);
        Ok(true)
    }

    /// Asks a webhook what it must be asked.
    ///
    /// # Errors
    /// There was no place for the question in time.
    pub async fn verdict(&self, open: &Open, asker: &Asker<'_>) -> Result<Verdict, Undecided> {
        self.webhooks.ask(open, asker.key(), asker.patience()).await.map_err(|_| Undecided::TooMany)
    }

    /// What memory alone says.
    fn remembered<T>(&self, work: impl FnOnce(&Asking<'_>) -> T) -> Option<T> {
        let mut asking = self.asking();
        let outcome = work(&asking);
        asking.open().is_none().then_some(outcome)
    }
}

fn tell(ended: usize) {
    if ended > 0 {
        tracing::info!(streams = ended, "ended watches whose users lost the right to them");
    }
}

/// Since the Unix epoch.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// An index that follows the cache.
#[derive(Default)]
struct Following<I>(ArcSwap<I>);

impl<I: Index> Authorizer for Following<I> {
    fn decide(&self, asked: &Attributes<'_>) -> Verdict {
        self.0.load().decide(asked)
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.0.load().rules_for(user, namespace)
    }
}

impl Access {
    /// The authorizers that the flags name. Members of `system:masters` are allowed before any of them is asked. With `moves_watches` all watches are known,
    /// not only those that may lose their right.
    ///
    /// # Errors
    /// What is wrong with a file that says who is asked, or where a webhook is.
    pub fn new(config: &Authorization, moves_watches: bool, logins: &Arc<Logins>) -> Result<Self, AccessError> {
        let rbac = Arc::<Following<RbacIndex>>::default();
        let node = config.modes.contains(&Mode::Node).then(Arc::<Following<NodeGraph>>::default);
        let authorizers = {
            let (config, rbac, node, logins) = (config.clone(), rbac.clone(), node.clone(), logins.clone());
            // Webhooks of flags are wrong now or never.
            let _of_flags = match &config.file {
                None => webhooks::open(&config.modes, &logins)?,
                Some(_) => Vec::new(),
            };
            Reloaded::load(config.files(), move |contents| {
                let modes = config.modes_of(contents).map_err(|what| (0, what))?;
                Authorizers::new(&modes, &rbac, node.as_ref(), &logins).map_err(|error| (0, error.what))
            })?
        };
        Ok(Self {
            authorizers,
            rbac,
            node,
            impersonation: Impersonation::new(config.constrained_impersonation),
            loading: watch::Sender::new(0),
            streams: (config.ends_watches || moves_watches).then(Arc::default),
            infos: Arc::default(),
            ends_streams: config.ends_watches,
            moves_streams: moves_watches,
            affected: Mutex::default(),
            changed: Notify::new(),
            losses: AtomicU64::new(0),
            unknown: Notify::new(),
        })
    }

    /// The files that say who is asked.
    #[must_use]
    pub fn files(&self) -> &dyn Reload {
        &self.authorizers
    }

    /// Returns whether the cluster that is asked what clients may do lets us ask, if there is one.
    #[must_use]
    pub fn right(&self) -> Option<Arc<AskingRight>> {
        self.authorizers.now().webhooks.right()
    }

    /// Follows that, for ever.
    pub fn follow_right(&self) -> impl Future<Output = ()> + Send + use<> {
        self.authorizers.now().webhooks.follow_right()
    }

    /// Those who are asked have changed: all open streams are judged again.
    pub fn reloaded(&self) {
        self.lost(Affected::everybody());
    }

    /// What rights are made of has changed: the streams of those who may have lost one are judged again.
    fn lost(&self, affected: Affected) {
        if affected.is_nobody() {
            return;
        }
        // After the change, so whoever decides by what was before has an older number.
        self.losses.fetch_add(1, Ordering::SeqCst);
        self.judge_soon(affected);
    }

    fn judge_soon(&self, affected: Affected) {
        self.affected.lock().add(affected);
        self.changed.notify_one();
    }

    /// How often somebody may have lost a right: what is decided from now on rests on nothing older.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    /// Follows the objects that authorizers decide by until the process ends. From the call on nothing is decided before they are loaded once.
    pub fn follow(self: Arc<Self>, resources: Arc<ArcSwap<ServedResources>>) -> impl Future<Output = ()> + Send {
        self.loading.send_replace(1 + usize::from(self.node.is_some()));
        async move {
            let loaded = || self.loading.send_modify(|indexes| *indexes -= 1);
            let node = async {
                if let Some(node) = &self.node {
                    follow(&node.0, &resources, &|affected| self.lost(affected), &loaded).await;
                }
            };
            // Webhooks may look at roles too.
            let of_roles = |affected| self.lost(if self.authorizers.now().asks_webhooks() { Affected::everybody() } else { affected });
            tokio::join!(follow(&self.rbac.0, &resources, &of_roles, &loaded), node);
        }
    }

    /// Judges the open streams again now and then until the process ends, where nothing here tells of changes: another server decides, and is asked again.
    pub async fn judge_now_and_then(self: Arc<Self>) {
        loop {
            tokio::time::sleep(JUDGE_AGAIN).await;
            self.lost(Affected::everybody());
        }
    }

    /// Ends streams whose rights are taken away, until the process ends.
    pub async fn end_streams(self: Arc<Self>, resources: Arc<ArcSwap<ServedResources>>, prefix: Arc<str>) {
        tokio::join!(self.judge(), self.judge_elsewhere(), self.revoke_all_of(&resources, &prefix));
    }

    /// Ends streams whose rights another server has taken away, until the process ends.
    pub async fn end_streams_of_others(self: Arc<Self>) {
        tokio::join!(self.judge(), self.judge_elsewhere(), self.clone().judge_now_and_then());
    }

    /// Waits until it is known what rights are made of.
    async fn loaded(&self, until: Instant) -> Result<(), Undecided> {
        if *self.loading.borrow() == 0 {
            return Ok(());
        }
        let mut loading = self.loading.subscribe();
        let loaded = timeout_at(until, loading.wait_for(|indexes| *indexes == 0)).await;
        // The sender is ours.
        loaded.map(|_| ()).map_err(|_| Undecided::Loading)
    }

    /// Ends the streams whose right is taken away, as far as memory tells. Webhooks are asked about the others.
    async fn judge(&self) {
        let Some(streams) = self.streams.as_ref().filter(|_| self.ends_streams) else { return };
        loop {
            self.changed.notified().await;
            let (mut ended, mut unknown) = (0, false);
            let affected = std::mem::take(&mut *self.affected.lock());
            for some in streams.depending_on(&affected).chunks(JUDGED_AT_ONCE) {
                let authorizers = self.authorizers.now();
                for stream in some {
                    match authorizers.remembered(|asking| stream.evaluate(asking, &self.impersonation)) {
                        Some(Evaluation::Ends(why)) => ended += stream.end(why),
                        Some(Evaluation::Continues) => {}
                        Some(Evaluation::Unknown) | None => unknown = true,
                    }
                }
                tokio::task::yield_now().await;
            }
            if unknown {
                self.unknown.notify_one();
            }
            tell(ended);
            tokio::time::sleep(JUDGE_PAUSE).await;
        }
    }

    /// Asks webhooks about the streams of which memory does not know whether they may go on, at a pace of its own. Nothing else waits for that.
    async fn judge_elsewhere(self: &Arc<Self>) {
        let Some(streams) = self.streams.as_ref().filter(|_| self.ends_streams) else { return };
        loop {
            self.unknown.notified().await;
            let rate = rate_limiter::RateLimiter::of(ASKED_PACE);
            let evaluate = streams.open_ones().into_iter().map(|stream| self.clone().evaluate(stream, &rate));
            tell(stream::iter(evaluate).buffer_unordered(ASKED_AT_ONCE).fold(0, async |all, one| all + one).await);
            tokio::time::sleep(ASKED_PAUSE).await;
        }
    }

    /// Asks about a stream again; 1 if it ends. Where no answer comes it goes on.
    async fn evaluate(self: Arc<Self>, stream: Arc<Stream>, limiter: &rate_limiter::RateLimiter) -> usize {
        let authorizers = self.authorizers.now();
        let mut asking = authorizers.asking();
        loop {
            let evaluation = stream.evaluate(&asking, &self.impersonation);
            let Some(open) = asking.open() else {
                return if let Evaluation::Ends(why) = evaluation { stream.end(why) } else { 0 };
            };
            limiter.acquire(open.question.bytes()).await;
            let asker = Asker { user: stream.user(), address: None, until: Instant::now() + ASKED_PATIENCE };
            let Ok(verdict) = authorizers.webhooks.ask(&open, asker.key(), asker.patience()).await else { return 0 };
            asking.answer(open, verdict);
        }
    }

    /// Ends the streams of deleted service accounts.
    async fn revoke_all_of(&self, resources: &ArcSwap<ServedResources>, prefix: &str) {
        let Some(streams) = self.streams.as_ref().filter(|_| self.ends_streams) else { return };
        let Some(accounts) = resources.load().find("", "v1", "serviceaccounts").cloned() else { return };
        loop {
            let changed = accounts.handle.published.changed();
            let mut ended = 0;
            for users in streams.users().chunks(JUDGED_AT_ONCE) {
                let resources = resources.load_full();
                let directory = Cached::new(&resources, prefix);
                let gone = users.iter().filter(|user| accounts.handle.published.known().is_ready() && directory.lacks(user));
                ended += gone.map(|user| streams.revoke_all_of(user)).sum::<usize>();
                tokio::task::yield_now().await;
            }
            if ended > 0 {
                tracing::info!(streams = ended, "ended watches of deleted service accounts");
            }
            tokio::time::sleep(JUDGE_PAUSE).await;
            changed.await;
        }
    }

    /// Files may have taken credentials away: ends the streams that rest on these.
    pub fn check_credentials(&self) {
        let ended = self.streams.as_ref().filter(|_| self.ends_streams).map_or(0, |streams| streams.check());
        if ended > 0 {
            tracing::info!(streams = ended, "ended watches whose certificates or tokens do not count any longer");
        }
    }

    /// What a stream is allowed, once for all that are allowed the same; `count` counts it when it is new.
    ///
    /// # Errors
    /// What `count` says.
    pub fn share<E>(
        &self,
        info: RequestInfo,
        count: impl FnOnce(&RequestInfo) -> Result<Option<Guard>, E>,
    ) -> Result<Interned<RequestInfo>, E> {
        self.infos.intern(Cow::Owned(info), count)
    }

    /// Files a stream that this request begins, so that it ends when the right to it is taken away. `losses` is what they were before it was allowed.
    #[must_use]
    pub fn open_stream(&self, opened: Opened, losses: u64) -> Option<Permission> {
        let streams = self.streams.as_ref()?;
        let mut whose = Affected::default();
        whose.add_user(&opened.user.name);
        let permission = streams.open(opened);
        // What was lost before it was filed has not ended it.
        if self.losses() != losses {
            self.judge_soon(whose);
        }
        Some(permission)
    }

    /// Whether every watch is to be filed, also of those who can lose no right.
    #[must_use]
    pub fn moves_watches(&self) -> bool {
        self.moves_streams
    }

    /// How many watches there are, if they may be moved.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.streams.as_ref().filter(|_| self.moves_streams).map_or(0, |streams| streams.count())
    }

    /// Ends so many watches cleanly, those of whole connections, which take no more requests: their clients come again elsewhere. How many it were.
    pub async fn move_watches(&self, count: usize) -> usize {
        let Some(streams) = self.streams.as_ref().filter(|_| self.moves_streams) else { return 0 };
        let drain = streams.drain(count);
        // First clients hear that the connection takes nothing new.
        tokio::time::sleep(GOODBYE).await;
        drain.iter().map(|stream| stream.end(Refused::Moved)).sum()
    }

    /// Whether this user is allowed everything, whatever it is: then nothing of the request need be known.
    #[must_use]
    pub fn allows_all(&self, user: &User) -> bool {
        self.authorizers.now().allows_everyone || user.groups.iter().any(|group| group == MASTERS)
    }

    /// Answers questions of somebody, who is charged for them, from memory or after asking webhooks. `work` asks; it may run several times, and the last
    /// outcome counts.
    ///
    /// # Errors
    /// Nobody could be asked in time.
    pub async fn ask<T>(&self, asker: &Asker<'_>, work: impl Fn(&dyn Authorizer) -> T) -> Result<T, Undecided> {
        if !self.allows_all(asker.user) {
            self.loaded(asker.patience()).await?;
        }
        self.authorizers.now().ask(asker, |asking| work(asking)).await
    }

    /// As whom a request of somebody who wants to act as `wanted` is carried out; or that he may not.
    ///
    /// # Errors
    /// Nobody could be asked in time.
    pub async fn act_as(&self, asker: &Asker<'_>, info: &RequestInfo, wanted: &User) -> Result<Result<Impersonated, Forbidden>, Undecided> {
        self.ask(asker, |authorizer| acting::decide(&self.impersonation, authorizer, info, asker.user, wanted)).await
    }

    /// Whether kubelets may write only what is theirs: where the authorizer of nodes lets them write at all.
    #[must_use]
    pub fn restricts_nodes(&self) -> bool {
        self.node.is_some()
    }

    /// Those who are asked, as they are now.
    #[must_use]
    pub fn authorizers(&self) -> Arc<Authorizers> {
        self.authorizers.now()
    }

    /// Whether they are allowed to.
    ///
    /// # Errors
    /// Nobody could be asked in time.
    pub async fn decide(&self, asker: &Asker<'_>, asked: &Attributes<'_>) -> Result<Verdict, Undecided> {
        self.ask(asker, |authorizer| authorizer.decide(asked)).await
    }

    /// Whether a role or a binding may be written, as far as `authorizer` knows.
    ///
    /// # Errors
    /// What the answer is instead.
    pub fn confirm_no_escalation(&self, authorizer: &dyn Authorizer, write: &Write<'_>) -> Result<(), Refusal> {
        self.rbac.0.load().confirm_no_escalation(authorizer, write)
    }

    /// The ClusterRoles that are made of others and have not their rules, with those that they should have.
    #[must_use]
    pub fn aggregated(&self) -> Vec<Aggregated> {
        self.rbac.0.load().aggregated()
    }

    /// What a user may do in a namespace.
    #[must_use]
    pub fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.authorizers.now().asking().rules_for(user, namespace)
    }
}
