//! Files of one volume that hide each other.

use serde_json::Value;

use super::items;
use crate::write::tree;
use go::quote::quoted;

/// A file and where it comes from.
#[derive(Clone, PartialEq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn shown(&self) -> String {
        if self.source.is_empty() { quoted(&self.path) } else { format!("{} ({})", quoted(&self.path), self.source) }
    }
}

/// Files of the volumes of a Pod that are the same, or in each other.
pub(super) fn of_volumes(spec: &Value, warnings: &mut Vec<String>) {
    for volume in items(spec, &["volumes"]) {
        let name = quoted(tree::text(volume, &["name"]));
        let named = |kind: &str, of: &Value, member: &str| format!("{kind} {}", quoted(tree::text(of, &[member])));
        let mut tell = |shown: &str, overlaps: Vec<String>| {
            warnings.extend(overlaps.into_iter().map(|body| format!("volume {name} ({shown}): overlapping paths: {body}")));
        };
        let (map, secret) = (&volume["configMap"], &volume["secret"]);
        tell(&named("ConfigMap", map, "name"), overlaps(files(map, "")));
        tell(&named("Secret", secret, "secretName"), overlaps(files(secret, "")));
        tell("DownwardAPI", overlaps(files(&volume["downwardAPI"], "")));
        let mut all = Vec::new();
        let mut empty = Vec::new();
        for source in items(volume, &["projected", "sources"]) {
            if source.as_object().is_some_and(serde_json::Map::is_empty) {
                empty.push(format!("volume {name} (Projected) has no sources provided"));
                continue;
            }
            let part = |member: &str| source.get(member).filter(|part| !part.is_null());
            let listed = |member: &str| part(member).filter(|part| tree::at(part, &["items"]).is_some());
            let one =
                |of: &Value, member: &str, source: &str| File { path: tree::text(of, &[member]).to_owned(), source: source.to_owned() };
            if let Some(map) = listed("configMap") {
                all.extend(files(map, &named("ConfigMap", map, "name")));
            } else if let Some(secret) = listed("secret") {
                all.extend(files(secret, &named("Secret", secret, "name")));
            } else if let Some(downward) = listed("downwardAPI") {
                all.extend(files(downward, "DownwardAPI"));
            } else if let Some(token) = part("serviceAccountToken") {
                all.push(one(token, "path", "ServiceAccountToken"));
            } else if let Some(bundle) = part("clusterTrustBundle") {
                let member = if tree::at(bundle, &["name"]).is_some() { "name" } else { "signerName" };
                all.push(one(bundle, "path", &named("ClusterTrustBundle", bundle, member)));
            } else if let Some(certificate) = part("podCertificate") {
                let parts = [("certificateChainPath", "chain"), ("keyPath", "key"), ("credentialBundlePath", "credential bundle")];
                let warnings = parts.iter().map(|(member, what)| one(certificate, member, &format!("PodCertificate {what}")));
                all.extend(warnings.filter(|file| !file.path.is_empty()));
            }
        }
        tell("Projected", overlaps(all));
        warnings.extend(empty);
    }
}

fn files(of: &Value, source: &str) -> Vec<File> {
    items(of, &["items"]).map(|item| File { path: tree::text(item, &["path"]).to_owned(), source: source.to_owned() }).collect()
}

fn overlaps(files: Vec<File>) -> Vec<String> {
    let (mut warnings, mut known) = (Vec::new(), Vec::<File>::new());
    for mut file in files {
        file.path.truncate(file.path.trim_end_matches('/').len());
        let is_in = |inner: &str, outer: &str| format!("{inner}/").starts_with(&format!("{outer}/"));
        let collides = |other: &&File| {
            !file.path.is_empty() && !other.path.is_empty() && (is_in(&other.path, &file.path) || is_in(&file.path, &other.path))
        };
        warnings.extend(known.iter().filter(collides).map(|other| format!("{} with {}", file.shown(), other.shown())));
        known.push(file);
    }
    warnings
}
