//! etcd's Maintenance and Cluster services, as far as they make sense for one node without alarms and peers.

use proto::{
    AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse, DowngradeInfo, DowngradeRequest, DowngradeResponse, HashKvRequest,
    HashKvResponse, HashRequest, HashResponse, Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse,
    MemberPromoteRequest, MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse,
    MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, StatusRequest, StatusResponse, cluster_server::Cluster,
    maintenance_server::Maintenance,
};
use tonic::{Request, Response, Status};

use super::service::Service;
use super::{defragment, snapshot};

/// The etcd that we say we are. Progress requests are trusted from 3.5.13 on; 3.7 would promise RangeStream, which is not served.
pub const ETCD_VERSION: &str = "3.6.8";
/// The storage version that goes with it.
pub(super) const STORAGE_VERSION: &str = "3.6.0";
/// Only ask for alarms (`AlarmRequest.AlarmAction`).
const ALARM_GET: i32 = 0;
const ALARM_DEACTIVATE: i32 = 2;
const MEMBER_NAME: &str = "watchcache";
/// Beside the answer to a defragmentation, for etcd's message has no field for it: how many bytes of the store are history.
pub(super) const HISTORY_BYTES: &str = "watchcache-history-bytes";

#[tonic::async_trait]
impl Maintenance for Service {
    /// There are none.
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        match request.into_inner().action {
            ALARM_GET | ALARM_DEACTIVATE => {
                let header = Some(self.shared.header(self.shared.state()?.revision));
                Ok(Response::new(AlarmResponse { header, alarms: Vec::new() }))
            }
            _ => Err(absent("alarms")),
        }
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let revision = self.shared.state()?.revision;
        let index = u64::try_from(revision).unwrap_or(0);
        let [file, in_use, quota] = self.shared.size().numbers().map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        Ok(Response::new(StatusResponse {
            header: Some(self.shared.header(revision)),
            version: ETCD_VERSION.to_owned(),
            db_size: file,
            db_size_in_use: in_use,
            db_size_quota: quota,
            leader: self.shared.member_id,
            raft_index: index,
            raft_applied_index: index,
            raft_term: self.shared.raft_term(),
            storage_version: STORAGE_VERSION.to_owned(),
            downgrade_info: Some(DowngradeInfo::default()),
            ..Default::default()
        }))
    }

    /// Answers when the store is in a new file; it goes on meanwhile.
    async fn defragment(&self, _: Request<DefragmentRequest>) -> Result<Response<DefragmentResponse>, Status> {
        // In a task of its own: a client that leaves half-way must not leave the writer half-way.
        let run = tokio::spawn(defragment::run(self.shared.clone())).await;
        let history = run.map_err(|_| Status::internal("it has ended by a fault of its own"))??;
        // As etcd's: nothing is in it.
        let mut response = Response::new(DefragmentResponse::default());
        if let Some(history) = history {
            response.metadata_mut().insert(HISTORY_BYTES, history.into());
        }
        Ok(response)
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        Err(absent("Hash"))
    }

    async fn hash_kv(&self, _: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        Err(absent("HashKV"))
    }

    type SnapshotStream = snapshot::Pieces;

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        Ok(Response::new(self.pieces()?))
    }

    async fn move_leader(&self, _: Request<MoveLeaderRequest>) -> Result<Response<MoveLeaderResponse>, Status> {
        Err(absent("MoveLeader"))
    }

    async fn downgrade(&self, _: Request<DowngradeRequest>) -> Result<Response<DowngradeResponse>, Status> {
        Err(absent("Downgrade"))
    }
}

impl Service {
    /// Begins to send a backup.
    pub(super) fn pieces(&self) -> Result<snapshot::Pieces, Status> {
        Ok(snapshot::send(&self.shared, STORAGE_VERSION)?)
    }
}

#[tonic::async_trait]
impl Cluster for Service {
    async fn member_list(&self, _: Request<MemberListRequest>) -> Result<Response<MemberListResponse>, Status> {
        let member = Member {
            id: self.shared.member_id,
            name: MEMBER_NAME.to_owned(),
            client_ur_ls: self.shared.client_urls.clone(),
            ..Default::default()
        };
        self.shared.state()?;
        // As etcd's: no revision is in it.
        let header = Some(self.shared.header(0));
        Ok(Response::new(MemberListResponse { header, members: vec![member] }))
    }

    async fn member_add(&self, _: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        Err(absent("MemberAdd"))
    }

    async fn member_remove(&self, _: Request<MemberRemoveRequest>) -> Result<Response<MemberRemoveResponse>, Status> {
        Err(absent("MemberRemove"))
    }

    async fn member_update(&self, _: Request<MemberUpdateRequest>) -> Result<Response<MemberUpdateResponse>, Status> {
        Err(absent("MemberUpdate"))
    }

    async fn member_promote(&self, _: Request<MemberPromoteRequest>) -> Result<Response<MemberPromoteResponse>, Status> {
        Err(absent("MemberPromote"))
    }
}

fn absent(what: &str) -> Status {
    Status::unimplemented(format!("{what} is not served by this store"))
}
