//! Loads from etcds whose streams break off, or that have none, and whose pages are too large.

use parking_lot::Mutex;

use etcd::{PAGE_GROWTH, PAGE_KEYS_FIRST};
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
    /// Bytes of values in an answer that it can send.
    page_bytes_max: usize,
    /// How many keys were asked for, by page.
    asked: Arc<Mutex<Vec<i64>>>,
}

impl Breaking {
    fn new(store: &Store, pieces: Option<usize>) -> Self {
        Self { client: Client::new(store.channel()), pieces, page_bytes_max: usize::MAX, asked: Arc::default() }
    }
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Kv for Breaking {
    type RangeStreamStream = BoxStream<'static, Result<RangeStreamResponse, Status>>;

    async fn range(&self, request: Request<proto::RangeRequest>) -> Answer<RangeResponse> {
        self.asked.lock().push(request.get_ref().limit);
        let answer = self.client.kv.clone().range(request).await?;
        let bytes: usize = answer.get_ref().kvs.iter().map(|kv| kv.value.len()).sum();
        if bytes > self.page_bytes_max {
            let (bytes, max) = (bytes, self.page_bytes_max);
            return Err(Status::resource_exhausted(format!("grpc: trying to send message larger than max ({bytes} vs. {max})")));
        }
        Ok(answer)
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

fn config_map(name: &str, bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"ns"}},"data":{{"x":"{text}"}}}}"#)
}

/// After 16 small objects the next page had 10,000 keys, however large they were; and one that gRPC does not bring was asked for again for ever.
#[tokio::test]
async fn large_values_after_small_ones_are_read_in_small_pages() {
    let store = Store::open_on(InMemoryBackend::new(), StoreConfig::default()).expect("memory holds");
    let mut client = Client::new(store.channel());
    let count = 300;
    for n in 0..count {
        let (name, bytes) = (format!("{n:04}"), if n < 100 { 10 } else { 10_000 });
        client.put((format!("/registry/configmaps/ns/{name}"), config_map(&name, bytes))).await.expect("put");
    }
    let breaking = Breaking { page_bytes_max: 100_000, ..Breaking::new(&store, None) };
    let asked = breaking.asked.clone();
    let etcd = Etcd::embedded(Channel::new(KvServer::new(breaking)));
    let (storage, metrics) = (Arc::new(Storage::test_config_maps()), Arc::new(Metrics::new()).resource("", "configmaps"));
    let loaded = load(&etcd, (&storage, None), "/registry/", LoadAt::Newest, &metrics).await.expect("nothing is compacted");
    assert_eq!((loaded.objects.len(), loaded.broken.len()), (count, 0));
    let asked = asked.lock().clone();
    assert_eq!(asked[..5], [16, 64, 256, 64, 16], "a quarter of what is too large: {asked:?}");
    assert!(asked.windows(2).all(|two| two[1] <= two[0] * i64::from(PAGE_GROWTH)), "{asked:?}");
}

/// As many objects as there are, each once, and what cannot be decoded; wherever a stream breaks off, and without one.
#[tokio::test]
async fn everything_is_loaded_once() {
    let store = Store::open_on(InMemoryBackend::new(), StoreConfig::default()).expect("memory holds");
    let mut client = Client::new(store.channel());
    for (count, broken) in [(5, 0), (PAGE_KEYS_FIRST as usize, 0), (120, 3)] {
        client.delete("/registry/configmaps/ns/wrong").await.expect("deleted");
        for n in 0..count {
            client.put((format!("/registry/configmaps/ns/{n:04}"), config_map(&format!("{n:04}"), 1))).await.expect("put");
        }
        for n in 0..broken {
            client.put((format!("/registry/configmaps/ns/{n:04}-wrong"), "{")).await.expect("put");
        }
        for pieces in [None, Some(0), Some(1), Some(7), Some(100)] {
            let breaking = KvServer::new(Breaking::new(&store, pieces));
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
