//! One client: it writes objects that nobody else writes, one after the other, so it knows what a read must show.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::Result;
use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{
    ANSWER, Common, KINDS,
    form::{self, Form, Refused, Seen},
};
use crate::http::{Listener, Talk};

/// Objects of each resource.
const SLOTS: usize = 4;
/// After a failure.
const PAUSE: Duration = Duration::from_millis(100);

/// An object of ours: it is there at a revision, or it is not.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    generation: usize,
    revision: Option<u64>,
}

/// What this client knows of a resource.
#[derive(Clone, Debug, Default)]
struct Own {
    slots: [Slot; SLOTS],
    /// When everything was as it is now, if that is known: deletions do not tell their revision.
    as_of: Option<u64>,
    /// The newest that was read from memory, and how often the server had been started.
    cached: (usize, u64),
}

pub(super) struct Client {
    number: usize,
    chance: StdRng,
    /// The two feeders and the server.
    at: [Arc<Listener>; 3],
    talks: [Option<Talk>; 3],
    common: Arc<Common>,
    own: [Own; KINDS.len()],
}

#[derive(Deserialize)]
struct Written {
    metadata: Revised,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Revised {
    resource_version: String,
}

impl Client {
    pub(super) fn new(number: usize, seed: u64, at: [Arc<Listener>; 3], common: Arc<Common>) -> Self {
        let chance = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        Self { number, chance, at, talks: [None, None, None], common, own: Default::default() }
    }

    /// Until so many histories of all clients were judged.
    pub(super) async fn run(mut self, histories: usize) -> Result<()> {
        while self.common.judged.load(Ordering::Relaxed) < histories {
            let kind = self.chance.random_range(0..KINDS.len());
            if !self.write(kind).await {
                sleep(PAUSE).await;
                continue;
            }
            let kind = if self.chance.random_bool(0.7) { kind } else { self.chance.random_range(0..KINDS.len()) };
            let form = Form::ALL[self.chance.random_range(0..Form::ALL.len())];
            match self.read(kind, form).await {
                Ok(Ok(())) => drop(self.common.judged.fetch_add(1, Ordering::Relaxed)),
                Ok(Err(Refused(status))) => {
                    self.common.refused(format!("{form:?}: {status}")).await;
                    sleep(PAUSE).await;
                }
                Err(error) => {
                    self.talks[2] = None;
                    self.common.refused(format!("{form:?}: {error:#}")).await;
                    sleep(PAUSE).await;
                }
            }
        }
        Ok(())
    }

    fn name(&self, kind: usize, slot: usize) -> String {
        format!("c{}-{slot}-{}", self.number, self.own[kind].slots[slot].generation)
    }

    async fn talk(&mut self, to: usize) -> Result<&mut Talk> {
        if self.talks[to].is_none() {
            self.talks[to] = Some(self.at[to].talk().await?);
        }
        Ok(self.talks[to].as_mut().expect("it was just made"))
    }

    /// Creates, changes or deletes an object; whether that is known to have happened. What is not known is never looked at again.
    async fn write(&mut self, kind: usize) -> bool {
        let (slot, to) = (self.chance.random_range(0..SLOTS), self.chance.random_range(0..3));
        let (name, path) = (self.name(kind, slot), KINDS[kind].path);
        let (is_there, goes) = (self.own[kind].slots[slot].revision.is_some(), self.chance.random_bool(0.25));
        let target = format!("{path}/{name}");
        let nonce = self.chance.random::<u32>().to_string();
        let (method, target, body) = match (is_there, goes) {
            (false, _) => {
                let labels = json!({"client": format!("c{}", self.number)});
                ("POST", path.to_owned(), Some(("application/json", json!({"metadata": {"name": name, "labels": labels}}).to_string())))
            }
            (true, true) => ("DELETE", target, None),
            (true, false) => {
                ("PATCH", target, Some(("application/merge-patch+json", json!({"metadata": {"annotations": {"n": nonce}}}).to_string())))
            }
        };
        let body = body.map(|(media, text)| (media, Bytes::from(text)));
        let asked = async {
            match self.talk(to).await {
                Ok(talk) => talk.whole(method, &target, body).await,
                Err(error) => Err(error),
            }
        };
        let answer = timeout(ANSWER, asked).await;
        let own = &mut self.own[kind];
        let revision = match &answer {
            Ok(Ok((200 | 201, _))) if method == "DELETE" => None,
            Ok(Ok((200 | 201, body))) => {
                match serde_json::from_slice::<Written>(body).ok().and_then(|w| w.metadata.resource_version.parse().ok()) {
                    Some(revision) => Some(revision),
                    None => return self.lose(kind, slot, to),
                }
            }
            _ => return self.lose(kind, slot, to),
        };
        (own.slots[slot].revision, own.as_of) = (revision, revision);
        if let Some(revision) = revision {
            self.common.floors[kind].fetch_max(revision, Ordering::Relaxed);
        }
        true
    }

    /// Nobody knows what became of an object: another one takes its place.
    fn lose(&mut self, kind: usize, slot: usize, to: usize) -> bool {
        let (slot, talk) = (&mut self.own[kind].slots[slot], &mut self.talks[to]);
        (*slot, *talk) = (Slot { generation: slot.generation + 1, revision: None }, None);
        self.own[kind].as_of = None;
        false
    }

    /// Reads through the server, and judges what it shows.
    async fn read(&mut self, kind: usize, form: Form) -> Result<Result<(), Refused>> {
        let floor = self.common.floors[kind].load(Ordering::Relaxed);
        let (path, starts) = (KINDS[kind].path, self.common.starts.load(Ordering::Relaxed));
        let own = format!("labelSelector=client%3Dc{}", self.number);
        if form == Form::Get {
            let slot = self.chance.random_range(0..SLOTS);
            let (name, wanted) = (self.name(kind, slot), self.own[kind].slots[slot].revision);
            let shown = match form::get(self.talk(2).await?, &format!("{path}/{name}")).await? {
                Ok(shown) => shown,
                Err(refused) => return Ok(Err(refused)),
            };
            if shown != wanted {
                self.common.blame(self.number, format!("GET {path}/{name} shows {shown:?}, it is {wanted:?}")).await;
            }
            return Ok(Ok(()));
        }
        let exact = self.own[kind].as_of;
        let talk = self.talk(2).await?;
        let seen = match (form, exact) {
            (Form::Whole, _) => form::list(talk, path, "").await?,
            (Form::Pages, _) => form::list(talk, path, "limit=200").await?,
            (Form::Stream, _) => {
                let seen = form::stream(talk, path, &own).await;
                // The watch goes on, so the connection is of no further use.
                self.talks[2] = None;
                seen?
            }
            (Form::NotOlder, _) => {
                form::list(talk, path, &format!("{own}&resourceVersionMatch=NotOlderThan&resourceVersion={floor}")).await?
            }
            (Form::Exact, Some(at)) => form::list(talk, path, &format!("{own}&resourceVersionMatch=Exact&resourceVersion={at}")).await?,
            (Form::Cached, _) => form::list(talk, path, &format!("{own}&resourceVersion=0")).await?,
            (Form::Own | Form::Exact | Form::Get, _) => form::list(talk, path, &own).await?,
        };
        match seen {
            Ok(seen) => self.judge(kind, form, floor, starts, &seen).await,
            Err(refused) => return Ok(Err(refused)),
        }
        Ok(Ok(()))
    }

    async fn judge(&mut self, kind: usize, form: Form, floor: u64, starts: usize, seen: &Seen) {
        let (path, at) = (KINDS[kind].path, seen.revision);
        let exact = self.own[kind].as_of.filter(|_| form == Form::Exact);
        if form == Form::Cached {
            let (before, newest) = self.own[kind].cached;
            if before == starts && at < newest {
                self.common.blame(self.number, format!("{path} from memory is of {at}, it was of {newest} before")).await;
            }
            // A server that was started meanwhile may have answered before or after.
            if self.common.starts.load(Ordering::Relaxed) == starts {
                self.own[kind].cached = (starts, at);
            }
            return;
        }
        match exact {
            Some(exact) if at != exact => self.common.blame(self.number, format!("{path} exactly at {exact} is of {at}")).await,
            None if at < floor => {
                self.common.blame(self.number, format!("{form:?} {path} is of {at}, {floor} was told before it was asked for")).await
            }
            _ => {}
        }
        for slot in 0..SLOTS {
            let (name, wanted) = (self.name(kind, slot), self.own[kind].slots[slot].revision);
            let shown = seen.objects.get(&name).copied();
            // Nobody knows at which revision something was deleted: it may be a newer one than is asked for.
            let may_be_there = form == Form::NotOlder && wanted.is_none();
            if shown != wanted && !may_be_there {
                self.common.blame(self.number, format!("{form:?} {path} of {at} shows {name} as {shown:?}, it is {wanted:?}")).await;
            }
        }
    }
}
