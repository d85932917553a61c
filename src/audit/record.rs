//! The record of one request: what becomes known of it while it is served, and what is told of it at each stage.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use serde_json::Value;

use auth::User;
use auth::authz::RequestInfo;

use crate::{
    Backends,
    event::{At, Event, Level, ObjectRef, ResponseStatus, Stage},
    json,
    policy::Rule,
};

/// Bytes of an object that an event repeats; of a larger one the event tells only that it was left out. Bodies of requests are shorter, lists need not be.
pub const OBJECT_BYTES_MAX: usize = 8 << 20;

/// Bytes of `User-Agent` that are told, and what follows them when there are more: kube-apiserver's.
const USER_AGENT_BYTES_MAX: usize = 1024;
const USER_AGENT_CUT: &str = "...TRUNCATED";

/// The mark of an event whose objects are left out because they are too large; kube-apiserver's.
const TRUNCATED: (&str, &str) = ("audit.k8s.io/truncated", "true");

/// What is known of a request when it comes.
#[derive(Clone, Debug)]
pub struct Met {
    /// `Audit-Id`.
    pub id: String,
    /// Path and query as they were sent.
    pub uri: String,
    /// `User-Agent`.
    pub user_agent: String,
    /// Where it comes from, through whom.
    pub source_ips: Vec<String>,
    /// When it came.
    pub received: SystemTime,
}

/// What is told of one request. Shared by all who serve it.
#[derive(Debug)]
pub struct Record {
    rule: Rule,
    backends: Arc<Backends>,
    event: Mutex<Event>,
}

impl Record {
    pub(crate) fn new(rule: Rule, backends: Arc<Backends>, user: Option<&Arc<User>>, info: &RequestInfo, met: Met) -> Self {
        let object = info.is_resource.then(|| ObjectRef {
            resource: info.resource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            group: info.group.clone(),
            version: info.version.clone(),
            subresource: info.subresource.clone(),
            ..ObjectRef::default()
        });
        let received = at(met.received);
        let event = Event {
            level: rule.level,
            id: met.id,
            stage: Stage::RequestReceived,
            uri: met.uri,
            verb: info.verb.clone(),
            user: user.cloned(),
            impersonated: None,
            constraint: None,
            source_ips: met.source_ips,
            user_agent: cut(met.user_agent),
            object,
            status: None,
            request_object: None,
            response_object: None,
            received,
            at: received,
            annotations: BTreeMap::new(),
            late: Vec::new(),
        };
        Self { rule, backends, event: Mutex::new(event) }
    }

    /// Nothing in it is ever half done.
    fn event(&self) -> MutexGuard<'_, Event> {
        self.event.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that it takes, without objects.
    #[must_use]
    pub fn weight(&self) -> usize {
        let event = self.event();
        let ips = event.source_ips.iter().map(|ip| size_of::<String>() + ip.len()).sum::<usize>();
        let object = event.object.as_ref().map_or(0, |of| of.resource.len() + of.namespace.len() + of.name.len() + of.group.len());
        let user = event.user.as_ref().map_or(0, |user| user.weight());
        size_of::<Self>() + event.id.len() + event.uri.len() + event.user_agent.len() + ips + object + user
    }

    /// Whether the object that is sent is to be told.
    #[must_use]
    pub fn wants_request(&self) -> bool {
        self.rule.level >= Level::Request
    }

    /// Whether the object that is answered is to be told.
    #[must_use]
    pub fn wants_response(&self) -> bool {
        self.rule.level >= Level::RequestResponse
    }

    /// Notes a fact; the first one under a name counts.
    pub fn annotate(&self, key: &'static str, value: impl Into<String>) {
        self.event().annotations.entry(key).or_insert_with(|| value.into());
    }

    /// Notes a fact that only the last event tells.
    pub fn annotate_end(&self, key: &'static str, value: &str) {
        self.event().late.push((key, value.to_owned()));
    }

    /// Notes who the request is carried out as, and the verb that allowed it, unless that was the old one.
    pub fn impersonated(&self, user: &Arc<User>, constraint: Option<&'static str>) {
        let mut event = self.event();
        (event.impersonated, event.constraint) = (Some(user.clone()), constraint);
    }

    /// Notes the object that was sent; `print` makes its JSON.
    pub fn requested(&self, object: &Value, print: impl FnOnce(&Value) -> Vec<u8>) {
        let printed = self.wants_request().then(|| print(object));
        let printed = printed.map(|json| if self.rule.omit_managed_fields { json::without_managed_fields(json) } else { json });
        let mut event = self.event();
        let metadata = &object["metadata"];
        let of = event.object.get_or_insert_default();
        for (known, name) in
            [(&mut of.namespace, "namespace"), (&mut of.name, "name"), (&mut of.uid, "uid"), (&mut of.resource_version, "resourceVersion")]
        {
            if known.is_empty() {
                metadata[name].as_str().unwrap_or_default().clone_into(known);
            }
        }
        event.request_object = printed;
    }

    /// Notes JSON that was sent, as it is: a patch, or options. What is no JSON is not told: kube-apiserver loses the event then.
    pub fn requested_text(&self, bytes: &[u8]) {
        if self.wants_request() {
            self.event().request_object = json::compact(bytes);
        }
    }

    /// Notes the object that is answered: JSON, compact. A Status is also told where nothing else of the answer is.
    pub fn answered(&self, compact: &[u8]) {
        let status = json::status_members(compact).map(|members| ResponseStatus { members, code: 0 });
        let object = (self.wants_response() && compact.len() <= OBJECT_BYTES_MAX).then(|| {
            let json = compact.strip_suffix(b"\n").unwrap_or(compact).to_vec();
            if self.rule.omit_managed_fields { json::without_managed_fields(json) } else { json }
        });
        let mut event = self.event();
        if status.is_some() {
            event.status = status;
        }
        if object.is_some() || !self.wants_response() {
            event.response_object = object;
        } else {
            event.annotations.insert(TRUNCATED.0, TRUNCATED.1.to_owned());
        }
    }

    /// Notes that the object that is answered is too large to be told.
    pub fn answered_too_much(&self) {
        self.event().annotations.insert(TRUNCATED.0, TRUNCATED.1.to_owned());
    }

    /// Notes the code of the answer.
    pub fn code(&self, code: u16) {
        self.event().status.get_or_insert_default().code = code;
    }

    /// Notes why a request was refused before anybody was known; a Status that is answered counts more.
    pub fn refused(&self, why: &str) {
        let members = format!(r#","message":{}"#, go::quote::json_quoted(why));
        self.event().status = Some(ResponseStatus { members, code: 0 });
    }

    /// Notes that nothing was answered because the client went away; kube-apiserver's words.
    pub fn closed_early(&self) {
        let members = r#","status":"Success","message":"Connection closed early""#.to_owned();
        self.event().status.get_or_insert(ResponseStatus { members, code: 200 });
    }

    /// Notes a panic with its message.
    pub fn panicked(&self, why: &str) {
        let message = go::quote::json_quoted(&format!("APIServer panic'd: {why}"));
        let members = format!(r#","status":"Failure","message":{message},"reason":"InternalError""#);
        self.event().status = Some(ResponseStatus { members, code: 500 });
    }

    /// The event of a stage, encoded for each backend; none when the policy omits the stage. A backend may have no use for the event.
    fn staged(&self, stage: Stage) -> Option<Vec<Option<Vec<u8>>>> {
        if self.rule.omit_stages.contains(&stage) {
            return None;
        }
        self.backends.counters.events.inc();
        let mut event = self.event();
        event.stage = stage;
        if stage == Stage::ResponseComplete {
            let late = std::mem::take(&mut event.late);
            event.annotations.extend(late);
        }
        event.at = if stage == Stage::RequestReceived { event.received } else { at(SystemTime::now()) };
        Some(self.backends.queues.iter().map(|queue| queue.encode(&event)).collect())
    }

    /// Tells the event of a stage. In the blocking modes it is written when this returns.
    ///
    /// False when the request must not go on: nobody could write it, and the mode is strict.
    pub async fn tell(&self, stage: Stage) -> bool {
        let Some(encoded) = self.staged(stage) else { return true };
        // All at once: who stops waiting for one of them has sent to the others.
        let sent = self.backends.queues.iter().zip(encoded).filter_map(|(queue, bytes)| Some(queue.send(bytes?)));
        join_all(sent).await.into_iter().all(|stored| stored)
    }

    /// The same where nobody can wait: when an answer is dropped.
    pub fn tell_later(&self, stage: Stage) {
        let Some(encoded) = self.staged(stage) else { return };
        for (queue, bytes) in self.backends.queues.iter().zip(encoded) {
            if let Some(bytes) = bytes {
                queue.send_later(bytes);
            }
        }
    }

    /// Counts a request that was refused because it could not be told.
    pub fn reject(&self) {
        self.backends.counters.rejected.inc();
    }
}

impl Event {
    /// The same without its objects, and with the mark of that.
    pub(crate) fn truncated(&self) -> Self {
        let mut event = Self { request_object: None, response_object: None, ..self.clone() };
        event.annotations.insert(TRUNCATED.0, TRUNCATED.1.to_owned());
        event
    }
}

fn at(time: SystemTime) -> At {
    // Before 1970 there are no requests.
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    At { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
}

fn cut(mut agent: String) -> String {
    if agent.len() > USER_AGENT_BYTES_MAX {
        let end = (0..=USER_AGENT_BYTES_MAX).rev().find(|&at| agent.is_char_boundary(at)).unwrap_or_default();
        agent.truncate(end);
        agent.push_str(USER_AGENT_CUT);
    }
    agent
}

#[cfg(test)]
mod tests;
