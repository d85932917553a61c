//! The messages of the JSON gateway: their fields by the names of the .proto files.

use proto::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::event::EventType;
use proto::range_request::{SortOrder, SortTarget};
use proto::watch_create_request::FilterType;
use proto::{
    AlarmRequest, AlarmResponse, AlarmType, CompactionRequest, CompactionResponse, Compare, DefragmentRequest, DefragmentResponse,
    DeleteRangeRequest, DeleteRangeResponse, DowngradeInfo, Event, KeyValue, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, Member, MemberListRequest, MemberListResponse, PutRequest, PutResponse, RangeRequest,
    RangeResponse, RequestOp, ResponseHeader, ResponseOp, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, request_op, response_op,
    watch_request,
};
use tonic::Status;

use super::read::{Read, Reader, Take};
use super::write::{Object, Write};

/// How a message is read: a field is of its own type, an enum (`as`), or a list of enums (`all`); after it may come a oneof.
macro_rules! read {
    ($($message:ty { $($field:ident = $name:literal $(as $kind:ty)? $(, all $many:ty)?);* } $(=> $place:ident $one:literal { $($choice:literal => $variant:path),* })?)*) => { $(
        impl Read for $message {
            const FIELDS: &'static [(&'static str, Option<&'static str>)] = &[$(($name, None),)* $($(($choice, Some($one)),)*)?];

            #[allow(unused_variables, reason = "some messages have no field")]
            fn set(&mut self, field: &'static str, reader: &mut Reader<'_>) -> Result<(), Status> {
                match field {
                    $($name => read!(set self.$field, $name, reader $(, $kind)? $(; $many)?),)*
                    $($($choice => self.$place = Some($variant(Take::take($choice, reader)?)),)*)?
                    _ => {}
                }
                Ok(())
            }
        }
    )* };
    (set $to:expr, $name:literal, $reader:expr) => { $to = Take::take($name, $reader)? };
    (set $to:expr, $name:literal, $reader:expr, $kind:ty) => {
        $to = $reader.named($name, |name| <$kind>::from_str_name(name).map(i32::from))?.unwrap_or($to)
    };
    (set $to:expr, $name:literal, $reader:expr; $kind:ty) => {
        $to = $reader.all_named($name, |name| <$kind>::from_str_name(name).map(i32::from))?
    };
}

/// How a message is written.
macro_rules! write {
    ($($message:ty { $($field:ident = $name:literal),* })*) => { $(
        impl Write for $message {
            #[allow(unused_variables, reason = "some messages have no field")]
            fn members(&self, object: &mut Object<'_>) {
                $(object.add($name, &self.$field);)*
            }
        }
    )* };
}

read! {
    RangeRequest {
        key = "key"; range_end = "range_end"; limit = "limit"; revision = "revision"; sort_order = "sort_order" as SortOrder;
        sort_target = "sort_target" as SortTarget; serializable = "serializable"; keys_only = "keys_only"; count_only = "count_only";
        min_mod_revision = "min_mod_revision"; max_mod_revision = "max_mod_revision"; min_create_revision = "min_create_revision";
        max_create_revision = "max_create_revision"
    }
    PutRequest {
        key = "key"; value = "value"; lease = "lease"; prev_kv = "prev_kv"; ignore_value = "ignore_value"; ignore_lease = "ignore_lease"
    }
    DeleteRangeRequest { key = "key"; range_end = "range_end"; prev_kv = "prev_kv" }
    TxnRequest { compare = "compare"; success = "success"; failure = "failure" }
    Compare { result = "result" as CompareResult; target = "target" as CompareTarget; key = "key"; range_end = "range_end" } => target_union "Compare.target_union" {
        "version" => TargetUnion::Version, "create_revision" => TargetUnion::CreateRevision, "mod_revision" => TargetUnion::ModRevision,
        "value" => TargetUnion::Value, "lease" => TargetUnion::Lease
    }
    RequestOp {} => request "RequestOp.request" {
        "request_range" => request_op::Request::RequestRange, "request_put" => request_op::Request::RequestPut,
        "request_delete_range" => request_op::Request::RequestDeleteRange, "request_txn" => request_op::Request::RequestTxn
    }
    CompactionRequest { revision = "revision"; physical = "physical" }
    LeaseGrantRequest { ttl = "TTL"; id = "ID" }
    LeaseRevokeRequest { id = "ID" }
    LeaseKeepAliveRequest { id = "ID" }
    LeaseTimeToLiveRequest { id = "ID"; keys = "keys" }
    LeaseLeasesRequest {}
    MemberListRequest { linearizable = "linearizable" }
    StatusRequest {}
    AlarmRequest { action = "action" as proto::alarm_request::AlarmAction; member_id = "memberID"; alarm = "alarm" as AlarmType }
    DefragmentRequest {}
    SnapshotRequest {}
    WatchRequest {} => request_union "WatchRequest.request_union" {
        "create_request" => watch_request::RequestUnion::CreateRequest, "cancel_request" => watch_request::RequestUnion::CancelRequest,
        "progress_request" => watch_request::RequestUnion::ProgressRequest
    }
    WatchCreateRequest {
        key = "key"; range_end = "range_end"; start_revision = "start_revision"; progress_notify = "progress_notify";
        filters = "filters", all FilterType; prev_kv = "prev_kv"; watch_id = "watch_id"; fragment = "fragment"
    }
    WatchCancelRequest { watch_id = "watch_id" }
    WatchProgressRequest {}
}

write! {
    ResponseHeader { cluster_id = "cluster_id", member_id = "member_id", revision = "revision", raft_term = "raft_term" }
    KeyValue {
        key = "key", create_revision = "create_revision", mod_revision = "mod_revision", version = "version", value = "value", lease = "lease"
    }
    RangeResponse { header = "header", kvs = "kvs", more = "more", count = "count" }
    PutResponse { header = "header", prev_kv = "prev_kv" }
    DeleteRangeResponse { header = "header", deleted = "deleted", prev_kvs = "prev_kvs" }
    TxnResponse { header = "header", succeeded = "succeeded", responses = "responses" }
    CompactionResponse { header = "header" }
    LeaseGrantResponse { header = "header", id = "ID", ttl = "TTL", error = "error" }
    LeaseRevokeResponse { header = "header" }
    LeaseKeepAliveResponse { header = "header", id = "ID", ttl = "TTL" }
    LeaseTimeToLiveResponse { header = "header", id = "ID", ttl = "TTL", granted_ttl = "grantedTTL", keys = "keys" }
    LeaseStatus { id = "ID" }
    LeaseLeasesResponse { header = "header", leases = "leases" }
    Member { id = "ID", name = "name", peer_ur_ls = "peerURLs", client_ur_ls = "clientURLs", is_learner = "isLearner" }
    MemberListResponse { header = "header", members = "members" }
    StatusResponse {
        header = "header", version = "version", db_size = "dbSize", leader = "leader", raft_index = "raftIndex", raft_term = "raftTerm",
        raft_applied_index = "raftAppliedIndex", errors = "errors", db_size_in_use = "dbSizeInUse", is_learner = "isLearner",
        storage_version = "storageVersion", db_size_quota = "dbSizeQuota", downgrade_info = "downgradeInfo"
    }
    DowngradeInfo { enabled = "enabled", target_version = "targetVersion" }
    AlarmResponse { header = "header" }
    DefragmentResponse { header = "header" }
    SnapshotResponse { header = "header", remaining_bytes = "remaining_bytes", blob = "blob", version = "version" }
    WatchResponse {
        header = "header", watch_id = "watch_id", created = "created", canceled = "canceled", compact_revision = "compact_revision",
        cancel_reason = "cancel_reason", fragment = "fragment", events = "events"
    }
}

impl Write for ResponseOp {
    fn members(&self, object: &mut Object<'_>) {
        match &self.response {
            Some(response_op::Response::ResponseRange(response)) => object.add_message("response_range", response),
            Some(response_op::Response::ResponsePut(response)) => object.add_message("response_put", response),
            Some(response_op::Response::ResponseDeleteRange(response)) => object.add_message("response_delete_range", response),
            Some(response_op::Response::ResponseTxn(response)) => object.add_message("response_txn", response),
            None => {}
        }
    }
}

impl Write for Event {
    fn members(&self, object: &mut Object<'_>) {
        // A put is the default, and left out.
        if self.r#type == i32::from(EventType::Delete) {
            object.add("type", &EventType::Delete.as_str_name().to_owned());
        }
        object.add("kv", &self.kv);
        object.add("prev_kv", &self.prev_kv);
    }
}
