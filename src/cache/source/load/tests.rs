//! Loads from etcds whose streams break off, or that have none.

use futures_util::stream::{self, BoxStream, StreamExt};
use proto::{
    Channel, CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeResponse,
    RangeStreamResponse, TxnRequest, TxnResponse,
    kv_server::{Kv, KvServer},
    testing::Client,
};
use redb::backends::InMemoryBackend;
use store::{Store, StoreConfig};
use tonic::{Request, Response, Status};

use super::*;
use telemetry::Metrics;

/// Keys of a piece of a stream.
const PIECE: usize = 10;

/// An etcd over a store, whose streams come in pieces and break off after so many; without a number it has no streams.
struct Breaking {
    client: Client,
    pieces: Option<usize>,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Kv for Breaking {
    type RangeStreamStream = BoxStream<'static, Result<RangeStreamResponse, Status>>;

    async fn range(&self, request: Request<proto::RangeRequest>) -> Answer<RangeResponse> {
        self.client.kv.clone().range(request).await
    }

    async fn range_stream(&self, request: Request<proto::RangeRequest>) -> Answer<Self::RangeStreamStream> {
        let pieces = self.pieces.ok_or_else(|| Status::unimplemented("unknown method RangeStream"))?;
        let all = self.client.kv.clone().range(request).await?.into_inner();
        let answers: Vec<_> = all.kvs.chunks(PIECE).map(|kvs| RangeResponse { kvs: kvs.to_vec(), ..RangeResponse::default() }).collect();
        let whole = answers.len() <= pieces;
        let sent = answers.into_iter().take(pieces).map(|answer| Ok(RangeStreamResponse { range_response: Some(answer) }));
        let end = (!whole).then(|| Err(Status::unavailable("the server is shutting down")));
        Ok(Response::new(stream::iter(sent.chain(end)).boxed()))
    }

    async fn put(&self, _: Request<PutRequest>) -> Answer<PutResponse> {
        Err(Status::unimplemented("a load does not write"))
    }

    async fn delete_range(&self, _: Request<DeleteRangeRequest>) -> Answer<DeleteRangeResponse> {
        Err(Status::unimplemented("a load does not write"))
    }

    async fn txn(&self, _: Request<TxnRequest>) -> Answer<TxnResponse> {
        Err(Status::unimplemented("a load does not write"))
    }

    async fn compact(&self, _: Request<CompactionRequest>) -> Answer<CompactionResponse> {
        Err(Status::unimplemented("a load does not write"))
    }
}

#[test]
fn a_page_has_as_many_keys_as_fit() {
    assert_eq!(page_keys(100, 100 * 1_000), LOAD_PAGE_KEYS);
    assert_eq!(page_keys(100, 100 << 20), 32);
    assert_eq!((page_keys(1, 100 << 20), page_keys(0, 0)), (1, LOAD_PAGE_KEYS));
}

/// As many objects as there are, each once, and what cannot be decoded; wherever a stream breaks off, and without one.
#[tokio::test]
async fn everything_is_loaded_once() {
    let store = Store::open_on(InMemoryBackend::new(), StoreConfig::default()).expect("memory holds");
    let mut client = Client::new(store.channel());
    for (count, broken) in [(5, 0), (LOAD_PAGE_KEYS_FIRST as usize, 0), (120, 3)] {
        client.delete("/registry/configmaps/ns/wrong").await.expect("deleted");
        for n in 0..count {
            let value = format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{n:04}","namespace":"ns"}}}}"#);
            client.put((format!("/registry/configmaps/ns/{n:04}"), value)).await.expect("put");
        }
        for n in 0..broken {
            client.put((format!("/registry/configmaps/ns/{n:04}-wrong"), "{")).await.expect("put");
        }
        for pieces in [None, Some(0), Some(1), Some(7), Some(100)] {
            let breaking = KvServer::new(Breaking { client: Client::new(store.channel()), pieces });
            let etcd = Etcd::embedded(Channel::new(breaking));
            let (storage, metrics) = (Arc::new(Storage::test_config_maps()), Arc::new(Metrics::new()).resource("", "configmaps"));
            let loaded = load(&etcd, (&storage, None), "/registry/", LoadAt::Newest, &metrics).await.expect("nothing is compacted");
            let mut names: Vec<&str> = loaded.objects.iter().map(|object| object.name()).collect();
            names.sort_unstable();
            let want: Vec<String> = (0..count).map(|n| format!("{n:04}")).collect();
            assert_eq!(
                (names, loaded.broken.len()),
                (want.iter().map(String::as_str).collect(), broken),
                "{count} objects, {pieces:?} pieces"
            );
        }
    }
}
