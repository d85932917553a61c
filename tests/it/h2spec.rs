//! Both listeners of the real program before h2spec, other people's judge of HTTP/2 servers: all its cases of RFC 7540 and RFC 7541, the strict ones included.
//!
//! | variable | meaning |
//! |---|---|
//! | `WATCHCACHE_TEST_PEERS` | folder with `h2spec` (`tests/peers/build.sh` makes it) |
//! | `WATCHCACHE_H2SPEC_SERVER` | the server's program, if it is to be another one than that of the tests |

use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    client::Request,
    live::{
        Outcome, free_address,
        peers::{Running, Site},
        say,
    },
};

type Failure = Box<dyn std::error::Error>;

/// How many cases there are: none is lost on the way from its list to its verdict.
const CASES: usize = 147;
/// How long h2spec waits for a frame, seconds. Only a case that fails takes so long.
const SILENCE_MAX: &str = "10";
/// How long the anonymous user may take to have the rights that it is given.
const SOON: Duration = Duration::from_secs(600);

/// What most cases ask for. It is answered at once, and that closes a stream: cases that need an open one would hang on who is faster.
const VERSION: &str = "/version";
/// A GET that is not answered to its end, and the cases whose stream must be open although nothing is missing of the request.
const WATCH: (&str, &[&str]) =
    ("/api/v1/namespaces/default/configmaps?watch=true", &["http2/5.1/8", "http2/5.1/9", "http2/6.9/2", "http2/6.9.1/3"]);
/// A POST that is answered after its body, and the cases that send one.
const BODY: (&str, &[&str]) = (
    "/api/v1/namespaces/default/pods/none/binding",
    &[
        "generic/3.1/1",
        "generic/3.1/2",
        "generic/3.1/3",
        "generic/4/3",
        "generic/4/4",
        "http2/4.2/1",
        "http2/4.2/2",
        "http2/6.1/3",
        "http2/7/2",
        "http2/8.1/1",
        "http2/8.1.2.1/3",
        "http2/8.1.2.6/1",
        "http2/8.1.2.6/2",
    ],
);
/// The one case that may fail, and with which words. A listener that speaks HTTP/1.1, too, answers what is no preface with 400 in HTTP/1.1 and closes the
/// connection, which is all that RFC 9113 §3.4 asks for. h2spec reads the text as a frame that is cut short, and of a connection that stays open it says
/// `Timeout`.
const PREFACE: (&str, &str) = ("http2/3.5/2", "Actual: Error: unexpected EOF");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs h2spec: WATCHCACHE_TEST_PEERS"]
async fn both_listeners_do_as_the_rfcs_say() -> Outcome {
    let programs = PathBuf::from(env::var_os("WATCHCACHE_TEST_PEERS").ok_or("WATCHCACHE_TEST_PEERS does not name a folder with h2spec")?);
    let h2spec = programs.join("h2spec");
    let all = cases(&h2spec)?;
    let elsewhere = [WATCH.1, BODY.1, &[PREFACE.0]].concat();
    let rest: Vec<&str> = all.iter().map(String::as_str).filter(|case| !elsewhere.contains(case)).collect();
    assert_eq!((all.len(), rest.len()), (CASES, CASES - elsewhere.len()), "cases, and those that no table names");

    let site = Site::prepare(&programs)?;
    let (plain, secure) = (free_address()?, free_address()?);
    let server = start(&site, plain, secure).await?;
    let mut wrong = Vec::new();
    for (listener, at, flags) in [("plain", plain, &[][..]), ("TLS", secure, &["--tls", "--insecure"])] {
        let (began, mut passed) = (Instant::now(), 0);
        for (target, cases) in [(VERSION, &rest[..]), WATCH, BODY, (VERSION, &[PREFACE.0])] {
            match judged(&h2spec, at, flags, target, cases)? {
                None => passed += cases.len(),
                Some(said) if cases == [PREFACE.0] && said.contains(PREFACE.1) => {}
                Some(said) => wrong.push(format!("{listener}, {target}: {said}")),
            }
        }
        say(&format!("h2spec: {passed} of {CASES} cases pass on the {listener} listener, {:.1?}; {} may fail", began.elapsed(), PREFACE.0));
    }
    wrong.extend(server.ended());
    let log = fs::read_to_string(site.path().join("watchcache.log"))?;
    wrong.extend(log.lines().filter(|line| line.contains("panicked at")).map(str::to_owned));
    // Said and not returned: an error is shown on one line.
    wrong.iter().for_each(|said| say(said));
    if wrong.is_empty() { Ok(()) } else { Err("h2spec has said above what is wrong".into()) }
}

/// The server on its embedded store. h2spec shows no credentials, so the anonymous user may do everything.
async fn start(site: &Site, plain: SocketAddr, secure: SocketAddr) -> Result<Running, Failure> {
    let program = env::var_os("WATCHCACHE_H2SPEC_SERVER").unwrap_or_else(|| env!("CARGO_BIN_EXE_watchcache").into());
    let mut command = Command::new(program);
    command.args(["serve", "--controllers=", "--bind-address=127.0.0.1"]);
    command.arg(format!("--insecure-port={}", plain.port())).arg(format!("--secure-port={}", secure.port()));
    let file = |flag: &str, name: &str| format!("--{flag}={}", site.path().join(name).display());
    command.args([file("data-dir", "data"), file("token-auth-file", "tokens.csv")]);
    command.args([file("tls-cert-file", "server.crt"), file("tls-private-key-file", "server.key")]);
    let server = site.start("watchcache", command)?;
    let (administrator, anonymous) = (site.client(secure), site.client(secure).without_token());
    server.ready(&administrator).await?;
    let binding = json!({
        "metadata": {"name": "h2spec"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}],
    })
    .to_string();
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let bound = administrator.ask(&Request { method: "POST", target: bindings, body: Some(binding.as_bytes()) }).await?;
    let began = Instant::now();
    while anonymous.fetch(bindings).await?.status != 200 {
        if began.elapsed() > SOON {
            return Err(format!("the anonymous user has no rights: {} {}", bound.status, String::from_utf8_lossy(&bound.body)).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(server)
}

/// The names of all cases, as `http2/6.9.1/3`. It prints them as a tree: suites at the margin, `6.9.1. Title` of a section, `3: Title` of a case.
fn cases(h2spec: &Path) -> Result<Vec<String>, Failure> {
    let printed = printed(Command::new(h2spec).args(["--strict", "--dryrun"]))?;
    let (mut suite, mut section, mut cases) = ("", "", Vec::new());
    for line in printed.lines() {
        match line.split_whitespace().next().unwrap_or_default() {
            "Generic" => suite = "generic",
            "Hypertext" => suite = "http2",
            "HPACK:" => suite = "hpack",
            word => match (word.strip_suffix('.'), word.strip_suffix(':')) {
                (Some(number), _) => section = number,
                (_, Some(number)) => cases.push(format!("{suite}/{section}/{number}")),
                _ => {}
            },
        }
    }
    Ok(cases)
}

/// What it says of those of these cases that do not pass at this target; `None` when all do.
fn judged(h2spec: &Path, at: SocketAddr, flags: &[&str], target: &str, cases: &[&str]) -> Result<Option<String>, Failure> {
    let mut command = Command::new(h2spec);
    command.args(["--strict", "--timeout", SILENCE_MAX, "--host", &at.ip().to_string(), "--port", &at.port().to_string()]);
    let printed = printed(command.args(flags).args(["--path", target]).args(cases))?;
    let count = cases.len();
    let all_pass = printed.lines().any(|line| line == format!("{count} tests, {count} passed, 0 skipped, 0 failed"));
    // It may have ended before it came to the failures: then everything may tell why.
    Ok((!all_pass).then(|| printed.find("Failures:").map_or(printed.as_str(), |at| &printed[at..]).to_owned()))
}

/// What a program prints.
fn printed(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}
