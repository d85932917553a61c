//! The life of random objects of one resource on both servers: created, replaced, patched, applied, their status written.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use rand::{Rng, seq::IndexedRandom};
use serde_json::{Value, json};

use crate::{
    client::{Answer, Connection, Server},
    make::Maker,
    place::{Path, Step},
    repair::repair,
    resource::Resource,
    same::{Difference, differences, has_own_status, managers, plain, uid},
    types::Types,
};

/// Attempts to make an object acceptable, and a change.
const ATTEMPTS_MAX: usize = 16;
/// Repairs of an object before a change is taken back.
const REPAIRS_MAX: usize = 4;
/// Changes of a seed for a new object, and of an object for a write.
const CHANGES_MAX: usize = 6;

/// What the server sets in metadata and a PUT need not have.
pub(crate) const SERVER_SET: [&str; 4] = ["uid", "resourceVersion", "creationTimestamp", "managedFields"];

pub(crate) const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// A group of equal differences.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) count: usize,
    pub(crate) example: Difference,
    /// The request of the first one.
    pub(crate) request: String,
}

/// What came of one resource.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) objects: usize,
    /// Objects that kube-apiserver created.
    pub(crate) accepted: usize,
    /// Writes that kube-apiserver carried out, the creations among them, and how many of them were the same here.
    pub(crate) writes: usize,
    pub(crate) equal: usize,
    /// Writes that kube-apiserver refused as invalid and watchcache would accept.
    pub(crate) accepted_alone: usize,
    /// Fields that kube-apiserver has accepted in some write, by type and name; and how many there are.
    pub(crate) fields: BTreeSet<(String, String)>,
    pub(crate) fields_all: usize,
    /// By operation, path and kind of difference.
    pub(crate) groups: BTreeMap<(String, String, &'static str), Group>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Put,
    Merge,
    JsonPatch,
    Strategic,
    /// By one of two managers, with or without force.
    Apply(Manager),
    StatusPut,
    StatusMerge,
    StatusApply(Manager),
}

/// Who applies, as a query says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    First,
    FirstForces,
    SecondForces,
}

impl Manager {
    const ALL: [Self; 3] = [Self::First, Self::FirstForces, Self::SecondForces];

    fn query(self) -> &'static str {
        match self {
            Self::First => "?fieldManager=first",
            Self::FirstForces => "?fieldManager=first&force=true",
            Self::SecondForces => "?fieldManager=second&force=true",
        }
    }
}

impl Write {
    fn is_of_status(self) -> bool {
        matches!(self, Self::StatusPut | Self::StatusMerge | Self::StatusApply(_))
    }

    /// The query of its request.
    fn query(self) -> &'static str {
        match self {
            Self::Apply(manager) | Self::StatusApply(manager) => manager.query(),
            _ => "",
        }
    }
}

/// Both servers and the resource.
struct Pair<'a, 't> {
    ours: Connection,
    theirs: Connection,
    resource: &'a Resource,
    type_name: String,
    maker: Maker<'t>,
    report: Report,
    /// Somebody has sent an empty list of the object: kube-apiserver manages it apart from none until it has stored it as none (docs/conformance.md,
    /// `empties`).
    had_empties: bool,
}

/// Compares so many objects.
pub(crate) async fn run(ours: &Server, theirs: &Server, resource: &Resource, types: &Types, seed: u64, objects: usize) -> Result<Report> {
    let kind = format!("{}/{}", resource.api_version, resource.kind);
    let type_name = types.of_kind(&kind).unwrap_or_default().to_owned();
    let own = resource.name.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let (ours, theirs) = (ours.connection(), theirs.connection());
    let mut pair = Pair { ours, theirs, resource, type_name, maker: Maker::new(types, own), report: Report::default(), had_empties: false };
    pair.report.fields_all = types.count_below(&pair.type_name);
    if resource.seeds.is_empty() {
        return Ok(pair.report);
    }
    for n in 0..objects {
        pair.object(seed, n).await?;
    }
    Ok(pair.report)
}

impl Pair<'_, '_> {
    async fn object(&mut self, run: u64, n: usize) -> Result<()> {
        self.report.objects += 1;
        self.had_empties = false;
        let mut base = self.resource.seeds.choose(&mut self.maker.rng).cloned().unwrap_or_default();
        let name = self.resource.name(&mut base, run, n);
        let path = format!("{}/{name}", self.resource.collection);
        if self.created(&base, &path).await?.is_none() {
            return Ok(());
        }
        let mut steps = vec![Write::Put, Write::Merge, Write::JsonPatch, Write::Strategic, Write::Put];
        steps.extend(Manager::ALL.map(Write::Apply));
        if self.resource.has_status && has_own_status(&self.resource.kind) {
            steps.extend([Write::StatusPut, Write::StatusMerge, Write::StatusPut]);
            steps.extend(Manager::ALL.map(Write::StatusApply));
        }
        let chosen: Vec<Write> = steps.choose_multiple(&mut self.maker.rng, 4).copied().collect();
        for step in chosen {
            if !self.changed(step, &path).await? {
                break;
            }
        }
        for server in [&mut self.ours, &mut self.theirs] {
            server.send("DELETE", &path, JSON, r#"{"gracePeriodSeconds":0}"#).await?;
        }
        Ok(())
    }

    /// A new object; `None` when theirs takes none or ours is another.
    async fn created(&mut self, base: &Value, path: &str) -> Result<Option<()>> {
        let members = self.members();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        // As it was before each change: what cannot be repaired is taken back.
        let (mut object, mut before) = (base.clone(), vec![base.clone()]);
        for _ in 0..self.maker.rng.random_range(0..=CHANGES_MAX) {
            before.push(object.clone());
            self.maker.change(&mut object, &self.type_name, &members);
        }
        let (method, media, target) = match self.maker.rng.random_ratio(1, 4) {
            true => ("PATCH", APPLY, format!("{path}{}", Manager::First.query())),
            false => ("POST", JSON, self.resource.collection.clone()),
        };
        for attempt in 0..ATTEMPTS_MAX {
            let body = object.to_string();
            let theirs = self.theirs.send(method, &target, media, &body).await?;
            if theirs.is_success() {
                self.report.accepted += 1;
                self.report.fields.extend(self.maker.fields(&object, &self.type_name));
                let ours = self.ours.send(method, &target, media, &body).await?;
                let is_same =
                    self.compare(if method == "POST" { method } else { "Created by apply" }, &body, "", path, (&ours, &theirs)).await?;
                return Ok(is_same.then_some(()));
            }
            self.try_alone(method, &target, media, &body).await?;
            let is_repaired = repair(&mut self.maker, &mut object, base, &self.type_name, &theirs.body, attempt % REPAIRS_MAX);
            if !is_repaired || attempt % REPAIRS_MAX == REPAIRS_MAX - 1 {
                object = before.pop().unwrap_or_else(|| base.clone());
            }
        }
        Ok(None)
    }

    /// A change of an object that is the same on both; false when it is no more.
    async fn changed(&mut self, step: Write, path: &str) -> Result<bool> {
        let (theirs_now, ours_now) = (self.theirs.send("GET", path, "", "").await?, self.ours.send("GET", path, "", "").await?);
        if !(theirs_now.is_success() && ours_now.is_success()) {
            return Ok(false);
        }
        let (old, ours_old): (Value, Value) = (serde_json::from_str(&theirs_now.body)?, serde_json::from_str(&ours_now.body)?);
        let is_status = step.is_of_status();
        let target = format!("{path}{}{}", if is_status { "/status" } else { "" }, step.query());
        let mut base = old.clone();
        if let Some(metadata) = base["metadata"].as_object_mut() {
            SERVER_SET.iter().for_each(|name| drop(metadata.remove(*name)));
        }
        let mut wanted = base.clone();
        let Some(mut place) = self.mutate(&mut wanted, is_status) else { return Ok(true) };
        for attempt in 0..ATTEMPTS_MAX {
            let Some((method, media, body)) = self.request(step, &wanted, &old, &place) else { return Ok(true) };
            let theirs = self.theirs.send(method, &target, media, &body).await?;
            let mine = if method == "PUT" { with_revision(&wanted, &ours_old) } else { body.clone() };
            let mine = mine.replace(uid(&old), uid(&ours_old));
            let name = format!("{step:?}");
            if theirs.is_success() {
                self.report.fields.extend(self.maker.fields(&wanted, &self.type_name));
                let ours = self.ours.send(method, &target, media, &mine).await?;
                return self.compare(&name, &body, &theirs_now.body, path, (&ours, &theirs)).await;
            }
            self.try_alone(method, &target, media, &mine).await?;
            let is_repaired = method == "PUT" && repair(&mut self.maker, &mut wanted, &base, &self.type_name, &theirs.body, attempt);
            if !is_repaired {
                wanted = base.clone();
                match self.mutate(&mut wanted, is_status) {
                    Some(other) => place = other,
                    None => return Ok(true),
                }
            }
        }
        Ok(true)
    }

    fn mutate(&mut self, object: &mut Value, is_status: bool) -> Option<Path> {
        let members = self.members();
        let mut members: Vec<&str> = members.iter().map(String::as_str).collect();
        if is_status && self.maker.rng.random_ratio(4, 5) {
            members = vec!["status"];
        }
        let mut place = None;
        for _ in 0..self.maker.rng.random_range(1..=CHANGES_MAX / 2) {
            place = self.maker.change(object, &self.type_name, &members).or(place);
        }
        place
    }

    /// Method, media type and body of a change; none when this kind of patch cannot say it.
    fn request(&self, step: Write, wanted: &Value, old: &Value, place: &Path) -> Option<(&'static str, &'static str, String)> {
        let value = place.get(wanted).cloned();
        match step {
            Write::Put | Write::StatusPut => Some(("PUT", JSON, with_revision(wanted, old))),
            Write::Merge | Write::StatusMerge => {
                let mut place = place.clone();
                if let Some(index) = place.0.iter().position(|step| matches!(step, Step::Index(_))) {
                    place.0.truncate(index);
                }
                let patch = place.merge_patch(place.get(wanted).cloned().unwrap_or(Value::Null))?;
                Some(("PATCH", "application/merge-patch+json", patch.to_string()))
            }
            Write::JsonPatch => {
                let (op, value) = if value.is_some() { ("add", value) } else { ("remove", None) };
                let mut operation = json!({"op": op, "path": place.pointer()});
                if let Some(value) = value {
                    operation["value"] = value;
                }
                Some(("PATCH", "application/json-patch+json", json!([operation]).to_string()))
            }
            Write::Apply(_) | Write::StatusApply(_) => Some(("PATCH", APPLY, wanted.to_string())),
            Write::Strategic => {
                let patch = place.strategic_patch(self.maker.types, &self.type_name, old, value.unwrap_or(Value::Null))?;
                Some(("PATCH", "application/strategic-merge-patch+json", patch.to_string()))
            }
        }
    }

    /// Members of the object that are changed. The rules of an aggregated role are written by a controller inside of watchcache.
    fn members(&self) -> Vec<String> {
        let fields = self.maker.types.fields(&self.type_name).iter().map(|field| field.name.clone());
        let has_status = has_own_status(&self.resource.kind);
        let may = |name: &String| !matches!(name.as_str(), "kind" | "apiVersion" | "aggregationRule") && (has_status || name != "status");
        fields.filter(may).collect()
    }

    /// Whether ours would accept what theirs refused; nothing is written.
    async fn try_alone(&mut self, method: &str, path: &str, media: &str, body: &str) -> Result<()> {
        let begin = if path.contains('?') { '&' } else { '?' };
        let ours = self.ours.send(method, &format!("{path}{begin}dryRun=All"), media, body).await?;
        self.report.accepted_alone += usize::from(ours.is_success());
        Ok(())
    }

    /// Compares the answers to a write that theirs carried out, and the objects that are there then.
    async fn compare(&mut self, step: &str, sent: &str, old: &str, path: &str, (ours, theirs): (&Answer, &Answer)) -> Result<bool> {
        self.report.writes += 1;
        let mut found = Vec::new();
        if ours.code == theirs.code {
            found.extend(self.told(ours, theirs));
            found.extend(differences(&plain(&ours.body, &self.resource.kind), &plain(&theirs.body, &self.resource.kind)));
            self.had_empties |= sent.contains("[]");
            if !self.had_empties {
                found.extend(differences(&managers(&ours.body, &self.resource.kind), &managers(&theirs.body, &self.resource.kind)));
            }
            if found.is_empty() {
                let (ours, theirs) = (self.ours.send("GET", path, "", "").await?, self.theirs.send("GET", path, "", "").await?);
                let read = differences(&plain(&ours.body, &self.resource.kind), &plain(&theirs.body, &self.resource.kind));
                found.extend(read.into_iter().map(|it| Difference { path: format!("(read) {}", it.path), ..it }));
            }
        } else {
            let text = |answer: &Answer| format!("{} {}", answer.code, answer.body.chars().take(600).collect::<String>());
            found.push(Difference { path: String::new(), what: "code", ours: text(ours), theirs: text(theirs) });
        }
        self.report.equal += usize::from(found.is_empty());
        let is_same = found.is_empty();
        for difference in found {
            let key = (step.to_owned(), difference.path.clone(), difference.what);
            let group = self.report.groups.entry(key);
            group.or_insert_with(|| Group { count: 0, example: difference, request: format!("{sent}\n      of {old}") }).count += 1;
        }
        Ok(is_same)
    }

    fn told(&self, ours: &Answer, theirs: &Answer) -> Option<Difference> {
        let (ours, theirs) = (ours.warnings.join("\n"), theirs.warnings.join("\n"));
        (ours != theirs).then(|| Difference { path: "Warning".to_owned(), what: "header", ours, theirs })
    }
}

/// The object as the body of a PUT on the revision of another.
pub(crate) fn with_revision(wanted: &Value, of: &Value) -> String {
    let mut body = wanted.clone();
    body["metadata"]["resourceVersion"] = of["metadata"]["resourceVersion"].clone();
    body.to_string()
}
