//! Command lines of kube-apiserver, and what they become; the texts are those of kube-apiserver 1.36.3 where it has one.

use super::*;

/// What it does not start without.
const NEEDED: &str = "--etcd-servers=http://127.0.0.1:2379 --service-account-issuer=https://a --service-account-key-file=k --service-account-signing-key-file=k";

fn asks(line: &str) -> Result<Asks, String> {
    read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

fn made(line: &str) -> Server {
    match asks(&format!("{NEEDED} {line}")) {
        Ok(Asks::Server(server)) => server,
        other => panic!("{line}: {other:?}"),
    }
}

fn wrong(line: &str) -> String {
    match asks(line) {
        Err(why) => why,
        other => panic!("{line}: {other:?}"),
    }
}

/// The flags of controller-runtime 0.24's envtest.
#[test]
fn the_flags_of_envtest_become_those_of_serve() {
    let server = match asks(
        "--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=/c --client-ca-file=/c/ca.crt \
         --disable-admission-plugins=ServiceAccount --etcd-servers=http://127.0.0.1:1 --secure-port=2 --service-account-issuer=https://127.0.0.1:2/ \
         --service-account-key-file=/c/sa.crt --service-account-signing-key-file=/c/sa.key --service-cluster-ip-range=10.0.0.0/24",
    ) {
        Ok(Asks::Server(server)) => server,
        other => panic!("{other:?}"),
    };
    let want = [
        "--insecure-port=0",
        "--controllers=",
        "--secure-port=2",
        "--cert-dir=/c",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        "--client-ca-file=/c/ca.crt",
        "--etcd-servers=http://127.0.0.1:1",
        "--service-account-issuer=https://127.0.0.1:2/",
        "--service-account-key-file=/c/sa.crt",
        "--service-account-signing-key-file=/c/sa.key",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
    ];
    assert_eq!(server.flags, want);
    assert_eq!((server.warnings.len(), &server.ignored[..]), (0, &["--allow-privileged".to_owned()][..]));
}

/// The flags of fabric8's kube-api-test.
#[test]
fn repeated_flags_count_as_there() {
    let server = made("--secure-port 1 --secure-port 2 --service-account-issuer /c/apiserver.crt --allow-privileged");
    let has = |flag: &str| server.flags.iter().filter(|given| *given == flag).count();
    assert_eq!((has("--secure-port=2"), has("--secure-port=1")), (1, 0));
    assert_eq!(has("--service-account-issuer=https://a") + has("--service-account-issuer=/c/apiserver.crt"), 2);
    let server = made("--etcd-servers=http://b:1,http://c:1 --api-audiences=a --api-audiences=b,c --client-ca-file= --event-ttl=1h0m0s");
    let flags = server.flags.join(" ");
    assert!(flags.contains("--etcd-servers=http://127.0.0.1:2379,http://b:1,http://c:1"), "{flags}");
    assert!(flags.contains("--api-audiences=a,b,c"), "{flags}");
    assert!(!flags.contains("client-ca-file") && !flags.contains("event-ttl"), "{flags}");
}

#[test]
fn defaults_are_kube_apiservers() {
    let flags = made("").flags.join(" ");
    for flag in
        ["--secure-port=6443", "--cert-dir=/var/run/kubernetes", "--authorization-mode=AlwaysAllow", "--controllers=", "--insecure-port=0"]
    {
        assert!(flags.contains(flag), "{flag}: {flags}");
    }
    let flags = made("--tls-cert-file=c --tls-private-key-file=k --cert-dir=/d --authorization-config=f -v=12").flags.join(" ");
    assert!(!flags.contains("cert-dir") && !flags.contains("AlwaysAllow") && flags.contains("--v=10"), "{flags}");
}

#[test]
fn mistakes_are_told_in_its_words() {
    const ACCOUNTS: &str = "service-account-issuer is a required flag, either `--service-account-key-file` or `--service-account-signing-endpoint` must be set";
    const TOKENS: &str = "--service-account-signing-key-file and --service-account-issuer are required flags";
    const TOGETHER: &str = "--service-account-signing-key-file, --service-account-issuer, and --api-audiences should be specified together";
    for (line, want) in [
        ("--nope", "unknown flag: --nope".to_owned()),
        ("foo bar", "\"kube-apiserver\" does not take any arguments, got [\"foo\" \"bar\"]".to_owned()),
        ("", format!("[--etcd-servers must be specified, {ACCOUNTS}, {TOKENS}]")),
        ("--etcd-servers=http://127.0.0.1:1", format!("[{ACCOUNTS}, {TOKENS}]")),
        ("--service-account-signing-key-file=x", format!("[--etcd-servers must be specified, {ACCOUNTS}, {TOGETHER}]")),
        ("--feature-gates=Nope=true", "unrecognized feature gate: Nope".to_owned()),
        ("--feature-gates=A", "missing bool value for A".to_owned()),
        (
            "--feature-gates=APIServerTracing=false",
            "cannot set feature gate APIServerTracing to false, feature is locked to true".to_owned(),
        ),
        ("--feature-gates=other:A=true", "component not registered: other".to_owned()),
        (
            "--oidc-required-claim=a",
            "invalid argument \"a\" for \"--oidc-required-claim\" flag: malformed pair, expect string=string".to_owned(),
        ),
        (
            "--allow-metric-labels=a",
            "invalid argument \"a\" for \"--allow-metric-labels\" flag: a must be formatted as key=value".to_owned(),
        ),
        (
            "--service-node-port-range=x",
            "invalid argument \"x\" for \"--service-node-port-range\" flag: strconv.Atoi: parsing \"x\": invalid syntax".to_owned(),
        ),
        (
            "--tls-curve-preferences=x",
            "invalid argument \"x\" for \"--tls-curve-preferences\" flag: strconv.ParseInt: parsing \"x\": invalid syntax".to_owned(),
        ),
        ("--version=x", "invalid argument \"x\" for \"--version\" flag: strconv.ParseBool: parsing \"x\": invalid syntax".to_owned()),
        ("--logging-format=z", "format: Invalid value: \"z\": Unsupported log format".to_owned()),
        (
            "--etcd-servers=http://127.0.0.1:1 --secure-port=0 --enable-admission-plugins=Nope --storage-backend=x --storage-media-type=y --runtime-config=x",
            format!(
                "[--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3', --storage-media-type \"y\" invalid, \
                 allowed values: application/json, application/vnd.kubernetes.protobuf, application/yaml, --secure-port 0 must be between 1 and 65535, \
                 inclusive. It cannot be turned off with 0, {ACCOUNTS}, enable-admission-plugins plugin \"Nope\" is unknown, runtime-config invalid \
                 key x, {TOKENS}]"
            ),
        ),
    ] {
        assert_eq!(wrong(line), want, "{line}");
    }
    for (line, want) in [
        ("--max-requests-inflight=-1", "--max-requests-inflight can not be negative value"),
        ("--request-timeout=-5s", "--request-timeout can not be negative value"),
        (
            "--runtime-config=api/all=false",
            "[--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true, invalid runtime-config with only api/all=false]",
        ),
        ("--service-account-issuer=", "service-account-issuer should not be an empty string"),
    ] {
        assert_eq!(wrong(&format!("{NEEDED} {line}")), want, "{line}");
    }
    let issuers = wrong(&format!("{NEEDED} --service-account-issuer=https://a"));
    assert_eq!(issuers, "service-account-issuer \"https://a\" is already specified");
}

#[test]
fn what_would_mislead_is_refused_with_a_reason() {
    let refused = |line: &str| wrong(&format!("{NEEDED} {line}"));
    assert_eq!(
        refused("--encryption-provider-config=f"),
        "--encryption-provider-config=f is not taken here: Secrets would be stored as plain text"
    );
    assert_eq!(refused("--emulated-version=kube=1.35"), "--emulated-version=kube=1.35 is not taken here: the answers are those of 1.36");
    assert!(refused("--permit-port-sharing").contains("--permit-port-sharing=true is not taken here"));
    assert!(made("--encryption-provider-config= --permit-port-sharing=false --emulated-version=1.36").warnings.is_empty());
}

#[test]
fn what_is_not_built_is_reported_in_a_line() {
    let server = made(
        "--enable-admission-plugins=AlwaysPullImages --feature-gates=AllAlpha=true,ShardedListAndWatch=true --runtime-config=resource.k8s.io/v1beta2=true \
         --default-not-ready-toleration-seconds=3",
    );
    assert_eq!(server.warnings.len(), 2, "{:?}", server.warnings);
    let given = |flag: &str| server.flags.iter().any(|given| given == flag);
    assert!(
        given("--enable-admission-plugins=AlwaysPullImages") && given("--default-not-ready-toleration-seconds=3"),
        "{:?}",
        server.flags
    );
    assert!(server.flags.contains(&"--feature-gates=ShardedListAndWatch=true".to_owned()), "{:?}", server.flags);
}

#[test]
fn texts_that_are_asked_for() {
    let text = |line: &str| match asks(line) {
        Ok(Asks::Text(text)) => text,
        other => panic!("{line}: {other:?}"),
    };
    assert!(text("--version").starts_with("Kubernetes v1.36."));
    let help = text("--help --etcd-servers=x");
    let starts = |flag: &str| help.lines().any(|line| line.trim_start().split(' ').next() == Some(flag));
    assert!(starts("--etcd-servers") && starts("--cert-dir"));
    // envtest would give it a value.
    assert!(!starts("--insecure-port"));
    assert_eq!(wrong("--version=v1.35"), format!("--version=v1.35: this server is of {GIT_VERSION} and takes no other version"));
}
