//! Right objects made wrong, sent to both servers as dry runs: whatever one refuses, the other must refuse in the same words.

use std::collections::BTreeMap;

use anyhow::Result;
use futures_util::future::join;
use rand::{Rng, seq::IndexedRandom};
use serde_json::Value;

use crate::{
    client::{Answer, Connection, Server},
    make::Maker,
    repair::repair,
    resource::Resource,
    run::{JSON, SERVER_SET, with_revision},
    same::{has_own_status, uid},
    types::Types,
};

/// Wrong objects that are made of each right one: to create, to replace, of its status.
const CREATES: usize = 10;
const UPDATES: usize = 6;
const STATUSES: usize = 4;
/// Changes of a seed, and attempts to make what comes of it right.
const CHANGES_MAX: usize = 4;
const ATTEMPTS_MAX: usize = 8;
/// Attempts to change an object that a server changes at the same time.
const READS_MAX: usize = 4;
/// Nothing is stored.
const QUERY: &str = "?dryRun=All";

/// Requests that differed in the same way.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) count: usize,
    pub(crate) ours: String,
    pub(crate) theirs: String,
    /// The first request.
    pub(crate) request: String,
}

/// What came of one resource.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Requests, and those that kube-apiserver refused.
    pub(crate) asked: usize,
    pub(crate) refused: usize,
    /// Requests whose code and reason were the same.
    pub(crate) verdict_equal: usize,
    /// Requests that kube-apiserver refused and both refused in the same words.
    pub(crate) causes_equal: usize,
    /// Requests that kube-apiserver accepted and watchcache did not.
    pub(crate) refused_alone: usize,
    pub(crate) groups: BTreeMap<String, Group>,
}

impl Report {
    /// How many of the hundred requests that kube-apiserver refused were refused in the same words.
    pub(crate) fn percent(&self) -> f64 {
        if self.refused == 0 { 100.0 } else { 100.0 * self.causes_equal as f64 / self.refused as f64 }
    }
}

struct Pair<'a, 't> {
    ours: Connection,
    theirs: Connection,
    resource: &'a Resource,
    type_name: String,
    maker: Maker<'t>,
    report: Report,
}

/// Compares what is refused of so many right objects made wrong.
pub(crate) async fn run(ours: &Server, theirs: &Server, resource: &Resource, types: &Types, seed: u64, objects: usize) -> Result<Report> {
    let type_name = types.of_kind(&format!("{}/{}", resource.api_version, resource.kind)).unwrap_or_default().to_owned();
    let own = resource.name.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let (ours, theirs) = (ours.connection(), theirs.connection());
    let mut pair = Pair { ours, theirs, resource, type_name, maker: Maker::new(types, own), report: Report::default() };
    if !resource.seeds.is_empty() {
        for n in 0..objects {
            pair.object(seed, n).await?;
        }
    }
    Ok(pair.report)
}

impl Pair<'_, '_> {
    async fn object(&mut self, run: u64, n: usize) -> Result<()> {
        let mut base = self.resource.seeds.choose(&mut self.maker.rng).cloned().unwrap_or_default();
        let name = self.resource.name(&mut base, run, n);
        let collection = self.resource.collection.clone();
        let right = self.right(&base, &collection).await?;
        for _ in 0..CREATES {
            let wrong = self.spoilt(&right, &self.members());
            let body = wrong.to_string();
            let answers = self.both("POST", &format!("{collection}{QUERY}"), &body, &body).await?;
            self.compare("POST", &collection, &body, answers, ("", ""));
        }
        if !self.resource.is_stored {
            return Ok(());
        }
        let path = format!("{collection}/{name}");
        self.changes(&right, &path).await?;
        for server in [&mut self.ours, &mut self.theirs] {
            server.send("DELETE", &path, JSON, r#"{"gracePeriodSeconds":0}"#).await?;
        }
        Ok(())
    }

    /// Wrong changes of an object that is on both.
    async fn changes(&mut self, right: &Value, path: &str) -> Result<()> {
        let body = right.to_string();
        let (ours, theirs) = self.both("POST", &self.resource.collection, &body, &body).await?;
        if !(ours.is_success() && theirs.is_success()) {
            return Ok(());
        }
        let Some(mut now) = self.read(path).await? else { return Ok(()) };
        let mut old = now.1.clone();
        if let Some(metadata) = old["metadata"].as_object_mut() {
            SERVER_SET.iter().for_each(|name| drop(metadata.remove(*name)));
        }
        let has_status = self.resource.has_status && has_own_status(&self.resource.kind);
        for n in 0..UPDATES + if has_status { STATUSES } else { 0 } {
            let of_status = n >= UPDATES;
            let members = if of_status { vec!["status".to_owned()] } else { self.members() };
            let wrong = self.spoilt(&old, &members);
            let target = if of_status { format!("{path}/status") } else { path.to_owned() };
            for attempt in 0..READS_MAX {
                let (mine, body) = (with_revision(&wrong, &now.0), with_revision(&wrong, &now.1));
                let answers = self.both("PUT", &format!("{target}{QUERY}"), &mine, &body).await?;
                // A controller inside of a server may have written since.
                let is_behind = [&answers.0, &answers.1].iter().any(|answer| answer.code == 409);
                if is_behind && attempt + 1 < READS_MAX {
                    let Some(newer) = self.read(path).await? else { return Ok(()) };
                    now = newer;
                    continue;
                }
                self.compare("PUT", &target, &body, answers, (uid(&now.0), uid(&now.1)));
                break;
            }
        }
        Ok(())
    }

    /// The object as it is on both.
    async fn read(&mut self, path: &str) -> Result<Option<(Value, Value)>> {
        let (ours, theirs) = self.both("GET", path, "", "").await?;
        if !(ours.is_success() && theirs.is_success()) {
            return Ok(None);
        }
        Ok(Some((serde_json::from_str(&ours.body)?, serde_json::from_str(&theirs.body)?)))
    }

    /// An object that kube-apiserver accepts: a seed with some changes, or the seed alone when they cannot be repaired.
    async fn right(&mut self, base: &Value, collection: &str) -> Result<Value> {
        let members = self.members();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let mut object = base.clone();
        for _ in 0..self.maker.rng.random_range(0..=CHANGES_MAX) {
            self.maker.change(&mut object, &self.type_name, &members);
        }
        for attempt in 0..ATTEMPTS_MAX {
            let theirs = self.theirs.send("POST", &format!("{collection}{QUERY}"), JSON, &object.to_string()).await?;
            if theirs.is_success() {
                return Ok(object);
            }
            if !repair(&mut self.maker, &mut object, base, &self.type_name, &theirs.body, attempt) {
                break;
            }
        }
        Ok(base.clone())
    }

    /// The object with one wrong field, now and then with several.
    fn spoilt(&mut self, right: &Value, members: &[String]) -> Value {
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let mut wrong = right.clone();
        let count = self.maker.pick(&[1, 1, 1, 1, 2, 3]);
        for _ in 0..count {
            self.maker.spoil(&mut wrong, &self.type_name, &members);
        }
        wrong
    }

    fn members(&self) -> Vec<String> {
        let fields = self.maker.types.fields(&self.type_name).iter().map(|field| field.name.clone());
        fields.filter(|name| !matches!(name.as_str(), "kind" | "apiVersion" | "status")).collect()
    }

    async fn both(&mut self, method: &str, path: &str, mine: &str, body: &str) -> Result<(Answer, Answer)> {
        let (ours, theirs) = join(self.ours.send(method, path, JSON, mine), self.theirs.send(method, path, JSON, body)).await;
        Ok((ours?, theirs?))
    }

    /// Compares what both said to the same dry run; `uids` are of the object that is there.
    fn compare(&mut self, method: &str, path: &str, body: &str, answers: (Answer, Answer), uids: (&str, &str)) {
        let (ours, theirs) = (Verdict::of(&answers.0, uids.0), Verdict::of(&answers.1, uids.1));
        let report = &mut self.report;
        report.asked += 1;
        report.refused += usize::from(theirs.is_refusal());
        report.refused_alone += usize::from(ours.is_refusal() && !theirs.is_refusal());
        report.verdict_equal += usize::from((ours.code, &ours.reason) == (theirs.code, &theirs.reason));
        let difference = ours.difference(&theirs);
        report.causes_equal += usize::from(theirs.is_refusal() && difference.is_none());
        if let Some(difference) = difference {
            let step = if path.ends_with("/status") { "status" } else { method };
            let group = report.groups.entry(format!("{step} {difference}"));
            let made = || Group { count: 0, ours: ours.text(), theirs: theirs.text(), request: format!("{method} {path} {body}") };
            group.or_insert_with(made).count += 1;
        }
    }
}

/// What a server decided about a request, and why.
#[derive(Debug, PartialEq)]
struct Verdict {
    code: u16,
    reason: String,
    /// Reason, field and message of each, sorted; of a refusal without causes its message.
    causes: Vec<(String, String, String)>,
    warnings: Vec<String>,
}

impl Verdict {
    fn of(answer: &Answer, uid: &str) -> Self {
        let body = if uid.is_empty() { answer.body.clone() } else { answer.body.replace(uid, "$uid") };
        let mut verdict = Self { code: answer.code, reason: String::new(), causes: Vec::new(), warnings: answer.warnings.clone() };
        verdict.warnings.sort();
        if answer.is_success() {
            return verdict;
        }
        let status: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        verdict.reason = text(&status, "reason");
        let causes = status.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
        verdict.causes = causes.iter().map(|cause| (text(cause, "reason"), text(cause, "field"), text(cause, "message"))).collect();
        if verdict.causes.is_empty() {
            verdict.causes.push((String::new(), String::new(), text(&status, "message")));
        }
        verdict.causes.sort();
        verdict
    }

    fn is_refusal(&self) -> bool {
        !(200..300).contains(&self.code)
    }

    /// How this one differs, in words that are the same for requests that differ in the same way.
    fn difference(&self, theirs: &Self) -> Option<String> {
        if (self.code, &self.reason) != (theirs.code, &theirs.reason) {
            let (of, causes) = if theirs.is_refusal() { ("theirs", &theirs.causes) } else { ("ours", &self.causes) };
            let (reason, field, _) = causes.first().cloned().unwrap_or_default();
            return Some(format!("verdict {} not {} ({of}: {reason} {})", self.code, theirs.code, general(&field)));
        }
        if self.causes != theirs.causes {
            let only = |these: &Self, others: &Self| these.causes.iter().find(|cause| !others.causes.contains(cause)).cloned();
            return Some(match (only(self, theirs), only(theirs, self)) {
                (Some(ours), Some(theirs)) if (&ours.0, &ours.1) == (&theirs.0, &theirs.1) => {
                    format!("message {} {}", ours.0, general(&ours.1))
                }
                (_, Some((reason, field, _))) => format!("missing {reason} {}", general(&field)),
                (Some((reason, field, _)), None) => format!("surplus {reason} {}", general(&field)),
                (None, None) => "number of equal causes".to_owned(),
            });
        }
        (self.warnings != theirs.warnings).then(|| "warnings".to_owned())
    }

    fn text(&self) -> String {
        let causes: Vec<String> = self.causes.iter().map(|(reason, field, message)| format!("{reason} {field}: {message}")).collect();
        let warnings = if self.warnings.is_empty() { String::new() } else { format!(" warnings {:?}", self.warnings) };
        format!("{} {} [{}]{warnings}", self.code, self.reason, causes.join(" | "))
    }
}

/// The path without its indices and keys.
fn general(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    let mut depth = 0;
    for letter in field.chars() {
        match letter {
            '[' => {
                depth += 1;
                if depth == 1 {
                    out.push_str("[]");
                }
            }
            ']' => depth -= 1,
            _ if depth <= 0 => out.push(letter),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(code: u16, causes: &[(&str, &str, &str)]) -> Verdict {
        let causes: Vec<Value> = causes.iter().map(|(r, f, m)| json!({"reason": r, "field": f, "message": m})).collect();
        let body = json!({"reason": if code == 422 { "Invalid" } else { "" }, "details": {"causes": causes}}).to_string();
        Verdict::of(&Answer { code, body, warnings: Vec::new() }, "")
    }

    #[test]
    fn differences_are_told_apart() {
        let (a, b, other) = (("R", "spec.a[0].b", "m"), ("R", "spec.c[x.y/z]", "m"), ("R", "spec.a[0].b", "n"));
        let between = |ours: &[_], theirs: &[_]| verdict(422, ours).difference(&verdict(422, theirs));
        assert_eq!(between(&[a, b], &[b, a]), None, "the order is not compared");
        assert_eq!(between(&[a], &[a, b]).as_deref(), Some("missing R spec.c[]"));
        assert_eq!(between(&[a, b], &[a]).as_deref(), Some("surplus R spec.c[]"));
        assert_eq!(between(&[a], &[other]).as_deref(), Some("message R spec.a[].b"));
        assert_eq!(between(&[a, a], &[a]).as_deref(), Some("number of equal causes"));
        let alone = verdict(201, &[]).difference(&verdict(422, &[a]));
        assert_eq!(alone.as_deref(), Some("verdict 201 not 422 (theirs: R spec.a[].b)"));
    }
}
