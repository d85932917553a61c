//! The admission plugins of kube-apiserver: what they add to objects, what they refuse, and with which words. The texts are those of kube-apiserver 1.36.3.

use serde_json::{Value, json};

use super::{Alone, Failure, Outcome, asked};
use crate::client::{Client, Request};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// A Pod of one container with these members of its spec.
fn pod(name: &str, more: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    more.as_object().into_iter().flatten().for_each(|(member, value)| spec[member] = value.clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn named(name: &str, more: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name}});
    more.as_object().into_iter().flatten().for_each(|(member, value)| object[member] = value.clone());
    object
}

async fn made(client: &Client, target: &str, object: &Value) -> Result<Value, Failure> {
    asked(client, ("POST", target), Some(object), 201).await
}

/// The text of a refusal.
async fn refused(client: &Client, target: &str, object: &Value) -> Result<String, Failure> {
    let status = asked(client, ("POST", target), Some(object), 403).await?;
    assert_eq!(status["reason"], "Forbidden", "{status}");
    Ok(status["message"].as_str().unwrap_or_default().to_owned())
}

async fn patched(client: &Client, target: &str, patch: &Value, status: u16) -> Result<Value, Failure> {
    let merge = [("content-type".to_owned(), "application/merge-patch+json".to_owned())];
    let answer = client.whole("PATCH", target, &merge, patch.to_string().as_bytes()).await?;
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    if answer.status == status { Ok(serde_json::from_str(&body)?) } else { Err(format!("{target}: {} {body}", answer.status).into()) }
}

async fn warned(client: &Client, method: &str, target: &str, object: &Value) -> Result<Vec<String>, Failure> {
    let json = [("content-type".to_owned(), "application/json".to_owned())];
    let answer = client.whole(method, target, &json, object.to_string().as_bytes()).await?;
    assert!(matches!(answer.status, 200 | 201), "{method} {target}: {}", String::from_utf8_lossy(&answer.body));
    Ok(answer.header("warning").map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_get_priorities_tolerations_and_limits() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let toleration = |key: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let plain = made(&client, PODS, &pod("plain", &json!({}))).await?;
    assert_eq!(plain["spec"]["tolerations"], json!([toleration("not-ready"), toleration("unreachable")]));
    assert_eq!((&plain["spec"]["priority"], &plain["spec"]["preemptionPolicy"]), (&json!(0), &json!("PreemptLowerPriority")));
    assert_eq!(plain["spec"].get("serviceAccountName"), None, "nobody makes accounts here");
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    made(&client, classes, &named("high", &json!({"value": 7, "globalDefault": true, "preemptionPolicy": "Never"}))).await?;
    let second = refused(&client, classes, &named("other", &json!({"value": 8, "globalDefault": true}))).await?;
    let want = "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass high is already marked as default. Only one default can exist";
    assert_eq!(second, want);
    let high = made(&client, PODS, &pod("high", &json!({}))).await?;
    assert_eq!(
        (&high["spec"]["priorityClassName"], &high["spec"]["priority"], &high["spec"]["preemptionPolicy"]),
        (&json!("high"), &json!(7), &json!("Never"))
    );
    let missing = refused(&client, PODS, &pod("p", &json!({"priorityClassName": "gone"}))).await?;
    assert_eq!(missing, "pods \"p\" is forbidden: no PriorityClass with name gone was found");
    let generated = json!({"metadata": {"generateName": "gen-"}, "spec": pod("", &json!({"priority": 8}))["spec"]});
    let other = refused(&client, PODS, &generated).await?;
    assert!(other.starts_with("pods \"gen-\" is forbidden: the integer value of priority (8) must not be provided"), "{other}");
    let limits = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}}]}});
    made(&client, "/api/v1/namespaces/default/limitranges", &named("l", &limits)).await?;
    let limited = made(&client, PODS, &pod("limited", &json!({}))).await?;
    assert_eq!(limited["spec"]["containers"][0]["resources"], json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}));
    assert_eq!(
        limited["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    assert_eq!(limited["status"]["qosClass"], "Burstable");
    let large = pod("large", &json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]}));
    assert_eq!(refused(&client, PODS, &large).await?, "pods \"large\" is forbidden: maximum cpu usage per Container is 1, but limit is 2");
    server.kill()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_get_what_their_runtime_class_and_node_say() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let class = json!({"handler": "h", "overhead": {"podFixed": {"cpu": "10m"}}, "scheduling": {"nodeSelector": {"a": "b"}}});
    made(&client, "/apis/node.k8s.io/v1/runtimeclasses", &named("rc", &class)).await?;
    let classed = made(&client, PODS, &pod("classed", &json!({"runtimeClassName": "rc"}))).await?;
    assert_eq!((&classed["spec"]["overhead"], &classed["spec"]["nodeSelector"]), (&json!({"cpu": "10m"}), &json!({"a": "b"})));
    let missing = refused(&client, PODS, &pod("p", &json!({"runtimeClassName": "gone"}))).await?;
    assert_eq!(missing, "pods \"p\" is forbidden: pod rejected: RuntimeClass \"gone\" not found");
    let node = json!({"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z", "x": "y"}}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}});
    let node = made(&client, "/api/v1/nodes", &node).await?;
    assert_eq!(node["spec"]["taints"], json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
    made(&client, PODS, &pod("bound", &json!({}))).await?;
    // The cache has the node soon: that of a binding is looked up there alone.
    let mut labels = Value::Null;
    for n in 0..100 {
        let name = format!("bound{n}");
        let small = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]);
        made(&client, PODS, &pod(&name, &json!({"containers": small}))).await?;
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}});
        asked(&client, ("POST", &format!("{PODS}/{name}/binding")), Some(&binding), 201).await?;
        labels = asked(&client, ("GET", &format!("{PODS}/{name}")), None, 200).await?["metadata"]["labels"].clone();
        if !labels.is_null() {
            let resize = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}});
            let strategic = [("content-type".to_owned(), "application/strategic-merge-patch+json".to_owned())];
            let answer = client.whole("PATCH", &format!("{PODS}/{name}/resize"), &strategic, resize.to_string().as_bytes()).await?;
            let status: Value = serde_json::from_slice(&answer.body)?;
            let why = "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 1000";
            assert_eq!(status["message"], json!(format!("pods \"{name}\" is forbidden: {why}")));
            assert_eq!(status["details"]["causes"], json!([{"reason": "NodeCapacity"}]));
            break;
        }
    }
    assert_eq!(labels, json!({"topology.kubernetes.io/zone": "z"}));
    server.kill()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_and_ingresses_get_their_classes() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--controllers=*"]).await?;
    let client = server.client();
    let claim =
        |name: &str| named(name, &json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
    let first = made(&client, CLAIMS, &claim("first")).await?;
    assert_eq!((first["spec"].get("storageClassName"), &first["metadata"]["finalizers"]), (None, &json!(["kubernetes.io/pvc-protection"])));
    let default =
        json!({"metadata": {"name": "sc", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"});
    made(&client, "/apis/storage.k8s.io/v1/storageclasses", &default).await?;
    assert_eq!(made(&client, CLAIMS, &claim("second")).await?["spec"]["storageClassName"], "sc");
    let growth = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    // Validation comes before the plugin, and refuses what is not bound.
    let grown = patched(&client, &format!("{CLAIMS}/second"), &growth, 422).await?;
    assert_eq!(grown["details"]["causes"][0]["field"], "spec", "{grown}");
    patched(&client, &format!("{CLAIMS}/second/status"), &json!({"status": {"phase": "Bound"}}), 200).await?;
    let grown = patched(&client, &format!("{CLAIMS}/second"), &growth, 403).await?;
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    assert_eq!(grown["message"], json!(format!("persistentvolumeclaims \"second\" is forbidden: {why}")));
    let classes = "/apis/networking.k8s.io/v1/ingressclasses";
    let default = json!({"metadata": {"name": "ic", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}, "spec": {"controller": "x.io/y"}});
    made(&client, classes, &default).await?;
    let ingress = named("i", &json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}}}));
    assert_eq!(made(&client, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress).await?["spec"]["ingressClassName"], "ic");
    // Nobody uses the claim: its finalizer goes.
    asked(&client, ("DELETE", &format!("{CLAIMS}/second")), None, 200).await?;
    gone(&client, &format!("{CLAIMS}/second")).await?;
    let volume =
        named("v", &json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}}));
    assert_eq!(
        made(&client, "/api/v1/persistentvolumes", &volume).await?["metadata"]["finalizers"],
        json!(["kubernetes.io/pv-protection"])
    );
    asked(&client, ("DELETE", "/api/v1/persistentvolumes/v"), None, 200).await?;
    gone(&client, "/api/v1/persistentvolumes/v").await?;
    server.kill()
}

async fn gone(client: &Client, target: &str) -> Outcome {
    for _ in 0..600 {
        if client.fetch(target).await?.status == 404 {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Err(format!("{target} stays").into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_have_accounts_and_their_tokens() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--enable-admission-plugins=ServiceAccount"]).await?;
    let client = server.client();
    let missing = refused(&client, PODS, &pod("p", &json!({"serviceAccountName": "robot"}))).await?;
    let why = "error looking up service account default/robot: serviceaccount \"robot\" not found";
    assert_eq!(missing, format!("pods \"p\" is forbidden: {why}"));
    let secrets = json!({"imagePullSecrets": [{"name": "s"}]});
    made(&client, "/api/v1/namespaces/default/serviceaccounts", &named("robot", &secrets)).await?;
    let made_pod = made(&client, PODS, &pod("p", &json!({"serviceAccountName": "robot"}))).await?;
    let spec = &made_pod["spec"];
    let volume = spec["volumes"][0]["name"].as_str().unwrap_or_default().to_owned();
    assert!(volume.starts_with("kube-api-access-") && volume.len() == "kube-api-access-".len() + 5, "{spec}");
    let mount = json!({"name": volume, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
    assert_eq!(spec["volumes"][0]["projected"]["sources"][0], json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}));
    assert_eq!((&spec["imagePullSecrets"], &spec["serviceAccount"]), (&json!([{"name": "s"}]), &json!("robot")));
    // The account `default` is waited for.
    let late = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        made(&server.client(), "/api/v1/namespaces/default/serviceaccounts", &named("default", &json!({}))).await
    };
    let waiting = pod("waiting", &json!({}));
    let (waiting, late) = tokio::join!(made(&client, PODS, &waiting), late);
    late?;
    assert_eq!(waiting?["spec"]["serviceAccountName"], "default");
    server.kill()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_keep_to_the_level_of_their_namespace() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let label = |mode: &str| format!("pod-security.kubernetes.io/{mode}");
    let wrong = json!({"metadata": {"name": "w", "labels": {label("enforce"): "loose"}}});
    let status = asked(&client, ("POST", "/api/v1/namespaces"), Some(&wrong), 422).await?;
    assert_eq!(
        status["message"],
        "Namespace \"w\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"loose\": must be one of privileged, \
         baseline, restricted"
    );
    let strict = json!({"metadata": {"name": "strict", "labels": {label("enforce"): "baseline", label("warn"): "restricted", label("warn-version"): "v1.22"}}});
    made(&client, "/api/v1/namespaces", &strict).await?;
    let pods = "/api/v1/namespaces/strict/pods";
    let host = pod("host", &json!({"hostNetwork": true}));
    let why = "violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    assert_eq!(refused(&client, pods, &host).await?, format!("pods \"host\" is forbidden: {why}"));
    let generated = json!({"metadata": {"generateName": "gen-"}, "spec": host["spec"]});
    assert_eq!(refused(&client, pods, &generated).await?, format!("pods \"\" is forbidden: {why}"), "no name was asked for");
    let warnings = warned(&client, "POST", pods, &pod("fine", &json!({}))).await?;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("would violate PodSecurity \\\"restricted:v1.22\\\": allowPrivilegeEscalation != false"), "{warnings:?}");
    let template = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": host["spec"]}});
    let deployment = named("d", &json!({"spec": template}));
    let warnings = warned(&client, "POST", "/apis/apps/v1/namespaces/strict/deployments", &deployment).await?;
    assert!(warnings.iter().any(|text| text.contains("would violate PodSecurity")), "{warnings:?}");
    // Who raises the level hears of the Pods that are there.
    let mut raised = strict.clone();
    raised["metadata"]["labels"][label("enforce")] = "restricted".into();
    let mut warnings = Vec::new();
    for _ in 0..100 {
        warnings = warned(&client, "PUT", "/api/v1/namespaces/strict?dryRun=All", &raised).await?;
        if !warnings.is_empty() {
            break;
        }
    }
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0]
            .contains("existing pods in namespace \\\"strict\\\" violate the new PodSecurity enforce level \\\"restricted:latest\\\"")
    );
    assert!(warnings[1].contains("fine: allowPrivilegeEscalation != false"), "{warnings:?}");
    server.kill()
}

/// What a quota says is used.
async fn used(client: &Client, name: &str, resource: &str) -> Result<String, Failure> {
    let quota = asked(client, ("GET", &format!("/api/v1/namespaces/default/resourcequotas/{name}")), None, 200).await?;
    Ok(quota["status"]["used"][resource].as_str().unwrap_or_default().to_owned())
}

async fn comes_to(client: &Client, name: &str, resource: &str, want: &str) -> Outcome {
    let mut last = String::new();
    for _ in 0..1_200 {
        last = used(client, name, resource).await?;
        if last == want {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Err(format!("{name}: {resource} is {last}, not {want}").into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_never_exceeded() -> Outcome {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const LIMIT: usize = 40;
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--controllers=resourcequota"]).await?;
    let client = server.client();
    let hard = json!({"spec": {"hard": {"count/configmaps": LIMIT.to_string(), "pods": "1", "requests.cpu": "1"}}});
    made(&client, "/api/v1/namespaces/default/resourcequotas", &named("q", &hard)).await?;
    comes_to(&client, "q", "pods", "0").await?;
    let before: usize = used(&client, "q", "count/configmaps").await?.parse()?;
    let silent = refused(&client, PODS, &pod("p", &json!({}))).await?;
    assert_eq!(silent, "pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c");
    let small = |name: &str| pod(name, &json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}));
    let dry = asked(&client, ("POST", &format!("{PODS}?dryRun=All")), Some(&small("dry")), 201).await?;
    assert_eq!(dry["metadata"]["name"], "dry");
    made(&client, PODS, &small("one")).await?;
    assert_eq!((used(&client, "q", "pods").await?, used(&client, "q", "requests.cpu").await?), ("1".to_owned(), "100m".to_owned()));
    let second = refused(&client, PODS, &small("two")).await?;
    assert_eq!(second, "pods \"two\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1");
    // Many writers at once get what is left, and not one more.
    let writers = (0..16).map(|writer| {
        let client = server.client();
        async move {
            let mut created = 0;
            for n in 0..LIMIT / 8 {
                let object = named(&format!("m{writer}-{n}"), &json!({})).to_string();
                let answer = client.ask(&Request { method: "POST", target: MAPS, body: Some(object.as_bytes()) }).await?;
                match answer.status {
                    201 => created += 1,
                    403 => {}
                    other => return Err(Failure::from(format!("{other} {}", String::from_utf8_lossy(&answer.body)))),
                }
            }
            Ok(created)
        }
    });
    let created: usize = futures_util::future::try_join_all(writers).await?.into_iter().sum();
    assert_eq!(created, LIMIT - before);
    assert_eq!(used(&client, "q", "count/configmaps").await?, LIMIT.to_string());
    let there = asked(&client, ("GET", MAPS), None, 200).await?["items"].as_array().map_or(0, Vec::len);
    assert_eq!(there, LIMIT);
    // What goes is given back.
    asked(&client, ("DELETE", &format!("{PODS}/one?gracePeriodSeconds=0")), None, 200).await?;
    comes_to(&client, "q", "pods", "0").await?;
    made(&client, PODS, &small("two")).await?;
    server.kill()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugins_are_turned_off_by_their_names() -> Outcome {
    let dir = tempfile::tempdir()?;
    let flags = ["--disable-admission-plugins=Priority,PodSecurity,TaintNodesByCondition", "--default-unreachable-toleration-seconds=5"];
    let server = Alone::start_with(dir.path(), &flags).await?;
    let client = server.client();
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    made(&client, "/api/v1/namespaces", &json!({"metadata": {"name": "open", "labels": labels}})).await?;
    let made_pod = made(&client, "/api/v1/namespaces/open/pods", &pod("p", &json!({"hostPID": true}))).await?;
    assert_eq!(made_pod["spec"].get("priority"), None);
    assert_eq!(made_pod["spec"]["tolerations"][1]["tolerationSeconds"], 5);
    assert_eq!(made(&client, "/api/v1/nodes", &named("n", &json!({}))).await?["spec"].get("taints"), None);
    // A status is judged by nobody.
    let status = json!({"status": {"phase": "Running"}});
    let target = "/api/v1/namespaces/open/pods/p/status";
    let body = status.to_string();
    let answer = client.ask(&Request { method: "GET", target, body: None }).await?;
    assert_eq!(answer.status, 200, "{body}");
    assert_eq!(patched(&client, target, &status, 200).await?["status"]["phase"], "Running");
    server.kill()
}

/// Plugins keep to their settings: levels by default and what is exempt, counted as in kube-apiserver, and what needs a quota.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugins_keep_to_the_settings_of_a_file() -> Outcome {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("admission.yaml");
    let settings = json!({"kind": "AdmissionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1", "plugins": [
        {"name": "PodSecurity", "configuration": {"kind": "PodSecurityConfiguration", "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "defaults": {"enforce": "baseline", "enforce-version": "v1.30"}, "exemptions": {"namespaces": ["kube-system"]}}},
        {"name": "ResourceQuota", "configuration": {"kind": "ResourceQuotaConfiguration", "apiVersion": "apiserver.config.k8s.io/v1",
            "limitedResources": [{"resource": "persistentvolumeclaims", "matchContains": ["requests.storage"]}]}}]});
    std::fs::write(&file, settings.to_string())?;
    let server = Alone::start_with(dir.path(), &[&format!("--admission-control-config-file={}", file.display())]).await?;
    let client = server.client();
    let privileged = json!({"hostPID": true});
    let why = refused(&client, PODS, &pod("p", &privileged)).await?;
    assert_eq!(why, r#"pods "p" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostPID=true)"#);
    made(&client, "/api/v1/namespaces/kube-system/pods", &pod("p", &privileged)).await?;
    made(&client, PODS, &pod("plain", &json!({}))).await?;
    let claim = named("c", &json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
    let why = refused(&client, CLAIMS, &claim).await?;
    assert_eq!(why, r#"persistentvolumeclaims "c" is forbidden: insufficient quota to consume: requests.storage"#);
    let metrics = client.whole("GET", "/metrics", &[], b"").await?;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for line in [
        r#"pod_security_evaluations_total{decision="deny",mode="enforce",policy_level="baseline",policy_version="v1.30",request_operation="create",resource="pod",subresource=""} 1"#,
        r#"pod_security_evaluations_total{decision="allow",mode="enforce",policy_level="baseline",policy_version="v1.30",request_operation="create",resource="pod",subresource=""} 1"#,
        r#"pod_security_exemptions_total{request_operation="create",resource="pod",subresource=""} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    Ok(())
}
