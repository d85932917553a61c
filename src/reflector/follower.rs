//! Follows one resource: loads it, watches it, forwards what `machine` lets pass, and comes back after every failure, with client-go's pauses.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout};

use super::end::End;
use super::event::{Told, told};
use super::ledger::Held;
use super::lines::{Form, Lines};
use super::load::{self, Progressing};
use super::machine::{Loaded, Machine, Out};
use super::place::Place;
use super::policy::Follows;
use super::release::Shown;
use super::source::{NoAnswer, Source, may_be_old};
use cache::cacher::{Gone, Inbox};
use cache::state::snapshot::Fed;
use model::{Feed, Revision};
use retry::Backoff;

/// A watch lasts so long, or up to twice that, as client-go's; then another one goes on.
const WATCH_TIME: Duration = Duration::from_secs(300);
/// How long a watch may stay silent: upstream sends a bookmark each minute.
const SILENCE_MAX: Duration = Duration::from_secs(180);
/// Waits after failures; each is up to twice as long (client-go's numbers).
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(800), Duration::from_secs(30), 1.0);
/// Over this time those come back that have waited for upstream to answer.
const SPREAD: Duration = Duration::from_secs(2);
/// A watch that lasted so long went well: the pauses begin anew.
const WENT_WELL: Duration = Duration::from_secs(120);
/// A watch that ended by itself sooner is a failure.
const WATCH_TIME_MIN: Duration = Duration::from_secs(1);
/// How long a read waits for what comes by itself before upstream is asked for progress, and the least pause between two such questions.
const PROGRESS_AFTER: Duration = Duration::from_millis(50);
/// A watch of so many seconds gets a bookmark at once: upstream sends one 2 s before the end.
const PROGRESS_WATCH_SECONDS: u64 = 3;
/// How long memory is kept of a resource that upstream refuses: one that has just started refuses what it allows a moment later.
const REFUSED_MAX: Duration = Duration::from_secs(60);
/// How long a resource is forwarded whose objects do not fit, until it is loaded again.
const TOO_LARGE_REST: Duration = Duration::from_secs(600);
/// How long a read waits at most for the wish of a server that it be asked later.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Between two looks whether a resource is asked for.
const IDLE_LOOK: Duration = Duration::from_secs(15);

/// See the file's header.
pub(crate) struct Follower {
    pub(crate) source: Arc<Source>,
    pub(crate) place: Arc<Place>,
    pub(crate) inbox: Inbox,
    pub(crate) machine: Machine,
    /// Room for its objects.
    held: Option<Held>,
    /// The last watch did not end as it should.
    broke_off: bool,
    /// Upstream has less than was known: what it has counts.
    pub(crate) is_rewound: bool,
    /// A bookmark told nothing new: it is not known whether upstream, or who answers for it, still hears of anything.
    is_unsure: bool,
    /// It is loaded page by page.
    by_pages: bool,
    /// When it was loaded last.
    loaded_at: Instant,
    /// By which release memory was shown.
    pub(crate) shown: Shown,
    /// Since when upstream says that it has less than was known.
    older: Option<Instant>,
    /// Since when upstream refuses it.
    refused: Option<Instant>,
    /// What was told the log last.
    told: Option<String>,
    /// Who we were at upstream when what is going on began.
    of_login: u64,
    /// How often in a row a question for progress failed, and when the next one may be asked: of every revision, or of this one.
    progress_failures: u32,
    progress_after: Option<(Option<Revision>, Instant)>,
}

/// What a question for progress came to.
enum Progress {
    /// Nothing has happened between these.
    Silent(Revision, Revision),
    /// Nobody waits any longer, or what is waited for came by itself.
    None,
    /// Something happened after this revision, and the watch will tell it.
    News(Revision),
    /// Upstream does not say, and wants to be asked after this time, if it says so.
    Failed(Option<Duration>),
    /// When it was asked it had nothing newer than this; none: it has, or may have.
    Newest(Instant, Option<Revision>),
}

impl Follower {
    pub(crate) fn new(source: Arc<Source>, place: Place, inbox: Inbox) -> Self {
        Self {
            source,
            place: Arc::new(place),
            inbox,
            machine: Machine::default(),
            held: None,
            broke_off: false,
            is_rewound: false,
            is_unsure: false,
            by_pages: false,
            loaded_at: Instant::now(),
            shown: Shown::default(),
            older: None,
            refused: None,
            told: None,
            of_login: 0,
            progress_failures: 0,
            progress_after: None,
        }
    }

    /// Runs until nobody takes what comes. `idle`: how long nobody asks until it is let go, if at all.
    pub(crate) async fn run(mut self, follows: Follows, idle: Option<Duration>) -> Gone {
        let fed = self.inbox.fed().clone();
        loop {
            let lets_go = match follows {
                Follows::Always => None,
                Follows::WhenAsked => {
                    // What was asked for while it was followed is no wish for it now.
                    loop {
                        fed.wanted().await;
                        if idle.is_none_or(|idle| fed.unwanted_for().is_some_and(|time| time < idle)) {
                            break;
                        }
                    }
                    idle
                }
                Follows::Never => {
                    fed.decline(true);
                    std::future::pending().await
                }
            };
            let inbox = self.inbox.clone();
            let is_idle = async {
                match lets_go {
                    Some(after) => nobody_asks(&inbox, after).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                gone = self.follow() => return gone,
                () = is_idle => {}
            }
            tracing::info!(resource = %self.place.storage.path_name(), "nobody has asked for it: it is no longer followed");
            if let Err(gone) = self.let_go() {
                return gone;
            }
        }
    }

    async fn follow(&mut self) -> Gone {
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let end = self.round().await;
            if began.elapsed() >= WENT_WELL {
                failures = 0;
            }
            let is_away = matches!(end, End::Away(_));
            self.broke_off = !matches!(end, End::Over);
            if matches!(end, End::InDoubt(_)) {
                self.inbox.fed().doubt(self.machine.known());
            }
            let (why, least) = match end {
                End::Gone(gone) => return gone,
                End::Over if began.elapsed() >= WATCH_TIME_MIN => continue,
                End::Over => ("its watches end at once".to_owned(), None),
                End::Later(why, least) => (why, least.map(|least| least.min(RETRY_AFTER_MAX))),
                End::Away(why) => (why, None),
                End::Unsupported(why) => {
                    tracing::info!(resource = %self.place.storage.path_name(), why, "upstream does not begin a watch with all objects; lists it page by page");
                    self.by_pages = true;
                    continue;
                }
                End::OnlyJson(why) => {
                    tracing::info!(resource = %self.place.storage.path_name(), why, "upstream is asked for JSON from now on");
                    self.place.only_json();
                    continue;
                }
                End::Anew(why) | End::InDoubt(why) => {
                    tracing::warn!(resource = %self.place.storage.path_name(), known = %self.machine.known(), why, "a resource is loaded anew");
                    // A load that cannot be gone on from is a failure.
                    if self.machine.forget() && self.loaded_at.elapsed() >= WATCH_TIME_MIN {
                        continue;
                    }
                    (why, None)
                }
                End::TooLarge(why) => {
                    self.inbox.metrics.load_refused();
                    self.inbox.fed().set_note(Some(why.clone().into()));
                    // What memory had of it before took room too.
                    let had = self.held.is_some();
                    if had && let Err(gone) = self.let_go() {
                        return gone;
                    }
                    (why, (!had).then_some(TOO_LARGE_REST))
                }
                End::Refused(why) => {
                    let since = *self.refused.get_or_insert(began);
                    if since.elapsed() >= REFUSED_MAX
                        && self.machine.is_loaded()
                        && let Err(gone) = self.let_go()
                    {
                        return gone;
                    }
                    (why, None)
                }
            };
            self.inbox.fed().cut_off(true);
            self.inbox.fed().decline(self.held.is_none());
            self.tell(why);
            let rest = BACKOFF.wait(failures).max(least.unwrap_or_default());
            failures += 1;
            let source = self.source.clone();
            tokio::select! {
                () = sleep(rest) => {}
                () = source.back.notified(), if is_away => {
                    failures = 0;
                    sleep(SPREAD.mul_f64(rand::random())).await;
                }
                // Whatever the reason was, it may be over.
                () = source.login().changed_since(self.of_login) => failures = 0,
            }
        }
    }

    /// One watch, with a load before it when there is nothing to go on from.
    async fn round(&mut self) -> End {
        self.of_login = self.source.login().generation();
        let outcome = if self.machine.is_loaded() {
            self.watch().await
        } else if self.by_pages {
            self.load_by_pages_and_watch().await
        } else {
            self.load_and_watch().await
        };
        outcome.err().unwrap_or(End::Over)
    }

    /// Goes on from what is known.
    async fn watch(&mut self) -> Result<(), End> {
        let (from, seconds) = (self.machine.resume_at(), watch_seconds());
        let mut lines = self.source.watch(&self.place, &format!("timeoutSeconds={seconds}&resourceVersion={from}")).await?;
        self.check_history(self.broke_off).await?;
        self.check_shown().await?;
        self.machine.reconnected();
        self.goes_well();
        self.take_lines(&mut lines, Vec::new()).await
    }

    async fn load_and_watch(&mut self) -> Result<(), End> {
        let source = self.source.clone();
        let turn = source.loads.acquire().await.expect("the semaphore is never closed");
        let (known, shown) = (self.machine.known(), self.shown_now().await);
        let at_least =
            if known.0 > 0 && !self.is_restored() { format!("&resourceVersion={}", self.machine.loads_from()) } else { String::new() };
        let query = format!("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds={}{at_least}", watch_seconds());
        let mut lines = match self.source.watch(&self.place, &query).await {
            Err(NoAnswer::Failed(failure)) if matches!(failure.code, 400 | 422) => return Err(End::Unsupported(failure.to_string())),
            Err(NoAnswer::Failed(failure)) if failure.code == 504 && known.0 > 0 => {
                // What is wanted after a late event nobody may have yet.
                if !self.machine.is_outrun() || self.has_less().await {
                    self.older.get_or_insert_with(Instant::now);
                }
                return Err(End::failed(failure));
            }
            answer => answer?,
        };
        let began = (!may_be_old(lines.headers())).then(Instant::now);
        let loading = load::initial_events(&mut lines, &self.place, self.progress_of_load());
        let (loaded, rest) = timeout(source.load_time, loading).await.map_err(|_| End::endless())??;
        self.loaded(loaded, began)?;
        self.shown = shown;
        drop(turn);
        self.take_lines(&mut lines, rest).await
    }

    async fn load_by_pages_and_watch(&mut self) -> Result<(), End> {
        let source = self.source.clone();
        let turn = source.loads.acquire().await.expect("the semaphore is never closed");
        let (began, shown) = (Instant::now(), self.shown_now().await);
        let loading = load::list(&source, &self.place, self.progress_of_load());
        let loaded = timeout(source.load_time, loading).await.map_err(|_| End::endless())??;
        self.loaded(loaded, Some(began))?;
        self.shown = shown;
        drop(turn);
        self.watch().await
    }

    /// Whether upstream has said for so long that it has less than was known that it must be believed.
    fn is_restored(&self) -> bool {
        self.is_rewound || self.older.is_some_and(|since| since.elapsed() >= self.source.restored_after)
    }

    /// Whether upstream has less now than is known: a watch from what it does not have yet stays silent.
    async fn has_less(&self) -> bool {
        self.source.newest(&self.place.storage).await.is_ok_and(|newest| newest < self.machine.known())
    }

    fn progress_of_load(&self) -> Progressing {
        Progressing::of(&self.place, self.inbox.fed().clone(), self.source.ledger.begin())
    }

    /// Hands a load over. `began`: since when it is known that upstream had nothing else, if it is.
    fn loaded(&mut self, (loaded, held): (Loaded, Held), began: Option<Instant>) -> Result<(), End> {
        let (revision, objects, broken) = (loaded.revision, loaded.objects.len(), loaded.broken.len());
        let known = self.machine.known();
        if revision < self.machine.loads_from() && self.is_restored() {
            tracing::error!(resource = %self.place.storage.path_name(), %known, %revision, "upstream was restored from a backup, or is another cluster");
            self.inbox.withhold();
            self.inbox.void_before(self.machine.rewind());
            self.inbox.fed().rewind(revision, known);
        } else if revision < known {
            self.older.get_or_insert_with(Instant::now);
        }
        let reset = self.machine.loaded(loaded).map_err(|lie| End::Later(lie.to_string(), None))?;
        self.hand(reset)?;
        self.inbox.fed().advance(revision);
        began.iter().for_each(|began| self.inbox.fed().fresh_as_of(*began));
        tracing::info!(resource = %self.place.storage.path_name(), objects, broken, %revision, bytes = held.bytes(), "follows a resource of upstream");
        self.held = Some(held);
        (self.loaded_at, self.older, self.is_rewound) = (Instant::now(), None, false);
        self.inbox.fed().set_note(None);
        self.goes_well();
        Ok(())
    }

    /// Takes events in until there are no more.
    async fn take_lines(&mut self, lines: &mut Lines, first: Vec<Bytes>) -> Result<(), End> {
        let form = lines.form();
        for line in first {
            self.take(&line, form)?;
        }
        let fed = self.inbox.fed().clone();
        let mut asking: Pin<&mut Option<BoxFuture<'_, Progress>>> = pin!(None);
        let (source, shown) = (self.source.clone(), self.shown.clone());
        let mut turned = pin!(source.releases.turned(&shown));
        let of_login = self.of_login;
        let mut is_another = pin!(async {
            source.login().changed_since(of_login).await;
            sleep(WATCH_TIME_MIN + SPREAD.mul_f64(rand::random())).await;
        });
        loop {
            let hold = self.machine.hold();
            let next = timeout(hold.unwrap_or(SILENCE_MAX), lines.next());
            let next = tokio::select! {
                biased;
                next = next => next,
                progress = async { asking.as_mut().as_pin_mut().expect("it was asked").await }, if asking.is_some() => {
                    asking.set(None);
                    self.progress(progress)?;
                    continue;
                }
                () = std::future::ready(()), if self.is_unsure && asking.is_none() => {
                    self.is_unsure = false;
                    asking.set(Some(newest(self.source.clone(), self.place.clone()).boxed()));
                    continue;
                }
                // What was gathered comes again.
                () = &mut turned => return Ok(()),
                // The next watch is with the credentials of now, of the server of now.
                () = &mut is_another => return Ok(()),
                () = fed.asked(), if asking.is_none() => {
                    let (from, rest) = (self.machine.known(), self.progress_rest());
                    asking.set(Some(progress(self.source.clone(), self.place.clone(), fed.clone(), from, rest).boxed()));
                    continue;
                }
            };
            match next {
                Ok(Ok(Some(line))) => self.take(&line, form)?,
                ended => {
                    let mut out = Vec::new();
                    self.machine.flush(false, &mut out);
                    self.perform(out)?;
                    match ended {
                        Err(_) if hold.is_some() => {}
                        Err(_) if self.has_less().await => return Err(End::InDoubt("upstream has less than it had".to_owned())),
                        Err(_) => return Err(End::later("its watch is silent")),
                        Ok(Err(error)) => return Err(End::call(&error)),
                        Ok(Ok(_)) => return Ok(()),
                    }
                }
            }
        }
    }

    /// How long the next question for progress waits at least.
    fn progress_rest(&self) -> Duration {
        let rest = self.progress_after.filter(|(of, _)| of.is_none_or(|of| of == self.machine.known()));
        rest.map_or(PROGRESS_AFTER, |(_, after)| after.saturating_duration_since(Instant::now()).max(PROGRESS_AFTER))
    }

    /// Notes what another watch has told. Nothing happened between two revisions: if nothing has come since, everything is known up to the second one.
    fn progress(&mut self, progress: Progress) -> Result<(), End> {
        let mut out = Vec::new();
        let failed = match progress {
            Progress::Silent(from, to) => {
                if from == self.machine.known() && self.machine.hold().is_none() {
                    self.machine.bookmark(to, &mut out);
                }
                None
            }
            Progress::Newest(asked_at, newest) => {
                if newest.is_some_and(|newest| newest <= self.machine.known()) {
                    self.inbox.fed().fresh_as_of(asked_at);
                }
                return Ok(());
            }
            Progress::None => None,
            Progress::News(from) => {
                if self.progress_after.is_none_or(|(of, _)| of != Some(from)) {
                    self.progress_failures = 0;
                }
                Some((Some(from), Duration::ZERO))
            }
            Progress::Failed(least) => Some((None, least.unwrap_or_default().min(RETRY_AFTER_MAX))),
        };
        match failed {
            None => (self.progress_failures, self.progress_after) = (0, None),
            Some((of, least)) => {
                self.progress_after = Some((of, Instant::now() + BACKOFF.wait(self.progress_failures).max(least)));
                self.progress_failures += 1;
            }
        }
        if out.is_empty() {
            // Whoever waits on asks again.
            self.inbox.fed().ask_again();
        }
        self.perform(out)
    }

    fn take(&mut self, line: &Bytes, form: Form) -> Result<(), End> {
        let (came, before) = (Instant::now(), self.machine.known());
        self.source.hears();
        let mut out = Vec::new();
        let taken = match told(line, form, &self.place)? {
            Told::Put(item) => self.machine.event(item, false, &self.place, &mut out),
            Told::Gone(item) => self.machine.event(item, true, &self.place, &mut out),
            Told::Bookmark { revision, .. } => {
                self.inbox.metrics.etcd_bookmarks.inc();
                self.machine.bookmark(revision, &mut out);
                Ok(())
            }
            Told::Failed(failure) => return Err(End::failed(failure)),
        };
        let is_news = self.machine.known() > before;
        // An upstream that is itself cut off from its own tells its clients again and again how far it was.
        self.is_unsure |= !is_news && !out.is_empty();
        self.perform(out)?;
        if is_news {
            self.inbox.fed().fresh_as_of(came);
        }
        Ok(taken?)
    }

    /// Hands over, then says how far everything is: the order that readers rely on.
    fn perform(&self, out: Vec<Out>) -> Result<(), End> {
        for one in out {
            match one {
                Out::Batch(batch) => self.hand(Feed::Batch(batch))?,
                Out::Known(revision) => self.inbox.fed().advance(revision),
            }
        }
        Ok(())
    }

    fn hand(&self, feed: Feed) -> Result<(), End> {
        self.inbox.hand(vec![feed]).map(drop).map_err(End::Gone)
    }

    fn let_go(&mut self) -> Result<(), Gone> {
        self.held = None;
        let reset = self.machine.let_go();
        self.inbox.hand(vec![reset]).map(drop)
    }

    fn goes_well(&mut self) {
        self.inbox.fed().cut_off(false);
        self.inbox.fed().decline(false);
        // A progress watch may have ended early because upstream did.
        self.inbox.fed().set_mute(false);
        (self.progress_failures, self.progress_after, self.refused) = (0, None, None);
        if self.told.take().is_some() {
            self.source.back.notify_waiters();
            tracing::info!(resource = %self.place.storage.path_name(), "upstream tells of a resource again");
        }
    }

    fn tell(&mut self, why: String) {
        self.inbox.fed().failed(&why);
        if self.told.as_ref() != Some(&why) {
            tracing::warn!(resource = %self.place.storage.path_name(), why, "a resource of upstream is not followed now; trying again");
            self.told = Some(why);
        }
    }
}

/// While somebody waits, asks upstream whether anything has happened after this revision, by a short watch, which soon gets a bookmark.
async fn progress(source: Arc<Source>, place: Arc<Place>, fed: Arc<Fed>, from: Revision, rest: Duration) -> Progress {
    sleep(rest).await;
    if !fed.is_awaited() || fed.revision() > from {
        return Progress::None;
    }
    let query = format!("timeoutSeconds={PROGRESS_WATCH_SECONDS}&resourceVersion={from}");
    let mut lines = match source.watch(&place, &query).await {
        Ok(lines) => lines,
        Err(NoAnswer::Failed(failure)) => return Progress::Failed(failure.retry_after),
        Err(NoAnswer::Call(_) | NoAnswer::Old) => return Progress::Failed(None),
    };
    let line = match timeout(Duration::from_secs(PROGRESS_WATCH_SECONDS), lines.next()).await {
        Ok(Ok(Some(line))) => line,
        Ok(Err(_)) => return Progress::Failed(None),
        // Nothing was told to the end, as of resources that upstream itself does not keep in memory.
        Ok(Ok(None)) | Err(_) => {
            fed.set_mute(true);
            return Progress::Failed(None);
        }
    };
    match told(&line, lines.form(), &place) {
        Ok(Told::Bookmark { revision, .. }) if revision > from => Progress::Silent(from, revision),
        Ok(Told::Bookmark { .. }) | Err(_) => Progress::Failed(None),
        Ok(Told::Put(_) | Told::Gone(_)) => Progress::News(from),
        Ok(Told::Failed(failure)) => Progress::Failed(failure.retry_after),
    }
}

/// Asks upstream how far it is.
async fn newest(source: Arc<Source>, place: Arc<Place>) -> Progress {
    let asked_at = Instant::now();
    Progress::Newest(asked_at, source.newest_of(&place).await.ok())
}

/// Ends when nobody has asked for the resource for so long, and nobody watches it.
async fn nobody_asks(inbox: &Inbox, idle: Duration) {
    loop {
        sleep(IDLE_LOOK.min(idle)).await;
        if inbox.watches() == 0 && inbox.fed().unwanted_for().is_none_or(|time| time >= idle) {
            return;
        }
    }
}

fn watch_seconds() -> u64 {
    WATCH_TIME.mul_f64(1.0 + rand::random::<f64>()).as_secs()
}
