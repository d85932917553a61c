//! Loads a resource: by a watch that begins with all objects (WatchList), or page by page from a server that has no such watch.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::end::End;
use super::event::{Failure, Item, Lie, Told, page, told};
use super::ledger::Held;
use super::lines::{Form, Lines};
use super::machine::{Loaded, made};
use super::place::Place;
use super::source::{NoAnswer, Source};
use cache::state::snapshot::Fed;
use client::CallError;
use model::{Broken, Object, Revision};
use progress::{Progress, Unit};

/// Bytes of all objects of a resource, as JSON: what is more is not followed.
const LOAD_BYTES_MAX: usize = 8 << 30;
/// Lines, and bytes of them, that are read and made servable in one go, on a thread that may take long.
const CHUNK_LINES: usize = 512;
const CHUNK_BYTES: usize = 1 << 20;
/// How long nothing may come before the initial events are over: upstream waits for its own memory for 3 s.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Objects of a page, as client-go's; fewer when they are large.
const PAGE_OBJECTS: usize = 500;
/// How often a list is begun anew because it took longer than upstream keeps its revision.
const EXPIRED_MAX: usize = 3;

/// An object that can be served, or why it cannot.
pub(crate) type Made = Result<Arc<Object>, Broken>;

/// What is loaded so far.
struct Objects {
    objects: HashMap<Bytes, (Revision, Made)>,
    progress: Progressing,
}

/// How far a load is: takes room for what came, and tells people.
pub(crate) struct Progressing {
    fed: Arc<Fed>,
    held: Held,
    bytes: usize,
    progress: Progress,
}

impl Progressing {
    /// Of a load that begins.
    pub(crate) fn of(place: &Place, fed: Arc<Fed>, held: Held) -> Self {
        Self { fed, held, bytes: 0, progress: Progress::new(format!("loading {} from upstream", place.storage.path_name()), Unit::Objects) }
    }

    /// One that begins anew.
    fn again(&mut self) {
        (self.held, self.bytes) = (self.held.anew(), 0);
    }

    fn came(&mut self, objects: usize, bytes: usize, in_all: usize) -> Result<(), End> {
        self.bytes += bytes;
        if self.bytes > LOAD_BYTES_MAX {
            return Err(End::TooLarge(format!("it has more than {LOAD_BYTES_MAX} bytes of objects")));
        }
        self.held.take(objects, bytes).map_err(End::TooLarge)?;
        // Initial events do not say how many they will be.
        if self.progress.at(in_all as u64, None).is_some() {
            self.fed.set_note(Some(format!("being loaded, {in_all} objects, {} bytes until now", self.bytes).into()));
        }
        Ok(())
    }
}

/// What a line of the initial events came to.
enum Initial {
    Put(Bytes, Revision, Box<Made>),
    /// It has what is not known here, but as JSON.
    Unknown(String),
    Gone(Bytes),
    /// They are over.
    End(Revision),
    Failed(Failure),
    /// A bookmark in between.
    Nothing,
}

/// Reads the initial events of a watch. Returns what was told after them already.
pub(crate) async fn initial_events(
    lines: &mut Lines,
    place: &Arc<Place>,
    progress: Progressing,
) -> Result<((Loaded, Held), Vec<Bytes>), End> {
    let mut objects = Objects { objects: HashMap::new(), progress };
    let mut chunk = Vec::new();
    let mut bytes = 0;
    loop {
        let is_full = chunk.len() >= CHUNK_LINES || bytes >= CHUNK_BYTES;
        let wait = if chunk.is_empty() { SILENCE_MAX } else { Duration::ZERO };
        let next = if is_full { None } else { timeout(wait, lines.next()).await.ok() };
        if let Some(Ok(Some(line))) = next {
            bytes += line.len();
            chunk.push(line);
            continue;
        }
        if next.is_none() && chunk.is_empty() {
            return Err(End::Unsupported("its initial events do not end".to_owned()));
        }
        bytes = 0;
        if let Some((revision, rest)) = objects.take(std::mem::take(&mut chunk), lines.form(), place).await? {
            return Ok((objects.loaded(revision)?, rest));
        }
        match next {
            Some(Err(error)) => return Err(End::call(&error)),
            Some(Ok(_)) => return Err(End::later("the watch ended before its initial events were over")),
            None => {}
        }
    }
}

impl Objects {
    /// Takes lines in; returns the revision, and the lines that follow, when the initial events are over.
    async fn take(&mut self, lines: Vec<Bytes>, form: Form, place: &Arc<Place>) -> Result<Option<(Revision, Vec<Bytes>)>, End> {
        let (place, read) = (place.clone(), lines.clone());
        let work = spawn_blocking(move || {
            let (mut all, mut bytes) = (Vec::with_capacity(read.len()), 0);
            for line in &read {
                let one = initial(line, form, &place)?;
                bytes += one.bytes().unwrap_or(line.len());
                let is_last = matches!(one, Initial::End(_) | Initial::Failed(_) | Initial::Unknown(_));
                all.push(one);
                if is_last {
                    break;
                }
            }
            Ok::<_, Lie>((all, bytes))
        });
        let (all, bytes) = joined(work.await)?;
        self.progress.came(all.len(), bytes, self.objects.len())?;
        for (at, one) in all.into_iter().enumerate() {
            match one {
                Initial::Put(key, revision, made) => drop(self.objects.insert(key, (revision, *made))),
                Initial::Gone(key) => drop(self.objects.remove(&key)),
                Initial::End(revision) => return Ok(Some((revision, lines[at + 1..].to_vec()))),
                Initial::Failed(failure) => return Err(End::failed(failure)),
                Initial::Unknown(why) => return Err(End::OnlyJson(why)),
                Initial::Nothing => {}
            }
        }
        Ok(None)
    }

    fn loaded(self, revision: Revision) -> Result<(Loaded, Held), Lie> {
        let mut loaded = Loaded { revision, objects: Vec::with_capacity(self.objects.len()), broken: Vec::new() };
        for (at, made) in self.objects.into_values() {
            if at > revision {
                return Err(Lie(format!("initial events up to {revision} with an object of {at}")));
            }
            match made {
                Ok(object) => loaded.objects.push(object),
                Err(broken) => loaded.broken.push(broken),
            }
        }
        Ok((loaded, self.progress.held))
    }
}

impl Initial {
    /// Bytes of the object in memory, if it is one.
    fn bytes(&self) -> Option<usize> {
        match self {
            Self::Put(_, _, made) => made.as_ref().as_ref().ok().map(|object| object.tail_len()),
            _ => None,
        }
    }
}

fn initial(line: &Bytes, form: Form, place: &Place) -> Result<Initial, Lie> {
    Ok(match told(line, form, place)? {
        Told::Put(item) => put(&item, place),
        Told::Gone(item) => Initial::Gone(item.key),
        Told::Bookmark { revision, ends_initial: true } => Initial::End(revision),
        Told::Bookmark { .. } => Initial::Nothing,
        Told::Failed(failure) => Initial::Failed(failure),
    })
}

/// The key is copied: it is not to keep the line.
fn put(item: &Item, place: &Place) -> Initial {
    match made(item, place) {
        Err(broken) if item.is_protobuf() => Initial::Unknown(broken.why),
        made => Initial::Put(item.key.clone(), item.revision, Box::new(made)),
    }
}

/// What comes of a list.
pub(crate) enum Part {
    /// These objects.
    Objects(Vec<(Item, Made)>),
    /// All of them again, for it is begun anew.
    Anew,
}

/// Lists everything page by page, all of one revision.
pub(crate) async fn list(source: &Source, place: &Arc<Place>, progress: Progressing) -> Result<(Loaded, Held), End> {
    let mut objects = Objects { objects: HashMap::new(), progress };
    let take = |part: Part| {
        let Part::Objects(all) = part else {
            objects.objects.clear();
            objects.progress.again();
            return Ok(());
        };
        let bytes = all.iter().map(|(item, made)| made.as_ref().map_or(item.value.len(), |object| object.tail_len())).sum();
        objects.progress.came(all.len(), bytes, objects.objects.len())?;
        objects.objects.extend(all.into_iter().map(|(item, made)| (item.key, (item.revision, made))));
        Ok(())
    };
    let revision = pages(source, place, take).await?;
    Ok(objects.loaded(revision)?)
}

/// Hands over all pages of a list of one revision; returns that.
pub(crate) async fn pages(source: &Source, place: &Arc<Place>, mut take: impl FnMut(Part) -> Result<(), End>) -> Result<Revision, End> {
    let (mut limit, mut expired) = (PAGE_OBJECTS, 0);
    let (mut next, mut revision) = (String::new(), None);
    loop {
        let from = if next.is_empty() { String::new() } else { format!("&continue={}", utf8_percent_encode(&next, NON_ALPHANUMERIC)) };
        let body = match source.list(place, &format!("limit={limit}{from}")).await {
            Ok(body) => body,
            Err(NoAnswer::Call(CallError::TooLarge(_))) if limit > 1 => {
                limit = limit.div_ceil(2);
                continue;
            }
            Err(NoAnswer::Failed(failure)) if failure.code == StatusCode::GONE.as_u16() && expired < EXPIRED_MAX => {
                expired += 1;
                (next, revision) = (String::new(), None);
                take(Part::Anew)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let work = (place.clone(), body.clone());
        let work = spawn_blocking(move || {
            let page = page(&work.1, &work.0)?;
            let all: Vec<(Item, Made)> = page.items.into_iter().map(|item| (item.clone(), made(&item, &work.0))).collect();
            Ok::<_, Lie>((page.revision, page.next, all))
        });
        let (at, following, all) = joined(work.await)?;
        if *revision.get_or_insert(at) != at {
            return Err(Lie(format!("a page of {at} in a list of another revision")).into());
        }
        let is_empty = all.is_empty();
        let unknown = |(item, made): &(Item, Made)| made.as_ref().err().filter(|_| item.is_protobuf()).map(|broken| broken.why.clone());
        if let Some(why) = all.iter().find_map(unknown) {
            return Err(End::OnlyJson(why));
        }
        take(Part::Objects(all))?;
        if following.is_empty() {
            return Ok(at);
        }
        if following == next {
            return Err(Lie("the same page again and again".to_owned()).into());
        }
        if is_empty {
            return Err(Lie("a page without objects that is not the last one".to_owned()).into());
        }
        next = following;
    }
}

fn joined<T>(outcome: Result<Result<T, Lie>, tokio::task::JoinError>) -> Result<T, End> {
    match outcome {
        Ok(done) => Ok(done?),
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => Err(End::later("the process is stopping")),
    }
}
