//! One event: `audit.k8s.io/v1` Event, and its two forms. Pure.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use auth::User;
use go::quote::{json_into, quoted};
use go::timestamp;

/// How much of a request is logged; each level has what those before it have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// Who, what, when, and how it ended.
    Metadata,
    /// Also the object that was sent.
    Request,
    /// Also the one that was answered.
    RequestResponse,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// Its name in policies and events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// The stage of a request at which an event is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before anything is done.
    RequestReceived,
    /// The head of the answer is out; only of watches, and of what is refused before anybody is known.
    ResponseStarted,
    /// The answer is complete.
    ResponseComplete,
    /// It ended in a panic.
    Panic,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// Its name in policies and events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    /// Whether it is the last one.
    pub(crate) fn is_last(self) -> bool {
        matches!(self, Self::ResponseComplete | Self::Panic)
    }

    /// The one with this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// A point in time, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

/// The event of a request at one stage.
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) level: Level,
    pub(crate) id: String,
    pub(crate) stage: Stage,
    pub(crate) uri: String,
    pub(crate) verb: String,
    pub(crate) user: Option<Arc<User>>,
    pub(crate) impersonated: Option<Arc<User>>,
    /// The verb by which impersonation was allowed; none for the old way.
    pub(crate) constraint: Option<&'static str>,
    pub(crate) source_ips: Vec<String>,
    pub(crate) user_agent: String,
    pub(crate) object: Option<ObjectRef>,
    pub(crate) status: Option<ResponseStatus>,
    /// JSON, without newlines.
    pub(crate) request_object: Option<Vec<u8>>,
    /// JSON, without newlines.
    pub(crate) response_object: Option<Vec<u8>>,
    pub(crate) received: At,
    pub(crate) at: At,
    pub(crate) annotations: BTreeMap<Cow<'static, str>, String>,
    /// Annotations of the last stage.
    pub(crate) late: Vec<(&'static str, String)>,
}

/// What a request is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectRef {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource_version: String,
    pub(crate) subresource: String,
}

/// How a request ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseStatus {
    /// The members of a `Status` from `status` to `details`, each with a comma before it.
    pub(crate) members: String,
    pub(crate) code: u16,
}

/// Bytes that one of a text may become: `\u001b`.
const ESCAPED_MAX: usize = 6;
/// More than the names of all members take, and what is around them.
const AROUND: usize = 2 << 10;
/// The same for each text of a list.
const AROUND_EACH: usize = 8;

impl Event {
    /// Bytes that it takes encoded, or fewer.
    pub(crate) fn encoded_max(&self) -> usize {
        let of_user = |user: &Option<Arc<User>>| {
            let user = user.as_deref();
            let texts = user.into_iter().flat_map(|user| user.groups.iter().chain(user.extra.iter().flat_map(|(_, values)| values)));
            let keys = user.into_iter().flat_map(|user| user.extra.iter().map(|(key, _)| key));
            let texts: usize = texts.chain(keys).map(|text| text.len() + AROUND_EACH).sum();
            texts + user.map_or(0, |user| user.name.len() + user.uid.len())
        };
        let of_object = self.object.as_ref().map_or(0, |of| {
            let texts = [&of.resource, &of.namespace, &of.name, &of.uid, &of.group, &of.version, &of.resource_version, &of.subresource];
            texts.map(String::len).iter().sum()
        });
        let annotations =
            self.annotations.iter().map(|(key, value)| (&**key, value)).chain(self.late.iter().map(|(key, value)| (*key, value)));
        let annotations: usize = annotations.map(|(key, value)| key.len() + value.len() + AROUND_EACH).sum();
        let ips: usize = self.source_ips.iter().map(|ip| ip.len() + AROUND_EACH).sum();
        let texts = [&self.id, &self.uri, &self.verb, &self.user_agent].map(String::len).iter().sum::<usize>();
        let status = self.status.as_ref().map_or(0, |status| status.members.len());
        let written = texts + of_object + annotations + ips + of_user(&self.user) + of_user(&self.impersonated) + status;
        let objects: usize = [&self.request_object, &self.response_object].into_iter().flatten().map(Vec::len).sum();
        AROUND + ESCAPED_MAX * written + objects
    }

    /// Appends the event as JSON, without a newline. Alone it says what it is; as an item of a list it does not.
    pub fn json_into(&self, alone: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(if alone { br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"# } else { br#"{"level":"# });
        json_into(self.level.name(), out);
        for (name, text) in [("auditID", &*self.id), ("stage", self.stage.name()), ("requestURI", &self.uri), ("verb", &self.verb)] {
            member(name, text, out);
        }
        out.extend_from_slice(b",\"user\":");
        user_into(self.user.as_deref(), out);
        if let Some(user) = &self.impersonated {
            out.extend_from_slice(b",\"impersonatedUser\":");
            user_into(Some(user), out);
        }
        if let Some(constraint) = self.constraint {
            out.extend_from_slice(b",\"authenticationMetadata\":{\"impersonationConstraint\":");
            json_into(constraint, out);
            out.push(b'}');
        }
        if !self.source_ips.is_empty() {
            out.extend_from_slice(b",\"sourceIPs\":");
            texts_into(&self.source_ips, out);
        }
        if !self.user_agent.is_empty() {
            member("userAgent", &self.user_agent, out);
        }
        if let Some(object) = &self.object {
            out.extend_from_slice(b",\"objectRef\":");
            object.json_into(out);
        }
        if let Some(status) = &self.status {
            out.extend_from_slice(
                format!(",\"responseStatus\":{{\"metadata\":{{}}{},\"code\":{}}}", status.members, status.code).as_bytes(),
            );
        }
        for (name, object) in [("requestObject", &self.request_object), ("responseObject", &self.response_object)] {
            if let Some(object) = object {
                out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                out.extend_from_slice(object);
            }
        }
        for (name, at) in [("requestReceivedTimestamp", self.received), ("stageTimestamp", self.at)] {
            out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            timestamp::text_into(at.seconds, Some(at.nanos.cast_signed()), out);
        }
        if !self.annotations.is_empty() {
            out.extend_from_slice(b",\"annotations\":");
            map_into(&self.annotations, |value, out| json_into(value, out), out);
        }
        out.push(b'}');
    }

    /// The event as one line of text, without a newline.
    #[must_use]
    pub fn line(&self) -> String {
        let of = |user: Option<&Arc<User>>, nobody: &str, no_groups: &str| {
            let named = user.filter(|user| !user.name.is_empty());
            let groups = named.filter(|user| !user.groups.is_empty()).map(|user| {
                let groups: Vec<String> = user.groups.iter().map(|group| quoted(group)).collect();
                groups.join(",")
            });
            (named.map_or(nobody.to_owned(), |user| user.name.clone()), groups.unwrap_or_else(|| no_groups.to_owned()))
        };
        let (user, groups) = of(self.user.as_ref(), "<none>", "<none>");
        let (as_user, as_groups) = of(self.impersonated.as_ref(), "<self>", "<lookup>");
        let namespace = self.object.as_ref().map(|object| &*object.namespace).filter(|namespace| !namespace.is_empty());
        let response = self.status.as_ref().map_or_else(|| "<deferred>".to_owned(), |status| status.code.to_string());
        let ip = self.source_ips.first().map_or("<unknown>", String::as_str);
        let [id, stage, ip, verb, user, groups, as_user, as_groups, agent, namespace, uri] = [
            &*self.id,
            self.stage.name(),
            ip,
            &self.verb,
            &user,
            &groups,
            &as_user,
            &as_groups,
            &self.user_agent,
            namespace.unwrap_or("<none>"),
            &self.uri,
        ]
        .map(quoted);
        format!(
            "{} AUDIT: id={id} stage={stage} ip={ip} method={verb} user={user} groups={groups} as={as_user} asgroups={as_groups} user-agent={agent} namespace={namespace} uri={uri} response=\"{response}\"",
            self.received.nano(),
        )
    }
}

impl At {
    /// Go's RFC3339Nano: the digits of the second that are there.
    fn nano(self) -> String {
        let mut text = Vec::new();
        timestamp::text_into(self.seconds, None, &mut text);
        let text = String::from_utf8_lossy(&text);
        let second = text.trim_matches('"').trim_end_matches('Z');
        let digits = format!("{:09}", self.nanos);
        match digits.trim_end_matches('0') {
            "" => format!("{second}Z"),
            digits => format!("{second}.{digits}Z"),
        }
    }
}

impl ObjectRef {
    fn json_into(&self, out: &mut Vec<u8>) {
        let members = [
            ("resource", &self.resource),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiGroup", &self.group),
            ("apiVersion", &self.version),
            ("resourceVersion", &self.resource_version),
            ("subresource", &self.subresource),
        ];
        members_into(members.into_iter().map(|(name, text)| (name, &**text)), out);
        out.push(b'}');
    }
}

/// `UserInfo`; empty members are not printed.
fn user_into(user: Option<&User>, out: &mut Vec<u8>) {
    let Some(user) = user else { return out.extend_from_slice(b"{}") };
    let mut is_first = members_into([("username", &*user.name), ("uid", &*user.uid)].into_iter(), out);
    let mut comma = |out: &mut Vec<u8>| {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
    };
    if !user.groups.is_empty() {
        comma(out);
        out.extend_from_slice(b"\"groups\":");
        texts_into(&user.groups, out);
    }
    if !user.extra.is_empty() {
        comma(out);
        out.extend_from_slice(b"\"extra\":");
        let extra: BTreeMap<&String, &Vec<String>> = user.extra.iter().map(|(key, values)| (key, values)).collect();
        map_into(extra, |values, out| texts_into(values, out), out);
    }
    out.push(b'}');
}

/// Opens an object with the members that are not empty; whether there was none.
fn members_into<'a>(members: impl Iterator<Item = (&'a str, &'a str)>, out: &mut Vec<u8>) -> bool {
    out.push(b'{');
    let mut is_first = true;
    for (name, text) in members.filter(|(_, text)| !text.is_empty()) {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        json_into(name, out);
        out.push(b':');
        json_into(text, out);
    }
    is_first
}

fn member(name: &str, text: &str, out: &mut Vec<u8>) {
    out.push(b',');
    json_into(name, out);
    out.push(b':');
    json_into(text, out);
}

fn map_into<V>(entries: impl IntoIterator<Item = (impl AsRef<str>, V)>, value_into: impl Fn(V, &mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, (key, value)) in entries.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        json_into(key.as_ref(), out);
        out.push(b':');
        value_into(value, out);
    }
    out.push(b'}');
}

fn texts_into(texts: &[String], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        json_into(text, out);
    }
    out.push(b']');
}
