//! Clients that others wrote: client-go's informer and kube-rs's reflector, as programs that succeed only when their stores equal the truth.

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use tokio::sync::mpsc;

use super::{
    Outcome,
    floor::{Floor, stand, subject},
    peers::TOKEN,
    record, say,
};

#[tokio::test]
#[ignore = "needs etcd, kube-apiserver and tests/clients/go: WATCHCACHE_TEST_PEERS, WATCHCACHE_TEST_INFORMER"]
async fn client_go_informer() -> Outcome {
    run("WATCHCACHE_TEST_INFORMER", "informer", &["--staged"]).await
}

#[tokio::test]
#[ignore = "needs etcd, kube-apiserver and tests/clients/go: WATCHCACHE_TEST_PEERS, WATCHCACHE_TEST_INFORMER"]
async fn client_go_informer_in_protobuf() -> Outcome {
    let flags = ["--media", "application/vnd.kubernetes.protobuf", "--namespace", "informer-protobuf"];
    run("WATCHCACHE_TEST_INFORMER", "informer", &flags).await
}

#[tokio::test]
#[ignore = "needs etcd, kube-apiserver and tests/clients/kube-rs: WATCHCACHE_TEST_PEERS, WATCHCACHE_TEST_KUBE_RS"]
async fn kube_rs_reflector() -> Outcome {
    // What is too old for a server that a kube-apiserver feeds is not too old for that one.
    let fed: &[&str] = if subject() == "watchcache-upstream" { &["--keeps-history", "--objects=1000", "--changes=400"] } else { &[] };
    run("WATCHCACHE_TEST_KUBE_RS", "reflector", fed).await
}

/// Lines of a program that may wait to be read.
const LINES_WAITING: usize = 16;

/// Runs the program that a variable names; it writes to kube-apiserver, follows the server under test, and compares. What it asks for is done.
async fn run(variable: &str, name: &str, flags: &[&str]) -> Outcome {
    let program = env::var_os(variable).ok_or_else(|| format!("{variable} does not name its program"))?;
    let floor = stand().await?;
    let mut command = Command::new(program);
    let errors = floor.site.path().join(format!("{name}.log"));
    command.args(arguments(&floor)).args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&errors)?);
    // Makes client-go compare each streamed list with an ordinary one.
    command.env("KUBE_WATCHLIST_INCONSISTENCY_DETECTOR", "true");
    let mut child = command.spawn()?;
    let (mut answers, output) = (child.stdin.take().ok_or("piped")?, child.stdout.take().ok_or("piped")?);
    let (told, mut lines) = mpsc::channel(LINES_WAITING);
    let reading =
        tokio::task::spawn_blocking(move || BufReader::new(output).lines().try_for_each(|line| told.blocking_send(line).map_err(drop)));
    let mut outcome = Ok(());
    while let Some(line) = lines.recv().await {
        let line = line?;
        match line.strip_prefix("do ") {
            Some(deed) if outcome.is_ok() => {
                outcome = done(&floor, deed).await;
                if outcome.is_ok() {
                    writeln!(answers, "done")?;
                }
            }
            _ => say(&format!("live {name}: {line}")),
        }
        if outcome.is_err() {
            child.kill()?;
        }
    }
    // Nobody reads any more, or there is nothing more to read.
    let _ = reading.await?;
    let status = child.wait()?;
    outcome?;
    if status.success() { Ok(()) } else { Err(format!("{status}: {}", fs::read_to_string(errors)?).into()) }
}

/// What a program may ask for.
async fn done(floor: &Floor, deed: &str) -> Outcome {
    match deed {
        "restart" => floor.restart_ours().await,
        "compact" => record::compact(floor.etcd_at, record::revision(floor.etcd_at).await?).await,
        other => Err(format!("it asks for {other:?}").into()),
    }
}

fn arguments(floor: &Floor) -> Vec<String> {
    let (ours, secured) = floor.ours_url();
    let authority = floor.site.path().join("ca.crt").display().to_string();
    let writer = format!("https://{}", floor.theirs_at);
    let mut arguments = vec!["--server".into(), ours, "--writer".into(), writer];
    arguments.extend(["--writer-token".into(), TOKEN.into(), "--writer-ca".into(), authority.clone()]);
    if secured {
        arguments.extend(["--token".into(), TOKEN.into(), "--ca".into(), authority]);
    }
    arguments
}
