//! A read replica in front of an API server of the same etcd: here another watchcache, which writes, on `watchcache store`. And in front of a server in this
//! test that answers as no API server should.

mod fed;
mod included;
mod layout;
mod shared;
mod shown;
mod unknown;

use std::{net::SocketAddr, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};

use super::{Failure, Outcome, asked};
use crate::{
    client::{Client, Request},
    live::{
        free_address,
        peers::{Running, Site},
    },
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const SOON: Duration = Duration::from_secs(600);

/// Store, the API server that writes, and the replica.
struct Cluster {
    site: Site,
    _store: Running,
    etcd: SocketAddr,
    upstream: Running,
    upstream_at: SocketAddr,
}

impl Cluster {
    async fn start() -> Result<Cluster, Failure> {
        Self::start_with("--requestheader-client-ca-file=ca.crt").await
    }

    /// Its API server has this flag besides.
    async fn start_with(flag: &str) -> Result<Cluster, Failure> {
        Self::start_with_all(&[flag]).await
    }

    async fn start_with_all(flags: &[&str]) -> Result<Cluster, Failure> {
        let site = Site::prepare(Path::new("")).map_err(|error| error.to_string())?;
        let (etcd, upstream_at) = (free_address()?, free_address()?);
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
        command.args(["store", "--listen-client-urls", &format!("http://{etcd}"), "--data-dir"]).arg(site.path().join("store"));
        let store = site.start("store", command)?;
        let upstream = site.start("upstream", serve(&site, etcd, upstream_at, &[&["--insecure-port=0"], flags].concat()))?;
        upstream.ready(&site.client(upstream_at)).await.map_err(|error| error.to_string())?;
        Ok(Cluster { site, _store: store, etcd, upstream, upstream_at })
    }

    /// A replica with these flags, once it is ready.
    async fn replica(&self, name: &str, flags: &[&str]) -> Result<(Running, SocketAddr), Failure> {
        let (running, at) = self.unready(name, flags)?;
        running.ready(&self.site.client(at)).await.map_err(|error| error.to_string())?;
        Ok((running, at))
    }

    fn unready(&self, name: &str, flags: &[&str]) -> Result<(Running, SocketAddr), Failure> {
        let (at, server) = (free_address()?, format!("--upstream-server=https://{}", self.upstream_at));
        let plain = format!("--insecure-port={}", free_address()?.port());
        let own = [server.as_str(), "--upstream-cafile=ca.crt", &plain];
        let flags: Vec<&str> = own.into_iter().chain(flags.iter().copied()).collect();
        Ok((self.site.start(name, serve(&self.site, self.etcd, at, &flags))?, at))
    }
}

const PROXY: [&str; 2] = ["--proxy-client-cert-file=proxy.crt", "--proxy-client-key-file=proxy.key"];

/// `watchcache serve` behind TLS on this etcd, in the site's folder.
fn serve(site: &Site, etcd: SocketAddr, at: SocketAddr, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.current_dir(site.path()).args([
        "serve",
        "--controllers=",
        "--bind-address=127.0.0.1",
        "--etcd-servers",
        &format!("http://{etcd}"),
    ]);
    command.args([format!("--secure-port={}", at.port())]);
    command.args(["--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--token-auth-file=tokens.csv"]).args(flags);
    command
}

/// All that a client sees of an answer but what no two have in common.
async fn seen(client: &Client, request: (&str, &str), headers: &[(&str, &str)], body: &str) -> Result<(u16, String), Failure> {
    let mut all: Vec<(String, String)> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    if !body.is_empty() {
        all.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    let whole = client.whole(request.0, request.1, &all, body.as_bytes()).await?;
    Ok((whole.status, String::from_utf8_lossy(&whole.body).into_owned()))
}

/// An object, or a list without its revision: two lists are of two moments, and upstream writes objects of its own now and then.
async fn read(client: &Client, target: &str) -> Result<Value, Failure> {
    let mut answer = asked(client, ("GET", target), None, 200).await?;
    if answer.get("items").is_some() {
        answer["metadata"]["resourceVersion"].take();
    }
    Ok(answer)
}

/// How many requests were forwarded for this reason.
async fn forwarded(client: &Client, reason: &str) -> Result<u64, Failure> {
    let text = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
    let lines =
        text.lines().filter(|line| line.starts_with("watchcache_forwarded_requests_total") && line.contains(&format!("\"{reason}\"")));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_see_one_server() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_replica, at) = cluster.replica("replica", &PROXY).await?;
    let (ours, theirs) = (cluster.site.client(at), cluster.site.client(cluster.upstream_at));
    // A write, and what was written, at once and on the stream.
    let made = asked(&ours, ("POST", MAPS), Some(&json!({"metadata": {"name": "a"}, "data": {"k": "1"}})), 201).await?;
    assert_eq!(asked(&ours, ("GET", &format!("{MAPS}/a")), None, 200).await?, made);
    let version = made["metadata"]["resourceVersion"].as_str().ok_or("no version")?;
    let mut watch = ours.watch(&format!("{MAPS}?watch=1&resourceVersion={version}")).await?.map_err(|answer| format!("{answer:?}"))?;
    let newer = asked(&ours, ("PUT", &format!("{MAPS}/a")), Some(&json!({"metadata": {"name": "a"}, "data": {"k": "2"}})), 200).await?;
    let event = timeout(SOON, watch.next()).await??.ok_or("the watch has ended")?;
    assert_eq!(serde_json::from_slice::<Value>(&event.line)?["object"], newer);
    // Reads and the watch were answered here.
    assert_eq!(forwarded(&ours, "write").await?, 2);
    for reason in ["not_served", "loading", "unreadable"] {
        assert_eq!(forwarded(&ours, reason).await?, 0, "{reason}");
    }
    // What the cluster says of itself, what only it knows, what is wrong, and what nobody has.
    let long = "x".repeat(70_000);
    for (method, target, body) in [
        ("GET", "/version", ""),
        ("GET", "/apis", ""),
        ("GET", "/api/v1", ""),
        ("GET", "/apis/apps/v1", ""),
        ("GET", "/openapi/v3", ""),
        ("GET", "/nothing", ""),
        ("GET", "/apis/nobody.io/v1/things", ""),
        ("GET", "/api/v1/namespaces/default/pods/p/log", ""),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            r#"{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}"#,
        ),
        ("POST", MAPS, "{"),
        ("POST", MAPS, r#"{"metadata":{"name":"UPPER"}}"#),
        ("PUT", "/api/v1/namespaces/default/configmaps/none", r#"{"metadata":{"name":"other"}}"#),
        ("PATCH", "/api/v1/namespaces/default/configmaps/a", "{}"),
        ("DELETE", "/api/v1/namespaces/default/configmaps/none", ""),
        ("HEAD", MAPS, ""),
        ("OPTIONS", MAPS, ""),
        ("POST", "/api/v1/namespaces/none/configmaps", &format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k":"{long}"}}}}"#)),
    ] {
        let request = (method, target);
        assert_eq!(seen(&ours, request, &[], body).await?, seen(&theirs, request, &[], body).await?, "{method} {target}");
    }
    Ok(())
}

/// Discovery and OpenAPI are asked for with the ETag of what is known: whoever asks gets what upstream would send, also after a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_upstream_s_and_fresh() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_replica, at) = cluster.replica("replica", &PROXY).await?;
    let (ours, theirs) = (cluster.site.client(at), cluster.site.client(cluster.upstream_at));
    let aggregated = [("Accept".to_owned(), "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList".to_owned())];
    let ask = async |client: &Client, target: &str, tag: &str| -> Result<(u16, String, Vec<u8>), Failure> {
        let tag = (!tag.is_empty()).then(|| ("If-None-Match".to_owned(), tag.to_owned()));
        let headers: Vec<_> = aggregated.iter().cloned().chain(tag).collect();
        let whole = client.whole("GET", target, &headers, b"").await?;
        Ok((whole.status, whole.header("etag").next().unwrap_or_default().to_owned(), whole.body.to_vec()))
    };
    let mut tags = Vec::new();
    for _ in 0..2 {
        let direct = ask(&theirs, "/apis", "").await?;
        assert_eq!(direct.0, 200);
        for tag in ["", "\"0\""] {
            for _ in 0..2 {
                assert_eq!(ask(&ours, "/apis", tag).await?, direct);
            }
        }
        assert_eq!(ask(&ours, "/apis", &direct.1).await?.0, 304);
        assert_eq!(ask(&cluster.site.client_of(at, "none"), "/apis", "").await?.0, 401);
        tags.push(direct.1.clone());
        let definition = json!({"metadata": {"name": "things.ex.io"}, "spec": {"group": "ex.io", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
        if tags.len() == 1 {
            asked(&ours, ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"), Some(&definition), 201).await?;
            let began = Instant::now();
            while ask(&theirs, "/apis", "").await?.1 == direct.1 {
                assert!(began.elapsed() < SOON, "the definition is not served");
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
    assert_ne!(tags[0], tags[1]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_has_the_rights_that_are_his() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_replica, at) = cluster.replica("replica", &PROXY).await?;
    let (admin, jane) = (cluster.site.client(at), cluster.site.client_of(at, "janetoken"));
    let (jane_there, nobody_there) =
        (cluster.site.client_of(cluster.upstream_at, "janetoken"), cluster.site.client_of(cluster.upstream_at, ""));
    let body = r#"{"metadata":{"generateName":"b-"}}"#;
    let forged = [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"), ("x-remote-extra-a", "b")];
    let (post, here) = (("POST", MAPS), cluster.site.client_of(at, ""));
    let refused = seen(&jane_there, post, &[], body).await?;
    assert_eq!(refused.0, 403);
    for headers in [&[][..], &forged] {
        assert_eq!(seen(&jane, post, headers, body).await?, refused);
        assert_eq!(seen(&here, post, headers, body).await?, seen(&nobody_there, post, &[], body).await?);
    }
    // Whom somebody wants to act as is for upstream to judge.
    let as_viewer = [("Impersonate-User", "viewer"), ("Impersonate-Group", "viewers")];
    assert_eq!(seen(&jane, post, &as_viewer, body).await?, seen(&jane_there, post, &as_viewer, body).await?);
    let wanted = seen(&cluster.site.client(cluster.upstream_at), post, &as_viewer, body).await?;
    assert!(wanted.1.contains("viewer"), "{wanted:?}");
    assert_eq!(seen(&admin, post, &as_viewer, body).await?, wanted);
    let whoami = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let told = seen(&jane, whoami, &forged, "{}").await?;
    assert!(told.0 == 201 && told.1.contains(r#""username":"jane""#) && told.1.contains("dev") && !told.1.contains("masters"), "{told:?}");
    // A right that is given counts there and here.
    let role =
        json!({"metadata": {"name": "maker"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list"]}]});
    asked(&admin, ("POST", &format!("{RBAC}/roles")), Some(&role), 201).await?;
    let binding = json!({"metadata": {"name": "maker"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    asked(&admin, ("POST", &format!("{RBAC}/rolebindings")), Some(&binding), 201).await?;
    let began = Instant::now();
    while seen(&jane, post, &[], body).await?.0 != 201 || seen(&jane, ("GET", MAPS), &[], "").await?.0 != 200 {
        assert!(began.elapsed() < SOON, "jane may not");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_certificate_clients_bring_their_own_tokens() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_replica, at) = cluster.replica("replica", &[]).await?;
    let body = r#"{"metadata":{"generateName":"b-"}}"#;
    assert_eq!(seen(&cluster.site.client(at), ("POST", MAPS), &[], body).await?.0, 201);
    for token in ["janetoken", ""] {
        let (ours, theirs) = (cluster.site.client_of(at, token), cluster.site.client_of(cluster.upstream_at, token));
        let as_viewer = [("Impersonate-User", "viewer")];
        for headers in [&[][..], &as_viewer] {
            assert_eq!(
                seen(&ours, ("POST", MAPS), headers, body).await?,
                seen(&theirs, ("POST", MAPS), headers, body).await?,
                "{token} {headers:?}"
            );
        }
    }
    Ok(())
}

/// Its user there may act as all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubeconfig_acts_as_its_clients() -> Outcome {
    let cluster = Cluster::start().await?;
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("https://{}", cluster.upstream_at), "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": {"token": "admintoken"}}]});
    std::fs::write(cluster.site.path().join("kubeconfig"), kubeconfig.to_string())?;
    let at = free_address()?;
    let flags = ["--upstream-kubeconfig=kubeconfig", "--insecure-port=0"];
    let running = cluster.site.start("replica", serve(&cluster.site, cluster.etcd, at, &flags))?;
    running.ready(&cluster.site.client(at)).await.map_err(|error| error.to_string())?;
    let body = r#"{"metadata":{"generateName":"b-"}}"#;
    assert_eq!(seen(&cluster.site.client(at), ("POST", MAPS), &[], body).await?.0, 201);
    let (ours, theirs) = (cluster.site.client_of(at, "janetoken"), cluster.site.client_of(cluster.upstream_at, "janetoken"));
    for headers in [&[][..], &[("Impersonate-User", "admin"), ("Impersonate-Group", "system:masters")]] {
        let wanted = seen(&theirs, ("POST", MAPS), headers, body).await?;
        assert_eq!(wanted.0, 403);
        assert_eq!(seen(&ours, ("POST", MAPS), headers, body).await?, wanted, "{headers:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_go_on_without_upstream() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_replica, at) = cluster.replica("replica", &PROXY).await?;
    let client = cluster.site.client(at);
    asked(&client, ("POST", MAPS), Some(&json!({"metadata": {"name": "a"}})), 201).await?;
    cluster.upstream.signal("KILL")?;
    let began = Instant::now();
    let refused = loop {
        let whole = client
            .whole("POST", MAPS, &[("Content-Type".to_owned(), "application/json".to_owned())], br#"{"metadata":{"name":"b"}}"#)
            .await?;
        if whole.status == 503 {
            break whole;
        }
        assert!(began.elapsed() < SOON, "{} {}", whole.status, String::from_utf8_lossy(&whole.body));
        sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(refused.header("retry-after").next(), Some("1"));
    let status: Value = serde_json::from_slice(&refused.body)?;
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("ServiceUnavailable")));
    asked(&client, ("GET", &format!("{MAPS}/a")), None, 200).await?;
    asked(&client, ("GET", &format!("{MAPS}?resourceVersion=0")), None, 200).await?;
    let says_up = async || -> Result<bool, Failure> {
        let text = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
        let line = text.lines().find(|line| line.starts_with("watchcache_upstream_up")).ok_or("no such metric")?;
        Ok(line.ends_with(" 1"))
    };
    while client.fetch("/readyz/upstream").await?.status == 200 || says_up().await? {
        assert!(began.elapsed() < SOON, "upstream is said to be there");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(client.fetch("/readyz").await?.status, 200, "others would have to answer more");
    cluster.upstream.restart()?;
    while client.fetch("/readyz/upstream").await?.status != 200 {
        assert!(began.elapsed() < 2 * SOON, "upstream is not seen again");
        sleep(Duration::from_millis(50)).await;
    }
    asked(&client, ("POST", MAPS), Some(&json!({"metadata": {"name": "b"}})), 201).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_is_not_believed_is_not_ready() -> Outcome {
    let cluster = Cluster::start().await?;
    let other = Site::prepare(Path::new("")).map_err(|error| error.to_string())?;
    let file = |flag: &str, name: &str| format!("{flag}={}", other.path().join(name).display());
    let flags = [file("--proxy-client-cert-file", "proxy.crt"), file("--proxy-client-key-file", "proxy.key")];
    let (running, at) = cluster.unready("replica", &[&flags[0], &flags[1]])?;
    let (client, began) = (cluster.site.client(at), Instant::now());
    let why = loop {
        if let Ok(answer) = client.fetch("/readyz/upstream").await {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            if text.contains("--requestheader-client-ca-file") {
                break text;
            }
        }
        assert!(began.elapsed() < SOON && running.ended().is_none(), "it does not say why");
        sleep(Duration::from_millis(50)).await;
    };
    assert!(why.contains("401"), "{why}");
    assert_eq!(client.fetch("/readyz").await?.status, 500);
    Ok(())
}

/// An API server that does not believe the headers takes us for the certificate's user, who might be anybody's administrator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_our_rights() -> Outcome {
    let cluster = Cluster::start_with("--client-ca-file=ca.crt").await?;
    let (running, at) = cluster.unready("replica", &PROXY)?;
    let (client, began) = (cluster.site.client(at), Instant::now());
    loop {
        if let Ok(answer) = client.fetch("/readyz/upstream").await
            && String::from_utf8_lossy(&answer.body).contains("front-proxy")
        {
            break;
        }
        assert!(began.elapsed() < SOON && running.ended().is_none(), "it does not say for whom it is taken");
        sleep(Duration::from_millis(50)).await;
    }
    for (method, target) in [("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"), ("GET", "/version"), ("GET", "/apis")] {
        let (status, body) = seen(&client, (method, target), &[], if method == "POST" { "{}" } else { "" }).await?;
        assert_eq!(status, 503, "{target}: {body}");
        assert!(!body.contains("front-proxy"), "{target}: {body}");
    }
    assert_eq!(client.fetch("/readyz").await?.status, 500);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_not_its_own_upstream() -> Outcome {
    let cluster = Cluster::start().await?;
    let at = free_address()?;
    let server = format!("--upstream-server=https://{at}");
    let flags = [&server, "--upstream-cafile=ca.crt", "--insecure-port=0", PROXY[0], PROXY[1]];
    let running = cluster.site.start("replica", serve(&cluster.site, cluster.etcd, at, &flags))?;
    let began = Instant::now();
    loop {
        if let Some(ended) = running.ended() {
            assert!(ended.contains("is this server itself"), "{ended}");
            return Ok(());
        }
        assert!(began.elapsed() < SOON, "it goes on");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_excluded_is_read_upstream() -> Outcome {
    let cluster = Cluster::start().await?;
    let (_replica, at) = cluster.replica("replica", &[PROXY[0], PROXY[1], "--exclude-resources=secrets,events"]).await?;
    let (ours, theirs, jane) = (cluster.site.client(at), cluster.site.client(cluster.upstream_at), cluster.site.client_of(at, "janetoken"));
    let secrets = "/api/v1/namespaces/default/secrets";
    asked(&ours, ("POST", secrets), Some(&json!({"metadata": {"name": "s"}})), 201).await?;
    let before = forwarded(&ours, "not_served").await?;
    for target in [secrets, "/api/v1/namespaces/default/secrets/s", "/api/v1/events", "/apis/events.k8s.io/v1/events"] {
        assert_eq!(read(&ours, target).await?, read(&theirs, target).await?, "{target}");
    }
    assert_eq!(forwarded(&ours, "not_served").await?, before + 4);
    assert_eq!(seen(&jane, ("GET", secrets), &[], "").await?.0, 403);
    let mut watch = ours.watch(&format!("{secrets}?watch=1")).await?.map_err(|answer| format!("{answer:?}"))?;
    let event = timeout(SOON, watch.next()).await??.ok_or("the watch has ended")?;
    assert!(String::from_utf8_lossy(&event.line).contains(r#""name":"s""#));
    asked(&ours, ("GET", MAPS), None, 200).await?;
    assert_eq!(forwarded(&ours, "not_served").await?, before + 6, "that of jane and the watch, and nothing of the others");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_log_tells_what_was_forwarded() -> Outcome {
    let cluster = Cluster::start().await?;
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";
    std::fs::write(cluster.site.path().join("policy.yaml"), policy)?;
    let flags = [PROXY[0], PROXY[1], "--audit-policy-file=policy.yaml", "--audit-log-path=audit.log"];
    let (_replica, at) = cluster.replica("replica", &flags).await?;
    let client = cluster.site.client(at);
    let id = [("Audit-Id".to_owned(), "the-write".to_owned()), ("Content-Type".to_owned(), "application/json".to_owned())];
    assert_eq!(client.whole("POST", MAPS, &id, br#"{"metadata":{"name":"a"}}"#).await?.status, 201);
    let id = [("Audit-Id".to_owned(), "the-read".to_owned())];
    assert_eq!(client.whole("GET", &format!("{MAPS}/a"), &id, b"").await?.status, 200);
    let log = std::fs::read_to_string(cluster.site.path().join("audit.log"))?;
    let event = |id: &str| log.lines().find(|line| line.contains(id)).and_then(|line| serde_json::from_str::<Value>(line).ok());
    let (write, read) = (event("the-write").ok_or("no write")?, event("the-read").ok_or("no read")?);
    assert_eq!((&write["annotations"]["watchcache.io/forwarded"], &write["responseStatus"]["code"]), (&json!("write"), &json!(201)));
    assert_eq!(read["annotations"]["watchcache.io/forwarded"], Value::Null);
    assert_eq!(read["annotations"]["authorization.k8s.io/decision"], json!("allow"));
    Ok(())
}

/// A server on a plain socket that answers each connection's first request as its path says.
async fn strange() -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket));
        }
    });
    Ok(address)
}

async fn answer(mut socket: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if socket.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path {
        "/version" => socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}").await,
        "/hangs" => {
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegin").await?;
            sleep(SOON * 2).await;
            Ok(())
        }
        "/closes" => Ok(()),
        "/cut" => socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegin").await,
        "/switches" => socket.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n").await,
        "/hints" => {
            socket.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n").await?;
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Remote-User: root\r\nConnection: close\r\n\r\nfine").await
        }
        "/headers" => {
            let many: String = (0..30_000).map(|n| format!("X-{n}: {n}\r\n")).collect();
            socket.write_all(format!("HTTP/1.1 200 OK\r\n{many}\r\n").as_bytes()).await
        }
        "/lengths" => socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nfines").await,
        "/noise" => socket.write_all(b"what?\r\n\r\n").await,
        "/api/v1/namespaces/default/pods/p/exec?command=cat" => {
            if !head.to_ascii_lowercase().contains("upgrade: spdy/3.1") {
                return socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            }
            socket
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\nX-Stream: 1\r\n\r\n")
                .await?;
            let (mut from, mut to) = socket.split();
            tokio::io::copy(&mut from, &mut to).await.map(|_| ())
        }
        "/api/v1/namespaces/default/pods/p/log?follow=true" => {
            socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
            for line in 0..3 {
                socket.write_all(format!("7\r\nline {line}\n\r\n").as_bytes()).await?;
                sleep(Duration::from_millis(1_500)).await;
            }
            socket.write_all(b"0\r\n\r\n").await
        }
        _ => socket.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await,
    }
}

/// A replica of the strange server, by its plain port.
async fn replica_of_the_strange() -> Result<(Cluster, Running, Client, SocketAddr), Failure> {
    let (cluster, strange, at, plain) = (Cluster::start().await?, strange().await?, free_address()?, free_address()?);
    let flags =
        [format!("--upstream-server=http://{strange}"), format!("--insecure-port={}", plain.port()), "--request-timeout=2s".to_owned()];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let running = cluster.site.start("replica", serve(&cluster.site, cluster.etcd, at, &flags))?;
    let client = Client::plain(plain);
    running.ready(&client).await.map_err(|error| error.to_string())?;
    Ok((cluster, running, client, plain))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstream_may_answer_what_it_likes() -> Outcome {
    let (_cluster, running, client, _) = replica_of_the_strange().await?;
    let status = async |target: &str| -> Result<u16, Failure> { Ok(timeout(SOON, client.whole("GET", target, &[], b"")).await??.status) };
    for (target, wanted) in [("/closes", 503), ("/switches", 503), ("/headers", 503), ("/lengths", 503), ("/noise", 503), ("/none", 404)] {
        assert_eq!(status(target).await?, wanted, "{target}");
    }
    let many: Vec<(String, String)> = (0..1_100).map(|n| (format!("X-{n}"), "1".to_owned())).collect();
    assert_eq!(client.whole("GET", "/none", &many, b"").await?.status, 400);
    assert_eq!(client.whole("OPTIONS", "*", &[], b"").await?.status, 400);
    // What was sent and got no answer may have been done: it is not to be repeated.
    let whole = client.whole("POST", "/closes", &[("Content-Type".to_owned(), "application/json".to_owned())], b"{}").await?;
    assert_eq!((whole.status, whole.header("retry-after").count()), (502, 0));
    let whole = client.whole("GET", "/hints", &[], b"").await?;
    assert_eq!((whole.status, &whole.body[..], whole.header("x-remote-user").count()), (200, &b"fine"[..], 0));
    // A body that is cut off, or goes on for ever, is seen to be cut off.
    for target in ["/cut", "/hangs"] {
        let cut = timeout(SOON, client.ask(&Request { method: "GET", target, body: None })).await?;
        assert!(cut.is_err(), "{target}: {cut:?}");
    }
    assert_eq!(client.fetch("/readyz").await?.status, 200);
    assert_eq!(running.ended(), None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shells_and_logs_pass_through() -> Outcome {
    let (_cluster, _running, client, plain) = replica_of_the_strange().await?;
    // Longer than a request may take.
    let log = client.whole("GET", "/api/v1/namespaces/default/pods/p/log?follow=true", &[], b"").await?;
    assert_eq!((log.status, &log.body[..]), (200, &b"line 0\nline 1\nline 2\n"[..]));
    let mut socket = TcpStream::connect(plain).await?;
    let head = "POST /api/v1/namespaces/default/pods/p/exec?command=cat HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n";
    socket.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        assert!(timeout(SOON, socket.read_buf(&mut answer)).await?? > 0, "{}", String::from_utf8_lossy(&answer));
    }
    let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 101") && answer.contains("upgrade: spdy/3.1") && answer.contains("x-stream: 1"), "{answer}");
    // Back and forth, and more than any buffer on the way.
    let (mut from, mut to) = socket.into_split();
    let sent: Vec<u8> = (0..8 << 20).map(|n: u32| (n % 251) as u8).collect();
    let copy = sent.clone();
    let writing = tokio::spawn(async move {
        to.write_all(&copy).await?;
        to.shutdown().await
    });
    let mut got = Vec::new();
    timeout(SOON, from.read_to_end(&mut got)).await??;
    writing.await??;
    assert!(got == sent, "{} of {} bytes, or others", got.len(), sent.len());
    Ok(())
}
