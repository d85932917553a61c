//! A backup as etcd's Maintenance service sends it: one published snapshot, read from the log in order on a thread of its own, in pieces.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proto::SnapshotResponse;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::archive::{ArchiveWriter, Head};
use super::log::Log;
use super::refusal::{Fault, Refusal};
use super::state::{Shared, State};

/// Bytes of one piece …
const PIECE_BYTES: usize = 128 << 10;
/// … of which so many wait for the client; then nothing more is read.
const PIECES_WAITING_MAX: usize = 4;
/// How long a client may take no piece: the snapshot that it reads keeps pages from being used again.
const STALL_MAX: Duration = Duration::from_secs(60);

/// The pieces of a backup.
pub(super) type Pieces = ReceiverStream<Result<SnapshotResponse, Status>>;

/// Begins to send the newest snapshot. Ends with whoever hears the pieces.
pub(super) fn send(shared: &Arc<Shared>, version: &str) -> Result<Pieces, Refusal> {
    let turn = shared.snapshots.clone().try_acquire_owned().map_err(|_| Refusal::TooManyRequests)?;
    let state = shared.state()?;
    let (pieces, received) = mpsc::channel(PIECES_WAITING_MAX);
    let sender = Sender {
        pieces,
        handle: Handle::current(),
        answer: SnapshotResponse { header: Some(shared.header(state.revision)), version: version.to_owned(), ..Default::default() },
        bytes: 0,
        total: shared.size().in_use,
    };
    let shared = shared.clone();
    tokio::task::spawn_blocking(move || read(&shared, &state, sender, turn));
    Ok(ReceiverStream::new(received))
}

fn read(shared: &Shared, state: &State, mut sender: Sender, turn: OwnedSemaphorePermit) {
    let outcome = write(shared.cluster_id, state, &mut sender).and_then(|()| Ok(sender.piece(true)?));
    drop(turn);
    if let Err(Failure::Storage(fault)) = outcome {
        sender.fail(shared.refuse(fault));
    }
}

/// Why a backup is not whole.
enum Failure {
    Storage(Fault),
    /// Whoever wanted it is gone.
    Receiver,
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        Self::Receiver
    }
}

fn write(cluster_id: u64, state: &State, sender: &mut Sender) -> Result<(), Failure> {
    let storage = |error: redb::StorageError| Failure::Storage(error.into());
    let leases = redb::ReadableTableMetadata::len(&state.leases).map_err(storage)?;
    let keys = state.index.count() as u64;
    let made_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut archive = ArchiveWriter::begin(&mut *sender, &Head { revision: state.revision, cluster_id, made_at, leases, keys })?;
    for entry in redb::ReadableTable::iter(&state.leases).map_err(storage)? {
        let (id, ttl) = entry.map_err(storage)?;
        archive.lease(id.value(), ttl.value())?;
    }
    let mut written = Ok(());
    // In the order of the log, so that pages are read one after another.
    let scanned = state.log.scan(i64::MIN, i64::MAX, |place, record| {
        if state.index.live(record.key).is_some_and(|version| version.place == place) {
            written = archive.change(place, &record);
        }
        written.is_ok()
    });
    scanned.map_err(Failure::Storage)?;
    written?;
    archive.end()?;
    Ok(())
}

/// Makes pieces of bytes and waits until they are taken.
struct Sender {
    pieces: mpsc::Sender<Result<SnapshotResponse, Status>>,
    handle: Handle,
    /// The next piece.
    answer: SnapshotResponse,
    /// Sent so far.
    bytes: u64,
    /// About how many it will be, at most.
    total: u64,
}

impl Sender {
    fn piece(&mut self, is_last: bool) -> io::Result<()> {
        let mut answer = self.answer.clone();
        answer.blob = std::mem::replace(&mut self.answer.blob, Vec::with_capacity(PIECE_BYTES));
        self.bytes += answer.blob.len() as u64;
        answer.remaining_bytes = if is_last { 0 } else { self.total.saturating_sub(self.bytes).max(1) };
        let sent = self.handle.block_on(self.pieces.send_timeout(Ok(answer), STALL_MAX));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn fail(&self, refusal: Refusal) {
        // Whoever is gone has no use for it.
        let _ = self.pieces.blocking_send(Err(refusal.into()));
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.answer.blob.len());
        self.answer.blob.extend_from_slice(&bytes[..taken]);
        if self.answer.blob.len() == PIECE_BYTES {
            self.piece(false)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
