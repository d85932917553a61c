//! A read replica that alone loses its etcd, or its kube-apiserver: nothing hangs, nothing is told to be newer than it is, and health says what is wrong. And
//! the replica as README starts it lets in whom the kube-apiserver lets in.

use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Outcome, free_address,
    gate::{Gate, Network},
    peers::{Running, Site, TOKEN},
    say, shown,
};
use crate::{
    alone::asked,
    client::{Answer, Client, Whole},
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How long an answer may take that upstream gives in place of etcd: 3 s until etcd is given up, and the machine is slow.
const ANSWER: Duration = Duration::from_secs(10);
/// How long memory may take until it counts as behind, or follows again.
const NOTICED: Duration = Duration::from_secs(40);
/// `--max-staleness`.
const STALE_SECONDS: u64 = 15;

/// The programs of the case, ended in this order.
struct Ground {
    replica: Running,
    log: PathBuf,
    kube: Running,
    etcd: Running,
    site: Site,
    etcd_gate: Gate,
    kube_gate: Gate,
    ours_at: SocketAddr,
    theirs_at: SocketAddr,
}

impl Ground {
    async fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS is not set")?;
        let site = Site::prepare(&programs)?;
        let (etcd, etcd_at) = site.etcd()?;
        let (kube, theirs_at) = site.apiserver("kube-apiserver", etcd_at)?;
        kube.ready(&site.client(theirs_at)).await?;
        let (etcd_gate, kube_gate) = (Gate::before(etcd_at).await?, Gate::before(theirs_at).await?);
        let ours_at = free_address()?;
        let replica = start(&site, "replica", ours_at, etcd_gate.address, kube_gate.address)?;
        let log = site.path().join("replica.log");
        replica.ready(&site.client(ours_at)).await?;
        Ok(Self { replica, log, kube, etcd, site, etcd_gate, kube_gate, ours_at, theirs_at })
    }

    fn ours(&self) -> Client {
        self.site.client(self.ours_at)
    }

    fn theirs(&self) -> Client {
        self.site.client(self.theirs_at)
    }

    async fn create(&self, name: &str) -> Outcome {
        let map = json!({"metadata": {"name": name}});
        asked(&self.theirs(), ("POST", MAPS), Some(&map), 201).await.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Waits until `/readyz` says so.
    async fn readyz(&self, status: u16) -> Outcome {
        let began = Instant::now();
        while self.ours().fetch("/readyz").await?.status != status {
            if began.elapsed() > NOTICED {
                return Err(format!("/readyz is not {status} within {NOTICED:?}").into());
            }
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Waits for the line in the log, which comes once, at once.
    async fn told_behind(&self, times: usize) -> Outcome {
        sleep(Duration::from_secs(2)).await;
        let told = self.logged("memory is behind etcd");
        if told == times { Ok(()) } else { Err(format!("that memory is behind is told {told} times, not {times}").into()) }
    }

    fn logged(&self, line: &str) -> usize {
        fs::read_to_string(&self.log).unwrap_or_default().matches(line).count()
    }
}

/// A replica with the flags that README's has.
fn start(site: &Site, name: &str, at: SocketAddr, etcd: SocketAddr, kube: SocketAddr) -> std::io::Result<Running> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args(["serve", "--insecure-port=0"]).args(site.secured(at)).arg(site.takes_tokens());
    command.arg(format!("--etcd-servers=http://{etcd}"));
    command.arg(format!("--max-staleness={STALE_SECONDS}s")).args(site.replica_of(kube));
    command.args(["--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC"]);
    site.start(name, command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn away() -> Outcome {
    let ground = Ground::start().await?;
    readme(&ground).await?;
    upstream_away(&ground).await?;
    etcd_silent(&ground).await?;
    etcd_slow(&ground).await?;
    etcd_frozen(&ground).await
}

/// Whether a list has an object of this name.
fn has(answer: &Answer, name: &str) -> bool {
    let list: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    list["items"].as_array().into_iter().flatten().any(|item| item["metadata"]["name"] == name)
}

async fn in_time(client: &Client, target: &str) -> Result<Answer, Box<dyn std::error::Error>> {
    let answer = timeout(ANSWER, client.fetch(target)).await.map_err(|_| format!("{target} has no answer within {ANSWER:?}"))??;
    if answer.status == 200 { Ok(answer) } else { Err(format!("{target}: {} {:?}", answer.status, answer.body).into()) }
}

fn of(whole: &Whole, header: &str) -> Vec<String> {
    whole.header(header).map(str::to_owned).collect()
}

/// The network to etcd falls silent, and only for the replica.
async fn etcd_silent(ground: &Ground) -> Outcome {
    let (ours, began) = (ground.ours(), Instant::now());
    ground.create("before").await?;
    let list = in_time(&ours, MAPS).await?;
    let revision = serde_json::from_slice::<Value>(&list.body)?["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let mut watch = ours.watch(&format!("{MAPS}?watch=1&resourceVersion={revision}")).await?.map_err(|no| format!("{no:?}"))?;
    ground.etcd_gate.set(Network::Silent);
    ground.create("meanwhile").await?;
    // At once, when nobody has noticed yet: all must see what was written.
    let get = format!("{MAPS}/meanwhile");
    let streaming =
        format!("{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1");
    let (list, got, streamed) = tokio::try_join!(in_time(&ours, MAPS), in_time(&ours, &get), in_time(&ours, &streaming))?;
    assert!(has(&list, "meanwhile") && got.status == 200 && String::from_utf8_lossy(&streamed.body).contains("\"meanwhile\""));
    ground.readyz(500).await?;
    let verbose = String::from_utf8(ours.fetch("/readyz?verbose").await?.body.to_vec())?;
    assert!(verbose.contains("[-]etcd failed: reason withheld\n[-]etcd-readiness failed: reason withheld\n"), "{verbose}");
    let why = ours.fetch("/readyz/etcd").await?;
    assert!(why.status == 500 && why.body.starts_with(b"internal server error: error getting data from etcd: memory is "), "{why:?}");
    for target in ["/livez", "/healthz", "/readyz?exclude=etcd&exclude=etcd-readiness"] {
        assert_eq!(ours.fetch(target).await?.status, 200, "{target}");
    }
    let metrics = String::from_utf8(ours.fetch("/metrics").await?.body.to_vec())?;
    let age = metrics.lines().find_map(|line| line.strip_prefix("watchcache_feed_age_seconds ")).and_then(|age| age.parse::<f64>().ok());
    assert!(metrics.contains("\nwatchcache_ready 0\n"), "/readyz says so too");
    assert!(metrics.contains("\nwatchcache_feed_up 0\n") && age.is_some_and(|age| age > 5.0), "{age:?}");
    ground.told_behind(1).await?;
    // What need not be new comes from memory, and says how old it is.
    let old = format!("{MAPS}?resourceVersion=0");
    if began.elapsed().as_secs() < STALE_SECONDS - 3 {
        let whole = ours.whole("GET", &old, &[], b"").await?;
        assert!(whole.status == 200 && !String::from_utf8_lossy(&whole.body).contains("\"meanwhile\""));
        assert_eq!(of(&whole, "warning"), ["110 watchcache \"Response is Stale\""]);
        assert!(of(&whole, "age")[0].parse::<u64>()? >= 5, "{whole:?}");
    }
    assert!(of(&ours.whole("GET", MAPS, &[], b"").await?, "age").is_empty(), "upstream's answer is new");
    // Older than the operator allows, all come from upstream, and open watches end so that their clients go on there.
    let too_old = Instant::now();
    while !has(&in_time(&ours, &old).await?, "meanwhile") {
        assert!(too_old.elapsed() < NOTICED, "memory still answers after {:?}", too_old.elapsed());
        sleep(Duration::from_millis(500)).await;
    }
    let ended = timeout(NOTICED, async {
        while let Some(line) = watch.next_line().await? {
            assert!(!line.starts_with(br#"{"type":"ERROR""#), "{}", String::from_utf8_lossy(&line));
        }
        Ok::<_, std::io::Error>(())
    });
    ended.await.map_err(|_| "an open watch has not ended")??;
    let resumed = in_time(&ours, &format!("{MAPS}?watch=1&resourceVersion={revision}&timeoutSeconds=2")).await?;
    assert!(String::from_utf8_lossy(&resumed.body).contains("\"meanwhile\""), "upstream goes on with it");
    back(ground, "meanwhile").await?;
    say("live away: etcd silent");
    Ok(())
}

/// The network heals: memory follows within seconds.
async fn back(ground: &Ground, name: &str) -> Outcome {
    ground.etcd_gate.set(Network::Passes);
    ground.readyz(200).await?;
    let whole = ground.ours().whole("GET", &format!("{MAPS}?resourceVersion=0"), &[], b"").await?;
    assert!(String::from_utf8_lossy(&whole.body).contains(name) && of(&whole, "age").is_empty(), "{whole:?}");
    let metrics = String::from_utf8(ground.ours().fetch("/metrics").await?.body.to_vec())?;
    assert!(metrics.contains("\nwatchcache_feed_up 1\n") && metrics.contains("\nwatchcache_ready 1\n"));
    Ok(())
}

/// Everything comes from etcd, four seconds late: without a break, and yet memory is always behind.
async fn etcd_slow(ground: &Ground) -> Outcome {
    let told = ground.logged("memory is behind etcd");
    ground.etcd_gate.set(Network::Slow(Duration::from_secs(4)));
    ground.readyz(500).await?;
    ground.create("slowly").await?;
    let list = in_time(&ground.ours(), MAPS).await?;
    assert!(has(&list, "slowly"), "what must be new is new");
    ground.told_behind(told + 1).await?;
    back(ground, "slowly").await?;
    say("live away: etcd slow");
    Ok(())
}

/// etcd stands still, for the kube-apiserver as well: memory answers what it may.
async fn etcd_frozen(ground: &Ground) -> Outcome {
    ground.etcd.signal("STOP")?;
    ground.readyz(500).await?;
    let old = in_time(&ground.ours(), &format!("{MAPS}?resourceVersion=0")).await?;
    assert!(has(&old, "before"));
    ground.etcd.signal("CONT")?;
    ground.readyz(200).await?;
    ground.create("after").await?;
    assert!(has(&in_time(&ground.ours(), MAPS).await?, "after"));
    say("live away: etcd frozen");
    Ok(())
}

/// Upstream is cut off, and then only silent: clients without cached discovery start all the same.
async fn upstream_away(ground: &Ground) -> Outcome {
    let ours = ground.ours();
    let began = Instant::now();
    loop {
        let status: Value = serde_json::from_slice(&ours.fetch("/watchcache/status").await?.body)?;
        if status["upstream"]["documentsAgeSeconds"].is_number() {
            break;
        }
        assert!(began.elapsed() < NOTICED, "nothing is kept: {status}");
        sleep(Duration::from_millis(200)).await;
    }
    let documents = ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/version", "/openapi/v3"];
    let accept = |media: &str| [("Accept".to_owned(), media.to_owned())];
    let aggregated = accept("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json");
    let mut before = Vec::new();
    for target in documents {
        let whole = ours.whole("GET", target, &accept("application/json"), b"").await?;
        assert!(whole.status == 200 && of(&whole, "warning").is_empty(), "{target}: {whole:?}");
        before.push(serde_json::from_slice::<Value>(&whole.body)?);
    }
    shown::upstream(&ours, false, true).await?;
    let before_aggregated = ours.whole("GET", "/apis", &aggregated, b"").await?;
    for network in [Network::Cut, Network::Silent] {
        ground.kube_gate.set(network);
        for (target, before) in documents.iter().zip(&before) {
            let json = accept("application/json");
            let asked = timeout(ANSWER, ours.whole("GET", target, &json, b""));
            let whole = asked.await.map_err(|_| format!("{network:?}: {target} has no answer"))??;
            assert_eq!((whole.status, &serde_json::from_slice::<Value>(&whole.body)?), (200, before), "{network:?} {target}");
            assert!(of(&whole, "warning")[0].starts_with("299 watchcache \"the API server behind this one does not answer"), "{whole:?}");
            assert!(of(&whole, "age")[0].parse::<u64>()? < 120, "{whole:?}");
        }
        let whole = ours.whole("GET", "/apis", &aggregated, b"").await?;
        assert_eq!(
            (of(&whole, "content-type"), of(&whole, "etag")),
            (of(&before_aggregated, "content-type"), of(&before_aggregated, "etag"))
        );
        assert_eq!(serde_json::from_slice::<Value>(&whole.body)?, serde_json::from_slice::<Value>(&before_aggregated.body)?);
        // Our own authorizers say who may read them.
        let nobody = ours.without_token();
        assert_eq!((nobody.fetch("/apis").await?.status, nobody.fetch("/version").await?.status), (403, 200));
        assert_eq!(ground.site.client_of(ground.ours_at, "viewtoken").fetch("/apis").await?.status, 200);
        // What was never kept, and what is no document, is refused.
        assert!(matches!(ours.fetch("/apis/none.example.org/v1").await?.status, 503 | 504));
        shown::upstream(&ours, false, false).await?;
        fresh_clients(ground, &format!("{network:?}"))?;
    }
    ground.kube_gate.set(Network::Passes);
    let began = Instant::now();
    while !of(&ours.whole("GET", "/version", &[], b"").await?, "warning").is_empty() {
        assert!(began.elapsed() < NOTICED, "upstream is back, and what was kept is told");
        sleep(Duration::from_millis(200)).await;
    }
    say("live away: upstream away");
    Ok(())
}

/// kubectl and Python's client, each with an empty cache.
fn fresh_clients(ground: &Ground, network: &str) -> Outcome {
    let (site, server) = (ground.site.path(), format!("https://{}", ground.ours_at));
    let (authority, cache) = (site.join("ca.crt"), |whose: &str| site.join(format!("{whose}-{network}")));
    let program = |variable: &str, usual: &str| env::var_os(variable).unwrap_or_else(|| usual.into());
    let mut kubectl = Command::new(program("WATCHCACHE_TEST_KUBECTL", "kubectl"));
    kubectl
        .args(["--server", &server, "--token", TOKEN, "--certificate-authority"])
        .arg(&authority)
        .arg("--cache-dir")
        .arg(cache("kubectl"));
    kubectl.args(["--request-timeout=20s", "get", "namespaces", "-o", "name"]);
    let mut python = Command::new(program("WATCHCACHE_TEST_PYTHON", "python3"));
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python/fresh.py")).arg(&server).arg(&authority);
    python.arg(TOKEN).arg(cache("python"));
    for mut command in [kubectl, python] {
        let output = command.env("HOME", site).env_remove("KUBECONFIG").output()?;
        let shown = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || !shown.contains("namespace/kube-system") {
            return Err(format!("{network}: {command:?} sees {shown:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
    }
    Ok(())
}

/// With the flags of README's replica a pod and a kubelet are let in as at the kube-apiserver; each flag that is left out is told.
async fn readme(ground: &Ground) -> Outcome {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"))?;
    let after = text.split("# a read replica of a cluster").nth(1).ok_or("README has no read replica")?;
    let command = after.split("\n\n").next().unwrap_or_default();
    // The case's replica is started as README says: no flag that matters to clients is missing there.
    for flag in [
        "--client-ca-file",
        "--service-account-key-file",
        "--service-account-issuer",
        "--authorization-mode Node,RBAC",
        "--proxy-client-cert-file",
    ] {
        assert!(command.contains(flag), "README's replica has no {flag}: {command}");
    }
    let theirs = ground.theirs();
    let ask = async |target: &str, body: Value| asked(&theirs, ("POST", target), Some(&body), 201).await.map_err(|error| error.to_string());
    ask("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "pods-own"}})).await?;
    let binding = json!({
        "metadata": {"name": "pods-own"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "pods-own", "namespace": "default"}],
    });
    ask("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let issued = ask("/api/v1/namespaces/default/serviceaccounts/pods-own/token", request).await?;
    let token = issued["status"]["token"].as_str().unwrap_or_default().to_owned();
    for (whose, token, target) in
        [("a pod", token.as_str(), "/api/v1/pods"), ("a kubelet", "n1token", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")]
    {
        for address in [ground.theirs_at, ground.ours_at] {
            let began = Instant::now();
            while ground.site.client_of(address, token).fetch(target).await?.status != 200 {
                assert!(began.elapsed() < NOTICED, "{whose} is refused at {address}");
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
    assert_eq!(ground.logged("no --service-account-key-file") + ground.logged("no Node in"), 0);
    let version: Value = serde_json::from_slice(&ground.ours().fetch("/watchcache/version").await?.body)?;
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(ground.ours().without_token().fetch("/watchcache/status").await?.status, 403);
    assert!(ground.logged("watchcache begins") == 1 && ground.replica.ended().is_none() && ground.kube.ended().is_none());
    say("live away: README's replica");
    Ok(())
}
