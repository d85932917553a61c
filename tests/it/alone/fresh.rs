//! The objects that a server has by itself: there when it is ready, and kept.

use std::fs;

use rcgen::KeyPair;
use serde_json::{Value, json};

use super::{
    Alone, Outcome, asked, names,
    wait::{until, until_status},
};
use crate::{
    client::Client,
    live::{free_address, peers::Site, tokens::signed},
};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FLOWS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=apiserver.kubernetes.io/identity";
const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const ADDRESS: &str = "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1";
const RANGE: &str = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The reason of the first condition; null without one.
fn reason(object: &Value) -> &Value {
    &object["status"]["conditions"][0]["reason"]
}

async fn get(client: &Client, target: &str) -> Result<Value, super::Failure> {
    asked(client, ("GET", target), None, 200).await
}

fn definition(served: bool) -> Value {
    let version = |name: &str, served: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({"name": name, "served": served, "storage": name == "v1", "schema": schema})
    };
    json!({
        "metadata": {"name": "things.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Cluster", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version("v1", true), version("v2", served)],
        },
    })
}

#[tokio::test]
async fn they_are_there_when_the_server_is_ready() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    assert_eq!(names(&get(&client, CLASSES).await?), ["system-cluster-critical", "system-node-critical"]);
    let kept = asked(&client, ("DELETE", &format!("{CLASSES}/system-node-critical")), None, 403).await?;
    let why =
        r#"priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority class and cannot be deleted"#;
    assert_eq!(kept["message"], why);
    let levels = ["catch-all", "exempt", "global-default", "leader-election", "node-high", "system", "workload-high", "workload-low"];
    assert_eq!(names(&get(&client, LEVELS).await?), levels);
    let flows = get(&client, FLOWS).await?;
    assert_eq!(names(&flows).len(), 11);
    assert!(flows["items"].as_array().is_some_and(|flows| flows.iter().all(|flow| reason(flow) == "Found")), "{flows}");
    let services = get(&client, SERVICES).await?;
    assert!(services["items"].as_array().is_some_and(|services| services.iter().all(|service| reason(service) == "Local")), "{services}");
    let groups = get(&client, "/apis").await?;
    let versions = groups["groups"].as_array().into_iter().flatten().flat_map(|group| group["versions"].as_array().into_iter().flatten());
    let mut wanted: Vec<String> = versions.filter_map(|version| version["groupVersion"].as_str()).map(name_of).collect();
    wanted.retain(|name| name != "v1.apiregistration.k8s.io");
    wanted.push("v1.".to_owned());
    wanted.sort();
    assert_eq!(names(&services), wanted);
    assert_eq!(get(&client, RANGE).await?["status"]["conditions"][0]["status"], "True");
    assert_eq!(get(&client, SERVICE).await?["spec"]["clusterIP"], "10.0.0.1");
    assert_eq!(get(&client, ADDRESS).await?["spec"]["parentRef"]["name"], "kubernetes");
    let leases = until(&client, LEASES, |leases| !names(leases).is_empty()).await?;
    let renewed = leases["items"][0]["spec"]["renewTime"].clone();
    until(&client, LEASES, |leases| leases["items"][0]["spec"]["renewTime"] != renewed).await?;
    Ok(())
}

/// `v1.apps` of `apps/v1`.
fn name_of(version: &str) -> String {
    version.split_once('/').map_or_else(|| format!("{version}."), |(group, version)| format!("{version}.{group}"))
}

#[tokio::test]
async fn each_group_version_has_an_api_service_while_it_is_served() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let of = |version: &str| format!("{SERVICES}/{version}.ex.io");
    asked(&client, ("POST", DEFINITIONS), Some(&definition(true)), 201).await?;
    for version in ["v1", "v2"] {
        let there = until(&client, &of(version), |service| reason(service) == "Local").await?;
        assert_eq!((&there["spec"]["groupPriorityMinimum"], &there["spec"]["versionPriority"]), (&json!(1000), &json!(100)));
        assert_eq!(there["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "true");
    }
    asked(&client, ("DELETE", &of("v1")), None, 200).await?;
    until(&client, &of("v1"), |service| reason(service) == "Local").await?;
    // The patch has the type of its content: see `asked`.
    asked(&client, ("PATCH", &format!("{DEFINITIONS}/things.ex.io")), Some(&json!({"spec": definition(false)["spec"]})), 200).await?;
    until(&client, &of("v2"), Value::is_null).await?;
    asked(&client, ("DELETE", &format!("{DEFINITIONS}/things.ex.io")), None, 200).await?;
    until(&client, &of("v1"), Value::is_null).await?;
    // One of Kubernetes' own is made again at the next start, and not before; so is one that is another's now.
    asked(&client, ("DELETE", &format!("{SERVICES}/v1.batch")), None, 200).await?;
    server.kill()?;
    let server = Alone::start(dir.path()).await?;
    assert_eq!(reason(&get(&server.client(), &format!("{SERVICES}/v1.batch")).await?), "Local");
    Ok(())
}

#[tokio::test]
async fn a_group_version_of_another_server_is_not_available_and_says_why() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let target = format!("{SERVICES}/v1.remote.example");
    let service = json!({"name": "nobody", "namespace": "default"});
    let spec = json!({
        "group": "remote.example", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true, "service": service,
    });
    asked(&client, ("POST", SERVICES), Some(&json!({"metadata": {"name": "v1.remote.example"}, "spec": spec})), 201).await?;
    let there = until(&client, &target, |service| reason(service) == "ServiceNotFound").await?;
    assert_eq!(there["status"]["conditions"][0]["message"], "service/nobody in \"default\" is not present");
    for path in ["/apis/remote.example/v1", "/apis/remote.example/v1/things", "/apis/remote.example/v1/namespaces/a/things/b"] {
        assert_eq!(until_status(&client, path, 503).await?, b"service unavailable\n", "{path}");
    }
    assert_eq!(client.fetch("/apis/remote.example/v2/things").await?.status, 404);
    let nobody = json!({"metadata": {"name": "nobody"}, "spec": {"clusterIP": "None", "ports": [{"port": 443}]}});
    asked(&client, ("POST", "/api/v1/namespaces/default/services"), Some(&nobody), 201).await?;
    until(&client, &target, |service| reason(service) == "EndpointsNotFound").await?;
    asked(&client, ("DELETE", &target), None, 200).await?;
    until(&client, &target, Value::is_null).await?;
    until_status(&client, "/apis/remote.example/v1/things", 404).await?;
    Ok(())
}

#[tokio::test]
async fn a_flow_schema_tells_whether_its_level_is_there() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let lost = json!({"metadata": {"name": "lost"}, "spec": {"priorityLevelConfiguration": {"name": "x"}, "matchingPrecedence": 900}});
    asked(&client, ("POST", FLOWS), Some(&lost), 201).await?;
    until(&client, &format!("{FLOWS}/lost"), |flow| reason(flow) == "NotFound").await?;
    let level = json!({"metadata": {"name": "x"}, "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}});
    asked(&client, ("POST", LEVELS), Some(&level), 201).await?;
    let found = until(&client, &format!("{FLOWS}/lost"), |flow| reason(flow) == "Found").await?;
    assert_eq!(found["metadata"]["generation"], 1, "only the status was written");
    Ok(())
}

/// `--event-ttl`: the time of an Event is that of its last write.
/// With the default a server is ready when the conditions are there.
#[tokio::test]
async fn without_priority_and_fairness_flow_schemas_have_no_conditions() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--enable-priority-and-fairness=false"]).await?;
    let flows = get(&server.client(), FLOWS).await?;
    assert!(names(&flows).contains(&"probes".to_owned()), "{flows}");
    assert!(flows["items"].as_array().into_iter().flatten().all(|flow| reason(flow).is_null()), "{flows}");
    Ok(())
}

#[tokio::test]
async fn events_go_after_their_time() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--event-ttl=2s"]).await?;
    let client = server.client();
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "R"});
    asked(&client, ("POST", EVENTS), Some(&event), 201).await?;
    until(&client, &format!("{EVENTS}/e"), Value::is_null).await?;
    Ok(())
}

/// kube-apiserver needs no other authenticator either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_service_accounts_is_enough_to_start() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let (key, file) = (KeyPair::generate()?, dir.path().join("accounts.key"));
    fs::write(&file, key.serialize_pem())?;
    let at = |name: &str, file: &str| format!("{name}={}", site.path().join(file).display());
    let flags = [
        format!("--secure-port={}", listener.port()),
        "--bind-address=127.0.0.1".to_owned(),
        at("--tls-cert-file", "server.crt"),
        at("--tls-private-key-file", "server.key"),
        format!("--service-account-key-file={}", file.display()),
    ];
    let server = Alone::start_with(dir.path(), &flags.each_ref().map(String::as_str)).await?;
    let account = json!({"metadata": {"name": "robot"}});
    let account = asked(&server.client(), ("POST", "/api/v1/namespaces/default/serviceaccounts"), Some(&account), 201).await?;
    let claims = json!({
        "iss": "https://kubernetes.default.svc", "aud": ["https://kubernetes.default.svc"], "exp": 4_000_000_000_u64, "nbf": 0, "iat": 0,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": account["metadata"]["uid"]}},
        "sub": "system:serviceaccount:default:robot",
    });
    let token = signed(&key, r#"{"alg":"ES256"}"#, &claims.to_string())?;
    assert_eq!(site.client_of(listener, &token).whole("GET", "/version", &[], b"").await?.status, 200);
    assert_eq!(site.client_of(listener, "nobody").whole("GET", "/version", &[], b"").await?.status, 401);
    Ok(())
}
