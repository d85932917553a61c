//! etcd's KV service: requests are checked here, read from the published snapshot or handed to the writer.

use std::pin::Pin;
use std::sync::Arc;

use proto::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    RangeStreamResponse, TxnRequest, TxnResponse, kv_server::Kv,
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::check::{check_delete, check_put, check_size, check_txn, delete_bytes, only_reads, put_bytes, txn_bytes};
use super::refusal::{Fault, Refusal};
use super::state::{Shared, State};
use super::txn::read_only;
use super::view::check_range;
use super::writer::What;

/// A range of at most so many keys is read where it is asked; a larger one may wait for the disk and goes to a thread for that.
const INLINE_KEYS_MAX: i64 = 16;

/// Every service of the store; a clone is the same one.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) shared: Arc<Shared>,
}

/// Answers of a kind that never comes.
pub(super) type NoStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    /// Reads from the newest snapshot, on a thread that may wait if `heavy`.
    async fn read<T: Send + 'static>(
        &self,
        heavy: bool,
        read: impl FnOnce(&State) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Refusal> {
        let state = self.shared.state()?;
        let outcome = if heavy { self.shared.read_aside(move || read(&state)).await } else { read(&state) };
        outcome.map_err(|fault| self.shared.refuse(fault))
    }
}

#[tonic::async_trait]
impl Kv for Service {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let request = request.into_inner();
        check_range(&request)?;
        let few = request.range_end.is_empty() || request.count_only || (1..=INLINE_KEYS_MAX).contains(&request.limit);
        let mut response = self.read(!few, move |state| state.view().range(&request)).await?;
        self.shared.fill(&mut response.header);
        Ok(Response::new(response))
    }

    type RangeStreamStream = NoStream<RangeStreamResponse>;

    async fn range_stream(&self, _: Request<RangeRequest>) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("RangeStream is not served by this store"))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let request = request.into_inner();
        check_put(&request)?;
        let bytes = put_bytes(&request);
        check_size(bytes)?;
        let mut response = self.shared.ask(bytes, |reply| What::Put(request, reply)).await?;
        self.shared.fill(&mut response.header);
        Ok(Response::new(response))
    }

    async fn delete_range(&self, request: Request<DeleteRangeRequest>) -> Result<Response<DeleteRangeResponse>, Status> {
        let request = request.into_inner();
        check_delete(&request)?;
        let bytes = delete_bytes(&request);
        check_size(bytes)?;
        let mut response = self.shared.ask(bytes, |reply| What::Delete(request, reply)).await?;
        self.shared.fill(&mut response.header);
        Ok(Response::new(response))
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let request = request.into_inner();
        check_txn(&request)?;
        let mut response = if only_reads(&request) {
            self.read(true, move |state| read_only(&state.view(), &request)).await?
        } else {
            let bytes = txn_bytes(&request);
            check_size(bytes)?;
            self.shared.ask(bytes, |reply| What::Txn(request, reply)).await?
        };
        self.shared.fill(&mut response.header);
        Ok(Response::new(response))
    }

    async fn compact(&self, request: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        let request = request.into_inner();
        let mut response = self.shared.ask(1, |reply| What::Compact(request, reply)).await?;
        self.shared.fill(&mut response.header);
        Ok(Response::new(response))
    }
}
