//! The resources to compare: those that both servers discover, with objects that are known to be accepted.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::client::Connection;

/// The namespace that objects are written to.
pub(crate) const NAMESPACE: &str = "differential";

/// Accepted objects recorded from kube-apiserver, those that are not among them, and what is asked and not stored.
const SEEDS: [&str; 3] =
    [include_str!("../../data/defaults/created.jsonl"), include_str!("../seeds.jsonl"), include_str!("../reviews.jsonl")];

/// One resource.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// `apps/v1/deployments`, `v1/pods`.
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) api_version: String,
    /// Path of the collection.
    pub(crate) collection: String,
    namespaced: bool,
    pub(crate) has_status: bool,
    /// Objects can be read and replaced; reviews cannot.
    pub(crate) is_stored: bool,
    pub(crate) seeds: Vec<Value>,
}

impl Resource {
    /// Names the object: the n-th of this run. What is not stored has no name.
    pub(crate) fn name(&self, object: &mut Value, run: u64, n: usize) -> String {
        if !self.is_stored {
            return String::new();
        }
        let run = run % 1000;
        let name = match self.kind.as_str() {
            "IPAddress" => format!("10.{}.{}.{}", 100 + run % 100, n / 250, n % 250 + 1),
            "APIService" => {
                let group = format!("g{run}-{n}.io");
                object["spec"]["group"] = group.as_str().into();
                object["spec"]["version"] = "v1".into();
                format!("v1.{group}")
            }
            "CustomResourceDefinition" => {
                let plural = format!("as{run}x{n}");
                object["spec"]["group"] = "ex.io".into();
                object["spec"]["names"] = json!({"plural": plural, "kind": format!("A{run}x{n}")});
                format!("{plural}.ex.io")
            }
            // Some kinds are served in two versions, and Pods are named like host names.
            _ => format!("d{run}-{n}-{}", self.api_version.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte))),
        };
        object["metadata"]["name"] = name.as_str().into();
        if self.namespaced {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        name
    }
}

/// Every resource that both servers let create, read and replace; and `with_reviews` those that they only let create.
pub(crate) async fn discover(ours: &mut Connection, theirs: &mut Connection, with_reviews: bool) -> Result<Vec<Resource>> {
    let known = names(ours).await?;
    let mut seeds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in SEEDS.iter().flat_map(|text| text.lines()) {
        let line = line.replace(r#""namespace":"default""#, &format!(r#""namespace":"{NAMESPACE}""#));
        let line: Value = serde_json::from_str(&line).context("a line of seeds")?;
        let path = line["path"].as_str().context("a path")?.replace("/namespaces/default/", "/");
        seeds.entry(path).or_default().push(line["sent"].clone());
    }
    let mut resources = Vec::new();
    for (group_version, list) in lists(theirs).await? {
        let root = if group_version.contains('/') { format!("/apis/{group_version}") } else { format!("/api/{group_version}") };
        let entries = list["resources"].as_array().cloned().unwrap_or_default();
        let may = |entry: &Value, verb: &str| entry["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|it| it == verb));
        for entry in entries.iter().filter(|entry| may(entry, "create")) {
            let is_stored = ["get", "update"].iter().all(|verb| may(entry, verb));
            let resource = entry["name"].as_str().unwrap_or("");
            let name = format!("{group_version}/{resource}");
            if resource.contains('/') || !known.contains(&name) || !(is_stored || with_reviews) {
                continue;
            }
            let namespaced = entry["namespaced"] == true;
            let collection = if namespaced { format!("{root}/namespaces/{NAMESPACE}/{resource}") } else { format!("{root}/{resource}") };
            let has_status = entries.iter().any(|other| other["name"] == format!("{resource}/status") && may(other, "update"));
            let seeds = seeds.get(&format!("{root}/{resource}")).cloned().unwrap_or_default();
            let kind = entry["kind"].as_str().unwrap_or("").to_owned();
            resources.push(Resource {
                name,
                kind,
                api_version: group_version.clone(),
                collection,
                namespaced,
                has_status,
                is_stored,
                seeds,
            });
        }
    }
    Ok(resources)
}

async fn names(server: &mut Connection) -> Result<BTreeSet<String>> {
    let lists = lists(server).await?;
    let all = lists.iter().flat_map(|(group_version, list)| {
        let names = list["resources"].as_array().into_iter().flatten().filter_map(|entry| entry["name"].as_str());
        names.map(move |name| format!("{group_version}/{name}")).collect::<Vec<_>>()
    });
    Ok(all.collect())
}

async fn lists(server: &mut Connection) -> Result<Vec<(String, Value)>> {
    let mut versions = vec!["v1".to_owned()];
    let groups: Value = serde_json::from_str(&server.send("GET", "/apis", "", "").await?.body)?;
    for group in groups["groups"].as_array().into_iter().flatten().filter(|group| is_built_in(group["name"].as_str().unwrap_or(""))) {
        let all = group["versions"].as_array().into_iter().flatten().filter_map(|version| version["groupVersion"].as_str());
        versions.extend(all.map(str::to_owned));
    }
    let mut lists = Vec::new();
    for version in versions {
        let root = if version.contains('/') { "apis" } else { "api" };
        let answer = server.send("GET", &format!("/{root}/{version}"), "", "").await?;
        if answer.is_success() {
            lists.push((version, serde_json::from_str(&answer.body)?));
        }
    }
    Ok(lists)
}

fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}
