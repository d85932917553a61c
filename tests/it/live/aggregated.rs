//! A real kube-apiserver that hands two groups to ours through APIServices, as the manifests of `watchcache aggregate` say, with a kube-controller-manager
//! beside it and kubectl in front. No pod runs here: ours is a process, and the Service leads to this machine.

use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    free_address,
    peers::{Running, Site, TOKEN},
    rows::Rows,
    say,
};
use crate::{
    alone::asked,
    client::{Client, Request},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The aggregator looks at discovery and OpenAPI each minute, the garbage collector at discovery each 30 s.
const PATIENCE: Duration = Duration::from_secs(240);
const LOOK: Duration = Duration::from_millis(200);
/// As `kube-controller-manager --help` names them.
const CONTROLLERS: &str = "namespace-controller,serviceaccount-controller,garbage-collector-controller,resourcequota-controller";
const WIDGETS: &str = "/apis/ex.io/v1/namespaces/team/widgets";

const DEFINITIONS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.ex.io
spec:
  group: ex.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wi]}
  versions:
    - name: v1
      served: true
      storage: true
      subresources:
        status: {}
        scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
      additionalPrinterColumns:
        - {name: Size, type: integer, jsonPath: .spec.size}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              description: what the widget should be
              properties:
                size: {type: integer, description: how large it is}
                replicas: {type: integer}
            status:
              type: object
              x-kubernetes-preserve-unknown-fields: true
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: reports.heavy.example
spec:
  group: heavy.example
  scope: Cluster
  names: {plural: reports, singular: report, kind: Report}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
    - name: v1beta1
      served: true
      storage: false
      deprecated: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// The host and what extends it.
struct Cluster {
    site: Site,
    /// etcd, kube-apiserver and kube-controller-manager.
    _host: Vec<Running>,
    host_at: SocketAddr,
    ours: Running,
}

impl Cluster {
    async fn start() -> Result<Cluster, Failure> {
        let programs = env::var_os("WATCHCACHE_TEST_PEERS").map(PathBuf::from).ok_or("WATCHCACHE_TEST_PEERS names no folder")?;
        let site = Site::prepare(&programs).map_err(|error| error.to_string())?;
        let file = |name: &str| site.path().join(name).display().to_string();
        let proxy = [file("proxy.crt"), file("proxy.key")];
        let (etcd, etcd_at) = site.etcd()?;
        let flags = [format!("--proxy-client-cert-file={}", proxy[0]), format!("--proxy-client-key-file={}", proxy[1])];
        let (host, host_at) = site.apiserver_with("host", etcd_at, &[&flags[0], &flags[1]])?;
        let client = site.client(host_at);
        host.ready(&client).await.map_err(|error| error.to_string())?;
        let manager = manager(&site, &programs, host_at)?;
        fs::create_dir(site.path().join("definitions"))?;
        fs::write(site.path().join("definitions/all.yaml"), DEFINITIONS)?;
        let ours_at = free_address()?;
        installed(&site, (&client, host_at), ours_at).await?;
        let ours = site.start("ours", serve(&site, ours_at))?;
        Ok(Cluster { site, _host: vec![etcd, host, manager], host_at, ours })
    }

    fn client(&self) -> Client {
        self.site.client(self.host_at)
    }

    fn kubectl(&self, token: &str, arguments: &[&str]) -> Result<Command, Failure> {
        let home = self.site.path().join(format!("kubectl-{token}"));
        fs::create_dir_all(&home)?;
        let mut command = Command::new(env::var_os("WATCHCACHE_TEST_KUBECTL").unwrap_or_else(|| "kubectl".into()));
        command.env("HOME", &home).env("KUBECONFIG", home.join("none")).env("EDITOR", "sed -i s/size:.2/size:\\ 5/").stdin(Stdio::null());
        command.args(["--server", &format!("https://{}", self.host_at), "--token", token, "--certificate-authority"]);
        command.arg(self.site.path().join("ca.crt")).arg("--cache-dir").arg(home.join("cache")).args(arguments);
        Ok(command)
    }

    /// What kubectl prints, in both its outputs; an administrator's.
    fn told(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.told_to(TOKEN, arguments)
    }

    fn told_to(&self, token: &str, arguments: &[&str]) -> Result<String, Failure> {
        let output = self.kubectl(token, arguments)?.output()?;
        Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    }
}

fn manager(site: &Site, programs: &Path, host_at: SocketAddr) -> Result<Running, Failure> {
    let file = |name: &str| site.path().join(name).display().to_string();
    fs::write(file("kubeconfig"), kubeconfig(site, host_at, TOKEN).to_string())?;
    let mut command = Command::new(programs.join("kube-controller-manager"));
    command.args([format!("--kubeconfig={}", file("kubeconfig")), format!("--controllers={CONTROLLERS}"), "--leader-elect=false".into()]);
    command.args([
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--cert-dir={}", file("manager")),
        "--bind-address=127.0.0.1".into(),
    ]);
    command.args([format!("--secure-port={}", free_address()?.port()), "--resource-quota-sync-period=10s".into()]);
    Ok(site.start("kube-controller-manager", command)?)
}

fn kubeconfig(site: &Site, at: SocketAddr, token: &str) -> Value {
    let cluster = json!({"server": format!("https://{at}"), "certificate-authority": site.path().join("ca.crt")});
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "a", "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": {"token": token}}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]})
}

/// `watchcache serve` as the manifests' container has it, but for its places.
fn serve(site: &Site, at: SocketAddr) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.current_dir(site.path()).args(["serve", "--data-dir=store", "--insecure-port=0", "--bind-address=127.0.0.1"]);
    command.arg(format!("--secure-port={}", at.port())).args(["--tls-cert-file=serving.crt", "--tls-private-key-file=serving.key"]);
    command.args(["--kubeconfig=host.kubeconfig", "--definitions=definitions"]);
    command
}

/// Applies the manifests, writes the files that pods would have mounted, and leads the Service here.
async fn installed(site: &Site, (client, host_at): (&Client, SocketAddr), ours_at: SocketAddr) -> Result<(), Failure> {
    let mut print = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    print.current_dir(site.path()).args(["aggregate", "--print-manifests", "--definitions=definitions", "--name=wc", "--namespace=ext"]);
    let output = print.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let (mut applied, text) = (0, String::from_utf8(output.stdout)?);
    for document in text.split("\n---\n") {
        let mut object = go::yaml::reader::parse(document.as_bytes()).map_err(|error| error.to_string())?.value;
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api, kind, namespace) = (text("/apiVersion"), text("/kind"), text("/metadata/namespace"));
        match kind.as_str() {
            "Secret" => {
                for (member, file) in [("tls.crt", "serving.crt"), ("tls.key", "serving.key")] {
                    fs::write(site.path().join(file), decoded(object["data"][member].as_str().unwrap_or_default())?)?;
                }
            }
            "Service" => object["spec"] = json!({"type": "ExternalName", "externalName": "localhost"}),
            "APIService" => object["spec"]["service"]["port"] = ours_at.port().into(),
            _ => {}
        }
        let root = if api.contains('/') { format!("/apis/{api}") } else { format!("/api/{api}") };
        let scope = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let plural = format!("{}s", kind.to_lowercase());
        asked(client, ("POST", &format!("{root}{scope}/{plural}?fieldValidation=Strict")), Some(&object), 201).await?;
        applied += 1;
    }
    if applied < 14 {
        return Err(format!("only {applied} manifests").into());
    }
    let request = json!({"spec": {"expirationSeconds": 7200}});
    let token = asked(client, ("POST", "/api/v1/namespaces/ext/serviceaccounts/wc/token"), Some(&request), 201).await?;
    let token = token.pointer("/status/token").and_then(Value::as_str).ok_or("no token")?;
    fs::write(site.path().join("host.kubeconfig"), kubeconfig(site, host_at, token).to_string())?;
    Ok(())
}

fn decoded(text: &str) -> Result<Vec<u8>, Failure> {
    use base64::Engine;
    Ok(base64::prelude::BASE64_STANDARD.decode(text)?)
}

/// Looks until it is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let began = Instant::now();
    while !is_so().await? {
        if began.elapsed() > PATIENCE {
            return Err(format!("{what}: not within {PATIENCE:?}").into());
        }
        sleep(LOOK).await;
    }
    say(&format!("live aggregated: {what}, after {:.1?}", began.elapsed()));
    Ok(())
}

async fn status(client: &Client, target: &str) -> Result<u16, Failure> {
    Ok(client.fetch(target).await?.status)
}

async fn text(client: &Client, target: &str) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&client.fetch(target).await?.body).into_owned())
}

/// Whether both APIServices are available, as kube-apiserver says.
async fn available(client: &Client) -> Result<bool, Failure> {
    for name in ["v1.ex.io", "v1beta1.heavy.example", "v1.heavy.example"] {
        let found = asked(client, ("GET", &format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")), None, 200).await?;
        let conditions = found.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        if !conditions.iter().any(|condition| condition["type"] == "Available" && condition["status"] == "True") {
            return Ok(false);
        }
    }
    Ok(true)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd, kube-apiserver, kube-controller-manager and kubectl: WATCHCACHE_TEST_PEERS"]
async fn aggregated() -> Result<(), Failure> {
    let cluster = Cluster::start().await?;
    let outcome = story(&cluster).await;
    outcome.map_err(|error| format!("{error}; ours: {:?}", cluster.ours.ended()).into())
}

async fn story(cluster: &Cluster) -> Result<(), Failure> {
    let client = cluster.client();
    until("the host says that our groups are available", async || available(&client).await).await?;
    asked(&client, ("POST", "/api/v1/namespaces"), Some(&json!({"metadata": {"name": "team"}})), 201).await?;
    used_by_kubectl(cluster, &client).await?;
    judged_by_the_host(cluster, &client).await?;
    looked_after_by_controllers(&client).await?;
    until("the host's OpenAPI has our groups", async || {
        let v3 = text(&client, "/openapi/v3").await?;
        let v3 = v3.contains("apis/ex.io/v1?hash=") && text(&client, "/openapi/v3/apis/ex.io/v1").await?.contains("how large it is");
        let v2: Value = serde_json::from_str(&text(&client, "/openapi/v2").await?)?;
        let size = v2.pointer("/definitions/io.ex.v1.Widget/properties/spec/properties/size/description");
        let has_paths = v2["paths"].get("/apis/ex.io/v1/namespaces/{namespace}/widgets/{name}").is_some();
        Ok(v3 && has_paths && size == Some(&json!("how large it is")))
    })
    .await?;
    // Ours goes, and comes back with all that it had.
    asked(&client, ("POST", "/apis/heavy.example/v1/reports"), Some(&report("kept")), 201).await?;
    cluster.ours.signal("STOP")?;
    until("the host notices that ours is away", async || Ok(!available(&client).await?)).await?;
    cluster.ours.signal("CONT")?;
    cluster.ours.restart()?;
    until("the host notices that ours is back", async || available(&client).await).await?;
    until("what was stored is there", async || Ok(status(&client, "/apis/heavy.example/v1beta1/reports/kept").await? == 200)).await?;
    directory_changes(cluster, &client).await
}

fn report(name: &str) -> Value {
    json!({"apiVersion": "heavy.example/v1", "kind": "Report", "metadata": {"name": name}, "data": {"a": 1}})
}

async fn used_by_kubectl(cluster: &Cluster, client: &Client) -> Result<(), Failure> {
    let check = |arguments: &[&str], expected: &str| {
        let told = cluster.told(arguments)?;
        if told.contains(expected) { Ok(()) } else { Err(Failure::from(format!("kubectl {arguments:?}: {told}"))) }
    };
    let file = cluster.site.path().join("widget.yaml");
    let path = file.display().to_string();
    let widget = |size: u32| {
        format!("apiVersion: ex.io/v1\nkind: Widget\nmetadata:\n  name: a\n  namespace: team\nspec:\n  replicas: 1\n  size: {size}\n")
    };
    // The host asks for discovery in the background.
    let listed = "widgets   wi           ex.io/v1     true         Widget";
    until("kubectl lists our resources", async || Ok(cluster.told(&["api-resources", "--api-group=ex.io"])?.contains(listed))).await?;
    let mut watched = Rows::of(cluster.kubectl(TOKEN, &["get", "wi", "-n", "team", "-w", "-o", "name"])?.stderr(Stdio::inherit()))?;
    fs::write(&file, widget(1))?;
    check(&["create", "-f", &path], "widget.ex.io/a created")?;
    check(&["create", "-f", &path], "Error from server (AlreadyExists)")?;
    fs::write(&file, widget(2))?;
    check(&["apply", "-f", &path], "widget.ex.io/a configured")?;
    check(&["edit", "widget", "a", "-n", "team"], "widget.ex.io/a edited")?;
    check(&["get", "wi", "-n", "team"], "NAME   SIZE\na      5")?;
    check(&["scale", "widget", "a", "-n", "team", "--replicas=3"], "widget.ex.io/a scaled")?;
    check(&["explain", "widget.spec"], "how large it is")?;
    check(&["explain", "widget.spec.size"], "<integer>")?;
    fs::write(&file, widget(1).replace("team", "nowhere"))?;
    check(&["create", "-f", &path], "Error from server (NotFound)")?;
    check(&["create", "-f", &path], "namespaces \"nowhere\" not found")?;
    check(&["delete", "wi", "a", "-n", "team"], "widget.ex.io \"a\" deleted")?;
    watched.wait_for(5)?;
    // Of the host, ours has nothing, and says so to whoever comes as the host does.
    let reports = asked(client, ("GET", "/apis/heavy.example/v1beta1/reports"), None, 200).await?;
    if reports["kind"] == "ReportList" { Ok(()) } else { Err(reports.to_string().into()) }
}

/// The host decides who may do what, and ours asks it again.
async fn judged_by_the_host(cluster: &Cluster, client: &Client) -> Result<(), Failure> {
    let get = ["get", "widgets", "-n", "team"];
    let refused = cluster.told_to("viewtoken", &get)?;
    let text =
        "widgets.ex.io is forbidden: User \"viewer\" cannot list resource \"widgets\" in API group \"ex.io\" in the namespace \"team\"";
    if !refused.contains(text) {
        return Err(refused.into());
    }
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/team";
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": ["ex.io"], "resources": ["widgets"], "verbs": ["list"]}]});
    asked(client, ("POST", &format!("{roles}/roles")), Some(&role), 201).await?;
    let binding = json!({"metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}]});
    asked(client, ("POST", &format!("{roles}/rolebindings")), Some(&binding), 201).await?;
    // Ours keeps what the host said for ten seconds.
    until("a viewer may list", async || Ok(cluster.told_to("viewtoken", &get)?.contains("No resources found"))).await?;
    Ok(())
}

/// What the host's controllers do with objects of ours.
async fn looked_after_by_controllers(client: &Client) -> Result<(), Failure> {
    // A dependent of an object of the host goes with it.
    let owner = asked(client, ("POST", "/api/v1/namespaces/team/configmaps"), Some(&json!({"metadata": {"name": "owner"}})), 201).await?;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let widget = json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "owned", "ownerReferences": [reference]}});
    asked(client, ("POST", WIDGETS), Some(&widget), 201).await?;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/widgets.ex.io": "10"}}});
    asked(client, ("POST", "/api/v1/namespaces/team/resourcequotas"), Some(&quota), 201).await?;
    until("the quota counts our objects", async || {
        let quota = asked(client, ("GET", "/api/v1/namespaces/team/resourcequotas/q"), None, 200).await?;
        Ok(quota.pointer("/status/used/count~1widgets.ex.io").and_then(Value::as_str) == Some("1"))
    })
    .await?;
    asked(client, ("DELETE", "/api/v1/namespaces/team/configmaps/owner"), None, 200).await?;
    until("the garbage collector has taken a dependent along", async || Ok(status(client, &format!("{WIDGETS}/owned")).await? == 404))
        .await?;
    // A namespace that goes takes ours with it, and takes nothing new meanwhile.
    let held = json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "held", "finalizers": ["ex.io/hold"]}});
    asked(client, ("POST", WIDGETS), Some(&held), 201).await?;
    asked(client, ("DELETE", "/api/v1/namespaces/team"), None, 200).await?;
    until("nothing new comes into a namespace that goes", async || {
        let body = json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"generateName": "late-"}}).to_string();
        let answer = client.ask(&Request { method: "POST", target: WIDGETS, body: Some(body.as_bytes()) }).await?;
        Ok(answer.status == 403 && String::from_utf8_lossy(&answer.body).contains("because it is being terminated"))
    })
    .await?;
    until("it is asked to go", async || {
        let held = asked(client, ("GET", &format!("{WIDGETS}/held")), None, 200).await?;
        Ok(held.pointer("/metadata/deletionTimestamp").is_some())
    })
    .await?;
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    let headers = [("Content-Type".to_owned(), "application/merge-patch+json".to_owned())];
    client.whole("PATCH", &format!("{WIDGETS}/held"), &headers, free.as_bytes()).await?;
    until("the namespace is gone", async || Ok(status(client, "/api/v1/namespaces/team").await? == 404)).await?;
    let left = asked(client, ("GET", "/apis/ex.io/v1/widgets"), None, 200).await?;
    if left["items"] == json!([]) { Ok(()) } else { Err(format!("left behind: {left}").into()) }
}

/// A definition that goes is not served, and nothing is lost; one that is wrong is named, and the others are served.
async fn directory_changes(cluster: &Cluster, client: &Client) -> Result<(), Failure> {
    let file = cluster.site.path().join("definitions/all.yaml");
    let (widgets, reports) = DEFINITIONS.split_once("---\n").ok_or("two definitions")?;
    fs::write(&file, widgets)?;
    until("what has no definition is not served", async || {
        Ok(status(client, "/apis/heavy.example/v1/reports/kept").await? != 200 && status(client, "/apis/ex.io/v1/widgets").await? == 200)
    })
    .await?;
    let wrong = widgets
        .replace("widgets", "gadgets")
        .replace("widget", "gadget")
        .replace("Widget", "Gadget")
        .replace("type: integer, desc", "type: int, desc");
    fs::write(&file, format!("{reports}---\n{wrong}---\n{widgets}"))?;
    until("it is served again", async || Ok(status(client, "/apis/heavy.example/v1/reports/kept").await? == 200)).await?;
    until("what is wrong is told", async || {
        let log = fs::read_to_string(cluster.site.path().join("ours.log"))?;
        Ok(log.contains("all.yaml: gadgets.ex.io: spec.validation.openAPIV3Schema") && log.contains("Unsupported value: \"int\""))
    })
    .await
}
