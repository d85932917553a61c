//! Cluster IPs and node ports of Services: given once, given back, and noted with the Service or not at all. Beside a kube-apiserver:
//! `tests/differential/services.py`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};

use super::{Alone, Failure, Outcome, asked};
use crate::client::{Client, Request};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    service["spec"].as_object_mut().expect("members").extend(spec.as_object().expect("members").clone());
    service
}

async fn create(client: &Client, name: &str, spec: Value, status: u16) -> Result<Value, Failure> {
    asked(client, ("POST", SERVICES), Some(&service(name, spec)), status).await
}

async fn patch(client: &Client, name: &str, spec: Value, status: u16) -> Result<Value, Failure> {
    let body = json!({ "spec": spec }).to_string();
    let target = format!("{SERVICES}/{name}");
    let answer =
        client.whole("PATCH", &target, &[("content-type".to_owned(), "application/merge-patch+json".to_owned())], body.as_bytes()).await?;
    if answer.status != status {
        return Err(format!("{target}: {} {}", answer.status, String::from_utf8_lossy(&answer.body)).into());
    }
    Ok(serde_json::from_slice(&answer.body)?)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// The Service that the server has by itself; it is no part of what these cases count.
const OWN: &str = "kubernetes";

/// The addresses that are noted, and for which Service.
async fn noted(client: &Client) -> Result<BTreeMap<String, String>, Failure> {
    let list = asked(client, ("GET", ADDRESSES), None, 200).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let noted = items.iter().map(|item| (text(item, "/metadata/name").to_owned(), text(item, "/spec/parentRef/name").to_owned()));
    Ok(noted.filter(|(_, service)| service != OWN).collect())
}

/// The addresses that Services say they have.
async fn held(client: &Client) -> Result<BTreeMap<String, String>, Failure> {
    let list = asked(client, ("GET", SERVICES), None, 200).await?;
    let mut held = BTreeMap::new();
    for item in list["items"].as_array().into_iter().flatten().filter(|item| text(item, "/metadata/name") != OWN) {
        for ip in item["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            assert_eq!(held.insert(ip.to_owned(), text(item, "/metadata/name").to_owned()), None, "{ip} is given twice");
        }
    }
    Ok(held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_and_ports_are_given_and_given_back() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let made = create(&client, "a", json!({}), 201).await?;
    let ip = text(&made, "/spec/clusterIP").to_owned();
    assert!(ip.starts_with("10.0.0."), "{made}");
    assert_eq!(
        (&made["spec"]["clusterIPs"], &made["spec"]["ipFamilies"], &made["spec"]["ipFamilyPolicy"]),
        (&json!([ip]), &json!(["IPv4"]), &json!("SingleStack"))
    );
    let address = asked(&client, ("GET", &format!("{ADDRESSES}/{ip}")), None, 200).await?;
    assert_eq!(address["spec"], json!({"parentRef": {"resource": "services", "namespace": "default", "name": "a"}}));
    assert_eq!(
        address["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );
    // What was given stays, also when the client does not send it.
    let put = asked(&client, ("PUT", &format!("{SERVICES}/a")), Some(&service("a", json!({"selector": {"a": "b"}}))), 200).await?;
    assert_eq!(text(&put, "/spec/clusterIP"), ip);
    let told = patch(&client, "a", json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}), 422).await?;
    assert_eq!(
        text(&told, "/message"),
        "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"10.0.0.9\"]: may not change once set"
    );
    for (name, spec, code, want) in [
        ("b", json!({"clusterIP": ip}), 422, format!("failed to allocate IP {ip}: provided IP is already allocated")),
        ("b", json!({"clusterIP": "10.0.0.1"}), 422, "failed to allocate IP 10.0.0.1: provided IP is already allocated".to_owned()),
        ("b", json!({"clusterIP": "10.9.0.1"}), 422, "the provided network does not match the current range".to_owned()),
        ("b", json!({"clusterIP": "10.0.0.255"}), 422, "the provided network does not match the current range".to_owned()),
        ("b", json!({"ipFamilies": ["IPv6"]}), 422, "not configured on this cluster".to_owned()),
        ("b", json!({"ports": []}), 422, "spec.ports: Required value".to_owned()),
        (
            "b",
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            422,
            "The range of valid ports is 30000-32767".to_owned(),
        ),
    ] {
        let told = create(&client, name, spec, code).await?;
        assert!(text(&told, "/message").contains(&want), "{told}");
    }
    // What was refused holds nothing.
    assert_eq!(noted(&client).await?, BTreeMap::from([(ip.clone(), "a".to_owned())]));
    let ports = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]});
    create(&client, "n", ports.clone(), 201).await?;
    let told = create(&client, "m", ports.clone(), 422).await?;
    assert!(
        text(&told, "/message").ends_with("spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"),
        "{told}"
    );
    let inside = patch(&client, "n", json!({"type": "ClusterIP"}), 200).await?;
    assert_eq!(inside["spec"]["ports"][0].get("nodePort"), None);
    create(&client, "m", ports.clone(), 201).await?;
    let outside = patch(&client, "a", json!({"type": "ExternalName", "externalName": "example.com"}), 200).await?;
    assert_eq!((outside["spec"].get("clusterIP"), outside["spec"].get("ipFamilies")), (None, None));
    assert!(!noted(&client).await?.contains_key(&ip), "it was given back");
    let again = patch(&client, "a", json!({"type": "ClusterIP"}), 200).await?;
    assert_eq!(noted(&client).await?.get(text(&again, "/spec/clusterIP")).map(String::as_str), Some("a"));
    let balanced = create(&client, "l", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}), 201).await?;
    let health = balanced["spec"]["healthCheckNodePort"].as_i64().ok_or("no port for health")?;
    let taken = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": health}]});
    create(&client, "h", taken.clone(), 422).await?;
    // The Endpoints of a Service go with it.
    asked(&client, ("POST", "/api/v1/namespaces/default/endpoints"), Some(&json!({"metadata": {"name": "l"}})), 201).await?;
    for name in ["l", "m", "n", "a"] {
        asked(&client, ("DELETE", &format!("{SERVICES}/{name}")), None, 200).await?;
    }
    asked(&client, ("GET", "/api/v1/namespaces/default/endpoints/l"), None, 404).await?;
    assert_eq!(noted(&client).await?, BTreeMap::new());
    create(&client, "h", taken, 201).await?;
    create(&client, "m", ports, 201).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_takes_nothing() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let spec =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]});
    let told = asked(&client, ("POST", &format!("{SERVICES}?dryRun=All")), Some(&service("a", spec)), 201).await?;
    // As kube-apiserver says it.
    assert_eq!(
        (&told["spec"]["clusterIP"], &told["spec"]["ports"][1]["nodePort"], &told["spec"]["healthCheckNodePort"]),
        (&json!("10.0.0.0"), &json!(32770), &json!(32771))
    );
    assert_eq!(noted(&client).await?, BTreeMap::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_of_each_family_gives_two_addresses() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--service-cluster-ip-range=10.0.0.0/29,fd00::/125"]).await?;
    let client = server.client();
    let both = create(&client, "both", json!({"ipFamilyPolicy": "PreferDualStack"}), 201).await?;
    assert_eq!(both["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let one = create(&client, "one", json!({"ipFamilies": ["IPv6"]}), 201).await?;
    assert!(text(&one, "/spec/clusterIP").starts_with("fd00::"), "{one}");
    let less = patch(&client, "both", json!({"ipFamilyPolicy": "SingleStack"}), 200).await?;
    assert_eq!(less["spec"]["clusterIPs"], json!([both["spec"]["clusterIP"]]));
    let more = patch(&client, "one", json!({"ipFamilyPolicy": "RequireDualStack"}), 200).await?;
    assert_eq!(more["spec"]["ipFamilies"], json!(["IPv6", "IPv4"]));
    assert_eq!(noted(&client).await?, held(&client).await?);
    // Six addresses of IPv4, of which two are held, and the first one is the API server's.
    for nth in 0..3 {
        create(&client, &format!("s{nth}"), json!({}), 201).await?;
    }
    let told = create(&client, "full", json!({}), 500).await?;
    assert_eq!(text(&told, "/message"), "Internal error occurred: failed to allocate a serviceIP for Service \"full\": range is full");
    asked(&client, ("DELETE", &format!("{SERVICES}/s0")), None, 200).await?;
    create(&client, "full", json!({}), 201).await?;
    assert_eq!(noted(&client).await?, held(&client).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_given_twice_or_lost_when_the_server_is_killed() -> Outcome {
    let dir = tempfile::tempdir()?;
    let mut left = BTreeSet::new();
    for round in 0..2 {
        let server = Alone::start_with(dir.path(), &["--service-cluster-ip-range=10.0.0.0/20"]).await?;
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let client = server.client();
                tokio::spawn(async move {
                    for nth in 0.. {
                        let name = format!("r{round}-w{writer}-{nth}");
                        let body = service(&name, json!({"type": "NodePort"})).to_string();
                        let made = client.ask(&Request { method: "POST", target: SERVICES, body: Some(body.as_bytes()) }).await;
                        if !made.is_ok_and(|made| made.status == 201) {
                            return nth;
                        }
                        if nth % 3 == 2 {
                            let target = format!("{SERVICES}/{name}");
                            if client.ask(&Request { method: "DELETE", target: &target, body: None }).await.is_err() {
                                return nth;
                            }
                        }
                    }
                    0
                })
            })
            .collect();
        // Each has written some when it is killed.
        let client = server.client();
        while noted(&client).await?.len() < 20 + left.len() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server.kill()?;
        for writer in writers {
            writer.await?;
        }
        let server = Alone::start_with(dir.path(), &["--service-cluster-ip-range=10.0.0.0/20"]).await?;
        let client = server.client();
        let held = held(&client).await?;
        assert_eq!(noted(&client).await?, held);
        let list = asked(&client, ("GET", SERVICES), None, 200).await?;
        let ports: Vec<i64> =
            list["items"].as_array().into_iter().flatten().filter_map(|item| item["spec"]["ports"][0]["nodePort"].as_i64()).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len(), "a port is given twice");
        left = held.into_keys().collect();
        server.kill()?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_somebody_deletes_is_noted_again() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let made = create(&client, "a", json!({}), 201).await?;
    let ip = text(&made, "/spec/clusterIP").to_owned();
    asked(&client, ("DELETE", &format!("{ADDRESSES}/{ip}")), None, 200).await?;
    let again = async {
        while noted(&client).await?.get(&ip).map(String::as_str) != Some("a") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let events = asked(&client, ("GET", "/api/v1/namespaces/default/events"), None, 200).await?;
        let told = events["items"].as_array().into_iter().flatten().find(|event| event["reason"] == "ClusterIPNotAllocated");
        let told = told.ok_or("no Event")?;
        assert_eq!(
            (text(told, "/involvedObject/name"), text(told, "/message")),
            ("a", &*format!("Cluster IP [IPv4]: {ip} is not allocated; repairing"))
        );
        Outcome::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(120), again).await?
}
