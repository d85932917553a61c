//! The commands' way to a store that is open, in whichever process: etcd's Maintenance service.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use proto::{Channel, DefragmentRequest, SnapshotRequest, SnapshotResponse, StatusRequest, maintenance_client::MaintenanceClient};
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

use super::directory::Directory;
use super::error::StoreError;
use super::service_other::HISTORY_BYTES;
use super::state::Size;

/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Largest piece of a snapshot that is taken; etcd's are of 32 KiB.
const PIECE_BYTES_MAX: usize = 16 << 20;

/// A store that is open somewhere.
#[derive(Clone, Debug)]
pub struct Remote {
    client: MaintenanceClient<Channel>,
    address: String,
}

impl Remote {
    pub(super) fn new(channel: Channel, address: String) -> Self {
        Self { client: MaintenanceClient::new(channel).max_decoding_message_size(PIECE_BYTES_MAX), address }
    }

    /// A way to the store at `http://host:port` or `unix:///path`. It connects when it is first used.
    ///
    /// # Errors
    /// When that is no address.
    pub fn at(address: &str) -> Result<Self, StoreError> {
        let endpoint = Endpoint::from_shared(address.to_owned())
            .map_err(|error| StoreError::Unreachable { address: address.to_owned(), problem: last(&error).to_string() })?;
        Ok(Self::new(Channel::new(endpoint.connect_timeout(CONNECT_MAX).connect_lazy()), address.to_owned()))
    }

    /// A way to the store that has this data directory open, in another process.
    ///
    /// # Errors
    /// When that process has no socket there.
    pub fn of(dir: &Path) -> Result<Self, StoreError> {
        let socket = Directory::socket_in(dir);
        match socket.exists() {
            true => Self::at(&format!("unix://{}", socket.display())),
            false => Err(StoreError::Hidden { path: dir.to_owned(), socket }),
        }
    }

    pub(super) async fn snapshot(&mut self) -> Result<Streaming<SnapshotResponse>, StoreError> {
        let asked = self.client.snapshot(SnapshotRequest {}).await;
        asked.map(tonic::Response::into_inner).map_err(|status| self.refused(&status))
    }

    /// Moves the store into a new file that has no free pages; it goes on meanwhile. Returns when that is done, with the bytes of history that the store
    /// keeps until the next compaction, if it says how many.
    ///
    /// # Errors
    /// When it goes on in the old file, or not at all.
    pub async fn defragment(&mut self) -> Result<Option<u64>, StoreError> {
        let answer = self.client.defragment(DefragmentRequest {}).await.map_err(|status| self.refused(&status))?;
        Ok(answer.metadata().get(HISTORY_BYTES).and_then(|bytes| bytes.to_str().ok()?.parse().ok()))
    }

    /// Asks what the store takes on disk.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn size(&mut self) -> Result<Size, StoreError> {
        let status = self.client.status(StatusRequest {}).await.map_err(|status| self.refused(&status))?.into_inner();
        let [file, in_use, quota] = [status.db_size, status.db_size_in_use, status.db_size_quota].map(i64::cast_unsigned);
        Ok(Size { file, in_use, quota, memory: 0 })
    }

    pub(super) fn refused(&self, status: &Status) -> StoreError {
        let problem = match status.source() {
            // What the system says is at the end of the chain.
            Some(_) => last(status).to_string(),
            None => status.message().to_owned(),
        };
        StoreError::Unreachable { address: self.address.clone(), problem }
    }
}

fn last<'a>(mut error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}
