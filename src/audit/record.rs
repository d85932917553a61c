//! The audit record of one request: what becomes known of it while it is served, and the event of each stage.

use std::{
    any::Any,
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use auth::User;
use auth::authz::RequestInfo;

use crate::{
    Backends,
    event::{At, Event, Level, ObjectRef, ResponseStatus, Stage},
    json,
    policy::Rule,
};

/// Bytes of an object that an event has; of a larger one the event says only that it was left out. Bodies of requests are shorter, lists need not be.
pub const OBJECT_BYTES_MAX: usize = 8 << 20;

/// Bytes of `User-Agent` that an event has, and what follows them when there are more: kube-apiserver's.
const USER_AGENT_BYTES_MAX: usize = 1024;
const USER_AGENT_CUT: &str = "...TRUNCATED";

/// The mark of an event whose objects are left out because they are too large; kube-apiserver's.
const TRUNCATED: (&str, &str) = ("audit.k8s.io/truncated", "true");

/// The metadata of a request, as it came.
#[derive(Clone, Debug)]
pub struct RequestMeta {
    /// `Audit-Id`.
    pub id: String,
    /// Path and query as they were sent.
    pub uri: String,
    /// `User-Agent`.
    pub user_agent: String,
    /// The addresses it came from, proxies included.
    pub source_ips: Vec<String>,
    /// When it was received.
    pub received: SystemTime,
}

/// Accounts for the bytes of an object that a record keeps.
pub type Accountant = Box<dyn Fn(usize) -> Accounted + Send + Sync>;

/// Bytes that are accounted for until this is dropped.
pub type Accounted = Box<dyn Any + Send>;

/// The audit record of one request, shared by all who serve it.
#[derive(Debug)]
pub struct Record {
    rule: Rule,
    backends: Arc<Backends>,
    event: Mutex<Event>,
    accounting: Mutex<Accounting>,
}

/// The accounts of the objects of a record.
#[derive(Default)]
struct Accounting {
    accountant: Option<Accountant>,
    request: Option<Accounted>,
    response: Option<Accounted>,
}

impl fmt::Debug for Accounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").field("request", &self.request).field("response", &self.response).finish_non_exhaustive()
    }
}

impl Record {
    pub(crate) fn new(rule: Rule, backends: Arc<Backends>, user: Option<&Arc<User>>, info: &RequestInfo, meta: RequestMeta) -> Self {
        let object = info.is_resource.then(|| ObjectRef {
            resource: info.resource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            group: info.group.clone(),
            version: info.version.clone(),
            subresource: info.subresource.clone(),
            ..ObjectRef::default()
        });
        let received = at(meta.received);
        let event = Event {
            level: rule.level,
            id: meta.id,
            stage: Stage::RequestReceived,
            uri: meta.uri,
            verb: info.verb.clone(),
            user: user.cloned(),
            impersonated: None,
            constraint: None,
            source_ips: meta.source_ips,
            user_agent: cut(meta.user_agent),
            object,
            status: None,
            request_object: None,
            response_object: None,
            received,
            at: received,
            annotations: BTreeMap::new(),
            late: Vec::new(),
        };
        Self { rule, backends, event: Mutex::new(event), accounting: Mutex::default() }
    }

    /// From here on objects that are kept are counted so.
    pub fn count_with(&self, accountant: Accountant) {
        self.accounting().accountant = Some(accountant);
    }

    fn accounting(&self) -> MutexGuard<'_, Accounting> {
        self.accounting.lock()
    }

    /// Counts the object that was sent.
    fn count_request(&self, object: Option<&Vec<u8>>) {
        let mut accounting = self.accounting();
        accounting.request = accounting.accountant.as_ref().zip(object).map(|(count, object)| count(object.len()));
    }

    /// Drops the objects: no more events are emitted.
    fn end(&self) {
        let mut event = self.event();
        (event.request_object, event.response_object) = (None, None);
        let mut accounting = self.accounting();
        (accounting.request, accounting.response) = (None, None);
    }

    /// Nothing in it is ever half done.
    fn event(&self) -> MutexGuard<'_, Event> {
        self.event.lock()
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

    /// Whether events have the object of the request.
    #[must_use]
    pub fn wants_request(&self) -> bool {
        self.rule.level >= Level::Request
    }

    /// Whether events have the object of the answer.
    #[must_use]
    pub fn wants_response(&self) -> bool {
        self.rule.level >= Level::RequestResponse
    }

    /// Notes a fact; the first one under a name counts.
    pub fn annotate(&self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        self.event().annotations.entry(key.into()).or_insert_with(|| value.into());
    }

    /// Adds an annotation that only the last event has.
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
        self.count_request(printed.as_ref());
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

    /// Notes JSON that was sent, as it is: a patch, or options. What is no JSON is left out: kube-apiserver loses the event then.
    pub fn requested_text(&self, bytes: &[u8]) {
        if self.wants_request() {
            let object = json::compact(bytes);
            self.count_request(object.as_ref());
            self.event().request_object = object;
        }
    }

    /// Notes the object that is answered: JSON, compact. A Status is in the event even where nothing else of the answer is.
    pub fn answered(&self, compact: &[u8]) {
        self.answered_with(compact.into(), None);
    }

    /// The same for what is counted already.
    pub fn answered_counted(&self, compact: Vec<u8>, counted: Option<Accounted>) {
        self.answered_with(compact.into(), counted);
    }

    fn answered_with(&self, compact: Cow<'_, [u8]>, counted: Option<Accounted>) {
        let status = json::status_members(&compact).map(|members| ResponseStatus { members, code: 0 });
        let object = (self.wants_response() && compact.len() <= OBJECT_BYTES_MAX).then(|| {
            let json = match compact {
                Cow::Borrowed(json) => json.strip_suffix(b"\n").unwrap_or(json).to_vec(),
                Cow::Owned(mut json) => {
                    json.truncate(json.strip_suffix(b"\n").unwrap_or(&json).len());
                    json
                }
            };
            if self.rule.omit_managed_fields { json::without_managed_fields(json) } else { json }
        });
        if let Some(object) = &object {
            let mut accounting = self.accounting();
            accounting.response = counted.or_else(|| accounting.accountant.as_ref().map(|count| count(object.len())));
        }
        let mut event = self.event();
        if status.is_some() {
            event.status = status;
        }
        if object.is_some() || !self.wants_response() {
            event.response_object = object;
        } else {
            event.annotations.insert(TRUNCATED.0.into(), TRUNCATED.1.to_owned());
        }
    }

    /// Notes that the object of the answer is too large for an event.
    pub fn answered_too_much(&self) {
        self.event().annotations.insert(TRUNCATED.0.into(), TRUNCATED.1.to_owned());
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

    /// The event becomes that of a stage; how large it may be when it is encoded. None when the policy omits the stage.
    fn staged(&self, stage: Stage) -> Option<usize> {
        if self.rule.omit_stages.contains(&stage) {
            return None;
        }
        self.backends.counters.events.inc();
        let mut event = self.event();
        event.stage = stage;
        if stage == Stage::ResponseComplete {
            let late = std::mem::take(&mut event.late);
            event.annotations.extend(late.into_iter().map(|(key, value)| (key.into(), value)));
        }
        event.at = if stage == Stage::RequestReceived { event.received } else { at(SystemTime::now()) };
        Some(event.encoded_max())
    }

    /// Tells the event of a stage. In the blocking modes it is written when this returns. A backend may have no use for it.
    ///
    /// False when the request must not go on: nobody could write it, and the mode is strict.
    pub async fn emit(&self, stage: Stage) -> bool {
        let mut is_stored = true;
        if let Some(bytes_max) = self.staged(stage) {
            // All at once: who stops waiting for one of them has sent to the others.
            let sent = self.backends.queues.iter().map(|queue| queue.send(bytes_max, move || queue.encode(&self.event())));
            is_stored = join_all(sent).await.into_iter().all(|stored| stored);
        }
        if stage.is_last() {
            self.end();
        }
        is_stored
    }

    /// The same where nobody can wait: when an answer is dropped.
    pub fn emit_later(&self, stage: Stage) {
        if self.staged(stage).is_some() {
            for queue in &self.backends.queues {
                let encoded = queue.encode(&self.event());
                encoded.into_iter().for_each(|bytes| queue.send_later(bytes));
            }
        }
        if stage.is_last() {
            self.end();
        }
    }

    /// Counts a request that was refused because its event could not be written.
    pub fn reject(&self) {
        self.backends.counters.rejected.inc();
    }
}

impl Event {
    /// The same without its objects, and with the mark of that.
    pub(crate) fn truncated(&self) -> Self {
        let mut event = Self { request_object: None, response_object: None, ..self.clone() };
        event.annotations.insert(TRUNCATED.0.into(), TRUNCATED.1.to_owned());
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
