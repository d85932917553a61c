//! etcd's KV service: requests are checked here, read from the published snapshot or handed to the writer.

use std::pin::Pin;
use std::sync::Arc;

use proto::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    RangeStreamResponse, TxnRequest, TxnResponse, kv_server::Kv,
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::budget::{Account, Held, check_txn_answer};
use super::check::{check_delete, check_put, check_size, check_txn, delete_bytes, only_reads, put_bytes, txn_bytes};
use super::refusal::{Fault, Refusal};
use super::state::{Shared, State};
use super::txn::{read_only, weigh_read_only};
use super::view::check_range;
use super::writer::What;

/// A range of at most so many keys is read where it is asked; a larger one may wait for the disk and goes to a thread for that.
const INLINE_KEYS_MAX: i64 = 16;

/// Every service of the store; a clone is the same one.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) shared: Arc<Shared>,
    /// Who pays for answers: each way to the store has an account of its own.
    pub(super) account: Account,
}

/// Answers of a kind that never comes.
pub(super) type NoStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    /// Returns the same service for another account.
    pub(super) fn on(&self, account: Account) -> Self {
        Self { shared: self.shared.clone(), account }
    }

    /// Reads from the newest snapshot, on a thread that may wait if `heavy`, once there is room for what is shown.
    async fn read<Q: Send + Sync + 'static, T: Send + 'static>(
        &self,
        request: Request<Q>,
        heavy: bool,
        weigh: fn(&State, &Q) -> Result<usize, Fault>,
        read: fn(&State, &Q) -> Result<T, Fault>,
    ) -> Result<Held<T>, Refusal> {
        let (state, account, request) = (self.shared.state()?, self.account.of(&request), Arc::new(request.into_inner()));
        let shown = self.look(heavy, weigh, &state, &request).await?;
        let hold = account.hold(shown).await?;
        Ok(Held { answer: self.look(heavy, read, &state, &request).await?, hold })
    }

    async fn look<Q: Send + Sync + 'static, T: Send + 'static>(
        &self,
        heavy: bool,
        look: fn(&State, &Q) -> Result<T, Fault>,
        state: &Arc<State>,
        request: &Arc<Q>,
    ) -> Result<T, Refusal> {
        let outcome = if heavy {
            let (state, request) = (state.clone(), request.clone());
            self.shared.read_aside(move || look(&state, &request)).await
        } else {
            look(state, request)
        };
        outcome.map_err(|fault| self.shared.refuse(fault))
    }
}

fn weigh_reads(state: &State, request: &TxnRequest) -> Result<usize, Fault> {
    let shown = weigh_read_only(&state.view(), request)?;
    check_txn_answer(shown)?;
    Ok(shown)
}

#[tonic::async_trait]
impl Kv for Service {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let asked = request.get_ref();
        check_range(asked)?;
        let few = asked.range_end.is_empty() || asked.count_only || (1..=INLINE_KEYS_MAX).contains(&asked.limit);
        let weigh = |state: &State, request: &RangeRequest| Ok(state.view().weigh(request));
        let mut response = self.read(request, !few, weigh, |state, request| state.view().range(request)).await?;
        self.shared.fill(&mut response.answer.header);
        Ok(response.into_response())
    }

    type RangeStreamStream = NoStream<RangeStreamResponse>;

    async fn range_stream(&self, _: Request<RangeRequest>) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Status::unimplemented("RangeStream is not served by this store"))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let (account, request) = (self.account.of(&request), request.into_inner());
        check_put(&request)?;
        let bytes = put_bytes(&request);
        check_size(bytes)?;
        let mut response = self.shared.ask(bytes, |reply| What::Put(request, account, reply)).await?;
        self.shared.fill(&mut response.answer.header);
        Ok(response.into_response())
    }

    async fn delete_range(&self, request: Request<DeleteRangeRequest>) -> Result<Response<DeleteRangeResponse>, Status> {
        let (account, request) = (self.account.of(&request), request.into_inner());
        check_delete(&request)?;
        let bytes = delete_bytes(&request);
        check_size(bytes)?;
        let mut response = self.shared.ask(bytes, |reply| What::Delete(request, account, reply)).await?;
        self.shared.fill(&mut response.answer.header);
        Ok(response.into_response())
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        check_txn(request.get_ref())?;
        let mut response = if only_reads(request.get_ref()) {
            self.read(request, true, weigh_reads, |state, request| read_only(&state.view(), request)).await?
        } else {
            let (account, request) = (self.account.of(&request), request.into_inner());
            let bytes = txn_bytes(&request);
            check_size(bytes)?;
            self.shared.ask(bytes, |reply| What::Txn(request, account, reply)).await?
        };
        self.shared.fill(&mut response.answer.header);
        Ok(response.into_response())
    }

    async fn compact(&self, request: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        let request = request.into_inner();
        let mut response = self.shared.ask(1, |reply| What::Compact(request, reply)).await?;
        self.shared.fill(&mut response.header);
        Ok(Response::new(response))
    }
}
