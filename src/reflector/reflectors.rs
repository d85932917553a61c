//! The reflectors of all resources: begins and ends them as the registry says, and tells how old the oldest of them is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::follower::Follower;
use super::place::Place;
use super::policy::Policy;
use super::source::Source;
use cache::cacher::{Gone, Inbox};
use cache::source::driver::Command;
use cache::state::snapshot::Fed;
use model::{ResourceId, Revision};

/// Commands that may wait; as of etcd's feed.
const COMMANDS_MAX: usize = 16_384;
/// How often it is looked how old memory is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// From which age on memory counts as behind: upstream sends a bookmark each minute, and is late sometimes.
const BEHIND_AFTER: Duration = Duration::from_secs(100);

/// See the file's header.
pub struct Reflectors {
    source: Arc<Source>,
    policy: Policy,
    commands: mpsc::Receiver<Command>,
    followed: HashMap<ResourceId, (Inbox, AbortHandle)>,
    tasks: JoinSet<Gone>,
    /// Tells how old the oldest resource is.
    oldest: Arc<Fed>,
    began: Instant,
}

impl Reflectors {
    /// Follows nothing yet; returns also what commands it, and the clock that tells how old the oldest resource is.
    #[must_use]
    pub fn new(source: Arc<Source>, policy: Policy) -> (Self, mpsc::Sender<Command>, Arc<Fed>) {
        let (commander, commands) = mpsc::channel(COMMANDS_MAX);
        let oldest = Arc::new(Self::clock());
        let reflectors = Self {
            source,
            policy,
            commands,
            followed: HashMap::new(),
            tasks: JoinSet::new(),
            oldest: oldest.clone(),
            began: Instant::now(),
        };
        (reflectors, commander, oldest)
    }

    /// The clock of a resource.
    #[must_use]
    pub fn clock() -> Fed {
        Fed::behind_after(BEHIND_AFTER)
    }

    /// Runs until every commander is gone, or a cacher is.
    pub async fn run(mut self) {
        let mut tick = interval(LOOK_EVERY);
        let source = self.source.clone();
        let mut releases = std::pin::pin!(source.look_at_release());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(Command::Add(storage, _, inbox)) => {
                        let follows = self.policy.follows(&storage);
                        let follower = Follower::new(self.source.clone(), Place::of(&storage, self.source.prefix()), inbox.clone());
                        let task = self.tasks.spawn(follower.run(follows, self.policy.idle));
                        if let Some((_, before)) = self.followed.insert(storage.id.clone(), (inbox, task)) {
                            before.abort();
                        }
                    }
                    Some(Command::Remove(id)) => self.followed.remove(&id).into_iter().for_each(|(_, task)| task.abort()),
                    None => return,
                },
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(gone) => {
                        tracing::error!(%gone, "a cacher has ended unexpectedly; the feed stops");
                        return;
                    }
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // It was ended here.
                    Err(_) => {}
                },
                _ = tick.tick() => self.look(),
                () = &mut releases => {}
            }
        }
    }

    /// Notes how far memory is and how old. While its watch is open upstream tells of what happens to a resource, so memory is as old as
    /// what upstream said last of anything; of a resource
    /// that is cut off, or was not heard of for longer than bookmarks take, only its own last word counts.
    fn look(&self) {
        let (now, heard) = (Instant::now(), self.source.heard());
        let (mut newest, mut oldest, mut is_cut_off) = (Revision::ZERO, now, false);
        for fed in self.followed.values().filter(|(inbox, _)| inbox.is_ready()).map(|(inbox, _)| inbox.fed()) {
            let own = now.checked_sub(fed.age().unwrap_or(Duration::MAX)).unwrap_or(self.began);
            oldest = oldest.min(if fed.is_behind() { own } else { own.max(heard) });
            newest = newest.max(fed.revision());
            is_cut_off |= fed.is_behind();
        }
        self.oldest.sums_up(newest, oldest);
        self.oldest.cut_off(is_cut_off);
    }
}
