//! Runs the same story of server-side applies with kube-rs on watchcache and on a kube-apiserver; succeeds only if both answer the same.
//!
//! `tests/differential/run.sh` starts both and runs it.

mod connect;

use std::{error::Error, path::PathBuf};

use clap::Parser;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace},
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const NAMESPACE: &str = "apply-rs";

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
struct Options {
    /// URL of watchcache.
    #[arg(long)]
    ours: http::Uri,
    /// URL of kube-apiserver.
    #[arg(long)]
    theirs: http::Uri,
    /// File with the authority of both.
    #[arg(long)]
    ca: PathBuf,
    /// A token that both take.
    #[arg(long)]
    token: String,
    /// Not used.
    #[arg(long)]
    known: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let (ours, theirs) = (told(&options, &options.ours).await?, told(&options, &options.theirs).await?);
    let mut differ = 0;
    for (ours, theirs) in ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs) {
        differ += 1;
        eprintln!("differs:\n  ours   {ours}\n  theirs {theirs}");
    }
    println!("{} answers compared, {differ} differ", theirs.len());
    if differ > 0 || ours.len() != theirs.len() {
        return Err("watchcache answers otherwise".into());
    }
    Ok(())
}

/// Runs the story on one server, and returns what it answered.
async fn told(options: &Options, url: &http::Uri) -> Result<Vec<String>> {
    let config = connect::config(url, Some(&options.token), Some(&options.ca))?;
    let client = Client::try_from(config)?;
    let mut story = Story { client, told: Vec::new() };
    story.run().await?;
    Ok(story.told)
}

/// What happens on one server, and what it answered.
struct Story {
    client: Client,
    told: Vec<String>,
}

impl Story {
    /// Notes an answer, without what differs from server to server.
    fn tell<T: Serialize>(&mut self, what: &str, answer: std::result::Result<T, kube::Error>) -> Result<()> {
        let told = match answer {
            Ok(object) => {
                let mut object = serde_json::to_value(&object)?;
                strip(&mut object);
                object.to_string()
            }
            Err(kube::Error::Api(status)) => format!("refused: {status:?}"),
            Err(other) => return Err(other.into()),
        };
        self.told.push(format!("{what}: {told}"));
        Ok(())
    }

    async fn apply<K>(&mut self, what: &str, api: &Api<K>, name: &str, params: &PatchParams, config: Value) -> Result<()>
    where
        K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
    {
        let answer = api.patch(name, params, &Patch::Apply(&config)).await;
        self.tell(what, answer)
    }

    async fn run(&mut self) -> Result<()> {
        let (first, second) = (PatchParams::apply("first"), PatchParams::apply("second"));
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {"a": "b"}}});
        self.apply("namespace", &namespaces, NAMESPACE, &first, namespace).await?;

        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        self.apply("map", &maps, "m", &first, map(json!({"a": "1", "b": "2"}))).await?;
        self.apply("shared", &maps, "m", &second, map(json!({"b": "2", "c": "3"}))).await?;
        self.apply("conflict", &maps, "m", &second, map(json!({"a": "2", "b": "3"}))).await?;
        self.apply("forced", &maps, "m", &second.clone().force(), map(json!({"a": "2", "b": "3"}))).await?;
        self.apply("given up", &maps, "m", &first, map(json!({"b": null}))).await?;
        let mut current = maps.get("m").await?;
        current.data.get_or_insert_default().insert("d".into(), "4".into());
        let replaced = maps.replace("m", &PostParams { field_manager: Some("third".into()), ..PostParams::default() }, &current).await;
        self.tell("replaced", replaced)?;
        let merged = maps.patch("m", &PatchParams::default(), &Patch::Merge(json!({"data": {"e": "5"}}))).await;
        self.tell("merged", merged)?;
        self.apply("another kind", &maps, "m", &first, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m"}})).await?;
        self.apply("another name", &maps, "m", &first, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}})).await?;
        let strict = PatchParams { field_validation: Some(kube::api::ValidationDirective::Strict), ..first.clone() };
        self.apply("an unknown field", &maps, "m", &strict, json!({"apiVersion": "v1", "kind": "ConfigMap", "dat": {}})).await?;

        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let deployment = |replicas: Value, image: &str| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image, "ports": [{"containerPort": 80}]}]}}}})
        };
        self.apply("deployment", &deployments, "web", &first, deployment(json!(2), "nginx:1")).await?;
        let scaled = deployments.patch_scale("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 4}}))).await;
        self.tell("scaled", scaled)?;
        self.apply("conflict with a scale", &deployments, "web", &first, deployment(json!(2), "nginx:2")).await?;
        self.apply("replicas left to others", &deployments, "web", &first, deployment(Value::Null, "nginx:2")).await?;
        let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 4, "observedGeneration": 3}});
        let answer = deployments.patch_status("web", &PatchParams::apply("controller"), &Patch::Apply(&status)).await;
        self.tell("status", answer)?;
        let dry = PatchParams { dry_run: true, ..second.force() };
        self.apply("dry run", &deployments, "web", &dry, deployment(json!(9), "nginx:9")).await?;
        let answer = deployments.get("web").await;
        self.tell("at the end", answer)
    }
}

/// Takes away what differs from server to server: the order of managers too, which is that of seconds that pass while a server is asked.
fn strip(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    ["uid", "resourceVersion", "creationTimestamp"].iter().for_each(|name| drop(metadata.remove(*name)));
    let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) else { return };
    for entry in &mut *entries {
        entry.as_object_mut().and_then(|entry| entry.remove("time"));
    }
    entries.sort_by_cached_key(Value::to_string);
}
