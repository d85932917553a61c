//! The one thread that writes: takes all requests that wait, applies them in one transaction, commits with one fsync, publishes, answers.
//! In this order, so that nothing is shown before it is durable. After a commit that failed nothing is written any more: what it left on
//! the disk is for the next process to find out.

use std::collections::VecDeque;
use std::mem::{replace, take};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use proto::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, PutRequest, PutResponse, TxnRequest, TxnResponse,
};
use redb::{Database, Durability, ReadableDatabase};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use super::budget::{Account, Held};
use super::defragment::{Copy, Unswapped};
use super::log::{LEASES, LOG};
use super::refusal::{Fault, Refusal};
use super::retention::Retention;
use super::state::{Life, Shared, State};
use super::turn::{Turn, Working};
use progress::{Progress, Unit};

/// Requests of one commit …
const TURN_COUNT_MAX: usize = 1_024;
/// … and their bytes, beyond the first one.
const TURN_BYTES_MAX: usize = 16 << 20;
/// Superfluous changes removed in one commit, beside its requests.
const SWEEP_COUNT_MAX: usize = 1_000;
/// Leases that may end in one commit (etcd's `defaultLeaseRevokeRate` is 1,000 a second).
const EXPIRE_COUNT_MAX: usize = 1_000;
/// How often a writer that has nothing to do looks whether databases that were replaced can be closed.
const RETIRED_LOOK: Duration = Duration::from_secs(1);
/// Longest sleep of a writer that has nothing to do: a bound, not a beat.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// What a lease or one of its keys takes in an answer besides its bytes.
const LISTED_BYTES: usize = 32;

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// A request that waits.
pub(super) struct Ask {
    pub(super) what: What,
    pub(super) bytes: usize,
    /// Its part of the bytes that may wait; free again when it is answered.
    pub(super) permit: OwnedSemaphorePermit,
}

/// What the writer can do.
pub(super) enum What {
    Put(PutRequest, Account, Reply<Held<PutResponse>>),
    Delete(DeleteRangeRequest, Account, Reply<Held<DeleteRangeResponse>>),
    Txn(TxnRequest, Account, Reply<Held<TxnResponse>>),
    Compact(CompactionRequest, Reply<CompactionResponse>),
    Grant(LeaseGrantRequest, Reply<LeaseGrantResponse>),
    Revoke(i64, Reply<()>),
    /// Answers the time to live, 0 of a lease that is not there.
    KeepAlive(i64, Reply<i64>),
    TimeToLive(LeaseTimeToLiveRequest, Account, Reply<Held<LeaseTimeToLiveResponse>>),
    Leases(Account, Reply<Held<Vec<i64>>>),
    /// Whether superfluous changes are removed from the log; those that are superfluous already go before they are not.
    Sweep(bool, Reply<()>),
    /// Goes on in a copy of the database; answers how many bytes of it are history.
    Swap(Box<Copy>, Reply<u64>),
    /// Ends the writer after what came before.
    Close(Reply<()>),
}

/// Sends an answer, once what it says is durable.
type Answer = Box<dyn FnOnce() + Send>;

/// See the file's header.
pub(super) struct Writer {
    pub(super) database: Database,
    pub(super) work: Working,
    pub(super) shared: Arc<Shared>,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) retention: Option<Retention>,
    /// Taken from the channel, not yet applied.
    waiting: VecDeque<Ask>,
    /// Compactions that are answered when nothing of them is left on disk.
    physical: Vec<(i64, Reply<CompactionResponse>)>,
    closing: Option<Reply<()>>,
    life: watch::Receiver<Life>,
    sweeps: bool,
    /// Told when all that is superfluous is removed, and nothing more is.
    pausing: Option<Reply<()>>,
    /// Held by the snapshots of the database.
    token: Arc<()>,
    /// While changes that are compacted are removed; with how many were.
    sweeping: Option<(Progress, u64)>,
    /// Databases that another one has replaced, open as long as somebody holds a snapshot of them.
    retired: Vec<(Database, Weak<()>)>,
}

/// Ends the store when its writer ends by a fault of its own.
pub(super) struct Bell(pub(super) Arc<Shared>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.fail("the writer has ended by a fault of its own".into(), false);
    }
}

impl Writer {
    pub(super) fn new(
        database: Database,
        work: Working,
        token: Arc<()>,
        shared: Arc<Shared>,
        asks: mpsc::Receiver<Ask>,
        retention: Option<Retention>,
    ) -> Self {
        let life = shared.life();
        Self {
            database,
            work,
            shared,
            asks,
            retention,
            waiting: VecDeque::new(),
            physical: Vec::new(),
            closing: None,
            life,
            sweeps: true,
            pausing: None,
            sweeping: None,
            token,
            retired: Vec::new(),
        }
    }

    /// Works until it is told to close. The database is closed when this returns.
    pub(super) async fn run(mut self) -> Option<Reply<()>> {
        while self.closing.is_none() && self.select().await {
            let now = Instant::now();
            self.shared.writes(Some(now));
            let turned = self.turn(now);
            self.shared.writes(None);
            if let Err(fault) = turned {
                self.shared.refuse(fault);
                break;
            }
            self.retired.retain(|(_, token)| token.strong_count() > 0);
        }
        if self.closing.is_none() {
            self.keep_for_readers().await;
        }
        self.shared.end(Life::Closed);
        self.closing
    }

    /// The storage has failed: writes nothing, and has the directory as long as what was durable is read, so that nobody else changes it meanwhile.
    async fn keep_for_readers(&mut self) {
        // Whoever waits learns why (`Shared::why_ended`).
        self.waiting.clear();
        self.physical.clear();
        self.pausing = None;
        loop {
            tokio::select! {
                asked = self.asks.recv() => match asked {
                    Some(ask) => drop(ask),
                    None => return,
                },
                _ = self.life.wait_for(|life| *life == Life::Closed) => return,
            }
        }
    }

    /// Waits until there is something to do; false when the store takes no more writes, by a reader's fault or because nobody owns it any more.
    async fn select(&mut self) -> bool {
        if self.shared.stopped().is_some() {
            return false;
        }
        if (self.sweeps && self.work.superseded.is_due(self.work.compacted)) || !self.waiting.is_empty() {
            self.take_more();
            return true;
        }
        let retired = (!self.retired.is_empty()).then(|| Instant::now() + RETIRED_LOOK);
        let alarm = [self.work.leases.next_end(), self.retention.as_ref().map(Retention::next), retired].into_iter().flatten().min();
        let alarm = alarm.unwrap_or_else(|| Instant::now() + SLEEP_MAX);
        tokio::select! {
            asked = self.asks.recv() => match asked {
                Some(ask) => {
                    self.waiting.push_back(ask);
                    self.take_more();
                    true
                }
                None => false,
            },
            () = tokio::time::sleep_until(alarm.into()) => true,
            _ = self.life.changed() => false,
        }
    }

    fn take_more(&mut self) {
        while self.waiting.len() < TURN_COUNT_MAX
            && let Ok(ask) = self.asks.try_recv()
        {
            self.waiting.push_back(ask);
        }
    }

    fn turn(&mut self, now: Instant) -> Result<(), Fault> {
        let mut txn = self.database.begin_write().map_err(Fault::storage)?;
        txn.set_durability(Durability::Immediate).map_err(Fault::broken)?;
        let mut answers: Vec<Answer> = Vec::new();
        let mut permits = Vec::new();
        let mut turn = Turn::begin(&mut self.work, &txn)?;
        expire(&mut turn, now)?;
        if let Some(revision) = self.retention.as_mut().and_then(|retention| retention.due(now, turn.revision())) {
            // A client may have compacted more.
            let _ = settled(turn.compact(revision))?;
        }
        let (mut bytes, mut swap) = (0, None);
        while let Some(ask) = self.waiting.pop_front() {
            bytes += ask.bytes;
            permits.push(ask.permit);
            match ask.what {
                What::Close(reply) => self.closing = Some(reply),
                What::Swap(copy, reply) => swap = Some((copy, reply)),
                What::Sweep(false, reply) => self.pausing = Some(reply),
                What::Sweep(true, reply) => {
                    self.sweeps = true;
                    answers.push(answer(reply, Ok(())));
                }
                What::Compact(request, reply) => match settled(turn.compact(request.revision))? {
                    Ok(()) if request.physical => self.physical.push((request.revision, reply)),
                    outcome => answers.push(answer(reply, outcome.map(|()| compacted_response(turn.revision())))),
                },
                what => answers.push(apply(&mut turn, what, now)?),
            }
            if self.closing.is_some() || swap.is_some() || bytes >= TURN_BYTES_MAX {
                break;
            }
        }
        let swept = if self.sweeps { turn.sweep(SWEEP_COUNT_MAX)? } else { 0 };
        if turn.end()? {
            txn.commit().map_err(Fault::storage)?;
            self.publish()?;
        } else {
            txn.abort()?;
        }
        answers.into_iter().for_each(|answer| answer());
        self.tell_sweep(swept);
        self.answer_physical();
        self.pause_sweeps();
        swap.map_or(Ok(()), |(copy, reply)| self.swap(*copy, reply))
    }

    fn publish(&self) -> Result<(), Fault> {
        let state = snapshot(&self.database, &self.work, &self.token)?;
        self.shared.publish(state, self.work.log_bytes);
        Ok(())
    }

    fn swap(&mut self, copy: Copy, reply: Reply<u64>) -> Result<(), Fault> {
        let file = self.shared.file.clone().ok_or_else(|| Fault::broken("a copy of a store that has no file"))?;
        let state = snapshot(&self.database, &self.work, &self.token)?;
        let outcome = match copy.complete(&state, [self.shared.cluster_id, self.shared.member_id], &file) {
            Ok((database, history)) => {
                let (old, token) = (replace(&mut self.database, database), take(&mut self.token));
                self.retired.push((old, Arc::downgrade(&token)));
                self.publish()?;
                Ok(history)
            }
            Err(Unswapped::Kept(why)) => Err(Refusal::NotDefragmented(why)),
            Err(Unswapped::Unsure(fault)) => return Err(fault),
        };
        // Whoever asked may have left.
        let _ = reply.send(outcome);
        Ok(())
    }

    /// Tells how far a compaction is that takes more than a turn.
    fn tell_sweep(&mut self, swept: u64) {
        if !self.sweeps || !self.work.superseded.is_due(self.work.compacted) {
            self.sweeping = None;
            return;
        }
        let (progress, done) = self.sweeping.get_or_insert_with(|| (Progress::new("compacting the store", Unit::Changes), 0));
        *done += swept;
        let left = self.work.superseded.due(self.work.compacted) as u64;
        progress.at(*done, Some(*done + left));
    }

    fn pause_sweeps(&mut self) {
        if !self.work.superseded.is_due(self.work.compacted)
            && let Some(reply) = self.pausing.take()
        {
            self.sweeps = false;
            // Whoever asked may have left.
            let _ = reply.send(Ok(()));
        }
    }

    fn answer_physical(&mut self) {
        if self.physical.is_empty() || self.work.superseded.is_due(self.work.compacted) {
            return;
        }
        for (_, reply) in self.physical.drain(..) {
            let _ = reply.send(Ok(compacted_response(self.work.revision)));
        }
    }
}

/// The working snapshot as readers get it, after a commit.
pub(super) fn snapshot(database: &Database, work: &Working, token: &Arc<()>) -> Result<State, Fault> {
    let read = database.begin_read().map_err(Fault::storage)?;
    Ok(State {
        revision: work.revision,
        compacted: work.compacted,
        index: work.index.clone(),
        log: read.open_table(LOG)?,
        leases: read.open_table(LEASES)?,
        _database: token.clone(),
        recent: work.recent.clone(),
    })
}

fn expire(turn: &mut Turn<'_>, now: Instant) -> Result<(), Fault> {
    for _ in 0..EXPIRE_COUNT_MAX {
        let Some(id) = turn.leases().ended(now) else { break };
        turn.revoke(id)?;
    }
    Ok(())
}

fn apply(turn: &mut Turn<'_>, what: What, now: Instant) -> Result<Answer, Fault> {
    Ok(match what {
        What::Put(request, account, reply) => answer(reply, settled(turn.put(request, &account))?),
        What::Delete(request, account, reply) => answer(reply, settled(turn.delete(&request, &account))?),
        What::Txn(request, account, reply) => answer(reply, settled(turn.txn(request, &account))?),
        What::Grant(request, reply) => {
            let granted = settled(turn.grant(request.id, request.ttl, now))?;
            let header = super::turn::header(turn.revision());
            answer(reply, granted.map(|(id, ttl)| LeaseGrantResponse { header, id, ttl, ..Default::default() }))
        }
        What::Revoke(id, reply) => answer(reply, settled(turn.revoke(id))?),
        What::KeepAlive(id, reply) => answer(reply, Ok(turn.leases().renew(id, now))),
        What::TimeToLive(request, account, reply) => answer(reply, time_to_live(turn, &request, &account, now)),
        What::Leases(account, reply) => answer(reply, lease_ids(turn, &account)),
        What::Compact(..) | What::Sweep(..) | What::Swap(..) | What::Close(_) => unreachable!("the caller's own"),
    })
}

fn time_to_live(
    turn: &mut Turn<'_>,
    request: &LeaseTimeToLiveRequest,
    account: &Account,
    now: Instant,
) -> Result<Held<LeaseTimeToLiveResponse>, Refusal> {
    let header = super::turn::header(turn.revision());
    let id = request.id;
    let Some(lease) = turn.leases().look(id) else {
        let answer = LeaseTimeToLiveResponse { header, id, ttl: -1, ..Default::default() };
        return Ok(Held { answer, hold: account.hold_now(0)? });
    };
    let shown = if request.keys { lease.keys().map(|key| LISTED_BYTES + key.len()).sum() } else { 0 };
    let hold = account.hold_now(shown)?;
    let keys = if request.keys { lease.keys().map(|key| key.to_vec()).collect() } else { Vec::new() };
    Ok(Held { answer: LeaseTimeToLiveResponse { header, id, ttl: lease.left(now), granted_ttl: lease.ttl, keys }, hold })
}

fn lease_ids(turn: &mut Turn<'_>, account: &Account) -> Result<Held<Vec<i64>>, Refusal> {
    let hold = account.hold_now(turn.leases().count() * LISTED_BYTES)?;
    Ok(Held { answer: turn.leases().ids(), hold })
}

fn compacted_response(revision: i64) -> CompactionResponse {
    CompactionResponse { header: super::turn::header(revision) }
}

/// A refusal is an outcome like others; broken storage is not.
fn settled<T>(outcome: Result<T, Fault>) -> Result<Result<T, Refusal>, Fault> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(Fault::Refused(refusal)) => Ok(Err(refusal)),
        Err(broken) => Err(broken),
    }
}

fn answer<T: Send + 'static>(reply: Reply<T>, outcome: Result<T, Refusal>) -> Answer {
    Box::new(move || {
        // Whoever asked may have left; what was asked is done all the same.
        let _ = reply.send(outcome);
    })
}
