//! What `deploy/` hands out: our own server takes the manifests without a word of warning, and the command lines in them are ones that we understand.

mod chart;

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use watchcache::config::Invocation;

use crate::{
    client::Client,
    live::{
        Outcome, free_address,
        peers::{Running, Site},
    },
};

/// Where objects of these kinds are made.
const COLLECTIONS: [(&str, &str); 14] = [
    ("Namespace", "/api/v1/namespaces"),
    ("ServiceAccount", "/api/v1/namespaces/watchcache/serviceaccounts"),
    ("Secret", "/api/v1/namespaces/watchcache/secrets"),
    ("ConfigMap", "/api/v1/namespaces/watchcache/configmaps"),
    ("Service", "/api/v1/namespaces/watchcache/services"),
    ("PodDisruptionBudget", "/apis/policy/v1/namespaces/watchcache/poddisruptionbudgets"),
    ("NetworkPolicy", "/apis/networking.k8s.io/v1/namespaces/watchcache/networkpolicies"),
    ("ClusterRole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("ClusterRoleBinding", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("Deployment", "/apis/apps/v1/namespaces/watchcache/deployments"),
    ("StatefulSet", "/apis/apps/v1/namespaces/watchcache/statefulsets"),
    ("Certificate", "/apis/cert-manager.io/v1/namespaces/watchcache/certificates"),
    ("PrometheusRule", "/apis/monitoring.coreos.com/v1/namespaces/watchcache/prometheusrules"),
    ("ServiceMonitor", "/apis/monitoring.coreos.com/v1/namespaces/watchcache/servicemonitors"),
];

/// A file of `deploy/`.
pub(crate) fn deployed(name: &str) -> std::io::Result<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name))
}

#[tokio::test]
async fn our_own_server_takes_the_manifests() -> Outcome {
    for name in ["kubernetes/standalone.yaml", "kubernetes/with-etcd.yaml", "kubernetes/replica.yaml", "kubernetes/upstream.yaml"] {
        let (_running, _site, client) = our_own_server().await?;
        let mut understood = 0;
        for document in deployed(name)?.split("\n---\n") {
            let object = created(&client, document).await.map_err(|why| format!("{name}: {why}"))?;
            understood += command_lines(&object)?;
        }
        assert_eq!(understood, 1, "{name}: one container is ours");
    }
    Ok(())
}

/// On its embedded store, empty and ready.
async fn our_own_server() -> Result<(Running, Site, Client), Box<dyn std::error::Error>> {
    let site = Site::prepare(Path::new(""))?;
    let address = free_address()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args(["serve", "--insecure-port", &address.port().to_string(), "--data-dir"]).arg(site.path().join("store"));
    let running = site.start("watchcache", command)?;
    let client = Client::plain(address);
    running.ready(&client).await?;
    Ok((running, site, client))
}

/// Warnings that are no fault of a document: this server does not do these.
const UNAPPLIED: [&str; 2] = ["load balancers are not provisioned by this server", "Pod Security admission is not applied by this server"];

/// Creates what a document describes, as strictly as a server can; the object.
async fn created(client: &Client, document: &str) -> Result<Value, Box<dyn std::error::Error>> {
    let kind = document.lines().find_map(|line| line.strip_prefix("kind: ")).ok_or("a document has no kind")?;
    let (_, collection) = COLLECTIONS.iter().find(|(known, _)| *known == kind).ok_or_else(|| format!("{kind} is not in the table"))?;
    let headers = [("Content-Type".to_owned(), "application/yaml".to_owned())];
    let answer = client.whole("POST", &format!("{collection}?fieldValidation=Strict"), &headers, document.as_bytes()).await?;
    let body = String::from_utf8_lossy(&answer.body);
    let warned = answer.header("warning").any(|text| !UNAPPLIED.iter().any(|known| text.contains(known)));
    if answer.status != 201 || warned {
        return Err(format!("{kind}: {} {:?} {body}", answer.status, answer.headers).into());
    }
    Ok(serde_json::from_str(&body)?)
}

/// Reads the arguments of the containers that run our program; how many there are.
fn command_lines(object: &Value) -> Result<usize, Box<dyn std::error::Error>> {
    let containers = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let ours: Vec<&Value> = containers.into_iter().flatten().filter(|container| container["name"] == "watchcache").collect();
    for container in &ours {
        let arguments = container["args"].as_array().ok_or("the container has no args")?.iter().filter_map(Value::as_str);
        Invocation::from_command_line(["watchcache"].into_iter().chain(arguments)).map_err(|stop| format!("{stop:?}"))?;
    }
    Ok(ours.len())
}

/// The command of the image, which stands in two files.
#[test]
fn the_command_of_the_image_is_one_that_we_understand() -> Outcome {
    let list = |text: &str, from: &str| -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let text = text.split_once(from).ok_or("no command")?.1;
        Ok(serde_json::from_str(&format!("[{}]", text.split(']').next().unwrap_or_default()))?)
    };
    let [file, script] =
        [("container/Containerfile", "\nCMD ["), ("container/build.sh", "\"Cmd\": [")].map(|(file, from)| list(&deployed(file)?, from));
    let (file, script) = (file?, script?);
    assert_eq!(file, script);
    let invocation =
        Invocation::from_command_line(["watchcache".to_owned()].into_iter().chain(file)).map_err(|stop| format!("{stop:?}"))?;
    let Invocation::Serve(config) = invocation else { return Err("it serves nothing".into()) };
    assert!(config.listeners.insecure_port.is_none() && config.listeners.secure.is_some(), "nobody comes in without credentials");
    Ok(())
}

/// The manifests of an aggregated API server, whose definitions are those of an example; with a real host: `live/aggregated`.
#[test]
fn aggregated_manifests_are_printed() -> Outcome {
    let definitions = tempfile::tempdir()?;
    let file = definitions.path().join("widgets.yaml");
    let version = |name: &str, served: bool| {
        format!("  - {{name: {name}, served: {served}, storage: {served}, schema: {{openAPIV3Schema: {{type: object}}}}}}\n")
    };
    let head = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.ex.io}\nspec:\n  group: ex.io\n  scope: Cluster\n  \
                names: {plural: widgets, kind: Widget}\n  versions:\n";
    fs::write(&file, head.to_owned() + &version("v1", true) + &version("v2", false))?;
    let print = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
        command.args(["aggregate", "--print-manifests", "--definitions"]).arg(definitions.path()).args(flags).output()
    };
    let output = print(&["--name=wc", "--namespace=ext", "--image=wc:1", "--memory-limit=1536Mi", "--storage-class=fast"])?;
    let text = String::from_utf8(output.stdout)?;
    let mut kinds = Vec::new();
    for document in text.split("\n---\n") {
        let object = go::yaml::reader::parse(document.as_bytes()).map_err(|error| error.to_string())?.value;
        kinds.push(object["kind"].as_str().unwrap_or_default().to_owned());
        if object["kind"] == "StatefulSet" {
            assert_eq!(command_lines(&object)?, 1);
            let container = &object["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["resources"]["limits"]["memory"], "1536Mi");
            assert!(container["args"].as_array().is_some_and(|args| args.contains(&"--memory-budget=1073741824".into())), "{container}");
            assert_eq!(object["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"], "fast");
        }
        if object["kind"] == "APIService" {
            assert_eq!((&object["metadata"]["name"], &object["spec"]["service"]["name"]), (&"v1.ex.io".into(), &"wc".into()));
        }
        if object["kind"] == "ConfigMap" && object["data"].get("widgets.yaml").is_some() {
            assert_eq!(object["data"]["widgets.yaml"], fs::read_to_string(&file)?);
        }
    }
    let all = "Namespace ServiceAccount ClusterRole ClusterRoleBinding ClusterRoleBinding RoleBinding ConfigMap ConfigMap Secret Service StatefulSet APIService";
    assert_eq!(kinds.join(" "), all);
    assert_eq!(String::from_utf8(output.stderr)?, "");
    for (flags, wrong) in [
        (&["--name=A"][..], "--name \"A\": must have"),
        (&["--namespace="], "--namespace \"\": must have"),
        (&["--memory-limit=64Mi"], "must be at least 128Mi"),
    ] {
        let output = print(flags)?;
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains(wrong), "{output:?}");
    }
    fs::write(&file, "kind: Pod\napiVersion: v1\n")?;
    let output = print(&[])?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.stdout.is_empty() && told.contains("widgets.yaml: v1 Pod is no CustomResourceDefinition"), "{told}");
    Ok(())
}

#[test]
fn the_units_start_what_there_is() -> Outcome {
    for name in ["watchcache.service", "watchcache-etcd.service"] {
        let unit = deployed(name)?;
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/")).ok_or("no ExecStart")?;
        Invocation::from_command_line(line.split(' ')).map_err(|stop| format!("{name}: {stop:?}"))?;
    }
    Ok(())
}
