//! The Helm chart, rendered by the real helm: it says what the manifests beside it say, our own server takes it, and wrong values are refused.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{command_lines, created, deployed, our_own_server};
use crate::{client::Client, live::Outcome};

type Failure = Box<dyn std::error::Error>;

/// Labels that only a chart gives.
const OF_HELM: [&str; 4] = ["app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"];
/// What a server without the Prometheus Operator and cert-manager must know of them.
const OF_OTHERS: [(&str, &str, &str); 3] = [
    ("monitoring.coreos.com", "servicemonitors", "ServiceMonitor"),
    ("monitoring.coreos.com", "prometheusrules", "PrometheusRule"),
    ("cert-manager.io", "certificates", "Certificate"),
];
/// How long a definition may take until it is served.
const SOON: Duration = Duration::from_secs(60);

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/helm/watchcache")
}

/// The files of values that stand beside the chart.
fn values() -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(chart().join("ci"))?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// `helm COMMAND`, which leaves nothing in anybody's home.
fn helm(arguments: &[&str], values: &[impl AsRef<OsStr>]) -> Result<Output, Failure> {
    let programs = env::var_os("WATCHCACHE_TEST_PEERS").ok_or("WATCHCACHE_TEST_PEERS does not name a folder with helm")?;
    let home = tempfile::tempdir()?;
    let mut command = Command::new(Path::new(&programs).join("helm"));
    for place in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(place, home.path());
    }
    command.args(arguments);
    for file in values {
        command.arg("--values").arg(file);
    }
    Ok(command.output()?)
}

/// The documents that the chart renders.
fn rendered(values: &Path) -> Result<Vec<String>, Failure> {
    let output = helm(&["template", "watchcache", &chart().to_string_lossy(), "--namespace=watchcache"], &[values])?;
    if !output.status.success() || !output.stderr.is_empty() {
        return Err(format!("{}: {}", values.display(), String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.trim_start_matches("---\n").split("\n---\n").map(str::to_owned).collect())
}

/// Objects by their kinds, without what only a chart says.
fn in_substance<'a>(documents: impl Iterator<Item = &'a str>) -> Result<BTreeMap<String, Value>, Failure> {
    let mut objects = BTreeMap::new();
    for document in documents {
        let mut object = go::yaml::reader::parse(document.as_bytes()).map_err(|error| error.to_string())?.value;
        without_labels_of_helm(&mut object);
        objects.insert(object["kind"].as_str().ok_or("a document has no kind")?.to_owned(), object);
    }
    Ok(objects)
}

fn without_labels_of_helm(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !OF_HELM.contains(&name.as_str()));
            members.values_mut().for_each(without_labels_of_helm);
        }
        Value::Array(items) => items.iter_mut().for_each(without_labels_of_helm),
        _ => {}
    }
}

#[test]
#[ignore = "needs helm: WATCHCACHE_TEST_PEERS"]
fn the_default_says_what_the_manifests_say() -> Outcome {
    for mode in ["replica", "standalone", "upstream"] {
        let (text, documents) = (deployed(&format!("kubernetes/{mode}.yaml"))?, rendered(&chart().join(format!("ci/{mode}-values.yaml")))?);
        let mut by_hand = in_substance(text.split("\n---\n"))?;
        // A chart's namespace is for helm to make.
        by_hand.remove("Namespace").ok_or("no namespace")?;
        let mut by_helm = in_substance(documents.iter().map(String::as_str))?;
        // Only a chart makes a certificate, another one each time.
        assert_eq!(by_helm.remove("Secret").is_some(), mode == "upstream");
        assert_eq!(by_helm.keys().collect::<Vec<_>>(), by_hand.keys().collect::<Vec<_>>(), "{mode}");
        for (kind, object) in by_hand {
            assert_eq!(by_helm[&kind], object, "{mode}: {kind}");
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs helm: WATCHCACHE_TEST_PEERS"]
async fn our_own_server_takes_what_it_renders() -> Outcome {
    let files = values()?;
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let lint = helm(&["lint", "--strict", &chart().to_string_lossy()], &[&file])?;
        assert!(lint.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&lint.stdout));
        let (_running, _site, client) = our_own_server().await?;
        created(&client, "apiVersion: v1\nkind: Namespace\nmetadata: {name: watchcache}\n").await?;
        definitions(&client).await?;
        let mut understood = 0;
        for document in rendered(&file)? {
            let object = created(&client, &document).await.map_err(|why| format!("{}: {why}", file.display()))?;
            understood += command_lines(&object).map_err(|why| format!("{}: {why}", file.display()))?;
            pod_is_whole(&object);
        }
        assert_eq!(understood, 1, "{}: one container is ours", file.display());
    }
    Ok(())
}

/// Makes the server serve what belongs to others.
async fn definitions(client: &Client) -> Outcome {
    let headers = [("Content-Type".to_owned(), "application/json".to_owned())];
    for (group, plural, kind) in OF_OTHERS {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        });
        let at = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let made = client.whole("POST", at, &headers, definition.to_string().as_bytes()).await?;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        let began = Instant::now();
        while client.fetch(&format!("/apis/{group}/v1/{plural}")).await?.status != 200 {
            assert!(began.elapsed() < SOON, "{plural} are not served");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// A certificate that the chart makes is of its own authority, and for the Service.
#[test]
#[ignore = "needs helm: WATCHCACHE_TEST_PEERS"]
fn the_certificate_is_for_the_service() -> Outcome {
    let documents = rendered(&chart().join("ci/upstream-values.yaml"))?;
    let objects = in_substance(documents.iter().map(String::as_str))?;
    let decoded = |text: &str| base64::Engine::decode(&base64::prelude::BASE64_STANDARD, text).unwrap_or_default();
    let pem = |name: &str| String::from_utf8(decoded(objects["Secret"]["data"][name].as_str().unwrap_or_default())).unwrap_or_default();
    let lines = |name: &str| pem(name).lines().filter(|line| !line.starts_with("-----")).collect::<String>();
    let (made, name) = (decoded(&lines("tls.crt")), b"watchcache.watchcache.svc");
    assert!(made.windows(name.len()).any(|part| part == name), "it is for another name");
    assert!(pem("ca.crt").starts_with("-----BEGIN CERTIFICATE-----") && pem("ca.crt") != pem("tls.crt"));
    assert!(pem("tls.key").contains("PRIVATE KEY-----"));
    Ok(())
}

/// The rules and the dashboard of the chart are the files that it has, with the links that the values ask for.
#[test]
#[ignore = "needs helm: WATCHCACHE_TEST_PEERS"]
fn rules_and_dashboard_are_those_of_the_files() -> Outcome {
    let parsed = |text: &str| go::yaml::reader::parse(text.as_bytes()).map(|read| read.value).map_err(|error| error.to_string());
    let (rules, dashboard) = (deployed("helm/watchcache/monitoring/rules.yaml")?, deployed("helm/watchcache/monitoring/dashboard.json")?);
    for (file, runbook) in [("upstream", "docs/runbook.md"), ("replica", "https://runbooks.example.org/watchcache.md")] {
        let documents = rendered(&chart().join(format!("ci/{file}-full-values.yaml")))?;
        let objects = in_substance(documents.iter().map(String::as_str))?;
        assert_eq!(objects["PrometheusRule"]["spec"], parsed(&rules.replace("docs/runbook.md#", &format!("{runbook}#")))?, "{file}");
        assert!(objects["PrometheusRule"]["spec"].to_string().contains(&format!("\"{runbook}#watchcachebehind\"")), "{file}");
        let shown = &objects["ConfigMap"];
        let text = shown["data"]["watchcache.json"].as_str().ok_or("no dashboard")?;
        assert_eq!(serde_json::from_str::<Value>(text)?, serde_json::from_str::<Value>(&dashboard)?, "{file}");
        assert_eq!(shown["metadata"]["labels"]["grafana_dashboard"], "1", "{file}");
    }
    let objects = in_substance(rendered(&chart().join("ci/replica-values.yaml"))?.iter().map(String::as_str))?;
    assert!(!objects.contains_key("PrometheusRule") && !objects.contains_key("ConfigMap"), "they are off unless asked for");
    Ok(())
}

/// A pod has each volume that is mounted, mounts each that it has, and has the time to end that its arguments ask for.
fn pod_is_whole(object: &Value) {
    let Some(pod) = object.pointer("/spec/template/spec") else { return };
    let names = |list: &Value| -> Vec<String> {
        let mut names: Vec<String> =
            list.as_array().into_iter().flatten().filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect();
        names.sort();
        names
    };
    let mut volumes = names(&pod["volumes"]);
    volumes
        .extend(names(&object["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten().map(|c| c["metadata"].clone()).collect()));
    volumes.sort();
    assert_eq!(names(&pod["containers"][0]["volumeMounts"]), volumes);
    let seconds = |flag: &str, default: u64| {
        let arguments = pod["containers"][0]["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut given = arguments.filter_map(|argument| argument.strip_prefix(flag)?.strip_suffix('s')?.parse().ok());
        given.next_back().unwrap_or(default)
    };
    let least = seconds("--shutdown-delay-duration=", 0) + seconds("--shutdown-timeout=", 10);
    assert!(pod["terminationGracePeriodSeconds"].as_u64().is_some_and(|grace| grace > least), "{least} s at least");
}

#[test]
#[ignore = "needs helm: WATCHCACHE_TEST_PEERS"]
fn wrong_values_are_refused() -> Outcome {
    let chart = chart();
    let render = |values: &str, set: &[&str]| {
        let arguments = ["template", "watchcache", &chart.to_string_lossy()].map(str::to_owned);
        let set = set.iter().map(|set| format!("--set-json={set}"));
        let arguments: Vec<String> = arguments.into_iter().chain(set).collect();
        helm(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &[chart.join("ci").join(values)])
    };
    for (set, place) in [
        (r#"mode="proxy""#, "/mode"),
        (r#"replica.etcd.servers=[]"#, "/replica/etcd/servers"),
        (r#"replica.etcd.servers=["etcd:2379"]"#, "/replica/etcd/servers/0"),
        (r#"replica.etcd.servers=["https://a:2379,https://b:2379"]"#, "/replica/etcd/servers/0"),
        (r#"replica.upstream.server="kubernetes.default""#, "/replica/upstream/server"),
        (r#"replica.upstream.proxySecretName="Front Proxy""#, "/replica/upstream/proxySecretName"),
        (r#"replica.replicas=0"#, "/replica/replicas"),
        (r#"replica.goawayChance=0.5"#, "/replica/goawayChance"),
        (r#"replica.shutdownDelaySeconds="10s""#, "/replica/shutdownDelaySeconds"),
        (r#"replica.authorizationModes=["Rbac"]"#, "/replica/authorizationModes/0"),
        (r#"replica.resources.requests.memory="much""#, "/replica/resources/requests/memory"),
        (r#"listener.port=443"#, "/listener/port"),
        (r#"listener.secretName="""#, "/listener/secretName"),
        (r#"args={"--max-connections": 1}"#, "'--max-connections' does not match"),
        (r#"args={"max-connections": [1]}"#, "/args/max-connections"),
        (r#"extraArgs="--v=2""#, "/extraArgs"),
        (r#"extraArgs=["v=2"]"#, "/extraArgs/0"),
        (r#"podDisruptionBudget.maxUnavailable="one""#, "/podDisruptionBudget/maxUnavailable"),
        (r#"topologySpread.whenUnsatisfiable="Never""#, "/topologySpread/whenUnsatisfiable"),
        (r#"service.type="ExternalName""#, "/service/type"),
        (r#"serviceMonitor.interval="30""#, "/serviceMonitor/interval"),
        (r#"prometheusRule.runbook="a page""#, "/prometheusRule/runbook"),
        (r#"dashboard.labels={"grafana_dashboard": 1}"#, "/dashboard/labels"),
        (r#"upstream.consistentReads="never""#, "/upstream/consistentReads"),
        (r#"upstream.resources=["Pods"]"#, "/upstream/resources/0"),
        (r#"standalone.storage.size="big""#, "/standalone/storage/size"),
        (r#"replica.etcd.server="https://etcd:2379""#, "additional properties 'server' not allowed"),
        (r#"etcd={}"#, "additional properties 'etcd' not allowed"),
    ] {
        let output = render("replica-values.yaml", &[set])?;
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains("schema") && told.contains(place), "{set}: {told}");
    }
    // Without an etcd there is no replica, and none is needed for a server that stands alone.
    let output = render("standalone-values.yaml", &[])?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = render("standalone-values.yaml", &[r#"mode="replica""#])?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("/replica/etcd/servers"), "{told}");
    Ok(())
}

#[test]
fn the_chart_is_of_this_version() -> Outcome {
    let text = fs::read_to_string(chart().join("Chart.yaml"))?;
    assert!(text.contains(&format!("\nappVersion: {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
    Ok(())
}
