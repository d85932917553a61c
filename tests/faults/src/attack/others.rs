//! Attacks that reach others through what they share: a replica's connections to upstream, the questions to a webhook, and rights that were taken away.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    attack::{
        ground::Target,
        options::Attack,
        raw::{Raw, Reads},
        report::Told,
    },
    http::Lines,
    options::{Options, Subject},
    pki::Pair,
    process::Process,
    subject::{ATTACKER, TOKENS, VISITOR, tls_args, write_tokens},
};

/// Attackers whose questions a webhook does not answer, and questions of each: together more than are asked at once.
const ATTACKERS: usize = 10;
const QUESTIONS: usize = 40;
/// Requests of the visitor meanwhile, and how long he waits for each, seconds.
const VISITS: usize = 5;
const VISIT_SECONDS: u64 = 3;
/// Attackers with long questions, questions of each, and bytes of a name that is asked about: just below what a body may have.
const LONG_ATTACKERS: usize = 4;
const LONG_QUESTIONS: usize = 7;
const LONG_BYTES: usize = 2_900_000;
/// Impersonated watches, and how long they may go on without their right; where a kube-apiserver judges, it is asked again after 5 minutes.
const WATCHES: usize = 20;
const END: Duration = Duration::from_secs(10);
const END_OF_FED: Duration = Duration::from_secs(330);
/// How long anything of the preparations may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Whom the attacker acts as.
const JANE: &str = "faults-jane";
/// The longest head of a question.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Who else there is beside the server.
#[derive(Default)]
pub(super) struct Others {
    /// What the server is told of them.
    pub(super) args: Vec<String>,
    _upstream: Option<Process>,
    webhook: Option<JoinHandle<()>>,
}

impl Drop for Others {
    fn drop(&mut self) {
        if let Some(webhook) = &self.webhook {
            webhook.abort();
        }
    }
}

impl Others {
    /// Those whom an attack needs; etcd is there.
    pub(super) async fn start(attack: Attack, options: &Options, dir: &Path) -> Result<Self> {
        match attack {
            Attack::UpstreamResets if options.subject != Subject::WatchcacheUpstream => Self::upstream(options, dir).await,
            Attack::HangingWebhook | Attack::LongQuestions => Self::webhook(dir).await,
            _ => Ok(Self::default()),
        }
    }

    /// The server is a read replica of this project's own, to which clients bring their tokens.
    async fn upstream(options: &Options, dir: &Path) -> Result<Self> {
        let (ports, serving) = (options.ports(), Pair::of_its_own(dir, "upstream").await?);
        write_tokens(dir)?;
        let own = [
            "serve".to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd(0)),
            "--insecure-port=0".to_owned(),
            format!("--token-auth-file={}", dir.join(TOKENS).display()),
        ];
        let args = own.into_iter().chain(tls_args(ports.upstream(), &serving));
        let process = Process::start(&options.server, args, &dir.join("upstream.log"))?;
        let args = vec![
            format!("--upstream-server=https://127.0.0.1:{}", ports.upstream()),
            format!("--upstream-cafile={}", serving.certificate.display()),
        ];
        Ok(Self { args, _upstream: Some(process), webhook: None })
    }

    /// The server asks a webhook what roles do not say. It knows the visitor, and has no answer about others.
    async fn webhook(dir: &Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (at, file) = (listener.local_addr()?, dir.join("webhook.kubeconfig"));
        let cluster = json!({"name": "c", "cluster": {"server": format!("http://{at}")}});
        let context = json!({"name": "x", "context": {"cluster": "c", "user": "u"}});
        let users = json!([{"name": "u", "user": {}}]);
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "users": users, "contexts": [context], "current-context": "x"});
        std::fs::write(&file, kubeconfig.to_string())?;
        let webhook = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_visitor(stream));
            }
        });
        let args = vec![
            "--authorization-mode=RBAC,Webhook".to_owned(),
            format!("--authorization-webhook-config-file={}", file.display()),
            "--authorization-webhook-version=v1".to_owned(),
        ];
        Ok(Self { args, _upstream: None, webhook: Some(webhook) })
    }
}

/// Answers questions about the visitor on one connection; at another one it falls silent.
async fn answer_visitor(mut stream: TcpStream) -> Result<()> {
    let mut read = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            ensure!(read.len() < HEAD_BYTES_MAX && stream.read_buf(&mut read).await? > 0, "no question");
        };
        let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).context("no length")?.trim().parse::<usize>()?;
        while read.len() < head + length {
            ensure!(stream.read_buf(&mut read).await? > 0, "half a question");
        }
        let mut review: Value = serde_json::from_slice(&read[head..head + length])?;
        read.drain(..head + length);
        if review["spec"]["user"] != VISITOR {
            return std::future::pending().await;
        }
        review["status"] = json!({"allowed": true});
        let body = review.to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await?;
    }
}

/// More questions than are asked at once, without answers; then somebody comes about whom the webhook would answer. That there is no room is no judgement.
pub(super) async fn hanging_webhook(target: &Target, told: &mut Told) -> Result<()> {
    let mut held = Vec::new();
    for attacker in 0..ATTACKERS {
        let listener = target.secure.with_token(&format!("{ATTACKER}-{attacker}"));
        let raw = Raw::open(&listener, attacker, 65_535, Reads::Everything).await?;
        for nth in 0..QUESTIONS {
            raw.get(&format!("/api/v1/namespaces/n{nth}/secrets"), &[]).await?;
        }
        held.push(raw);
    }
    sleep(Duration::from_secs(1)).await;
    let visitor = target.secure.with_token(VISITOR);
    let mut statuses = Vec::new();
    for nth in 0..VISITS {
        let path = format!("/api/v1/namespaces/v{nth}/secrets?timeout={VISIT_SECONDS}s");
        let (status, body) = visitor.get(&path, Duration::from_secs(VISIT_SECONDS) + PATIENCE).await?;
        statuses.push(status.to_string());
        if !matches!(status, 200 | 429 | 500 | 504) {
            told.blame(format!("who has the right is answered {status}: {}", String::from_utf8_lossy(&body)));
        }
    }
    told.note("refused", held.iter().map(Raw::refused).sum::<usize>());
    told.note("visitor", statuses.join(","));
    Ok(())
}

/// Reviews as long as bodies may be, which have to wait for a webhook that does not answer. Some wait, and no more than there is room for; the others are told
/// so.
pub(super) async fn long_questions(target: &Target, told: &mut Told) -> Result<()> {
    const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = |nth: usize| {
        let name = char::from(b'a' + (nth % 26) as u8).to_string().repeat(LONG_BYTES);
        let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default", "name": name});
        Some(("application/json", Bytes::from(json!({"spec": {"resourceAttributes": attributes}}).to_string())))
    };
    let time = 3 * target.time;
    let path = format!("{REVIEWS}?timeout={}s", time.as_secs());
    let asking = (0..LONG_ATTACKERS * LONG_QUESTIONS).map(async |nth| {
        let listener = target.secure.with_token(&format!("{ATTACKER}-{}", nth % LONG_ATTACKERS));
        listener.whole("POST", &path, body(nth), time + PATIENCE).await.map(|(status, _)| status)
    });
    let answers = join_all(asking).await;
    let count = |wanted: &[u16]| answers.iter().filter(|answer| answer.as_ref().is_ok_and(|status| wanted.contains(status))).count();
    let (waited, refused, wrong) = (count(&[201, 500, 504]), count(&[429]), count(&[400, 401, 403, 404, 413, 422]));
    told.note("waited", waited);
    told.note("refused", refused);
    if waited == 0 || wrong > 0 {
        told.blame(format!("long questions: {waited} waited, {wrong} were answered otherwise"));
    }
    Ok(())
}

/// Watches that were opened by impersonation end when the right to impersonate does.
pub(super) async fn impersonated_watches(target: &Target, told: &mut Told) -> Result<()> {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let role = |name: &str, resource: &str, verbs: &[&str]| {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}]);
        (format!("{RBAC}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules}))
    };
    let binding = |name: &str, user: &str| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
        (format!("{RBAC}/clusterrolebindings"), json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects}))
    };
    for (path, object) in [
        role("faults-acts", "users", &["impersonate"]),
        role("faults-sees", "configmaps", &["get", "list", "watch"]),
        binding("faults-acts", ATTACKER),
        binding("faults-sees", JANE),
    ] {
        let body = Some(("application/json", Bytes::from(object.to_string())));
        let (status, answer) = target.secure.whole("POST", &path, body, PATIENCE).await?;
        ensure!(status == 201, "{path}: {status} {}", String::from_utf8_lossy(&answer));
    }
    let acting = Arc::new(target.secure.with_token(ATTACKER).acting_as(JANE));
    // From memory: without a revision, or with one that nobody has yet, who acts as another would be forwarded, and the watch be the kube-apiserver's.
    let path = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0&timeoutSeconds=3600";
    let begun = std::time::Instant::now();
    let mut watches = Vec::new();
    while watches.len() < WATCHES {
        let response = timeout(PATIENCE, acting.open(path, 0)).await??;
        if response.status() == 200 {
            watches.push(Lines::new(response.into_body()));
        } else {
            // The index of roles is as new as the cache.
            ensure!(begun.elapsed() < PATIENCE, "an impersonated watch is answered {}", response.status());
            sleep(Duration::from_millis(100)).await;
        }
    }
    let (status, _) = target.secure.whole("DELETE", &format!("{RBAC}/clusterrolebindings/faults-acts"), None, PATIENCE).await?;
    ensure!(status == 200, "the right is taken away: {status}");
    let (mut ended, deadline) = (0, Instant::now() + if target.is_fed { END_OF_FED } else { END });
    for watch in &mut watches {
        let end = async {
            while let Some(line) = watch.next().await? {
                let event: Value = serde_json::from_slice(&line)?;
                if event["type"] == "ERROR" {
                    return Ok(event["object"]["code"] == 403);
                }
            }
            Result::<bool>::Ok(false)
        };
        ended += usize::from(timeout_at(deadline, end).await.is_ok_and(|end| end.unwrap_or(false)));
    }
    told.note("ended", format!("{ended}/{WATCHES}"));
    if ended < WATCHES {
        told.blame(format!("{} watches go on without the right to impersonate", WATCHES - ended));
    }
    Ok(())
}
