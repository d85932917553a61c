//! Writes: fills the namespace with ConfigMaps and changes them at a steady pace through the writing server; and, where writing is what is measured,
//! changes objects of another namespace as fast as a server takes it.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use rustls::ClientConfig;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::certs::Certificates;
use crate::load::{Connection, Protocol, STAMPS, Stamp, Target, WriteTimes, now_micros, seq_of, tls};
use crate::{custom, pods};

/// Seconds until new custom resources are served.
const DEFINED_SECONDS: u64 = 120;

/// What is written, and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    /// A custom resource.
    Widget,
    /// One with a status and managed fields of two writers.
    Pod,
}

impl Kind {
    /// The collection of its objects.
    pub(crate) fn collection(self) -> &'static str {
        match self {
            Self::ConfigMap => COLLECTION,
            Self::Widget => custom::COLLECTION,
            Self::Pod => pods::COLLECTION,
        }
    }

    /// How an object is changed without naming a revision: kube-apiserver takes no such PUT of a custom resource.
    fn change(self) -> Method {
        match self {
            Self::ConfigMap => Method::PUT,
            Self::Widget | Self::Pod => Method::PATCH,
        }
    }

    fn object_path(self, index: u64) -> String {
        format!("{}/{}", self.collection(), name_of(index))
    }

    fn object(self, index: u64, seq: u64) -> Bytes {
        match self {
            Self::ConfigMap => object("compare", index, seq),
            Self::Widget => Bytes::from(custom::object(0, &name_of(index), index, seq, &text(index))),
            Self::Pod => Bytes::from(pods::made(&name_of(index), index, seq)),
        }
    }

    /// Makes an object, whole.
    async fn create(self, connection: &mut Connection, index: u64, seq: u64) -> Result<()> {
        let Self::Pod = self else {
            connection.write(Method::POST, self.collection(), self.object(index, seq)).await?;
            return Ok(());
        };
        connection.write(Method::POST, &format!("{}?fieldManager={}", self.collection(), pods::MAKER), self.object(index, seq)).await?;
        let status = format!("{}/status?fieldManager={}", self.object_path(index), pods::TELLER);
        connection.write(Method::PUT, &status, Bytes::from(pods::told(&name_of(index), index, seq))).await?;
        Ok(())
    }
}

/// The collection that nearly everything is measured on.
pub(crate) const COLLECTION: &str = "/api/v1/namespaces/compare/configmaps";

/// Where the objects are whose writes are measured: whoever counts the collection does not see them.
const WRITTEN: &str = "/api/v1/namespaces/compare-writes/configmaps";

/// Objects there, several for each connection.
pub(crate) const WRITTEN_OBJECTS: u64 = 64;

/// Connections that create or change objects at the same time; more only queue on etcd's disk.
pub(crate) const CREATORS: u64 = 8;

/// Connections that change objects at a heavy rate: etcd syncs what waits for it in one batch, so more of them are more writes a second.
const HEAVY_CONNECTIONS: u64 = 48;

/// Bytes of text in each object. With metadata and managed fields an object is then served as about 1.5 KB.
const TEXT_BYTES: usize = 960;

/// The words of the text: it should compress about as well as configuration does.
const WORDS: [&str; 16] = [
    "replicas",
    "endpoint",
    "timeout",
    "10.42.0.17",
    "enabled",
    "true",
    "false",
    "cluster.local",
    "max-connections",
    "4096",
    "cache",
    "level",
    "region-eu-1",
    "retry",
    "backoff",
    "https://",
];

/// Writes through one server; every write has the next number as its stamp.
pub(crate) struct Writer {
    target: Target,
    tls: Arc<ClientConfig>,
    connection: Connection,
    kind: Kind,
    objects: u64,
    seq: u64,
}

impl Writer {
    /// Connects, and creates the namespaces: one with the objects whose writes are measured, one with `objects` ConfigMaps, stamped 1 to `objects`.
    pub(crate) async fn populate(target: Target, objects: u64) -> Result<Self> {
        let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
        let mut connection = Connection::open(&target, &tls, Protocol::Http1).await?;
        for name in ["compare", "compare-writes"] {
            connection.write(Method::POST, "/api/v1/namespaces", namespace(name)).await?;
        }
        for index in 0..WRITTEN_OBJECTS {
            connection.write(Method::POST, WRITTEN, object("compare-writes", index, index)).await?;
        }
        Self::create(target, objects, Kind::ConfigMap).await
    }

    /// Creates `objects` of this kind, stamped 1 to `objects`.
    pub(crate) async fn create(target: Target, objects: u64, kind: Kind) -> Result<Self> {
        ensure!(!objects.is_multiple_of(STRIDE), "not every object would be written: another number than {objects}, please");
        let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
        let connection = Connection::open(&target, &tls, Protocol::Http1).await?;
        let mut creators = JoinSet::new();
        for first in 0..CREATORS {
            let (target, tls) = (target.clone(), Arc::clone(&tls));
            creators.spawn(async move {
                let mut connection = Connection::open(&target, &tls, Protocol::Http1).await?;
                for seq in (first + 1..=objects).step_by(CREATORS as usize) {
                    kind.create(&mut connection, index_of(seq, objects), seq).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(creator) = creators.join_next().await {
            creator.context("a task that creates objects")??;
        }
        Ok(Self { target, tls, connection, kind, objects, seq: objects })
    }

    /// The stamp of the last write.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// How many objects there are.
    pub(crate) fn objects(&self) -> u64 {
        self.objects
    }

    /// The path of the object that was written last.
    pub(crate) fn last_written(&self) -> String {
        self.kind.object_path(index_of(self.seq, self.objects))
    }

    /// The collection that is written to.
    pub(crate) fn collection(&self) -> &'static str {
        self.kind.collection()
    }

    /// Changes `count` objects, `per_second` of them each second, one after another: their order in etcd is the order of their stamps.
    pub(crate) async fn paced(&mut self, count: u64, per_second: f64) -> Result<Vec<WriteTimes>> {
        // A connection that was idle during a long phase may have been closed by the server.
        self.connection = Connection::open(&self.target, &self.tls, Protocol::Http1).await?;
        let mut ticks = interval(Duration::from_secs_f64(1.0 / per_second));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut times = Vec::new();
        for _ in 0..count {
            ticks.tick().await;
            let seq = self.seq + 1;
            let index = index_of(seq, self.objects);
            let sent = now_micros();
            self.connection.write(self.kind.change(), &self.kind.object_path(index), self.kind.object(index, seq)).await?;
            times.push(WriteTimes { sent, acknowledged: now_micros() });
            self.seq = seq;
        }
        Ok(times)
    }

    /// Changes objects for so long, `per_second` of them each second or as many as the server takes, on many connections: their order in etcd is
    /// not that of their stamps. The times are in the order of stamps.
    pub(crate) async fn heavy(&mut self, per_second: u64, lasting: Duration) -> Result<Vec<WriteTimes>> {
        ensure!(self.objects > HEAVY_CONNECTIONS, "heavy rates need more than {HEAVY_CONNECTIONS} objects: no two writes may meet at one");
        let mut changers = JoinSet::new();
        let taken = Arc::new(AtomicU64::new(0));
        let mut connections = Vec::new();
        for _ in 0..HEAVY_CONNECTIONS {
            connections.push(Connection::open(&self.target, &self.tls, Protocol::Http1).await?);
        }
        let (first, objects, kind, began) = (self.seq + 1, self.objects, self.kind, Instant::now());
        for mut connection in connections {
            let taken = Arc::clone(&taken);
            changers.spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < lasting {
                    let turn = taken.fetch_add(1, Ordering::Relaxed);
                    let due = began + Duration::from_secs(1) * u32::try_from(turn)? / u32::try_from(per_second)?;
                    // What is due after the end is not written. It is the last turn of this connection, and all later turns are due later still;
                    // earlier ones are written, however late: the stamps have no gap.
                    if due >= began + lasting {
                        break;
                    }
                    sleep_until(due).await;
                    let (seq, sent) = (first + turn, now_micros());
                    let index = index_of(seq, objects);
                    connection.write(kind.change(), &kind.object_path(index), kind.object(index, seq)).await?;
                    times.push((seq, WriteTimes { sent, acknowledged: now_micros() }));
                }
                anyhow::Ok(times)
            });
        }
        let mut all = Vec::new();
        while let Some(changer) = changers.join_next().await {
            all.extend(changer.context("a task that changes objects")??);
        }
        all.sort_unstable_by_key(|(seq, _)| *seq);
        ensure!(all.iter().map(|(seq, _)| *seq).eq(first..first + all.len() as u64), "a stamp was left out");
        self.seq += all.len() as u64;
        Ok(all.into_iter().map(|(_, times)| times).collect())
    }

    /// An error when writes took so long that the pace was not kept: the figures would then be of another load.
    pub(crate) fn kept_pace(times: &[WriteTimes], per_second: f64) -> Result<()> {
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(()) };
        #[expect(clippy::cast_precision_loss, reason = "a run has seconds, not centuries")]
        let (took, wanted) = ((last.sent - first.sent) as f64 / 1e6, (times.len() - 1) as f64 / per_second);
        ensure!(took < wanted * 1.05 + 0.5, "{} writes took {took:.1} s instead of {wanted:.1} s", times.len());
        Ok(())
    }
}

/// Creates the namespace of the Pods.
pub(crate) async fn make_room_for_pods(target: &Target) -> Result<()> {
    let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
    let mut connection = Connection::open(target, &tls, Protocol::Http1).await?;
    connection.write(Method::POST, "/api/v1/namespaces", namespace("compare-pods")).await?;
    Ok(())
}

/// Creates so many custom resources and their namespace, and waits until all are served.
pub(crate) async fn define(target: &Target, definitions: u64) -> Result<()> {
    let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
    let mut connection = Connection::open(target, &tls, Protocol::Http1).await?;
    connection.write(Method::POST, "/api/v1/namespaces", namespace("compare-custom")).await?;
    for nth in 0..definitions {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        connection.write(Method::POST, path, Bytes::from(custom::definition(nth))).await?;
    }
    served(target, definitions).await
}

/// Waits until a server has answered a list of each custom resource, from its cache.
pub(crate) async fn served(target: &Target, definitions: u64) -> Result<()> {
    let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
    let end = Instant::now() + Duration::from_secs(DEFINED_SECONDS);
    let mut connection = Connection::open(target, &tls, Protocol::Http1).await?;
    let mut nth = 0;
    while nth < definitions {
        match connection.read(&format!("{}?resourceVersion=0", custom::collection(nth))).await {
            Ok(answer) => {
                answer.into_body().collect().await.context("read a list")?;
                nth += 1;
            }
            Err(error) if Instant::now() > end => bail!("custom resource {nth} is not served: {error:#}"),
            Err(_) => {
                sleep(Duration::from_millis(200)).await;
                connection = Connection::open(target, &tls, Protocol::Http1).await?;
            }
        }
    }
    Ok(())
}

/// Creates so many objects of each of so many custom resources.
pub(crate) async fn fill(target: &Target, definitions: u64, objects: u64) -> Result<()> {
    let tls = tls(&Certificates::at(&target.certificates), Protocol::Http1)?;
    let mut connection = Connection::open(target, &tls, Protocol::Http1).await?;
    for nth in 0..definitions {
        for index in 0..objects {
            let body = custom::object(nth, &name_of(index), index, index, &text(index));
            connection.write(Method::POST, &custom::collection(nth), Bytes::from(body)).await?;
        }
    }
    Ok(())
}

/// Changes objects through this server `count` times, without naming a revision, each connection one object after another; how long each
/// took, µs. Every answer must carry the stamp that was sent.
pub(crate) async fn replace(target: &Target, protocol: Protocol, count: u64) -> Result<Vec<i64>> {
    let tls = tls(&Certificates::at(&target.certificates), protocol)?;
    let mut changers = JoinSet::new();
    for first in 0..CREATORS {
        let (target, tls) = (target.clone(), Arc::clone(&tls));
        changers.spawn(async move {
            let mut connection = Connection::open(&target, &tls, protocol).await?;
            let mut took = Vec::new();
            for turn in (first..count).step_by(CREATORS as usize) {
                // Turns of one connection differ by the number of connections, which divides that of objects: no two meet at an object.
                let (index, sent) = (turn % WRITTEN_OBJECTS, now_micros());
                // A stamp that the object does not have yet, or there would be nothing to write.
                let stamp = sent % STAMPS;
                let body = object("compare-writes", index, stamp);
                let path = format!("{WRITTEN}/{}", name_of(index));
                let answer = connection.write(Method::PUT, &path, body).await?;
                took.push(i64::try_from(now_micros() - sent)?);
                ensure!(seq_of(&answer) == Some(stamp), "PUT {path} was answered with another object");
            }
            anyhow::Ok(took)
        });
    }
    let mut all = Vec::new();
    while let Some(changer) = changers.join_next().await {
        all.extend(changer.context("a task that changes objects")??);
    }
    Ok(all)
}

/// The path of the ConfigMap `index`.
pub(crate) fn object_path(index: u64) -> String {
    Kind::ConfigMap.object_path(index)
}

/// The name of the object `index`.
pub(crate) fn name_of(index: u64) -> String {
    format!("cm-{index:06}")
}

/// The value of the label `percent` that is looked for.
pub(crate) const PERCENT: &str = "p42";

/// Whether the object `index` has it: one in a hundred does.
pub(crate) fn has_percent_label(index: u64) -> bool {
    percent_label(index) == PERCENT
}

fn percent_label(index: u64) -> String {
    format!("p{:02}", index % 100)
}

/// From one object to the next that is written: a prime, so that all come in turn, and so large that neighbours do not.
const STRIDE: u64 = 7_919;

/// The object that carries the stamp `seq`, in the creation and in each round of changes after it.
fn index_of(seq: u64, objects: u64) -> u64 {
    (seq - 1) * STRIDE % objects
}

fn object(namespace: &str, index: u64, seq: u64) -> Bytes {
    let mut body = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"cm-{index:06}","namespace":"{namespace}","labels":{{"app":"compare","shard":"s{}","percent":"{}"}}}},"data":{{"stamp":"{}","text":""#,
        index % 16,
        percent_label(index),
        Stamp(seq)
    );
    body.push_str(&text(index));
    body.push_str("\"}}");
    Bytes::from(body)
}

/// The text of the object `index`: the same in every run.
fn text(index: u64) -> String {
    let mut text = String::new();
    let mut state = index + 1;
    while text.len() < TEXT_BYTES {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = WORDS[(state >> 60) as usize];
        let _ = write!(text, "{word}={} ", (state >> 33) % 1000);
    }
    text.truncate(TEXT_BYTES);
    text
}

fn namespace(name: &str) -> Bytes {
    Bytes::from(format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_json_of_one_size_with_their_stamp() {
        let objects: Vec<_> = (0..200).map(|index| object("compare", index, index + 7)).collect();
        for (index, body) in objects.iter().enumerate() {
            let parsed: serde_json::Value = serde_json::from_slice(body).expect("an object is JSON");
            assert_eq!(parsed["metadata"]["name"], format!("cm-{index:06}"));
            assert_eq!(seq_of(body), Some(index as u64 + 7));
            assert!(body.len().abs_diff(objects[0].len()) <= 1, "s9 and s10 differ by one digit");
        }
        assert_ne!(objects[1][200..], objects[2][200..], "texts differ, or lists would compress too well");
    }

    #[test]
    fn writes_go_round_and_about() {
        for objects in [1, 3, 200, 20_000] {
            let mut round: Vec<_> = (5..5 + objects).map(|seq| index_of(seq, objects)).collect();
            round.sort_unstable();
            assert!(round.into_iter().eq(0..objects));
        }
        assert!([1, 2, 3, 4].map(|seq| index_of(seq, 20_000)).is_sorted_by(|a, b| a.abs_diff(*b) > 1_000));
    }

    #[test]
    fn a_lost_pace_is_an_error() {
        let at = |sent| WriteTimes { sent, acknowledged: sent };
        assert!(Writer::kept_pace(&[at(0), at(100_000), at(200_000)], 10.0).is_ok());
        assert!(Writer::kept_pace(&[at(0), at(100_000), at(900_000)], 10.0).is_err());
    }

    #[test]
    fn pods_are_json_with_one_stamp() {
        for body in [Kind::Pod.object(3, 9), Bytes::from(pods::told(&name_of(3), 3, 9))] {
            let parsed: serde_json::Value = serde_json::from_slice(&body).expect("an object is JSON");
            assert_eq!((parsed["metadata"]["name"].as_str(), seq_of(&body)), (Some("cm-000003"), Some(9)));
            assert_eq!(String::from_utf8_lossy(&body).matches("~stamp~").count(), 1, "objects are counted by it");
        }
    }

    #[test]
    fn custom_resources_are_json_with_their_stamp() {
        for (nth, plural) in [(0, "widgets"), (7, "widgets7")] {
            let definition: serde_json::Value = serde_json::from_str(&custom::definition(nth)).expect("a definition is JSON");
            assert_eq!(definition["spec"]["names"]["plural"], plural);
        }
        assert!(custom::collection(7).ends_with("/widgets7") && custom::collection(0) == custom::COLLECTION);
        let body = Kind::Widget.object(3, 9);
        let parsed: serde_json::Value = serde_json::from_slice(&body).expect("an object is JSON");
        assert_eq!((parsed["metadata"]["name"].as_str(), seq_of(&body)), (Some("cm-000003"), Some(9)));
    }
}
