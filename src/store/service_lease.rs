//! etcd's Lease service. Leases belong to the writer; this only asks it.

use proto::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest, LeaseLeasesResponse,
    LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, lease_server::Lease,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::refusal::Refusal;
use super::service::Service;
use super::writer::What;

/// Answers of a keep-alive stream that wait for its client; then it is not read further.
const KEEP_ALIVES_WAITING_MAX: usize = 16;

#[tonic::async_trait]
impl Lease for Service {
    async fn lease_grant(&self, request: Request<LeaseGrantRequest>) -> Result<Response<LeaseGrantResponse>, Status> {
        let request = request.into_inner();
        let mut response = self.shared.ask(1, |reply| What::Grant(request, reply)).await?;
        self.shared.fill(&mut response.header);
        Ok(Response::new(response))
    }

    async fn lease_revoke(&self, request: Request<LeaseRevokeRequest>) -> Result<Response<LeaseRevokeResponse>, Status> {
        let id = request.into_inner().id;
        self.shared.ask(1, |reply| What::Revoke(id, reply)).await?;
        let header = Some(self.shared.header(self.shared.state()?.revision));
        Ok(Response::new(LeaseRevokeResponse { header }))
    }

    type LeaseKeepAliveStream = ReceiverStream<Result<LeaseKeepAliveResponse, Status>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let (answers, answered) = mpsc::channel(KEEP_ALIVES_WAITING_MAX);
        let service = self.clone();
        // Ends with the requests or with whoever hears the answers.
        tokio::spawn(async move { service.keep_alive(request.into_inner(), answers).await });
        Ok(Response::new(ReceiverStream::new(answered)))
    }

    async fn lease_time_to_live(&self, request: Request<LeaseTimeToLiveRequest>) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let (account, request) = (self.account.of(&request), request.into_inner());
        let mut response = self.shared.ask(1, |reply| What::TimeToLive(request, account, reply)).await?;
        self.shared.fill(&mut response.answer.header);
        Ok(response.into_response())
    }

    async fn lease_leases(&self, request: Request<LeaseLeasesRequest>) -> Result<Response<LeaseLeasesResponse>, Status> {
        let account = self.account.of(&request);
        let ids = self.shared.ask(1, |reply| What::Leases(account, reply)).await?;
        let header = Some(self.shared.header(self.shared.state()?.revision));
        let leases = |ids: Vec<i64>| ids.into_iter().map(|id| LeaseStatus { id }).collect();
        Ok(ids.map(|ids| LeaseLeasesResponse { header, leases: leases(ids) }).into_response())
    }
}

impl Service {
    async fn keep_alive(
        &self,
        mut requests: Streaming<LeaseKeepAliveRequest>,
        answers: mpsc::Sender<Result<LeaseKeepAliveResponse, Status>>,
    ) {
        loop {
            let request = tokio::select! {
                request = requests.message() => request,
                () = answers.closed() => return,
            };
            let Ok(Some(request)) = request else { return };
            let renewed = self.renew(request.id).await.map_err(Status::from);
            let ends = renewed.is_err();
            if answers.send(renewed).await.is_err() || ends {
                return;
            }
        }
    }

    pub(super) async fn renew(&self, id: i64) -> Result<LeaseKeepAliveResponse, Refusal> {
        // Read before: a lease that is revoked later must not seem to live at the revision of its end.
        let header = Some(self.shared.header(self.shared.state()?.revision));
        let ttl = self.shared.ask(1, |reply| What::KeepAlive(id, reply)).await?;
        Ok(LeaseKeepAliveResponse { header, id, ttl })
    }
}
