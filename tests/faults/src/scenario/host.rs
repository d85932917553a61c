//! An aggregated API server whose host cluster falls silent, is cut off, stands still, dies, and shows a certificate of another authority: watches go on, whom
//! the host has just allowed something may do it still, what the host would have to be asked is refused in time, and all works again afterwards. The host is
//! this project's as well: it answers reviews as a kube-apiserver does. Watchers come as its proxy brings them.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    http::{Lines, Listener},
    object::Resource,
    options::Options,
    pki::{Authority, Pair},
    process::Process,
    proxy::{Gate, Proxy},
    stage::{Stage, Verdict, namespaces},
    subject::{Wishes, listener_for_proxy, listener_signed_by, tls_args},
    validate::Expiry,
};

/// Calm before the faults.
const CALM: Duration = Duration::from_secs(3);
/// The server's `--request-timeout`, and what an answer may take: the machine is slow.
const REQUEST_SECONDS: u64 = 3;
const ANSWER: Duration = Duration::from_secs(REQUEST_SECONDS + 7);
/// How long the host and the server may take to start, and the server to notice that the host is there again.
const HEALED: Duration = Duration::from_secs(60);
/// How long until the server follows the host's namespaces again: after failures it waits up to a minute.
const FOLLOWED: Duration = Duration::from_secs(120);
/// What the host says counts for ten seconds; so long it must count on a slow machine.
const KEPT: Duration = Duration::from_secs(8);
/// The group whose members may read, and the one whose members the host need not be asked about.
const READERS: &str = "readers";
const MASTERS: &str = "system:masters";
/// The server's token at the host.
const TOKEN: &str = "host-token";

/// How clients reach the server.
struct Entrances {
    /// As the host's front proxy.
    proxy: Listener,
    /// With tokens of the host.
    tokens: Listener,
}

/// What befalls the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    CutOff,
    Killed,
    OtherCertificate,
    Silent,
    Paused,
}

impl Fault {
    /// Those first after which the server waits longer and longer before it follows the host's namespaces again: it may do so during the others.
    const ALL: [Self; 5] = [Self::CutOff, Self::Killed, Self::OtherCertificate, Self::Silent, Self::Paused];

    /// As names of users, namespaces and tokens have it.
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// The cluster that the server extends, and the network in front of it.
struct Host<'a> {
    options: &'a Options,
    dir: &'a Path,
    network: Proxy,
    /// How the scenario reaches it, whatever becomes of the network and of certificates.
    plain: Listener,
    /// Whom the server believes.
    authority: Authority,
    process: Option<Process>,
}

impl<'a> Host<'a> {
    async fn start(options: &'a Options, dir: &'a Path) -> Result<Self> {
        let ports = options.ports();
        let network = Proxy::listen(ports.upstream_proxy(), ports.upstream()).await?;
        let authority = Authority::make(dir, "authority").await?;
        let readers = Fault::ALL.iter().flat_map(|fault| ["early", "late"].map(|when| format!("{when}-{}", fault.name())));
        let readers: String = readers.map(|token| format!("{token},{token},2,\"{READERS}\"\n")).collect();
        std::fs::write(dir.join("host-tokens.csv"), format!("{TOKEN},extension,1,\"{MASTERS}\"\n{readers}"))?;
        let mut host = Self { options, dir, network, plain: Listener::plain(ports.upstream_plain()), authority, process: None };
        host.run(&host.authority.sign("host").await?)?;
        host.ready().await?;
        Ok(host)
    }

    fn run(&mut self, serving: &Pair) -> Result<()> {
        let ports = self.options.ports();
        let args = [
            "serve".to_owned(),
            format!("--data-dir={}", self.dir.join("host").display()),
            format!("--insecure-port={}", ports.upstream_plain()),
            format!("--token-auth-file={}", self.dir.join("host-tokens.csv").display()),
        ];
        let args = args.into_iter().chain(tls_args(ports.upstream(), serving));
        self.process = Some(Process::start(&self.options.server, args, &self.dir.join("host.log"))?);
        Ok(())
    }

    async fn ready(&self) -> Result<()> {
        until("the host is ready", async || is(200, &self.plain.get("/readyz", ANSWER).await)).await
    }

    async fn kill(&mut self) -> Result<()> {
        match self.process.take() {
            Some(process) => process.kill().await,
            None => Ok(()),
        }
    }

    fn running(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("the host is running")
    }

    async fn suffer(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Silent => self.network.set(Gate::Silent),
            Fault::CutOff => self.network.set(Gate::Broken),
            Fault::Paused => self.running()?.pause()?,
            Fault::Killed => self.kill().await?,
            Fault::OtherCertificate => {
                let other = Authority::make(self.dir, "other").await?.sign("host-of-other").await?;
                self.kill().await?;
                self.run(&other)?;
            }
        }
        Ok(())
    }

    async fn recover(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Silent | Fault::CutOff => self.network.set(Gate::Open),
            Fault::Paused => self.running()?.resume()?,
            Fault::Killed | Fault::OtherCertificate => {
                // A certificate that nobody has seen, of the authority that is believed.
                let serving = self.authority.sign(&format!("host-after-{fault:?}")).await?;
                self.kill().await?;
                self.run(&serving)?;
            }
        }
        self.ready().await
    }

    /// Creates an object of the host, or replaces the one that the host has made itself.
    async fn write(&self, path: &str, object: &Value) -> Result<()> {
        let (mut status, mut body) = self.plain.whole("POST", path, json_body(object), ANSWER).await?;
        if status == 409 {
            let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
            (status, body) = self.plain.whole("PUT", &path, json_body(object), ANSWER).await?;
        }
        ensure!(matches!(status, 200 | 201), "{path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(())
    }
}

pub(super) async fn broken(options: &Options, dir: &Path) -> Result<Verdict> {
    let mut host = Host::start(options, dir).await?;
    let args = extending(&host).await?;
    for namespace in namespaces() {
        host.write("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await?;
    }
    let mut stage = Stage::single_with(options, dir, Wishes { resource: Resource::Records, args, ..Wishes::default() }).await?;
    let proxy = host.authority.sign("front-proxy").await?;
    let (port, authority) = (options.ports().secure(), host.authority.certificate());
    let to = Entrances { proxy: listener_for_proxy(port, authority, &proxy)?, tokens: listener_signed_by(port, authority)? };
    stage.entrance = Arc::new(to.proxy.bringing("watcher", READERS));
    until("records are served", async || is(200, &read(&stage.entrance).await)).await?;
    stage.watch().await;
    let open = tokio::spawn(watched(stage.entrance.clone()));
    let writers = stage.write(&stage.workload()).await?;
    sleep(CALM).await;
    for fault in Fault::ALL {
        play(&mut stage, &mut host, &to, fault).await.with_context(|| format!("{fault:?}"))?;
        ensure!(!open.is_finished(), "{fault:?}: an open watch has ended: {:?}", open.await);
    }
    open.abort();
    followed_again(&stage, &host, &to.proxy).await?;
    writers.stop().await?;
    host.running()?.alive()?;
    stage.verdict(Expiry::Never).await
}

/// What makes a server extend this host: the host says who its proxy is and who may read, and the files are there that the arguments name.
async fn extending(host: &Host<'_>) -> Result<Vec<String>> {
    let ca = std::fs::read_to_string(host.authority.certificate())?;
    let data = json!({"requestheader-client-ca-file": ca, "requestheader-allowed-names": "[\"front-proxy\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]", "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]"});
    let map = json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": data});
    host.write("/api/v1/namespaces/kube-system/configmaps", &map).await?;
    let (rbac, group) = ("/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io");
    let rule = json!({"apiGroups": ["faults.example"], "resources": ["records"], "verbs": ["get", "list", "watch"]});
    host.write(&format!("{rbac}/clusterroles"), &json!({"metadata": {"name": READERS}, "rules": [rule]})).await?;
    let binding = json!({"metadata": {"name": READERS}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": READERS},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": READERS}]});
    host.write(&format!("{rbac}/clusterrolebindings"), &binding).await?;

    let (ports, file) = (host.options.ports(), |name: &str| host.dir.join(name));
    let at =
        json!({"server": format!("https://127.0.0.1:{}", ports.upstream_proxy()), "certificate-authority": host.authority.certificate()});
    let kubeconfig = json!({"clusters": [{"name": "a", "cluster": at}], "users": [{"name": "a", "user": {"token": TOKEN}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
    std::fs::write(file("host.kubeconfig"), kubeconfig.to_string())?;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "records.faults.example"}, "spec": {"group": "faults.example", "scope": "Namespaced",
        "names": {"plural": "records", "kind": "Record"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    std::fs::create_dir(file("definitions"))?;
    std::fs::write(file("definitions").join("records.json"), definition.to_string())?;
    let args = [
        format!("--kubeconfig={}", file("host.kubeconfig").display()),
        format!("--definitions={}", file("definitions").display()),
        format!("--request-timeout={REQUEST_SECONDS}s"),
    ];
    Ok(args.into_iter().chain(tls_args(ports.secure(), &host.authority.sign("extension").await?)).collect())
}

/// One fault, from the host's last word before it until all works again.
async fn play(stage: &mut Stage, host: &mut Host<'_>, to: &Entrances, fault: Fault) -> Result<()> {
    let (name, cut) = (fault.name(), stage.options.cut());
    let (brought, known) = (to.proxy.bringing(&format!("reader-{name}"), READERS), to.tokens.with_token(&format!("early-{name}")));
    let asked = Instant::now();
    is(200, &read(&brought).await).context("a reader before")?;
    is(200, &read(&known).await).context("a token before")?;
    host.suffer(fault).await?;
    let until_then = asked + cut.min(KEPT);
    let allowed = async { tokio::try_join!(kept(&brought, until_then), kept(&known, until_then)) };
    let (allowed, others, ()) = tokio::join!(allowed, unheard(to, &name), stage.wait_reading(cut));
    allowed?;
    others?;
    if fault == Fault::OtherCertificate {
        // Now it is there, to show its certificate; that nobody answered is not kept.
        host.ready().await?;
        unheard(to, &name).await?;
    }
    host.recover(fault).await?;
    let team = format!("team-{name}");
    until("somebody new may read", async || is(200, &read(&to.proxy.bringing(&format!("late-{name}"), READERS)).await)).await?;
    until("another token is known", async || is(200, &read(&to.tokens.with_token(&format!("late-{name}"))).await)).await?;
    host.write("/api/v1/namespaces", &json!({"metadata": {"name": team}})).await?;
    until("a new namespace is known", async || is(201, &write(&to.proxy, &team).await)).await
}

/// Reads a watch until it ends.
async fn watched(client: Arc<Listener>) -> Result<()> {
    let response = client.open(&(Resource::Records.path(None) + "?watch=true&timeoutSeconds=1800"), 0).await?;
    ensure!(response.status() == 200, "a watch is answered {}", response.status());
    let mut lines = Lines::new(response.into_body());
    while lines.next().await?.is_some() {}
    Ok(())
}

/// Whom the host has just allowed something does it still.
async fn kept(reader: &Listener, until: Instant) -> Result<()> {
    while Instant::now() < until {
        let answer = read(reader).await;
        // The answer may have come when what the host said did not count any longer.
        if Instant::now() < until {
            is(200, &answer).context("a reader whom the host has allowed to read")?;
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// What the host would have to be asked is refused in time; what it need not be asked is done.
async fn unheard(to: &Entrances, name: &str) -> Result<()> {
    let stranger = to.proxy.bringing(&format!("stranger-{name}"), READERS);
    let token = to.tokens.with_token(&format!("late-{name}"));
    let unknown = format!("unknown-{name}");
    let (stranger, token, unknown, known) =
        tokio::join!(read(&stranger), read(&token), write(&to.proxy, &unknown), write(&to.proxy, "default"));
    let status = stranger.context("a reader of whom the host has said nothing")?.0;
    ensure!(matches!(status, 403 | 500 | 503 | 504), "a reader of whom the host has said nothing is answered {status}");
    let status = token.context("a token of which the host has said nothing")?.0;
    ensure!(matches!(status, 401 | 500 | 503 | 504), "a token of which the host has said nothing is answered {status}");
    let status = unknown.context("a write in a namespace that is not known")?.0;
    ensure!(matches!(status, 500 | 503 | 504), "a write in a namespace that is not known is answered {status}");
    is(201, &known).context("a write in a namespace that is known")
}

/// The host's namespaces are followed, and nothing is noted any longer.
async fn followed_again(stage: &Stage, host: &Host<'_>, front: &Listener) -> Result<()> {
    let (status, _) = host.plain.whole("DELETE", "/api/v1/namespaces/team-cutoff", None, ANSWER).await?;
    ensure!(status == 200, "the host deletes a namespace with {status}");
    within(FOLLOWED, "a namespace that goes takes nothing new", async || is(403, &write(front, "team-cutoff").await)).await?;
    // As a kube-controller-manager of the host does before the namespace goes: what stays would be orphaned, and noted.
    let administrator = front.bringing("admin", MASTERS);
    is(200, &administrator.whole("DELETE", &Resource::Records.path(Some("team-cutoff")), None, ANSWER).await).context("its records go")?;
    within(FOLLOWED, "readiness notes nothing", async || {
        let (_, body) = stage.server.listener.get("/readyz?verbose", ANSWER).await?;
        let text = String::from_utf8_lossy(&body);
        ensure!(!text.contains("[-]"), "{text}");
        Ok(())
    })
    .await
}

type Answer = Result<(u16, Bytes)>;

async fn read(client: &Listener) -> Answer {
    client.get(&(Resource::Records.path(Some("faults-0")) + "?resourceVersion=0"), ANSWER).await
}

/// An administrator, about whom nobody is asked, creates something in this namespace.
async fn write(front: &Listener, namespace: &str) -> Answer {
    let record = json!({"apiVersion": "faults.example/v1", "kind": "Record", "metadata": {"generateName": "by-proxy-"}});
    front.bringing("admin", MASTERS).whole("POST", &Resource::Records.path(Some(namespace)), json_body(&record), ANSWER).await
}

fn json_body(object: &Value) -> Option<(&'static str, Bytes)> {
    Some(("application/json", object.to_string().into()))
}

fn is(wanted: u16, answer: &Answer) -> Result<()> {
    match answer {
        Ok((status, _)) if *status == wanted => Ok(()),
        Ok((status, body)) => anyhow::bail!("{status} instead of {wanted}: {}", String::from_utf8_lossy(body)),
        Err(error) => anyhow::bail!("no answer: {error:#}"),
    }
}

/// Tries until it goes well.
async fn until(what: &str, goes_well: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    within(HEALED, what, goes_well).await
}

async fn within(patience: Duration, what: &str, mut goes_well: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    let began = Instant::now();
    while let Err(error) = goes_well().await {
        ensure!(began.elapsed() < patience, "{what}: not within {patience:?}: {error:#}");
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}
