//! Command lines, and the configuration or error that they give.

use std::sync::Arc;

use super::*;
use auth::providers::settings::{Oidc, TokenReviewVersion};
use storage::write::MalformedDeletion;

const LOCAL: &str = "--etcd-servers=http://127.0.0.1:2379";
const REMOTE: &str = "--etcd-servers=https://a.example:2379,https://b.example:2379";
const TLS: [&str; 4] = ["--secure-port=6443", "--tls-cert-file=c", "--tls-private-key-file=k", "--token-auth-file=t"];

fn serve(flags: &[&str]) -> Result<Config, Stop> {
    match Invocation::from_command_line(["watchcache", "serve"].iter().chain(flags))? {
        Invocation::Serve(config) => Ok(*config),
        other => panic!("{flags:?} gave {other:?}"),
    }
}

fn store(flags: &[&str]) -> Result<StoreAlone, Stop> {
    match Invocation::from_command_line(["watchcache", "store"].iter().chain(flags))? {
        Invocation::Store(config) => Ok(config),
        other => panic!("{flags:?} gave {other:?}"),
    }
}

fn wrong(flags: &[&str]) -> String {
    match serve(flags) {
        Err(Stop::Wrong(line)) => line,
        other => panic!("{flags:?} gave {other:?}"),
    }
}

#[test]
fn the_least_command_line_opens_the_plain_listener() {
    let config = serve(&[LOCAL]).expect("valid");
    assert_eq!(config.listeners.insecure_port, Some(8001));
    assert!(config.listeners.secure.is_none());
    assert_eq!(config.etcd.prefix, "/registry");
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn every_error_is_one_line_that_names_the_flag() {
    let cases: &[(&[&str], &str)] = &[
        (&["--etcd-servers=127.0.0.1:2379"], "--etcd-servers: \"127.0.0.1:2379\" is not http://host:port or https://host:port"),
        (&["--etcd-servers=http://a:0"], "--etcd-servers: \"http://a:0\" is not http://host:port or https://host:port"),
        (&["--etcd-servers=http://a:1,https://b:1"], "--etcd-servers mixes http and https"),
        (&[LOCAL, "--etcd-cafile=x"], "--etcd-cafile, --etcd-certfile and --etcd-keyfile need https:// in --etcd-servers"),
        (&[REMOTE, "--etcd-certfile=x"], "--etcd-certfile needs --etcd-keyfile"),
        (&[LOCAL, "--etcd-username=u"], "--etcd-username needs --etcd-password-file"),
        (&[LOCAL, "--etcd-prefix=/"], "--etcd-prefix: \"/\" names no prefix"),
        (&[REMOTE], "no listener is open: the plain one is off because etcd uses TLS; give --secure-port, or --insecure-port"),
        (&[LOCAL, "--insecure-port=0"], "no listener is open: give --insecure-port or --secure-port"),
        (
            &[LOCAL, "--secure-port=6443"],
            "--secure-port needs --tls-cert-file and --tls-private-key-file, --cert-dir or --write-admin-kubeconfig",
        ),
        (&[LOCAL, "--tls-cert-file=c", "--tls-private-key-file=k"], "--tls-cert-file is given, but --secure-port is not"),
        (
            &[LOCAL, TLS[0], TLS[1], TLS[2]],
            "--secure-port needs an authenticator: --client-ca-file, --token-auth-file, --write-admin-kubeconfig or --service-account-key-file",
        ),
        (&[LOCAL, "--token-auth-file=t"], "--client-ca-file and --token-auth-file are for the TLS listener: give --secure-port too"),
        (
            &[LOCAL, "--authorization-mode=Webhook"],
            "--authorization-mode: authorization-mode Webhook's authorization config file not passed",
        ),
        (&[LOCAL, "--authorization-mode=ABC"], "--authorization-mode: authorization-mode \"ABC\" is not a valid mode"),
        (
            &[LOCAL, "--authorization-mode=RBAC,RBAC"],
            "--authorization-mode: authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once",
        ),
        (&[LOCAL, "--min-request-timeout=0"], "--min-request-timeout 0: must be from 1 to 2592000"),
        (&[LOCAL, "--request-timeout=0"], "--request-timeout: must be more than 0"),
        (
            &[LOCAL, "--feature-gates=WatchList=false"],
            "--feature-gates: WatchList=false is not built; this server behaves as with WatchList=true",
        ),
        (&[LOCAL, "--feature-gates=ShardedListAndWatch"], "--feature-gates: missing bool value for ShardedListAndWatch"),
        (
            &[LOCAL, "--feature-gates=ShardedListAndWatch=x"],
            "--feature-gates: invalid value of ShardedListAndWatch=x, err: strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
        (&[LOCAL, "--feature-gates=Nope=true"], "--feature-gates: unrecognized feature gate: Nope"),
        (
            &[LOCAL, "--feature-gates=APIServerTracing=false"],
            "--feature-gates: cannot set feature gate APIServerTracing to false, feature is locked to true",
        ),
        (&[LOCAL, "--max-header-bytes=1"], "--max-header-bytes 1: must be from 8192 to 67108864"),
        (&[LOCAL, "--strict-transport-security-directives=max-age=1,,preload"], "empty value in strict-transport-security-directives"),
        (&[LOCAL, "--strict-transport-security-directives=max-age=1=2"], NO_DIRECTIVE),
        (&[LOCAL, "--strict-transport-security-directives=max-age=1,Preload"], NO_DIRECTIVE),
        (
            &[LOCAL, "--strict-transport-security-directives=preload"],
            "--strict-transport-security-directives is for the TLS listener: give --secure-port too",
        ),
        (&[LOCAL, "--advertise-address=192.0.2.7"], "--advertise-address is for the TLS listener: give --secure-port too"),
        (&["--write-admin-kubeconfig=a"], "--write-admin-kubeconfig is for the TLS listener: give --secure-port too"),
        (
            &[LOCAL, TLS[0], "--write-admin-kubeconfig=a"],
            "--write-admin-kubeconfig keeps its keys in the directory of the embedded store: give no --etcd-servers",
        ),
        (&[LOCAL, "--tls-min-version=VersionTLS13"], "--tls-min-version is for the TLS listener: give --secure-port too"),
        (&[LOCAL, "--enable-admission-plugins=Nobody"], "enable-admission-plugins plugin \"Nobody\" is unknown"),
        (
            &[LOCAL, "--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"],
            "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
        (&[LOCAL, "--tls-min-version=VersionTLS9"], "--tls-min-version: unknown tls version \"VersionTLS9\""),
        (
            &[LOCAL, "--tls-min-version=VersionTLS11"],
            "--tls-min-version: VersionTLS11 is not supported, because it is not secure; there are VersionTLS12 and VersionTLS13",
        ),
        (&[LOCAL, "--tls-cipher-suites=TLS_X"], "--tls-cipher-suites: Cipher suite TLS_X not supported or doesn't exist"),
        (
            &[LOCAL, "--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256"],
            "--tls-cipher-suites: TLS_RSA_WITH_AES_128_GCM_SHA256 is not supported here, because it is not secure; there are only suites with GCM or \
             CHACHA20",
        ),
        (
            &[LOCAL, "--tls-sni-cert-key=c"],
            "invalid value 'c' for '--tls-sni-cert-key <CERT,KEY[:NAME,...]>': expected comma separated certificate and key file paths",
        ),
        (&[LOCAL, "--goaway-chance=0.03"], "--goaway-chance can not be less than 0 or greater than 0.02"),
        (&[LOCAL, "--goaway-chance=NaN"], "--goaway-chance can not be less than 0 or greater than 0.02"),
        (&[LOCAL, UPSTREAM, PLAIN, "--proxy-client-cert-file=c"], "--proxy-client-cert-file needs --proxy-client-key-file"),
        (
            &[LOCAL, "--proxy-client-cert-file=c", "--proxy-client-key-file=k"],
            "--proxy-client-cert-file is for --upstream-server or --upstream-kubeconfig: give one of them",
        ),
        (
            &[LOCAL, "--exclude-resources=secrets"],
            "--exclude-resources is for --upstream-server or --upstream-kubeconfig: give one of them",
        ),
        (
            &[LOCAL, UPSTREAM, PLAIN, "--allow-writes"],
            "--allow-writes: with --upstream-server or --upstream-kubeconfig all writes are forwarded",
        ),
        (
            &[LOCAL, UPSTREAM, PLAIN, "--exclude-resources=secrets, roles.rbac.authorization.k8s.io"],
            "--exclude-resources: rbac.authorization.k8s.io/roles cannot be left out, --authorization-mode=RBAC needs them",
        ),
        (
            &[LOCAL, "--upstream-kubeconfig=k", "--insecure-port=8001", "--authorization-mode=AlwaysAllow"],
            "--authorization-mode=AlwaysAllow: with --upstream-kubeconfig every client might act as anybody",
        ),
        (
            &[LOCAL, UPSTREAM],
            "no listener is open: the plain one is off because etcd is a cluster's, to whose kube-apiserver requests are forwarded; give \
             --secure-port, or --insecure-port",
        ),
        (&[LOCAL, UPSTREAM, PLAIN, "--exclude-resources=pods"], "--exclude-resources: pods cannot be left out, this server needs them"),
        (&[LOCAL, "--service-cluster-ip-range=10.0.0.0"], "--service-cluster-ip-range: \"10.0.0.0\" is not a valid cidr"),
        (&[LOCAL, "--service-cluster-ip-range=10.0.0.0/33"], "--service-cluster-ip-range: \"10.0.0.0/33\" is not a valid cidr"),
        (
            &[LOCAL, "--service-cluster-ip-range=10.0.0.0/30"],
            "--service-cluster-ip-range: the service cluster IP range must be at least 8 IP addresses",
        ),
        (
            &[LOCAL, "--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24"],
            "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family",
        ),
        (
            &[LOCAL, "--service-cluster-ip-range=10.0.0.0/24,fd00::/108,10.1.0.0/24"],
            "--service-cluster-ip-range must not contain more than two entries",
        ),
    ];
    for (flags, line) in cases {
        assert_eq!(wrong(flags), *line, "{flags:?}");
    }
}

const PLAIN: &str = "--insecure-port=8001";
#[test]
fn objects_come_from_upstream() {
    let upstream = ["--source=upstream", "--upstream-kubeconfig=k", TLS[0], TLS[1], TLS[2]];
    let with = |more: &[&'static str]| -> Vec<&'static str> { upstream.iter().chain(more).copied().collect() };
    let config = serve(&upstream).expect("valid");
    let source = config.source.expect("a source");
    assert_eq!((source.kubeconfig.to_str(), source.consistent_reads), (Some("k"), ConsistentReads::Prove));
    assert_eq!((source.policy.named, source.policy.idle), (None, Some(Duration::from_secs(3_600))));
    assert!(config.embedded.is_none() && config.replica.is_some_and(|replica| replica.is_source));
    let [Mode::Paths(_), Mode::Webhook(webhook)] = &config.authorization.modes[..] else { panic!("upstream decides") };
    let cluster = config.providers.cluster.expect("upstream knows whose tokens they are");
    assert!(cluster.skip_lookup && Arc::ptr_eq(&cluster.presence, &webhook.presence), "one judgement whether upstream is away");
    assert_eq!(webhook.presence.counts_for(), Duration::from_secs(3_600));
    let named = serve(&with(&["--resources=pods,deployments.apps", "--resource-idle-timeout=0"])).expect("valid");
    let policy = named.source.expect("a source").policy;
    assert_eq!((policy.named.map(|named| named.len()), policy.all, policy.idle), (Some(2), false, None));
    let policy = serve(&with(&["--resources=all,secrets"])).expect("valid").source.expect("a source").policy;
    assert_eq!((policy.named.map(|named| named.len()), policy.all), (Some(1), true));
    let wrongs: &[(&[&'static str], &str)] = &[
        (&["--etcd-servers=http://a:1"], "--etcd-servers is not for --source=upstream: the objects come from one of them"),
        (&["--data-dir=d"], "--data-dir is not for --source=upstream: nothing is stored here"),
        (&["--authorization-mode=RBAC"], "--authorization-mode is not for --source=upstream: upstream decides who may do what"),
        (
            &["--client-ca-file=c"],
            "--client-ca-file is not for --source=upstream: upstream would not see it: give --upstream-impersonate too",
        ),
        (
            &["--replica-group=g"],
            "--replica-group is not for --source=upstream: there is no etcd over which replicas could find each other",
        ),
        (&["--resources=Pods"], "--resources: \"Pods\" names no resource: RESOURCE or RESOURCE.GROUP"),
        (&["--resource-idle-timeout=1s"], "--resource-idle-timeout: must be 0 or at least 60s"),
    ];
    for (flags, wanted) in wrongs {
        assert_eq!(wrong(&with(flags)), *wanted);
    }
    let plain = serve(&with(&[PLAIN])).expect("valid").warnings;
    let why = "the objects are a cluster's, whose API server decides who may use them";
    assert_eq!(plain, [format!("--insecure-port=8001: every local user may read and write everything, although {why}")]);
    let closed = wrong(&["--source=upstream", "--upstream-kubeconfig=k"]);
    assert_eq!(closed, format!("no listener is open: the plain one is off because {why}; give --secure-port, or --insecure-port"));
    let impersonating = serve(&with(&["--upstream-impersonate", "--client-ca-file=c", "--requestheader-client-ca-file=r"])).expect("valid");
    assert!(impersonating.replica.is_some_and(|replica| replica.is_source && replica.impersonates));
    assert_eq!(wrong(&[LOCAL, "--upstream-impersonate"]), "--upstream-impersonate is for --source=upstream");
    let in_a_pod = serve(&["--source=upstream", TLS[0], TLS[1], TLS[2]]).expect("valid").source.expect("a source");
    assert_eq!(in_a_pod.kubeconfig.to_str(), Some("/var/run/secrets/kubernetes.io/serviceaccount"));
    assert_eq!(
        wrong(&["--upstream-kubeconfig=k"]),
        "--upstream-server and --upstream-kubeconfig need --etcd-servers, or --source=upstream"
    );
    assert_eq!(wrong(&[LOCAL, "--resources=pods"]), "--resources is for --source=upstream");
}

const UPSTREAM: &str = "--upstream-server=https://127.0.0.1:6443";
const NO_DIRECTIVE: &str = "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see \
                            https://tools.ietf.org/html/rfc6797#section-6.1 for more information";

/// The TLS listener with these flags besides.
fn secure(flags: &[&str]) -> SecureListener {
    let all: Vec<&str> = TLS.iter().chain(flags).copied().collect();
    serve(&all).expect("valid").listeners.secure.expect("it is open")
}

#[test]
fn an_administrator_gets_what_works_at_once() {
    let listener = |flags: &[&str]| {
        let all = [&["--secure-port=6443", "--write-admin-kubeconfig=admin.conf", "--data-dir=d"], flags].concat();
        let config = serve(&all).expect("valid");
        assert_eq!(config.auth.own_ca_file, Some("d/ca.pem".into()));
        config.listeners.secure.expect("it is open")
    };
    let own = listener(&[]);
    let admin = own.admin.expect("asked for");
    assert_eq!((own.files.cert_file, own.files.key_file), ("d/server.pem".into(), "d/server.pem".into()));
    assert_eq!((admin.server.to_string().as_str(), admin.makes_certificate), ("127.0.0.1:6443", true));
    let cluster = "localhost kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local";
    assert_eq!(admin.names.join(" "), format!("127.0.0.1 ::1 10.0.0.1 {cluster}"));
    let other = listener(&["--bind-address=fd00::7", "--advertise-address=192.0.2.7", "--service-cluster-ip-range=10.96.0.0/12"]);
    let admin = other.admin.expect("asked for");
    assert_eq!(admin.server.to_string(), "[fd00::7]:6443");
    assert_eq!(admin.names.join(" "), format!("127.0.0.1 ::1 fd00::7 10.96.0.1 192.0.2.7 {cluster}"));
    let given = listener(&["--tls-cert-file=c", "--tls-private-key-file=k"]);
    let admin = given.admin.expect("asked for");
    assert_eq!((given.files.cert_file, admin.cert_file, admin.makes_certificate), ("c".into(), "c".into(), false));
    assert_eq!(listener(&["--bind-address=::"]).admin.expect("asked for").server.to_string(), "[::1]:6443");
}

#[test]
fn browsers_are_told_what_the_flag_says() {
    let told = |flags: &[&str]| secure(flags).strict_transport.map(|value| value.to_str().expect("a text").to_owned());
    assert_eq!(
        told(&["--strict-transport-security-directives=max-age=31536000,includeSubDomains,preload"]).as_deref(),
        Some("max-age=31536000; includeSubDomains; preload")
    );
    assert_eq!((told(&[]), told(&["--strict-transport-security-directives="])), (None, None));
}

#[test]
fn a_door_that_others_reach_is_advertised() {
    let advertised = |flags: &[&str]| {
        let config = serve(&[&TLS[..], flags].concat()).expect("valid");
        (config.listeners.secure.expect("it is open").advertised, config.cluster_addresses.first.to_string())
    };
    let at = |address: &str| Advertise::At(address.parse().expect("an address"));
    let is = |address, service: &str| (address, service.to_owned());
    assert_eq!(advertised(&[]), is(Advertise::AtDefaultRoute, "10.0.0.1"));
    assert_eq!(advertised(&["--bind-address=192.0.2.7"]), is(at("192.0.2.7"), "10.0.0.1"));
    assert_eq!(advertised(&["--bind-address=127.0.0.1"]), is(Advertise::AtDefaultRoute, "10.0.0.1"), "as a kube-apiserver on loopback");
    let behind = ["--bind-address=127.0.0.1", "--advertise-address=192.0.2.8", "--service-cluster-ip-range=10.96.17.5/12"];
    assert_eq!(advertised(&behind), is(at("192.0.2.8"), "10.96.0.1"));
    let both = ["--bind-address=::", "--service-cluster-ip-range=fd00::/108,10.0.0.0/16"];
    assert_eq!(advertised(&both), is(Advertise::AtDefaultRoute, "fd00::1"));
    assert_eq!(serve(&[&TLS[..], &both].concat()).expect("valid").cluster_addresses.ranges, ["fd00::/108", "10.0.0.0/16"]);
    assert_eq!(advertised(&["--advertise-address=2001:db8::7"]), is(Advertise::Nowhere, "10.0.0.1"), "of another family");
    let warned = serve(&[&TLS[..], &["--advertise-address=2001:db8::7"]].concat()).expect("valid").warnings;
    assert!(warned.iter().any(|line| line.contains("the Service default/kubernetes has no endpoints")), "{warned:?}");
}

#[test]
fn clients_of_the_tls_listener_need_roles_unless_told_otherwise() {
    let modes = |flags: &[&str]| serve(&[&TLS[..], flags].concat()).expect("valid");
    let config = modes(&[]);
    assert_eq!((config.authorization.modes, config.authorization.anonymous), (vec![Mode::Rbac], true));
    assert_eq!(config.warnings, Vec::<String>::new());
    let config = modes(&["--authorization-mode=AlwaysAllow"]);
    assert!(!config.authorization.anonymous && config.warnings.iter().any(|line| line.contains("Secrets too")));
    assert!(!modes(&["--anonymous-auth=false"]).authorization.anonymous);
}

#[test]
fn without_an_etcd_the_store_is_embedded() {
    let config = serve(&[]).expect("valid");
    assert_eq!(config.listeners.insecure_port, Some(8001));
    let embedded = config.embedded.expect("no etcd is named");
    assert_eq!(embedded.data_dir.to_str(), Some("./watchcache-data"));
    let config = serve(&["--data-dir=d", "--etcd-compaction-interval=1h", "--allow-writes"]).expect("valid");
    assert_eq!(config.embedded.expect("no etcd is named").data_dir.to_str(), Some("d"));
    assert_eq!((config.etcd.compaction_interval.as_secs(), config.etcd.allow_writes), (3600, true));
    assert!(serve(&[LOCAL]).expect("valid").embedded.is_none());
    assert!(wrong(&[LOCAL, "--data-dir=d"]).contains("cannot be used with"));
}

#[test]
fn the_store_alone_listens_on_loopback_only() {
    let config = store(&["--listen-client-urls=http://127.0.0.1:1,http://localhost:2,http://[::1]:3/", "--data-dir=d"]).expect("valid");
    assert_eq!(config.listen.iter().map(ToString::to_string).collect::<Vec<_>>(), ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3"]);
    for (url, want) in [
        ("http://0.0.0.0:2379", "is not on loopback: whoever reaches the store reads every Secret"),
        ("http://node.example:2379", "is not on loopback"),
        ("https://127.0.0.1:2379", "is https"),
        ("127.0.0.1:2379", "is not http://host:port"),
        ("http://127.0.0.1", "names no port"),
    ] {
        let Err(Stop::Wrong(line)) = store(&[&format!("--listen-client-urls={url}")]) else { panic!("{url} was accepted") };
        assert!(line.contains(want) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn gates_are_off_until_they_are_named() {
    let sharded = |flags: &[&str]| serve(flags).expect("valid").gates.sharded_list_and_watch;
    assert!(!sharded(&[LOCAL]));
    assert!(sharded(&[LOCAL, "--feature-gates=ShardedListAndWatch=true"]));
    assert!(sharded(&[LOCAL, "--feature-gates=kube:ShardedListAndWatch=true"]));
    assert!(!sharded(&[LOCAL, "--feature-gates=ShardedListAndWatch=true,ShardedListAndWatch=false"]));
    assert!(!sharded(&[LOCAL, "--feature-gates="]));
    assert!(sharded(&[LOCAL, "--feature-gates=ShardedListAndWatch=T,WatchList=true,DynamicResourceAllocation=1"]));
    let constrained = |flags: &[&str]| serve(flags).expect("valid").authorization.constrained_impersonation;
    assert!(constrained(&[LOCAL]) && !constrained(&[LOCAL, "--feature-gates=ConstrainedImpersonation=false"]));
    let granular = |flags: &[&str]| serve(flags).expect("valid").gates.granular_claim_status;
    assert!(granular(&[LOCAL]) && !granular(&[LOCAL, "--feature-gates=DRAResourceClaimGranularStatusAuthorization=false"]));
    let malformed = |flags: &[&str]| serve(flags).expect("valid").gates.malformed_deletion;
    assert_eq!(malformed(&[LOCAL]), MalformedDeletion::Lenient);
    assert_eq!(malformed(&[LOCAL, "--feature-gates=AllowUnsafeMalformedObjectDeletion=true"]), MalformedDeletion::On);
    assert_eq!(malformed(&[LOCAL, "--feature-gates=AllowUnsafeMalformedObjectDeletion=false"]), MalformedDeletion::Off);
}

#[test]
fn what_clap_says_becomes_one_line() {
    for flags in [
        &[LOCAL, "--bogus"][..],
        &[LOCAL, "--insecure-port=70000"],
        &[LOCAL, "--request-timeout=60"],
        &[LOCAL, "--ring-bytes-limit=lots"],
        &[LOCAL, "--memory-budget=31Mi"],
        &[LOCAL, "--max-staleness=4s"],
        &[LOCAL, "--log-format=xml"],
        &[LOCAL, "--log-level=a=b=c"],
        &["--etcd-servers"],
        &[LOCAL, "--bind-address=nowhere"],
    ] {
        let line = wrong(flags);
        assert!(!line.contains('\n') && !line.contains("Usage") && !line.is_empty(), "{flags:?}: {line}");
        let flag = flags.last().expect("a flag").split('=').next().expect("a name");
        assert!(line.contains(flag), "{flags:?}: {line}");
    }
    assert!(matches!(Invocation::from_command_line(["watchcache"]), Err(Stop::Wrong(_))));
    let Err(Stop::Asked(help)) = serve(&["--help"]) else { panic!("help") };
    for heading in ["etcd:", "Listeners:", "Authentication and authorization:", "Requests:", "Connections:", "Memory:", "Log:"] {
        assert!(help.contains(heading), "{heading} in {help}");
    }
}

#[test]
fn a_protected_etcd_shuts_the_plain_door_unless_asked() {
    let config = serve(&[&[REMOTE][..], &TLS].concat()).expect("valid");
    assert_eq!(config.listeners.insecure_port, None);
    let config = serve(&[REMOTE, "--insecure-port=8001"]).expect("valid");
    assert_eq!(config.listeners.insecure_port, Some(8001));
    assert_eq!(config.warnings, ["--insecure-port=8001: every local user may read and write everything, although etcd uses TLS"]);
    let remote_plain = serve(&["--etcd-servers=http://10.0.0.1:2379", "--insecure-port=1"]).expect("valid");
    assert!(remote_plain.warnings[0].ends_with("etcd is not on loopback"));
    for local in ["http://localhost:1", "http://[::1]:1", "http://127.9.9.9:1/"] {
        assert_eq!(serve(&[&format!("--etcd-servers={local}")]).expect("valid").listeners.insecure_port, Some(8001), "{local}");
    }
}

#[test]
fn a_password_comes_from_a_file_and_is_not_shown() {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), "s3cret\n").expect("written");
    let path = format!("--etcd-password-file={}", file.path().display());
    let config = serve(&[LOCAL, "--etcd-username=root", &path, "--insecure-port=8001"]).expect("valid");
    assert_eq!(config.etcd.login, Some(("root".to_owned(), "s3cret".to_owned())));
    assert!(!format!("{config:?}").contains("s3cret"));
    assert!(
        wrong(&[LOCAL, "--etcd-username=root", "--etcd-password-file=/does/not/exist"])
            .starts_with("--etcd-password-file /does/not/exist:")
    );
}

/// A knob that nothing reads is a bug: each flag, set to something unlike its default, changes the `Config`.
#[test]
fn others_who_know_tokens_are_named_as_in_kube_apiserver() {
    let all = |flags: &[&'static str]| serve(&[&[LOCAL][..], &TLS, flags].concat());
    let why = |flags: &[&'static str]| match all(flags) {
        Err(Stop::Wrong(line)) => line,
        other => panic!("{other:?}"),
    };
    assert!(!all(&[]).expect("valid").auth.asks_remote);
    let together = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
    let issuer = ["--oidc-issuer-url=https://a", "--oidc-client-id=b"];
    for flags in [&issuer[..1], &issuer[1..], &["--oidc-groups-claim=c"], &["--oidc-signing-algs=RS256"]] {
        assert_eq!(why(flags), together);
    }
    let with = |flag: &'static str| [issuer[0], issuer[1], flag];
    assert_eq!(why(&with("--authentication-config=f")), "authentication-config file and oidc-* flags are mutually exclusive");
    assert_eq!(why(&with("--oidc-signing-algs=HS256")), "oidc: unsupported signing alg: \"HS256\"");
    assert_eq!(why(&with("--oidc-required-claim=a")), "--oidc-required-claim \"a\": malformed pair, expect string=string");
    let config = all(&with("--oidc-required-claim=a=b=c")).expect("valid");
    let Some(Oidc::Flags { flags, algorithms, .. }) = config.providers.oidc else { panic!("a provider") };
    assert_eq!((flags.username_claim.as_str(), &flags.required_claims[..]), ("sub", &[("a".to_owned(), "b=c".to_owned())][..]));
    assert_eq!((algorithms.len(), config.auth.asks_remote), (1, true));
    let webhook = ["--authentication-token-webhook-config-file=w", "--authentication-token-webhook-version=v2"];
    assert_eq!(why(&webhook), "unsupported authentication webhook version \"v2\", supported versions are \"v1\", \"v1beta1\"");
    let Some(webhook) = all(&webhook[..1]).expect("valid").providers.webhook else { panic!("a webhook") };
    assert_eq!((webhook.version, webhook.cache_ttl.as_secs()), (TokenReviewVersion::V1Beta1, 120));
    assert!(why(&["--authentication-skip-lookup"]).ends_with("need --authentication-kubeconfig or --kubeconfig"));
    let cluster = all(&["--authentication-kubeconfig=k"]).expect("valid").providers.cluster.expect("a cluster");
    assert!(!cluster.skip_lookup && cluster.needs_proxy);
}

#[test]
fn each_knob_is_reachable() {
    let base = [&[LOCAL, "--insecure-port=8001"][..], &TLS].concat();
    let plain = format!("{:?}", serve(&base).expect("valid"));
    for flag in [
        "--etcd-servers=http://127.0.0.1:1",
        "--etcd-prefix=/x",
        "--bind-address=::1",
        "--client-ca-file=ca",
        "--tls-sni-cert-key=c,k",
        "--tls-session-ticket-key-file=t",
        "--tls-min-version=VersionTLS13",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "--min-request-timeout=5",
        "--request-timeout=5s",
        "--max-staleness=5s",
        "--shutdown-timeout=5s",
        "--max-connections=5",
        "--http2-max-streams-per-connection=5",
        "--read-header-timeout=5s",
        "--idle-timeout=5s",
        "--max-header-bytes=16Ki",
        "--warm-start-revisions=5",
        "--ring-bytes-limit=1Mi",
        "--memory-budget=1Gi",
        "--ring-events-limit=500",
        "--history-window=5s",
        "--cacher-inbox-bytes-limit=5Mi",
        "--feed-threads=77",
        "--log-format=json",
        "--log-level=debug",
        "--v=9",
    ] {
        let changed = format!("{:?}", serve(&[&base[..], &[flag]].concat()).expect(flag));
        assert_ne!(changed, plain, "{flag}");
    }
}

#[test]
fn pods_need_accounts_where_accounts_are_made() {
    for (flags, want) in [
        (&[LOCAL][..], true),
        (&[LOCAL, "--controllers="], false),
        (&[LOCAL, "--controllers=*,-serviceaccount"], false),
        (&[LOCAL, "--controllers=", "--enable-admission-plugins=ServiceAccount"], true),
        (&[LOCAL, "--disable-admission-plugins=ServiceAccount"], false),
    ] {
        let config = serve(flags).expect("valid");
        assert_eq!(config.plugins.has(admission::plugins::Plugin::ServiceAccount), want, "{flags:?}");
    }
}
