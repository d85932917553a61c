//! An aggregated API server whose host is a watchcache, which answers TokenReviews and SubjectAccessReviews as a kube-apiserver does; the test is the proxy.
//! With a real host: `live/aggregated`.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};

use super::{Failure, Outcome, asked, wait::until_so};
use crate::{
    client::{Client, Request},
    live::{
        free_address,
        peers::{Running, Site, TOKEN},
    },
};

const WIDGETS: &str = "/apis/ex.io/v1/namespaces/default/widgets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

struct Cluster {
    site: Site,
    host: Running,
    host_at: SocketAddr,
}

/// Has the host say whom it believes; it may have made an empty ConfigMap of its own.
async fn tell(host: &Client, site: &Site) -> Outcome {
    let map = authentication(site)?.to_string();
    let answer = host.ask(&Request { method: "POST", target: CONFIG_MAPS, body: Some(map.as_bytes()) }).await?;
    if answer.status == 409 {
        let target = format!("{CONFIG_MAPS}/extension-apiserver-authentication");
        return asked(host, ("PUT", &target), Some(&authentication(site)?), 200).await.map(drop);
    }
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    Ok(())
}

impl Cluster {
    /// The host, with what a kube-apiserver says of its proxy.
    async fn start() -> Result<Cluster, Failure> {
        let site = Site::prepare(Path::new("")).map_err(|error| error.to_string())?;
        let host_at = free_address()?;
        let mut command = serve(&site, host_at);
        command.args(["--data-dir=host", "--token-auth-file=tokens.csv"]);
        let host = site.start("host", command)?;
        let client = site.client(host_at);
        host.ready(&client).await.map_err(|error| error.to_string())?;
        tell(&client, &site).await?;
        let user = json!({"token": TOKEN});
        let at = json!({"server": format!("https://{host_at}"), "certificate-authority": site.path().join("ca.crt")});
        let kubeconfig = json!({"clusters": [{"name": "a", "cluster": at}], "users": [{"name": "a", "user": user}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
        fs::write(site.path().join("host.kubeconfig"), kubeconfig.to_string())?;
        fs::create_dir(site.path().join("definitions"))?;
        Ok(Cluster { site, host, host_at })
    }

    fn definition(&self, file: &str, text: &str) -> Result<(), Failure> {
        Ok(fs::write(self.site.path().join("definitions").join(file), text)?)
    }

    /// The extension, once it is ready.
    async fn extension(&self) -> Result<(Running, SocketAddr), Failure> {
        self.extension_with(&[]).await
    }

    async fn extension_with(&self, more: &[&str]) -> Result<(Running, SocketAddr), Failure> {
        let at = free_address()?;
        let mut command = serve(&self.site, at);
        command.args(["--data-dir=store", "--kubeconfig=host.kubeconfig", "--definitions=definitions"]).args(more);
        let running = self.site.start("extension", command)?;
        running.ready(&self.site.client_of(at, "")).await.map_err(|error| error.to_string())?;
        Ok((running, at))
    }

    /// The host's proxy.
    fn proxy(&self, at: SocketAddr) -> Result<Client, Failure> {
        let file = |name: &str| self.site.path().join(name);
        let own = (CertificateDer::from_pem_file(file("proxy.crt"))?, PrivateKeyDer::from_pem_file(file("proxy.key"))?);
        Ok(Client::certified(at, CertificateDer::from_pem_file(file("ca.crt"))?, own))
    }

    fn log(&self) -> Result<String, Failure> {
        Ok(fs::read_to_string(self.site.path().join("extension.log"))?)
    }
}

fn serve(site: &Site, at: SocketAddr) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.current_dir(site.path()).args(["serve", "--insecure-port=0", "--bind-address=127.0.0.1"]);
    command.arg(format!("--secure-port={}", at.port())).args(["--tls-cert-file=server.crt", "--tls-private-key-file=server.key"]);
    command
}

fn authentication(site: &Site) -> Result<Value, Failure> {
    let ca = fs::read_to_string(site.path().join("ca.crt"))?;
    let data = json!({"requestheader-client-ca-file": ca, "requestheader-allowed-names": "[\"front-proxy\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]", "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]"});
    Ok(json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": data}))
}

fn widgets(plural: &str, group: &str, versions: &str) -> String {
    let kind = format!("{}{}", plural[..1].to_uppercase(), &plural[1..plural.len() - 1]);
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.{group}}}\nspec:\n  group: {group}\n  scope: Namespaced\n  \
         names: {{plural: {plural}, kind: {kind}}}\n  versions:\n{versions}"
    )
}

fn version(name: &str, storage: bool) -> String {
    format!(
        "  - {{name: {name}, served: true, storage: {storage}, schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}\n"
    )
}

/// A request that the host's proxy brings, of this user.
async fn brought(proxy: &Client, user: &str, (method, target): (&str, &str), body: Option<&Value>) -> Result<(u16, String), Failure> {
    let mut headers = vec![("X-Remote-User".to_owned(), user.to_owned()), ("Content-Type".to_owned(), "application/json".to_owned())];
    if user == "admin" {
        headers.push(("X-Remote-Group".to_owned(), "system:masters".to_owned()));
    }
    let body = body.map(Value::to_string).unwrap_or_default();
    let answer = proxy.whole(method, target, &headers, body.as_bytes()).await?;
    Ok((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_says_who_comes_and_what_he_may() -> Outcome {
    let cluster = Cluster::start().await?;
    cluster.definition("a.yaml", &widgets("widgets", "ex.io", &version("v1", true)))?;
    let (_extension, at) = cluster.extension().await?;
    let (proxy, admin) = (cluster.proxy(at)?, cluster.site.client(cluster.host_at));
    until_so("the definition is served", async || Ok(brought(&proxy, "admin", ("GET", WIDGETS), None).await?.0 == 200)).await?;
    assert_eq!(brought(&proxy, "admin", ("POST", WIDGETS), Some(&widget("a"))).await?.0, 201);
    // jane may nothing, whether the proxy brings her or her own token; then she may list.
    let jane = cluster.site.client_of(at, "janetoken");
    let text =
        r#"widgets.ex.io is forbidden: User \"jane\" cannot list resource \"widgets\" in API group \"ex.io\" in the namespace \"default\""#;
    let (code, refused) = brought(&proxy, "jane", ("GET", WIDGETS), None).await?;
    assert!(code == 403 && refused.contains(text), "{refused}");
    let refused = jane.fetch(WIDGETS).await?;
    assert!(refused.status == 403 && String::from_utf8_lossy(&refused.body).contains(text), "{refused:?}");
    let (rbac, group) = ("/apis/rbac.authorization.k8s.io/v1/namespaces/default", "rbac.authorization.k8s.io");
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": ["ex.io"], "resources": ["widgets"], "verbs": ["list"]}]});
    asked(&admin, ("POST", &format!("{rbac}/roles")), Some(&role), 201).await?;
    let binding = json!({"metadata": {"name": "r"}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}]});
    asked(&admin, ("POST", &format!("{rbac}/rolebindings")), Some(&binding), 201).await?;
    until_so("jane may list", async || {
        Ok(brought(&proxy, "jane", ("GET", WIDGETS), None).await?.0 == 200 && jane.fetch(WIDGETS).await?.status == 200)
    })
    .await?;
    assert_eq!(brought(&proxy, "jane", ("POST", WIDGETS), Some(&widget("b"))).await?.0, 403);
    // Whose headers are nobody's: without the proxy's certificate, and with a token that the host does not know.
    let (stranger, forger) = (cluster.site.client_of(at, "no-token"), cluster.site.client_of(at, ""));
    assert_eq!(stranger.fetch(WIDGETS).await?.status, 401);
    assert_eq!(brought(&forger, "admin", ("GET", WIDGETS), None).await?.0, 403);
    // Nothing of the host's is here, and what was never there is not either.
    let masters = |target| brought(&proxy, "admin", ("GET", target), None);
    for target in
        ["/api", "/api/v1", "/api/v1/namespaces/default", "/apis/apps/v1", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"]
    {
        assert_eq!(masters(target).await?, (404, "404 page not found\n".to_owned()), "{target}");
    }
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(brought(&proxy, "admin", ("POST", review), Some(&json!({"spec": {}}))).await?.0, 404);
    let groups: Value = serde_json::from_str(&masters("/apis").await?.1)?;
    assert_eq!(groups["groups"].as_array().map(|groups| groups.iter().map(|group| &group["name"]).collect()), Some(vec![&json!("ex.io")]));
    assert_eq!(cluster.site.client_of(at, "").fetch("/livez").await?.status, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_are_the_host_s() -> Outcome {
    let cluster = Cluster::start().await?;
    cluster.definition("a.yaml", &widgets("widgets", "ex.io", &version("v1", true)))?;
    let (extension, at) = cluster.extension().await?;
    let (proxy, admin) = (cluster.proxy(at)?, cluster.site.client(cluster.host_at));
    until_so("the definition is served", async || Ok(brought(&proxy, "admin", ("GET", WIDGETS), None).await?.0 == 200)).await?;
    let team = "/apis/ex.io/v1/namespaces/team/widgets";
    let create = async |name: &str| brought(&proxy, "admin", ("POST", team), Some(&widget(name))).await;
    let (code, text) = create("a").await?;
    assert!(code == 404 && text.contains(r#"namespaces \"team\" not found"#), "{text}");
    // One that was made a moment ago is there.
    asked(&admin, ("POST", "/api/v1/namespaces"), Some(&json!({"metadata": {"name": "team"}})), 201).await?;
    assert_eq!(create("a").await?.0, 201);
    asked(&admin, ("DELETE", "/api/v1/namespaces/team"), None, 200).await?;
    until_so("a namespace that goes takes nothing new", async || {
        let (code, text) = create("b").await?;
        Ok(code == 403 && text.contains("unable to create new content in namespace team because it is being terminated"))
    })
    .await?;
    // What is there can be changed and deleted until it is gone.
    let (code, text) = brought(&proxy, "admin", ("DELETE", "/apis/ex.io/v1/namespaces/team/widgets"), None).await?;
    assert_eq!(code, 200, "{text}");
    let shown = cluster_shown(&proxy).await?;
    let checks: Vec<&str> = shown["host"]["checks"].as_array().into_iter().flatten().filter_map(|check| check["name"].as_str()).collect();
    assert_eq!(checks, ["host/authentication-configmap", "host/namespaces", "definitions", "orphaned-objects"], "{shown}");
    assert!(shown["host"]["namespaces"].as_u64() >= Some(4) && shown["upstream"].is_null(), "{shown}");
    // Without the host, what is known counts, and what is not known is told.
    drop(cluster.host);
    assert_eq!(brought(&proxy, "admin", ("POST", WIDGETS), Some(&widget("c"))).await?.0, 201);
    let (code, text) = brought(&proxy, "admin", ("POST", "/apis/ex.io/v1/namespaces/unknown/widgets"), Some(&widget("a"))).await?;
    assert!(code == 500 && text.contains("Internal error occurred: "), "{code} {text}");
    until_so("readiness notes that the host is away", async || {
        let verbose = brought(&proxy, "admin", ("GET", "/readyz?verbose"), None).await?;
        let noted = ["host/namespaces", "host/authentication-configmap"]
            .iter()
            .all(|check| verbose.1.contains(&format!("[-]{check} failed, the others stand")));
        Ok(verbose.0 == 200 && noted)
    })
    .await?;
    let fault = cluster_shown(&proxy).await?["host"]["lastFault"].clone();
    assert!(fault["at"].as_u64() > Some(1_700_000_000_000) && fault["why"].as_str().is_some_and(|why| !why.is_empty()), "{fault}");
    assert_eq!(extension.ended(), None);
    Ok(())
}

/// A backup that is restored after a namespace went has its objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_namespaces_that_the_host_has_not_are_reported_and_deleted_by_choice() -> Outcome {
    let cluster = Cluster::start().await?;
    cluster.definition("a.yaml", &widgets("widgets", "ex.io", &version("v1", true)))?;
    let (extension, at) = cluster.extension().await?;
    let (proxy, admin) = (cluster.proxy(at)?, cluster.site.client(cluster.host_at));
    until_so("the definition is served", async || Ok(brought(&proxy, "admin", ("GET", WIDGETS), None).await?.0 == 200)).await?;
    asked(&admin, ("POST", "/api/v1/namespaces"), Some(&json!({"metadata": {"name": "team"}})), 201).await?;
    let team = "/apis/ex.io/v1/namespaces/team/widgets";
    for (target, name) in [(team, "a"), (team, "b"), (WIDGETS, "kept")] {
        assert_eq!(brought(&proxy, "admin", ("POST", target), Some(&widget(name))).await?.0, 201);
    }
    drop(extension);
    asked(&admin, ("DELETE", "/api/v1/namespaces/team"), None, 200).await?;
    until_so("the namespace is gone", async || Ok(admin.fetch("/api/v1/namespaces/team").await?.status == 404)).await?;
    let (extension, at) = cluster.extension().await?;
    let proxy = cluster.proxy(at)?;
    let noted = "[-]orphaned-objects failed, the others stand without it: reason withheld\n";
    until_so("they are noted", async || {
        let verbose = brought(&proxy, "admin", ("GET", "/readyz?verbose"), None).await?;
        Ok(verbose.0 == 200 && verbose.1.contains(noted))
    })
    .await?;
    let check = &cluster_shown(&proxy).await?["host"]["checks"][3];
    assert!(check["name"] == "orphaned-objects" && check.to_string().contains("2 widgets.ex.io, in team"), "{check}");
    assert!(cluster.log()?.contains("objects of namespaces that the host does not have: 2 widgets.ex.io, in team"));
    drop(extension);
    let (_extension, at) = cluster.extension_with(&["--delete-orphaned-objects"]).await?;
    let proxy = cluster.proxy(at)?;
    until_so("they are gone", async || {
        let (code, text) = brought(&proxy, "admin", ("GET", "/apis/ex.io/v1/widgets"), None).await?;
        Ok(code == 200 && !text.contains("team"))
    })
    .await?;
    assert_eq!(brought(&proxy, "admin", ("GET", &format!("{WIDGETS}/kept")), None).await?.0, 200);
    until_so("nothing is noted", async || {
        Ok(brought(&proxy, "admin", ("GET", "/readyz?verbose"), None).await?.1.contains("[+]orphaned-objects ok"))
    })
    .await
}

/// What an administrator sees of the host.
async fn cluster_shown(proxy: &Client) -> Result<Value, Failure> {
    let (code, text) = brought(proxy, "admin", ("GET", "/watchcache/api/v1/cluster"), None).await?;
    assert_eq!(code, 200, "{text}");
    Ok(serde_json::from_str(&text)?)
}

/// A TokenReview may take ten seconds, and a request of one second waited for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_host_holds_no_request_longer_than_its_time() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_extension, at) = cluster.extension().await?;
    let jane = cluster.site.client_of(at, "janetoken");
    cluster.host.signal("STOP")?;
    until_so("the host stands still", async || Ok(cluster.host.is_stopped()?)).await?;
    for target in [WIDGETS, "/apis"] {
        let answer = jane.fetch(&format!("{target}?timeout=1s")).await?;
        assert_eq!(answer.status, 504, "{target}: {answer:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_follow_the_directory_and_nothing_is_lost() -> Outcome {
    let cluster = Cluster::start().await?;
    let both = version("v1", true) + &version("v2", false);
    cluster.definition("a.yaml", &widgets("widgets", "ex.io", &version("v1", true)))?;
    cluster.definition("b.yml", &format!("{}---\n{}", widgets("things", "ex.io", &both), widgets("pods", "apps", &both)))?;
    cluster.definition("ignored.txt", "no YAML: [")?;
    let (extension, at) = cluster.extension().await?;
    let proxy = cluster.proxy(at)?;
    let code = async |target: &str| Ok::<_, Failure>(brought(&proxy, "admin", ("GET", target), None).await?.0);
    let things = "/apis/ex.io/v2/namespaces/default/things";
    until_so("both are served", async || Ok(code(WIDGETS).await? == 200 && code(things).await? == 200)).await?;
    until_so("the wrong one is told", async || Ok(cluster.log()?.contains("b.yml: pods.apps: apps is a group of Kubernetes"))).await?;
    let verbose = brought(&proxy, "admin", ("GET", "/readyz?verbose"), None).await?;
    assert!(verbose.0 == 200 && verbose.1.contains("[-]definitions failed, the others stand"), "{}", verbose.1);
    assert_eq!(brought(&proxy, "admin", ("POST", WIDGETS), Some(&widget("kept"))).await?.0, 201);
    // Gone from the directory, then there again with another version, over a restart.
    fs::remove_file(cluster.site.path().join("definitions/a.yaml"))?;
    until_so("widgets are not served", async || Ok(code(WIDGETS).await? == 404 && code(things).await? == 200)).await?;
    drop(extension);
    cluster.definition("a.yaml", &widgets("widgets", "ex.io", &both))?;
    let (_extension, at) = cluster.extension().await?;
    let proxy = cluster.proxy(at)?;
    until_so("what was stored is there in the new version", async || {
        Ok(brought(&proxy, "admin", ("GET", "/apis/ex.io/v2/namespaces/default/widgets/kept"), None).await?.0 == 200)
    })
    .await?;
    // A directory that is away, or a file that cannot be read, takes nothing from what is served.
    let (there, away) = (cluster.site.path().join("definitions"), cluster.site.path().join("away"));
    fs::rename(&there, &away)?;
    until_so("that is told", async || Ok(cluster.log()?.contains("definitions: No such file or directory"))).await?;
    fs::rename(&away, &there)?;
    fs::remove_file(there.join("a.yaml"))?;
    cluster.definition("b.yml", "half: [")?;
    until_so("that is told too", async || Ok(cluster.log()?.contains("b.yml: "))).await?;
    assert_eq!(brought(&proxy, "admin", ("GET", WIDGETS), None).await?.0, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_ready_when_the_host_has_said_whom_it_believes() -> Outcome {
    let cluster = Cluster::start().await?;
    let admin = cluster.site.client(cluster.host_at);
    asked(&admin, ("DELETE", &format!("{CONFIG_MAPS}/extension-apiserver-authentication")), None, 200).await?;
    let at = free_address()?;
    let mut command = serve(&cluster.site, at);
    command.args(["--data-dir=store", "--kubeconfig=host.kubeconfig"]);
    let output = command.output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("unable to load configmap based request-header-client-ca-file"), "{told}");
    command.arg("--authentication-tolerate-lookup-failure");
    let running = cluster.site.start("extension", command)?;
    let nobody = cluster.site.client_of(at, "");
    until_so("it listens and is not ready", async || {
        let answer = nobody.fetch("/readyz").await;
        Ok(answer.is_ok_and(|answer| {
            answer.status == 500 && String::from_utf8_lossy(&answer.body).contains("[-]host/authentication-configmap failed")
        }))
    })
    .await?;
    tell(&admin, &cluster.site).await?;
    running.ready(&nobody).await.map_err(|error| error.to_string())?;
    let proxy = cluster.proxy(at)?;
    // New handshakes learn of new authorities a moment later, as of new files.
    until_so("the proxy is believed", async || Ok(brought(&proxy, "admin", ("GET", "/apis"), None).await?.0 == 200)).await
}
