//! The room against a real etcd: `WATCHCACHE_TEST_ETCD` names its binary. These tests are ignored unless asked for (`-- --include-ignored`).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proto::testing::{Client, Range, delete, put as putting, txn};
use proto::{AuthEnableRequest, AuthUserAddRequest, AuthUserGrantRoleRequest, RequestOp};
use tokio::time::{sleep, timeout};

use super::*;

#[path = "../../tests/it/live/ports.rs"]
mod ports;

/// Longest wait for anything etcd should do at once; generous, since machines that test are busy.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two looks whether etcd is there: it needs the processor itself.
const LOOK: Duration = Duration::from_millis(20);

/// One etcd member of our own, killed when dropped.
struct Server {
    binary: PathBuf,
    dir: tempfile::TempDir,
    client_port: u16,
    peer_port: u16,
    extra: Vec<String>,
    scheme: &'static str,
    process: Option<Child>,
}

impl Server {
    async fn start(extra: &[&str]) -> Self {
        let mut server = Self::prepared("http", extra);
        server.run();
        server.until_ready().await;
        server
    }

    fn prepared(scheme: &'static str, extra: &[&str]) -> Self {
        let binary = PathBuf::from(std::env::var_os("WATCHCACHE_TEST_ETCD").expect("WATCHCACHE_TEST_ETCD names an etcd binary"));
        let dir = tempfile::tempdir().expect("a temporary directory");
        let extra = extra.iter().map(ToString::to_string).collect();
        Self { binary, dir, client_port: free_port(), peer_port: free_port(), extra, scheme, process: None }
    }

    fn run(&mut self) {
        let (client, peer) = (self.url(), format!("http://127.0.0.1:{}", self.peer_port));
        let child = Command::new(&self.binary)
            .arg("--data-dir")
            .arg(self.dir.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error", "--unsafe-no-fsync"])
            .args(&self.extra)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("WATCHCACHE_TEST_ETCD is an etcd binary");
        self.process = Some(child);
    }

    /// Whether this release has `RangeStream`.
    fn has_streams(&self) -> bool {
        let version = Command::new(&self.binary).arg("--version").output().expect("an etcd binary");
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        !["etcd Version: 3.5.", "etcd Version: 3.6."].iter().any(|old| version.starts_with(old))
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("our own child");
            process.wait().expect("our own child");
        }
    }

    async fn until_ready(&self) {
        let etcd = self.etcd();
        let begin = Instant::now();
        while let Err(error) = etcd.current(b"/ready").await {
            assert!(begin.elapsed() < PATIENCE, "etcd does not start: {error}");
            sleep(LOOK).await;
        }
    }

    fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.client_port)
    }

    fn etcd(&self) -> Etcd {
        etcd_at(&[&self.url()])
    }

    fn raw(&self) -> Client {
        Client::connect(&self.url()).expect("a valid URL")
    }

    async fn enable_auth(&self, password: &str) {
        let mut auth = self.raw().auth;
        let (name, password) = ("root".to_owned(), password.to_owned());
        auth.user_add(AuthUserAddRequest { name, password, ..AuthUserAddRequest::default() }).await.expect("up");
        auth.user_grant_role(AuthUserGrantRoleRequest { user: "root".into(), role: "root".into() }).await.expect("up");
        auth.auth_enable(AuthEnableRequest {}).await.expect("up");
    }

    fn as_root(&self, password: &str) -> Etcd {
        let user = Some(("root".to_owned(), password.to_owned()));
        Etcd::new(EtcdConfig { endpoints: vec![self.url()], user, ..EtcdConfig::default() }).expect("valid")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn etcd_at(urls: &[&str]) -> Etcd {
    let endpoints = urls.iter().map(ToString::to_string).collect();
    Etcd::new(EtcdConfig { endpoints, ..EtcdConfig::default() }).expect("valid")
}

fn free_port() -> u16 {
    ports::free_address().expect("a free port").port()
}

async fn put(raw: &mut Client, key: &str, value: &str) -> Revision {
    let answer = raw.put((key, value)).await.expect("etcd is up");
    Revision::from_etcd(answer.header.expect("has a header").revision)
}

/// All of `/a/`, say.
fn prefix(prefix: &str) -> RangeRequest {
    let (key, end) = bounds(prefix);
    RangeRequest { key, end, ..RangeRequest::default() }
}

fn bounds(prefix: &str) -> (Vec<u8>, Vec<u8>) {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().expect("not empty") += 1;
    (prefix.as_bytes().to_vec(), end)
}

async fn watch(sender: &mut WatchSender, id: i64, over: &str, start: Revision) {
    let (key, end) = bounds(over);
    sender.create(id, &key, &end, start).await.expect("etcd is up");
}

async fn hear(receiver: &mut WatchReceiver) -> WatchMessage {
    let heard = timeout(PATIENCE, receiver.message()).await.expect("etcd answers");
    heard.expect("no error").expect("no end")
}

#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn a_stream_is_of_one_state_and_comes_in_pieces() {
    let server = Server::start(&[]).await;
    let (etcd, mut raw) = (server.etcd(), server.raw());
    let old = "old".repeat(1_000);
    for i in 0..2_000 {
        put(&mut raw, &format!("/a/{i:04}"), &old).await;
    }
    let first = etcd.range(RangeRequest { limit: 10, ..prefix("/a/") }).await.expect("up");
    let pinned = Some(first.header.revision);
    let rest = RangeRequest { key: b"/a/0009\0".to_vec(), revision: pinned, ..prefix("/a/") };
    let stream = etcd.range_stream(rest.clone()).await.expect("up");
    assert_eq!(stream.is_some(), server.has_streams());
    // Before 3.7 there is none, and lists are read in pages.
    let Some(mut stream) = stream else { return };
    let newest = put(&mut raw, "/a/1999", "new").await;
    let (mut seen, mut pieces) = (first.kvs, 0);
    while let Some(piece) = stream.next().await.expect("up") {
        pieces += 1;
        seen.extend(piece);
    }
    let keys: Vec<String> = seen.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect();
    assert!(pieces > 2 && keys == (0..2_000).map(|i| format!("/a/{i:04}")).collect::<Vec<_>>(), "{pieces} pieces, {} keys", keys.len());
    assert!(seen.iter().all(|kv| kv.value == old.as_bytes()));
    etcd.compact(newest).await.expect("up");
    assert!(matches!(etcd.range_stream(rest).await.map(drop), Err(EtcdError::Compacted)));
}

#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn pages_at_a_pinned_revision_do_not_see_later_writes() {
    let server = Server::start(&[]).await;
    let (etcd, mut raw) = (server.etcd(), server.raw());
    for i in 0..25 {
        put(&mut raw, &format!("/a/{i:02}"), "old").await;
    }
    let first = etcd.range(RangeRequest { limit: 10, ..prefix("/a/") }).await.expect("up");
    assert!(first.more);
    assert_eq!((first.kvs.len(), first.count), (10, 25));
    let newest = put(&mut raw, "/a/17", "new").await;

    let (mut seen, mut next) = (first.kvs, first.more);
    while next {
        let mut key = seen.last().expect("not empty").key.to_vec();
        key.push(0);
        let page = RangeRequest { key, limit: 10, revision: Some(first.header.revision), ..prefix("/a/") };
        let page = etcd.range(page).await.expect("up");
        assert_eq!(page.header.revision, newest, "the header is etcd's newest, whatever is read");
        next = page.more;
        seen.extend(page.kvs);
    }
    assert_eq!(seen.len(), 25);
    assert!(seen.iter().all(|kv| kv.value == "old" && kv.mod_revision == kv.create_revision));

    let single = RangeRequest { key: b"/a/17".to_vec(), serializable: true, ..RangeRequest::default() };
    let one = etcd.range(single).await.expect("up").kvs.remove(0);
    assert_eq!((one.value.as_ref(), one.mod_revision), (&b"new"[..], newest));
    let keys = etcd.range(RangeRequest { keys_only: true, ..prefix("/a/") }).await.expect("up");
    assert!(keys.kvs.iter().all(|kv| kv.value.is_empty()));
    let counted = etcd.range(RangeRequest { count_only: true, ..prefix("/a/") }).await.expect("up");
    assert_eq!((counted.kvs.len(), counted.count), (0, 25));
    let header = etcd.current(b"/registry/absent").await.expect("up");
    assert_eq!(header, counted.header);
    assert_ne!(header.cluster_id, 0);
}

/// 5 MiB are more than gRPC's default limit for one answer.
#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn large_answers_are_read() {
    let server = Server::start(&[]).await;
    let (etcd, mut raw) = (server.etcd(), server.raw());
    let value = "x".repeat(1 << 20);
    let start = put(&mut raw, "/a/0", &value).await;
    for i in 1..5 {
        put(&mut raw, &format!("/a/{i}"), &value).await;
    }
    let answer = etcd.range(prefix("/a/")).await.expect("no limit below 5 MiB");
    assert_eq!(answer.kvs.iter().map(|kv| kv.value.len()).sum::<usize>(), 5 << 20);
    let (mut sender, mut receiver) = etcd.open_watch().await.expect("up");
    watch(&mut sender, 1, "/a/", start).await;
    let mut bytes = 0;
    while bytes < 5 << 20 {
        if let WatchKind::Events { events, .. } = hear(&mut receiver).await.kind {
            bytes += events.iter().map(|e| e.value.as_ref().map_or(0, Bytes::len)).sum::<usize>();
        }
    }
}

#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn compacted_and_future_revisions_are_named() {
    let server = Server::start(&[]).await;
    let (etcd, mut raw) = (server.etcd(), server.raw());
    let old = put(&mut raw, "/a/x", "1").await;
    put(&mut raw, "/a/x", "2").await;
    let newest = put(&mut raw, "/a/x", "3").await;
    etcd.compact(newest).await.expect("up");
    assert_eq!(etcd.compact(newest).await, Err(EtcdError::Compacted), "a second time");

    let at = |revision| RangeRequest { revision: Some(revision), ..prefix("/a/") };
    assert_eq!(etcd.range(at(old)).await, Err(EtcdError::Compacted));
    assert_eq!(etcd.range(at(Revision(newest.0 + 100))).await, Err(EtcdError::Future));
    assert!(etcd.range(at(newest)).await.is_ok(), "the compacted revision itself is readable");

    let (mut sender, mut receiver) = etcd.open_watch().await.expect("up");
    watch(&mut sender, 1, "/a/", old).await;
    watch(&mut sender, 2, "/a/", newest.next()).await;
    let canceled = loop {
        let message = hear(&mut receiver).await;
        if let WatchKind::Canceled { compacted, .. } = message.kind {
            break (message.watch_id, compacted);
        }
    };
    assert_eq!(canceled, (1, Some(newest)));
    let next = put(&mut raw, "/a/x", "4").await;
    let message = loop {
        let message = hear(&mut receiver).await;
        if matches!(message.kind, WatchKind::Events { .. }) {
            break message;
        }
    };
    assert_eq!((message.watch_id, message.header.revision), (2, next), "the other watch of the stream goes on");
}

#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn several_watches_share_a_stream_and_one_progress_answer() {
    let server = Server::start(&[]).await;
    let (etcd, mut raw) = (server.etcd(), server.raw());
    let base = put(&mut raw, "/other", "1").await;
    let (mut sender, mut receiver) = etcd.open_watch().await.expect("up");
    assert!(sender.request_progress().await.is_err(), "nothing is open before the first create");
    for (id, over) in [(11, "/a/"), (22, "/b/"), (33, "/c/")] {
        watch(&mut sender, id, over, base.next()).await;
    }
    let mut created: Vec<i64> = Vec::new();
    while created.len() < 3 {
        let message = hear(&mut receiver).await;
        assert_eq!(message.kind, WatchKind::Created);
        created.push(message.watch_id);
    }
    assert_eq!(created, [11, 22, 33]);

    let written = put(&mut raw, "/b/x", "1").await;
    let message = hear(&mut receiver).await;
    assert_eq!(message.watch_id, 22);
    let WatchKind::Events { events, more: false } = message.kind else { panic!("an event") };
    assert_eq!((events[0].key.as_ref(), events[0].value.as_deref()), (&b"/b/x"[..], Some(&b"1"[..])));
    assert_eq!(events[0].revision, written);
    raw.delete("/b/x").await.expect("up");
    let WatchKind::Events { events, more: false } = hear(&mut receiver).await.kind else { panic!("an event") };
    assert_eq!((events[0].value.clone(), events[0].revision), (None, written.next()));

    let elsewhere = put(&mut raw, "/other", "2").await;
    let progress = until_progress(&mut sender, &mut receiver).await;
    assert_eq!((progress.watch_id, progress.header.revision), (-1, elsewhere));

    watch(&mut sender, 33, "/d/", base.next()).await;
    let refused = hear(&mut receiver).await;
    assert!(matches!(refused.kind, WatchKind::Canceled { compacted: None, .. }), "the id is in use: {refused:?}");
}

/// etcd does not answer while a watch is not synced, so it is asked again.
async fn until_progress(sender: &mut WatchSender, receiver: &mut WatchReceiver) -> WatchMessage {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE, "no progress answer");
        sender.request_progress().await.expect("up");
        if let Ok(heard) = timeout(Duration::from_millis(100), receiver.message()).await {
            let message = heard.expect("no error").expect("no end");
            assert_eq!(message.kind, WatchKind::Progress);
            return message;
        }
    }
}

/// etcd splits what is over its request limit and 512 KiB more. 1,000 deletions of keys of 1 KiB, all at one revision, are.
#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn a_large_revision_comes_in_fragments() {
    let server = Server::start(&["--max-request-bytes", "65536"]).await;
    let (etcd, mut raw) = (server.etcd(), server.raw());
    let long = "k".repeat(1024);
    for page in 0..25 {
        let puts: Vec<RequestOp> = (0..40).map(|i| putting(format!("/a/{page:02}{i:02}{long}"), "v").into()).collect();
        raw.txn(txn([], puts)).await.expect("up");
    }
    let before = etcd.current(b"/").await.expect("up").revision;
    let (mut sender, mut receiver) = etcd.open_watch().await.expect("up");
    watch(&mut sender, 1, "/a/", before.next()).await;
    assert_eq!(hear(&mut receiver).await.kind, WatchKind::Created);
    raw.delete_range(delete("/a/").prefix()).await.expect("up");

    let (mut parts, mut keys) = (0, Vec::new());
    loop {
        let WatchKind::Events { events, more } = hear(&mut receiver).await.kind else { panic!("only events") };
        parts += 1;
        assert!(events.iter().all(|e| e.revision == before.next() && e.value.is_none()));
        keys.extend(events.into_iter().map(|e| e.key));
        if !more {
            break;
        }
    }
    assert!(parts >= 2, "{parts} part");
    assert_eq!(keys.len(), 1000);
    assert!(keys.is_sorted());
}

#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn one_dead_endpoint_of_two_is_passed_over() {
    let server = Server::start(&[]).await;
    let dead = format!("http://127.0.0.1:{}", free_port());
    let url = server.url();
    let etcd = etcd_at(&[&dead, &url]);
    for _ in 0..20 {
        etcd.current(b"/").await.expect("the other one is tried within the call");
        etcd.rotate();
    }
    // A stream is not tried elsewhere by itself, but the next one is.
    let etcd = etcd_at(&[&dead, &url]);
    let mut failures = 0;
    loop {
        let (mut sender, mut receiver) = etcd.open_watch().await.expect("connects later");
        match sender.create(1, b"/a", b"", Revision(1)).await {
            Ok(()) => break assert_eq!(hear(&mut receiver).await.kind, WatchKind::Created),
            Err(EtcdError::Unavailable(_)) => failures += 1,
            Err(other) => panic!("{other}"),
        }
        assert_eq!(receiver.message().await, Ok(None), "the other half ends");
        assert!(failures < 2);
    }
    assert_eq!(failures, 1);

    let nobody = etcd_at(&[&dead]);
    let Err(EtcdError::Unavailable(text)) = nobody.current(b"/").await else { panic!("nobody is there") };
    assert!(text.starts_with("rpc error: code = Unavailable desc = ") && text.contains("refused"), "{text}");
}

#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn a_killed_etcd_ends_the_stream_and_is_found_again() {
    let mut server = Server::start(&[]).await;
    let (etcd, mut raw) = (server.etcd(), server.raw());
    let before = put(&mut raw, "/a/x", "1").await;
    let (mut sender, mut receiver) = etcd.open_watch().await.expect("up");
    watch(&mut sender, 1, "/a/", before.next()).await;
    assert_eq!(hear(&mut receiver).await.kind, WatchKind::Created);

    server.kill();
    let ended = timeout(PATIENCE, receiver.message()).await.expect("a dead connection is seen");
    assert!(matches!(ended, Ok(None) | Err(EtcdError::Unavailable(_))), "{ended:?}");
    assert_eq!(receiver.message().await, Ok(None));
    let begin = Instant::now();
    assert!(matches!(etcd.current(b"/").await, Err(EtcdError::Unavailable(_))));
    assert!(begin.elapsed() < PATIENCE, "a refused connection is an answer");

    server.run();
    server.until_ready().await;
    let missed = put(&mut server.raw(), "/a/x", "2").await;
    let (mut sender, mut receiver) = etcd.open_watch().await.expect("waits, does not fail");
    watch(&mut sender, 1, "/a/", before.next()).await;
    assert_eq!(hear(&mut receiver).await.kind, WatchKind::Created);
    let WatchKind::Events { events, .. } = hear(&mut receiver).await.kind else { panic!("what was missed") };
    assert_eq!(events[0].revision, missed);
    assert_eq!(etcd.current(b"/").await.expect("up").revision, missed);
}

#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn versions_are_asked_until_every_endpoint_has_answered() {
    let mut server = Server::prepared("http", &[]);
    let etcd = server.etcd();
    assert!(!etcd.supports_progress());
    let probe = tokio::spawn({
        let etcd = etcd.clone();
        async move { etcd.probe_capabilities().await }
    });
    sleep(Duration::from_millis(300)).await;
    assert!(!probe.is_finished(), "nobody is there yet");
    server.run();
    timeout(PATIENCE, probe).await.expect("answered").expect("no panic");
    assert!(etcd.supports_progress(), "run this with etcd 3.5.13 or newer");
}

#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn user_and_password_are_used_and_refused() {
    let server = Server::start(&[]).await;
    let come_as = |password: &str| server.as_root(password);
    server.enable_auth("secret").await;
    let etcd = come_as("secret");
    let now = etcd.current(b"/").await.expect("welcome").revision;
    let (mut sender, mut receiver) = etcd.open_watch().await.expect("welcome");
    watch(&mut sender, 1, "/a/", now.next()).await;
    assert_eq!(hear(&mut receiver).await.kind, WatchKind::Created);
    assert!(matches!(come_as("wrong").current(b"/").await, Err(EtcdError::Unauthenticated(_))));
    assert!(matches!(server.etcd().current(b"/").await, Err(EtcdError::Unauthenticated(_))));
}

/// etcd forgets a token that nobody used for a while: here a second, and it looks once a second.
#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn a_token_that_etcd_forgot_is_replaced() {
    let server = Server::start(&["--auth-token-ttl=1"]).await;
    server.enable_auth("secret").await;
    let etcd = server.as_root("secret");
    etcd.current(b"/").await.expect("welcome");
    sleep(Duration::from_secs(4)).await;
    let calls = join_all((0..50).map(|_| etcd.current(b"/"))).await;
    assert!(calls.iter().all(Result::is_ok), "{calls:?}");
    sleep(Duration::from_secs(4)).await;
    let (mut sender, mut receiver) = etcd.open_watch().await.expect("welcome");
    watch(&mut sender, 1, "/a/", Revision(1)).await;
    assert_eq!(hear(&mut receiver).await.kind, WatchKind::Created);
}

#[tokio::test]
#[ignore = "needs etcd: WATCHCACHE_TEST_ETCD"]
async fn tls_with_a_client_certificate() {
    let mut server = Server::prepared("https", &[]);
    let authority = Authority::new();
    write(&server.file("ca.pem"), &authority.pem);
    for name in ["server", "client"] {
        let (cert, key) = authority.issue();
        write(&server.file(&format!("{name}.pem")), &cert);
        write(&server.file(&format!("{name}.key")), &key);
    }
    for (flag, name) in [("--cert-file", "server.pem"), ("--key-file", "server.key"), ("--trusted-ca-file", "ca.pem")] {
        server.extra.extend([flag.to_owned(), server.file(name).display().to_string()]);
    }
    server.extra.push("--client-cert-auth".to_owned());
    server.run();

    let with = |client: bool| {
        let file = |name| client.then(|| server.file(name));
        let (ca_file, cert_file, key_file) = (Some(server.file("ca.pem")), file("client.pem"), file("client.key"));
        Etcd::new(EtcdConfig { endpoints: vec![server.url()], ca_file, cert_file, key_file, user: None }).expect("valid")
    };
    let etcd = with(true);
    let begin = Instant::now();
    while let Err(error) = etcd.current(b"/").await {
        assert!(begin.elapsed() < PATIENCE, "{error}");
        sleep(LOOK).await;
    }
    assert!(matches!(with(false).current(b"/").await, Err(EtcdError::Unavailable(_))), "no certificate, no answer");
}

struct Authority {
    pem: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("signs itself").pem();
        Self { pem, issuer: rcgen::Issuer::new(params, key) }
    }

    /// Certificate and key, good for 127.0.0.1 and for a client.
    fn issue(&self) -> (String, String) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        (params.signed_by(&key, &self.issuer).expect("signs").pem(), key.serialize_pem())
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("writable");
}
