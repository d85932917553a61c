//! kube-controller-manager on ours and nothing else: namespaces get what every namespace has and lose all of it in the end, owners take their dependents
//! along, workloads written in short get their Pods, and no error keeps being told. `WATCHCACHE_CONTROLLERS_SECONDS` makes it go on for longer than one round,
//! `WATCHCACHE_CONTROLLERS_MEDIA` makes it speak another media type than its own protobuf, and with
//! `WATCHCACHE_TEST_SUBJECT=kube-apiserver` it shows what controllers tell there.

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    free_address,
    peers::{Running, Site},
    say,
    subject::Subject,
};
use crate::{
    alone::asked,
    client::{Client, Request},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// As `kube-controller-manager --help` names them.
const CONTROLLERS: &str = "namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,garbage-collector-controller,\
     deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,job-controller,cronjob-controller";
/// How long a controller may take for one thing. The garbage collector looks for new resources every 30 s.
const PATIENCE: Duration = Duration::from_secs(300);
/// Controllers act on caches that are behind by a moment, tell of it and try again, after 5 ms at first and twice as long each time: what lasts longer is
/// no moment, unless the machine stood still for as long. (A ReplicaSet that is gone already was told of twice in a run on a busy machine.)
const MOMENT: Duration = Duration::from_secs(10);
/// What a garbage collector has not heard of it cannot orphan: it would find a dependent whose owner is gone, and collect it. Not even kube-apiserver tells
/// when it has; it hears within milliseconds, on a busy machine within tenths of a second. Looks and not time, so that a machine that stands still takes one.
const HEARD_LOOKS: usize = 30;
const LOOK: Duration = Duration::from_millis(100);
const WIDGETS: &str = "/apis/ex.io/v1/namespaces";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kube-controller-manager: WATCHCACHE_TEST_PEERS"]
async fn controllers() -> Result<(), Failure> {
    let program = env::var_os("WATCHCACHE_TEST_PEERS").map(|peers| PathBuf::from(peers).join("kube-controller-manager"));
    let program = program.ok_or("WATCHCACHE_TEST_PEERS does not name a folder with kube-controller-manager")?;
    let seconds = env::var("WATCHCACHE_CONTROLLERS_SECONDS").map_or(Ok(0), |text| text.parse())?;
    let site = Site::prepare(program.parent().ok_or("a program in a folder")?).map_err(|error| error.to_string())?;
    let server = Subject::start(site.path()).await?;
    let (manager, began) = (start(&site, &program, &server)?, Instant::now());
    let client = server.client();
    for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        furnished(&client, namespace).await?;
    }
    asked(&client, ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"), Some(&definition()), 201).await?;
    answered(&client, "/apis/ex.io/v1/widgets", 200).await?;
    let mut rounds = 0;
    while rounds == 0 || began.elapsed() < Duration::from_secs(seconds) {
        rounds += 1;
        round(&client, &format!("shop-{rounds}")).await.map_err(|error| format!("round {rounds}: {error}; {:?}", manager.ended()))?;
    }
    // So long that what began at the end can be seen to last.
    tokio::time::sleep(MOMENT * 2).await;
    if let Some(ended) = manager.ended() {
        return Err(ended.into());
    }
    let log = fs::read_to_string(site.path().join("kube-controller-manager.log"))?;
    let errors = errors(&log);
    say(&format!("live controllers: {rounds} rounds in {:.0?}; errors told: {errors:?}", began.elapsed()));
    let lasting: Vec<_> = errors.iter().filter(|(_, told)| told.lasted() > MOMENT).collect();
    if lasting.is_empty() { Ok(()) } else { Err(format!("errors that last: {lasting:?}").into()) }
}

/// kube-controller-manager as a leader, without credentials of its controllers.
fn start(site: &Site, program: &Path, server: &Subject) -> Result<Running, Failure> {
    let file = |name: &str| site.path().join(name).display().to_string();
    fs::write(file("kubeconfig"), server.kubeconfig().to_string())?;
    let mut command = Command::new(program);
    for (flag, value) in [
        ("kubeconfig", file("kubeconfig")),
        ("controllers", CONTROLLERS.into()),
        ("leader-elect", "true".into()),
        ("root-ca-file", file("ca.crt")),
        ("bind-address", "127.0.0.1".into()),
        ("secure-port", free_address()?.port().to_string()),
        ("cert-dir", file("controller-manager")),
    ] {
        command.arg(format!("--{flag}={value}"));
    }
    if let Some(media) = env::var("WATCHCACHE_CONTROLLERS_MEDIA").ok().filter(|media| !media.is_empty()) {
        command.arg(format!("--kube-api-content-type={media}"));
    }
    Ok(site.start("kube-controller-manager", command)?)
}

/// A namespace from its beginning to its end, with owners of every kind of cascade in it.
async fn round(client: &Client, namespace: &str) -> Result<(), Failure> {
    let body = json!({"metadata": {"name": namespace}});
    asked(client, ("POST", "/api/v1/namespaces"), Some(&body), 201).await?;
    furnished(client, namespace).await?;
    let (maps, widgets) = (format!("/api/v1/namespaces/{namespace}/configmaps"), format!("{WIDGETS}/{namespace}/widgets"));
    for (owners, api, kind) in [(&maps, "v1", "ConfigMap"), (&widgets, "ex.io/v1", "Widget")] {
        for policy in ["Background", "Foreground", "Orphan"] {
            cascade(client, namespace, (owners, api, kind), policy).await?;
        }
    }
    workloads(client, namespace).await?;
    // A namespace with objects of every sort in it, one of them held back for a while.
    asked(client, ("POST", &widgets), Some(&json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "last"}})), 201)
        .await?;
    let held = json!({"metadata": {"name": "held", "finalizers": ["ex.io/hold"]}});
    asked(client, ("POST", &maps), Some(&held), 201).await?;
    asked(client, ("DELETE", &format!("/api/v1/namespaces/{namespace}")), None, 200).await?;
    gone(client, &format!("{widgets}/last")).await?;
    let kept = asked(client, ("GET", &format!("/api/v1/namespaces/{namespace}")), None, 200).await?;
    if kept.pointer("/status/phase").and_then(Value::as_str) != Some("Terminating") {
        return Err(format!("what holds it is there: {kept}").into());
    }
    asked(client, ("PATCH", &format!("{maps}/held")), Some(&json!({"metadata": {"finalizers": null}})), 200).await?;
    gone(client, &format!("/api/v1/namespaces/{namespace}")).await?;
    for target in ["/api/v1/configmaps", "/api/v1/secrets", "/api/v1/serviceaccounts", "/apis/ex.io/v1/widgets"] {
        let list = asked(client, ("GET", target), None, 200).await?;
        let items = list["items"].as_array().ok_or("no items")?;
        if let Some(left) = items.iter().find(|item| item.pointer("/metadata/namespace").and_then(Value::as_str) == Some(namespace)) {
            return Err(format!("the namespace is gone and left {left}").into());
        }
    }
    Ok(())
}

/// Workloads of which nothing is told but what must be: their controllers make Pods of them, and a second ReplicaSet of another image.
async fn workloads(client: &Client, namespace: &str) -> Result<(), Failure> {
    let pods = |app: &str| format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app={app}");
    for (version, kind, more, count) in [
        ("apps/v1", "Deployment", json!({"replicas": 2}), 2),
        ("apps/v1", "StatefulSet", json!({}), 1),
        ("batch/v1", "Job", json!({}), 1),
        ("batch/v1", "Job", json!({"parallelism": 3}), 3),
    ] {
        let app = format!("{}-{count}", kind.to_lowercase());
        let mut spec = more;
        spec["template"] = json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        if kind == "Job" {
            spec["template"]["spec"]["restartPolicy"] = "Never".into();
        } else {
            spec["selector"] = json!({"matchLabels": {"app": app}});
        }
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": app}, "spec": spec});
        asked(client, ("POST", &format!("/apis/{version}/namespaces/{namespace}/{}s", kind.to_lowercase())), Some(&body), 201).await?;
        counted(client, &pods(&app), count).await?;
    }
    let sets = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
    counted(client, &sets, 1).await?;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    asked(client, ("PATCH", &format!("/apis/apps/v1/namespaces/{namespace}/deployments/deployment-2")), Some(&image), 200).await?;
    counted(client, &sets, 2).await?;
    // Before the namespace ends: a StatefulSet in one that does goes on to ask for its Pod.
    let foreground = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"});
    for path in ["apps/v1 deployments/deployment-2", "apps/v1 statefulsets/statefulset-1", "batch/v1 jobs/job-1", "batch/v1 jobs/job-3"] {
        let (version, path) = path.split_once(' ').ok_or("a version and a path")?;
        let target = format!("/apis/{version}/namespaces/{namespace}/{path}");
        asked(client, ("DELETE", &target), Some(&foreground), 200).await?;
        gone(client, &target).await?;
    }
    counted(client, &format!("/api/v1/namespaces/{namespace}/pods"), 0).await
}

/// Asks until the list has this many items.
async fn counted(client: &Client, target: &str, count: usize) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    loop {
        let list = asked(client, ("GET", target), None, 200).await?;
        if list["items"].as_array().map(Vec::len) == Some(count) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("{target} has not {count} items after {PATIENCE:?}: {list}").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Deletes an owner under a policy: its dependent goes with it, or stays without it.
async fn cascade(client: &Client, namespace: &str, (owners, api, kind): (&str, &str, &str), policy: &str) -> Result<(), Failure> {
    let name = format!("{}-{}", kind.to_lowercase(), policy.to_lowercase());
    let body = json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}});
    let owner = asked(client, ("POST", owners), Some(&body), 201).await?;
    let reference = json!({"apiVersion": api, "kind": kind, "name": name, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true});
    let dependents = format!("/api/v1/namespaces/{namespace}/secrets");
    let dependent = json!({"metadata": {"name": name, "ownerReferences": [reference]}});
    asked(client, ("POST", &dependents), Some(&dependent), 201).await?;
    if policy == "Orphan" {
        for _ in 0..HEARD_LOOKS {
            tokio::time::sleep(LOOK).await;
        }
    }
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
    asked(client, ("DELETE", &format!("{owners}/{name}")), Some(&options), 200).await?;
    gone(client, &format!("{owners}/{name}")).await?;
    let dependent = format!("{dependents}/{name}");
    if policy != "Orphan" {
        return gone(client, &dependent).await;
    }
    let left = asked(client, ("GET", &dependent), None, 200).await?;
    if left.pointer("/metadata/ownerReferences").is_some() {
        return Err(format!("an orphan has no owner: {left}").into());
    }
    asked(client, ("DELETE", &dependent), None, 200).await.map(drop)
}

/// What every namespace has: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`.
async fn furnished(client: &Client, namespace: &str) -> Result<(), Failure> {
    for (target, member) in [("serviceaccounts/default", "/metadata/uid"), ("configmaps/kube-root-ca.crt", "/data/ca.crt")] {
        let target = format!("/api/v1/namespaces/{namespace}/{target}");
        answered(client, &target, 200).await?;
        let object = asked(client, ("GET", &target), None, 200).await?;
        object.pointer(member).and_then(Value::as_str).filter(|text| !text.is_empty()).ok_or_else(|| format!("{target}: {object}"))?;
    }
    Ok(())
}

async fn gone(client: &Client, target: &str) -> Result<(), Failure> {
    answered(client, target, 404).await
}

/// Asks until the answer has this status.
async fn answered(client: &Client, target: &str, status: u16) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = client.ask(&Request { method: "GET", target, body: None }).await?;
        if answer.status == status {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("{target} is not {status} after {PATIENCE:?}: {}", String::from_utf8_lossy(&answer.body)).into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An error line of a log: how often it was told, and when first and last, as the time of the day.
struct Told {
    times: usize,
    first: Duration,
    last: Duration,
}

impl Told {
    /// From the first to the last time, over midnight too.
    fn lasted(&self) -> Duration {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        self.last.checked_sub(self.first).unwrap_or_else(|| self.last + DAY - self.first)
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}", self.times, self.lasted())
    }
}

/// Error lines of a log of klog by what stands after their times and process.
fn errors(log: &str) -> BTreeMap<&str, Told> {
    let mut errors = BTreeMap::<_, Told>::new();
    let is_error = |line: &&str| (line.starts_with('E') || line.starts_with('F')) && line[1..].starts_with(|c: char| c.is_ascii_digit());
    for line in log.lines().filter(is_error) {
        // E1121 15:07:31.665893   29769 options.go:205] text
        let mut words = line.split_whitespace();
        let at = words.nth(1).and_then(time_of_day).unwrap_or_default();
        let text = words.nth(1).and_then(|place| line.find(place)).map_or(line, |at| &line[at..]);
        let told = errors.entry(text).or_insert(Told { times: 0, first: at, last: at });
        (told.times, told.last) = (told.times + 1, at);
    }
    errors
}

/// `15:07:31.665893`
fn time_of_day(text: &str) -> Option<Duration> {
    let mut parts = text.split(':');
    let (hours, minutes) = (parts.next()?.parse::<u32>().ok()?, parts.next()?.parse::<u32>().ok()?);
    Some(Duration::from_secs(u64::from(hours * 60 + minutes) * 60) + Duration::from_secs_f64(parts.next()?.parse().ok()?))
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

#[test]
fn errors_are_told_apart_by_place_and_text() {
    let log = "I1121 15:07:31.000001   29769 a.go:1] fine\n\
               E1121 23:59:58.500000   29769 options.go:205] empty\n\
               E1122 00:00:04.500000       7 options.go:205] empty\n\
               E1122 00:00:05.000000       7 options.go:206] empty\n\
               Empty line of somebody else\n";
    let errors = errors(log);
    let told = |text| (errors[text].times, errors[text].lasted());
    assert_eq!(told("options.go:205] empty"), (2, Duration::from_secs(6)));
    assert_eq!(told("options.go:206] empty"), (1, Duration::ZERO));
    assert_eq!(errors.len(), 2);
}

/// Of several watchcaches on one etcd one runs the controllers; when it stops, another one does at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd: WATCHCACHE_TEST_PEERS"]
async fn servers_on_one_etcd_agree_who_cleans_up() -> Result<(), Failure> {
    let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS is not set")?;
    let site = Site::prepare(&programs).map_err(|error| error.to_string())?;
    let (_etcd, etcd) = site.etcd()?;
    let serve = |name: &str| -> Result<(Running, Client), Failure> {
        let address = free_address()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
        command.args(["serve", "--etcd-servers", &format!("http://{etcd}"), &format!("--insecure-port={}", address.port())]);
        Ok((site.start(name, command)?, Client::plain(address)))
    };
    let (first, of_first) = serve("first")?;
    told(&of_first, "[+]controllers ok").await?;
    let (_second, of_second) = serve("second")?;
    told(&of_second, "[+]controllers/left-to-another-watchcache ok").await?;
    let space = json!({"metadata": {"name": "shared"}});
    asked(&of_second, ("POST", "/api/v1/namespaces"), Some(&space), 201).await?;
    answered(&of_second, "/api/v1/namespaces/shared/serviceaccounts/default", 200).await?;
    asked(&of_second, ("DELETE", "/api/v1/namespaces/shared"), None, 200).await?;
    first.signal("TERM")?;
    let stopped = Instant::now();
    told(&of_second, "[+]controllers ok").await?;
    say(&format!("taken over after {:?}", stopped.elapsed()));
    answered(&of_second, "/api/v1/namespaces/shared", 404).await
}

/// Waits until `/readyz?verbose` has this line.
async fn told(client: &Client, line: &str) -> Result<(), Failure> {
    let began = Instant::now();
    while !client.fetch("/readyz?verbose").await.is_ok_and(|answer| String::from_utf8_lossy(&answer.body).contains(line)) {
        if began.elapsed() > PATIENCE {
            return Err(format!("/readyz does not say {line}").into());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
