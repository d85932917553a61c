//! A disk whose cache does not survive: writes are apart until they are synced, and at a chosen call the power goes. Knows no page and no table.

use std::{
    fmt,
    io::{Error, ErrorKind},
    sync::{Arc, Mutex, MutexGuard},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use redb::StorageBackend;

/// What a disk writes whole or not at all: the smallest sector there is.
const SECTOR: usize = 512;

/// A handle of a disk; clones are the same disk.
#[derive(Clone)]
pub(super) struct Disk(Arc<Mutex<State>>);

/// What goes wrong, and when.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Nothing.
    Never,
    /// The power goes at the given write, sync or change of length: that call fails and every later one; some of what was not synced is on the disk.
    PowerAt { call: u64, seed: u64 },
    /// From the given call on no write finds room.
    FullAt(u64),
    /// The first sync from the given call on fails and all of what it should have kept is lost, as after a failed fsync; later syncs claim success.
    SyncFailsAt(u64),
    /// Syncs claim success and keep nothing; when the power goes at the given call, the second half of all writes is gone. No store can live on it: it
    /// shows that the witnesses see a loss.
    SyncsLieUntil(u64),
}

struct State {
    /// What a power loss leaves for sure.
    durable: Vec<u8>,
    /// What reads see.
    seen: Vec<u8>,
    /// In order, since the last sync.
    unsynced: Vec<Change>,
    fault: Fault,
    /// Writes, syncs and changes of length until now.
    calls: u64,
    power: bool,
    /// A sync has failed.
    failed_sync: bool,
}

enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Disk {
    /// A disk with these bytes on it.
    pub(super) fn with(image: Vec<u8>, fault: Fault) -> Self {
        let (durable, seen) = (image.clone(), image);
        Self(Arc::new(Mutex::new(State { durable, seen, unsynced: Vec::new(), fault, calls: 0, power: true, failed_sync: false })))
    }

    /// Takes the power away now, if it has not gone: what is on the disk, which now fails every call.
    pub(super) fn unplug(&self, seed: u64) -> Vec<u8> {
        let mut state = self.state();
        if state.power {
            state.lose_power(seed);
        }
        state.durable.clone()
    }

    /// Whether the power is there.
    pub(super) fn power(&self) -> bool {
        self.state().power
    }

    /// Writes, syncs and changes of length until now.
    pub(super) fn calls(&self) -> u64 {
        self.state().calls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no call of the disk panics")
    }
}

impl State {
    /// Counts a call that changes something, and lets it happen or fail.
    fn change(&mut self, change: Change) -> Result<(), Error> {
        self.calls += 1;
        self.powered()?;
        match self.fault {
            Fault::FullAt(call) if self.calls >= call => return Err(Error::from(ErrorKind::StorageFull)),
            _ => {}
        }
        change.apply(&mut self.seen);
        self.unsynced.push(change);
        self.strike()
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.calls += 1;
        self.powered()?;
        self.strike()?;
        if let Fault::SyncFailsAt(call) = self.fault
            && self.calls >= call
            && !self.failed_sync
        {
            self.failed_sync = true;
            // The kernel drops the pages and reports once: what is written later may be kept, what this sync was for is not.
            self.unsynced.clear();
            return Err(Error::other("the sync failed"));
        }
        if !matches!(self.fault, Fault::SyncsLieUntil(_)) {
            self.unsynced.drain(..).for_each(|change| change.apply(&mut self.durable));
        }
        Ok(())
    }

    /// The power goes if it is time: the call that runs is among what may be lost.
    fn strike(&mut self) -> Result<(), Error> {
        match self.fault {
            Fault::PowerAt { call, seed } if self.calls >= call => self.lose_power(seed),
            Fault::SyncsLieUntil(call) if self.calls >= call => self.lose_half(),
            _ => {}
        }
        self.powered()
    }

    fn powered(&self) -> Result<(), Error> {
        if self.power { Ok(()) } else { Err(Error::new(ErrorKind::BrokenPipe, "the power is gone")) }
    }

    /// A part of what was not synced reaches the disk: all, none, the first ones, or any, and of some writes only some sectors.
    fn lose_power(&mut self, seed: u64) {
        self.power = false;
        let mut rng = StdRng::seed_from_u64(seed);
        let chance = *[0.0, 0.2, 0.5, 0.8, 1.0].get(rng.random_range(0..5)).expect("five chances");
        let torn = rng.random_bool(0.5);
        let first = if rng.random_bool(0.3) { rng.random_range(0..=self.unsynced.len()) } else { usize::MAX };
        for (at, change) in self.unsynced.drain(..).enumerate() {
            if at >= first || !rng.random_bool(chance) {
                continue;
            }
            match change {
                Change::Write(offset, bytes) if torn && rng.random_bool(0.5) => tear(&mut self.durable, offset, &bytes, &mut rng),
                whole => whole.apply(&mut self.durable),
            }
        }
    }
}

impl State {
    fn lose_half(&mut self) {
        self.power = false;
        let kept = self.unsynced.len() / 2;
        self.unsynced.drain(..).take(kept).for_each(|change| change.apply(&mut self.durable));
    }
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Length(length) => image.resize(*length, 0),
            Self::Write(offset, bytes) => write(image, *offset, bytes),
        }
    }
}

/// Some sectors of a write.
fn tear(image: &mut Vec<u8>, offset: usize, bytes: &[u8], rng: &mut StdRng) {
    for (at, sector) in bytes.chunks(SECTOR).enumerate().filter(|_| rng.random_bool(0.5)).collect::<Vec<_>>() {
        write(image, offset + at * SECTOR, sector);
    }
}

/// A write behind the end makes the file longer, as when its new length was kept and the one before was not.
fn write(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    image[offset..end].copy_from_slice(bytes);
}

fn place(offset: u64) -> Result<usize, Error> {
    usize::try_from(offset).map_err(|_| Error::from(ErrorKind::InvalidInput))
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, Error> {
        let state = self.state();
        state.powered()?;
        Ok(state.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let (state, offset) = (self.state(), place(offset)?);
        state.powered()?;
        let bytes = state.seen.get(offset..offset + out.len()).ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.state().change(Change::Length(place(len)?))
    }

    fn sync_data(&self) -> Result<(), Error> {
        self.state().sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.state().change(Change::Write(place(offset)?, data.to_vec()))
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_is_there_and_what_was_not_may_be() {
        let mut kept = [0; 2];
        for seed in 0..200 {
            let disk = Disk::with(Vec::new(), Fault::PowerAt { call: 4, seed });
            disk.write(0, &[1; 1024]).expect("the power is there");
            disk.sync_data().expect("the power is there");
            disk.write(0, &[2; 1024]).expect("the power is there");
            assert!(disk.write(1024, &[3; 1024]).is_err() && !disk.power() && disk.len().is_err());
            let image = disk.unplug(0);
            assert!(image[..1024].chunks(SECTOR).all(|sector| sector == [1; SECTOR] || sector == [2; SECTOR]));
            kept[usize::from(image[0] == 2)] += 1;
        }
        assert!(kept[0] > 20 && kept[1] > 20, "{kept:?}");
    }

    #[test]
    fn a_failed_sync_loses_what_it_was_for() {
        let disk = Disk::with(Vec::new(), Fault::SyncFailsAt(2));
        disk.write(0, &[1]).expect("a write");
        assert!(disk.sync_data().is_err());
        disk.write(1, &[2]).expect("a write");
        disk.sync_data().expect("the second sync claims success");
        assert_eq!(disk.unplug(0), [0, 2]);
    }
}
