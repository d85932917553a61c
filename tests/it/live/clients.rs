//! Clients that others wrote: client-go's informer and kube-rs's reflector, as programs that succeed only when their stores equal the truth.

use std::{
    env,
    process::{Command, Stdio},
};

use super::{
    Outcome,
    floor::{Floor, stand},
    peers::TOKEN,
    say,
};

#[tokio::test]
async fn client_go_informer() -> Outcome {
    run("WATCHCACHE_TEST_INFORMER", "informer").await
}

#[tokio::test]
async fn kube_rs_reflector() -> Outcome {
    run("WATCHCACHE_TEST_KUBE_RS", "reflector").await
}

/// Runs the program that a variable names; it writes to kube-apiserver, follows the server under test, and compares.
async fn run(variable: &str, name: &str) -> Outcome {
    let Some(program) = env::var_os(variable) else {
        say(&format!("live {name}: not run, {variable} does not name its program"));
        return Ok(());
    };
    let Some(floor) = stand(name).await? else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments(&floor)).stdin(Stdio::null());
    // Makes client-go compare each streamed list with an ordinary one.
    command.env("KUBE_WATCHLIST_INCONSISTENCY_DETECTOR", "true");
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        say(&format!("live {name}: {line}"));
    }
    if output.status.success() { Ok(()) } else { Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into()) }
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
