//! `--source=upstream` in front of a watchcache, which judges tokens and rights as a kube-apiserver does: what becomes of a changed
//! kubeconfig, of rights that the server itself has not, and
//! what it says of itself. In front of a kube-apiserver: `live/fed`.

use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Failure, Outcome, asked, wait::until_so};
use crate::{
    client::Client,
    live::{
        free_address,
        peers::{Running, Site, TOKEN},
    },
};

/// Several looks of the server at its files.
const SOME_LOOKS: Duration = Duration::from_secs(4);
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The server's own tokens: of one user, without any group.
const OWN: &str = "first,front,8\nsecond,front,8\n";

struct Cluster {
    site: Site,
    admin: Client,
    host_at: SocketAddr,
    _host: Running,
}

struct Front {
    at: SocketAddr,
    running: Running,
}

fn serve(site: &Site, at: SocketAddr, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.current_dir(site.path()).args(["serve", "--insecure-port=0", "--bind-address=127.0.0.1"]).args(flags);
    command.arg(format!("--secure-port={}", at.port())).args(["--tls-cert-file=server.crt", "--tls-private-key-file=server.key"]);
    command
}

/// What the server needs, but not `without`.
fn rules(without: &str) -> Value {
    let read = ["get", "list", "watch"];
    let all = [
        ("", "configmaps", &read[..]),
        ("", "namespaces", &read),
        ("apiextensions.k8s.io", "customresourcedefinitions", &read),
        ("authentication.k8s.io", "tokenreviews", &["create"]),
        ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ];
    let rule = |(group, resource, verbs): (&str, &str, &[&str])| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    all.into_iter().filter(|(_, resource, _)| *resource != without).map(rule).collect()
}

impl Cluster {
    async fn start() -> Result<Self, Failure> {
        let site = Site::prepare(Path::new("")).map_err(|error| error.to_string())?;
        let tokens = site.path().join("tokens.csv");
        fs::write(&tokens, fs::read_to_string(&tokens)? + OWN)?;
        let host_at = free_address()?;
        let host = site.start("host", serve(&site, host_at, &["--data-dir=host", "--token-auth-file=tokens.csv"]))?;
        let admin = site.client(host_at);
        host.ready(&admin).await.map_err(|error| error.to_string())?;
        asked(&admin, ("POST", ROLES), Some(&json!({"metadata": {"name": "front"}, "rules": rules("")})), 201).await?;
        let binding = json!({
            "metadata": {"name": "front"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "front"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "front"}],
        });
        asked(&admin, ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"), Some(&binding), 201).await?;
        let cluster = Self { site, admin, host_at, _host: host };
        cluster.kubeconfig("ca.crt", "first")?;
        Ok(cluster)
    }

    /// Writes the kubeconfig of the server in front.
    fn kubeconfig(&self, authority: &str, token: &str) -> Outcome {
        let at = json!({"server": format!("https://{}", self.host_at), "certificate-authority": self.site.path().join(authority)});
        let text = json!({"clusters": [{"name": "a", "cluster": at}], "users": [{"name": "a", "user": {"token": token}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
        self.write(&text.to_string())
    }

    fn write(&self, text: &str) -> Outcome {
        Ok(fs::write(self.site.path().join("front.kubeconfig"), text)?)
    }

    /// The server in front; it need not be ready.
    fn front(&self) -> Result<Front, Failure> {
        let at = free_address()?;
        let flags = ["--source=upstream", "--upstream-kubeconfig=front.kubeconfig"];
        Ok(Front { at, running: self.site.start("front", serve(&self.site, at, &flags))? })
    }

    async fn rights(&self, rules: &Value) -> Outcome {
        asked(&self.admin, ("PUT", &format!("{ROLES}/front")), Some(&json!({"metadata": {"name": "front"}, "rules": rules})), 200)
            .await
            .map(drop)
    }

    /// What a client with this token is answered there.
    async fn status(&self, front: &Front, token: &str, target: &str) -> Result<u16, Failure> {
        Ok(self.site.client_of(front.at, token).fetch(target).await?.status)
    }

    /// A page that needs no token, once the listener is there.
    async fn told(&self, front: &Front, target: &str) -> (u16, String) {
        match self.site.client_of(front.at, "").without_token().fetch(target).await {
            Ok(answer) => (answer.status, String::from_utf8_lossy(&answer.body).into_owned()),
            Err(_) => (0, String::new()),
        }
    }

    /// The line of a check that has failed, as everybody is told.
    async fn reason(&self, front: &Front, check: &str) -> String {
        let verbose = self.told(front, "/readyz?verbose").await.1;
        verbose.lines().find(|line| line.starts_with(&format!("[-]{check} failed: "))).unwrap_or_default().to_owned()
    }

    async fn is_ready(&self, front: &Front) -> Outcome {
        until_so("it is ready", async || Ok(self.told(front, "/readyz").await == (200, "ok".to_owned()))).await
    }
}

impl Front {
    fn lines(&self, words: &str) -> usize {
        self.running.log().lines().filter(|line| line.contains(words)).count()
    }
}

/// Who can come, and what is followed, go on from the file as it is now, with no restart; only reviews did not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_kubeconfig_counts_for_all_that_is_asked() -> Outcome {
    let cluster = Cluster::start().await?;
    let other = Site::prepare(Path::new("")).map_err(|error| error.to_string())?;
    fs::copy(other.path().join("ca.crt"), cluster.site.path().join("other.crt"))?;
    cluster.kubeconfig("other.crt", "first")?;
    let front = cluster.front()?;
    // An authority that has not signed upstream's certificate: no token is judged, which is no word against it.
    until_so("it listens", async || Ok(cluster.told(&front, "/livez").await.0 == 200)).await?;
    assert_eq!((cluster.status(&front, TOKEN, MAPS).await?, cluster.told(&front, "/readyz").await.0), (503, 500));
    cluster.kubeconfig("ca.crt", "first")?;
    cluster.is_ready(&front).await?;
    assert_eq!(cluster.status(&front, TOKEN, MAPS).await?, 200);
    assert_eq!(cluster.status(&front, TOKEN, &format!("{MAPS}?resourceVersion=0")).await?, 200);

    // Its token is no longer one.
    let tokens = cluster.site.path().join("tokens.csv");
    let before = fs::read_to_string(&tokens)?;
    fs::write(&tokens, before.replace("first,front,8\n", "latetoken,late,9,\"system:masters\"\n"))?;
    until_so("a right is missed", async || Ok(!cluster.reason(&front, "upstream-tokenreviews").await.is_empty())).await?;
    assert_eq!(cluster.told(&front, "/readyz").await.0, 500);
    let why = cluster.reason(&front, "upstream-tokenreviews").await;
    assert!(why.contains("this server may not create tokenreviews.authentication.k8s.io") && why.contains(": 401 "), "{why}");
    cluster.kubeconfig("ca.crt", "second")?;
    cluster.is_ready(&front).await?;
    assert_eq!(cluster.status(&front, "latetoken", MAPS).await?, 200, "a token that nobody has asked about before");
    asked(&cluster.admin, ("POST", MAPS), Some(&json!({"metadata": {"name": "late"}})), 201).await?;
    let client = cluster.site.client(front.at);
    until_so("what is followed comes", async || {
        let list = client.fetch(&format!("{MAPS}?resourceVersion=0")).await?;
        Ok(String::from_utf8_lossy(&list.body).contains("\"late\""))
    })
    .await?;

    // A file that is wrong, cut or gone changes nothing; each is reported once, and so is that it is back.
    let good = fs::read_to_string(cluster.site.path().join("front.kubeconfig"))?;
    let nobody = good.replace("\"token\":\"second\"", "");
    for (nth, wrong) in [Some("{"), Some(&good[..good.len() / 2]), Some(&nobody), None].into_iter().enumerate() {
        match wrong {
            Some(text) => cluster.write(text)?,
            None => fs::remove_file(cluster.site.path().join("front.kubeconfig"))?,
        }
        until_so("it is reported", async || Ok(front.lines("a file has changed and is wrong") == nth + 1)).await?;
    }
    let in_force = front.lines("files have changed and are in force");
    cluster.write(&good)?;
    until_so("it is back", async || Ok(front.lines("files have changed and are in force") == in_force + 1)).await?;
    sleep(SOME_LOOKS).await;
    let lines = |words: &str| front.lines(words);
    assert_eq!((lines("a file has changed and is wrong"), lines("files have changed and are in force")), (4, in_force + 1));
    assert_eq!(
        lines("files have changed and are in force"),
        lines("--upstream-kubeconfig front.kubeconfig") - 4,
        "the flag that was given"
    );
    assert_eq!(cluster.status(&front, "viewtoken", "/api/v1").await?, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_it_has_not_is_told_and_missed() -> Outcome {
    let cluster = Cluster::start().await?;
    cluster.rights(&rules("tokenreviews")).await?;
    let front = cluster.front()?;
    let (tokens, access) = ("upstream-tokenreviews", "upstream-subjectaccessreviews");
    // At the start, then taken away from a server that has it, each of them.
    let mut told = 0;
    for (check, resource, refused) in [(tokens, "tokenreviews", 503), (access, "subjectaccessreviews", 500), (tokens, "tokenreviews", 503)]
    {
        cluster.rights(&rules(resource)).await?;
        until_so(resource, async || Ok(cluster.reason(&front, check).await.contains("may not create"))).await?;
        assert_eq!(cluster.told(&front, "/readyz").await.0, 500);
        let why = cluster.reason(&front, check).await;
        assert!(why.contains(&format!("User \"front\" cannot create resource \"{resource}\"")), "{why}");
        // Not 401: nobody has said that the token is wrong.
        until_so("clients are refused", async || Ok(cluster.status(&front, "janetoken", MAPS).await? == refused)).await?;
        cluster.rights(&rules("")).await?;
        cluster.is_ready(&front).await?;
        until_so("clients are judged", async || Ok(cluster.status(&front, "janetoken", MAPS).await? == 403)).await?;
        told += 1;
        assert_eq!((front.lines("this server may not create reviews"), front.lines("may create reviews again")), (told, told));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_of_itself_what_is_so() -> Outcome {
    let cluster = Cluster::start().await?;
    let front = cluster.front()?;
    cluster.is_ready(&front).await?;
    let client = cluster.site.client(front.at);
    assert_eq!(client.fetch(&format!("{MAPS}?resourceVersion=0")).await?.status, 200);
    let overview = async || asked(&client, ("GET", "/watchcache/api/v1/overview"), None, 200).await;
    until_so("a revision and an age", async || {
        let now = overview().await?;
        Ok(now["revision"].as_u64().is_some_and(|revision| revision > 0) && now["ageSeconds"].as_f64().is_some_and(|age| age < 10.0))
    })
    .await?;
    let now = overview().await?;
    let checks: Vec<&str> = now["checks"].as_array().into_iter().flatten().filter_map(|check| check["name"].as_str()).collect();
    assert!(checks.contains(&"source") && !checks.iter().any(|check| check.contains("etcd")), "{checks:?}");
    assert_eq!((&now["feeds"][0]["source"], &now["behind"]), (&json!("upstream"), &json!(false)));
    let status = asked(&client, ("GET", "/watchcache/status"), None, 200).await?;
    assert!(status["source"]["revision"].as_u64() > Some(0) && status.get("etcd").is_none(), "{status}");
    for target in ["/livez/etcd", "/readyz/etcd", "/readyz/etcd-readiness"] {
        assert_eq!(client.fetch(target).await?.status, 404, "{target}");
    }
    let metrics = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
    assert!(!metrics.contains("\nwatchcache_etcd_proven"), "there is no etcd");
    assert!(!metrics.contains("watchcache_resource_age_seconds{group=\"\",resource=\"pods\"}"), "nobody follows them");

    // What it may not list is forwarded, and told by the name that paths have, in words.
    assert_eq!(client.fetch("/api/v1/nodes?resourceVersion=0").await?.status, 200);
    until_so("nodes are missed", async || {
        Ok(cluster.told(&front, "/readyz?verbose").await.1.contains("not followed, and forwarded: v1/nodes"))
    })
    .await?;
    let log = front.running.log();
    let line = log.lines().find(|line| line.contains("is not followed now")).ok_or("the log does not say so")?;
    assert!(line.contains("resource=nodes ") && line.contains("nodes is forbidden") && !line.contains("k8s"), "{line}");
    Ok(())
}
