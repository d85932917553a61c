//! Plays a scenario against a server and keeps what it answered, as it came. Judges nothing.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::SocketAddr,
    time::{Duration, Instant},
};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::script::{Act, Coding, Deed, Place, Read, Scenario, Step};
use crate::{
    client::{COMPACT, Client, Watch, Whole},
    live::{peers::Running, record},
    protobuf,
};

/// Headers that are kept.
const HEADERS: [&str; 5] = ["allow", "content-type", "location", "retry-after", "warning"];
/// A `Warning` of ours alone, about the age of an answer: while an etcd stands still it comes some seconds later.
const STALE: &str = "110 ";
/// What a `Warning` of ours alone has, about an object that is stored and not applied.
const UNAPPLIED: &str = " by this server";
/// How long one answer, one event, or a condition that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long nothing must come from a watch that is said to be quiet.
const QUIET: Duration = Duration::from_millis(700);
/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(100);
/// Events that are read of one watch at once.
const EVENTS_MOST: usize = 1_000;
/// Bytes that a target may not have as they are.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

type Failure = Box<dyn std::error::Error>;

/// Where scenarios are played.
pub(super) struct Stage {
    pub(super) client: Client,
    /// Of another server on the same etcd.
    pub(super) second: Option<Client>,
    /// Of one whose cache of [`super::LATE`] is never ready.
    pub(super) late: Option<Client>,
    /// kube-apiserver answers, who at times closes the connection when the time of a request is over: then it is asked again.
    pub(super) recording: bool,
    /// etcd's process and where it is, if there is one.
    pub(super) etcd: Option<(Running, SocketAddr)>,
}

/// Who plays: the stage, what was kept under which name, and open watches.
struct Player<'a> {
    stage: &'a Stage,
    kept: BTreeMap<String, String>,
    /// With the time at which it was asked for.
    watches: BTreeMap<String, (Watch, Instant)>,
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        // A scenario that failed may have left it stalled; one that goes on already does not notice.
        if let Some((etcd, _)) = &self.stage.etcd {
            let _ = etcd.signal("CONT");
        }
    }
}

/// The answers of a scenario, one for each step: `{"status", "headers", "body"}`, or `{"events"}`.
pub(super) async fn play(stage: &Stage, scenario: &Scenario) -> Result<Vec<Value>, Failure> {
    let kept = BTreeMap::from([("ns".to_owned(), scenario.name.clone())]);
    let mut player = Player { stage, kept, watches: BTreeMap::new() };
    if scenario.steps.iter().any(|step| step.is_in_its_namespace()) {
        let namespace = json!({"metadata": {"name": scenario.name}}).to_string();
        let headers = [("Content-Type".to_owned(), "application/json".to_owned())];
        let made = stage.client.whole("POST", "/api/v1/namespaces", &headers, namespace.as_bytes()).await?;
        if made.status != 201 {
            return Err(format!("the namespace: {} {}", made.status, String::from_utf8_lossy(&made.body)).into());
        }
    }
    let mut answers = Vec::new();
    for step in &scenario.steps {
        let answer = player.step(step).await.map_err(|e| format!("{}: {e}", step.shown))?;
        answers.push(answer);
    }
    Ok(answers)
}

impl Step {
    fn is_in_its_namespace(&self) -> bool {
        match &self.act {
            Act::Ask(_, target) | Act::Watch(_, target) => target.contains("/${ns}"),
            _ => false,
        }
    }
}

impl Player<'_> {
    async fn step(&mut self, step: &Step) -> Result<Value, Failure> {
        let answer = match &step.act {
            Act::Nothing => Value::Null,
            Act::Ask(method, target) => self.asked(step, method, target).await?,
            Act::Watch(name, target) => self.watched(step, name, target).await?,
            Act::Read(name, how, within) => self.read(name, how, *within).await?,
            Act::Compact(revision) => self.compact(revision).await?,
            Act::Etcd(deed) => self.done_to_etcd(*deed).await?,
            Act::Pause(ms) => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                Value::Null
            }
        };
        if let Some(target) = &step.awaits {
            self.awaited(step, target).await?;
        }
        for (name, pointer) in &step.keeps {
            let value = answer["body"].pointer(pointer).ok_or_else(|| format!("nothing at {pointer} of {answer}"))?;
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.kept.insert(name.clone(), text);
        }
        Ok(answer)
    }

    async fn asked(&self, step: &Step, method: &str, target: &str) -> Result<Value, Failure> {
        let target = utf8_percent_encode(&self.filled(target)?, ESCAPED).to_string();
        let mut headers: Vec<_> = [("Accept", "application/json"), ("User-Agent", COMPACT)]
            .iter()
            .filter(|(name, _)| !step.headers.iter().any(|(given, _)| given == name))
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        for (name, value) in &step.headers {
            headers.push((name.clone(), self.filled(value)?));
        }
        let body = sent(&step.coding, self.filled(&step.body)?)?;
        let began = Instant::now();
        loop {
            let answer = match timeout(PATIENCE, self.client(step)?.whole(method, &target, &headers, &body)).await? {
                Err(error) if self.stage.recording && error.kind() == ErrorKind::UnexpectedEof && began.elapsed() < PATIENCE => continue,
                answer => value_of(&answer?),
            };
            let Some((pointer, wanted)) = &step.until else { return Ok(answer) };
            if answer.pointer(pointer) == Some(&serde_json::from_str(wanted)?) {
                return Ok(answer);
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{pointer} has not become {wanted}: {answer}").into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn awaited(&self, step: &Step, target: &str) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            let answer = self.client(step)?.fetch(target).await?;
            if answer.status == 200 {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{target} is still answered {}", answer.status).into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn client(&self, step: &Step) -> Result<&Client, Failure> {
        let client = match step.place {
            Place::First => Some(&self.stage.client),
            Place::Elsewhere => self.stage.second.as_ref(),
            Place::Late => self.stage.late.as_ref(),
        };
        client.ok_or_else(|| "there is no such server".into())
    }

    async fn done_to_etcd(&self, deed: Deed) -> Result<Value, Failure> {
        let (etcd, address) = self.stage.etcd.as_ref().ok_or("there is no etcd")?;
        match deed {
            Deed::Stall => {
                etcd.signal("STOP")?;
                while !etcd.is_stopped()? {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Deed::GoOn => etcd.signal("CONT")?,
            Deed::Restart => {
                etcd.restart()?;
                let began = Instant::now();
                while let Err(error) = tokio::net::TcpStream::connect(address).await {
                    if began.elapsed() > PATIENCE {
                        return Err(error.into());
                    }
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        Ok(Value::Null)
    }

    async fn compact(&self, revision: &str) -> Result<Value, Failure> {
        let revision: u64 = self.filled(revision)?.parse()?;
        record::compact(self.stage.etcd.as_ref().ok_or("there is no etcd")?.1, revision).await?;
        Ok(Value::Null)
    }

    async fn watched(&mut self, step: &Step, name: &str, target: &str) -> Result<Value, Failure> {
        let target = utf8_percent_encode(&self.filled(target)?, ESCAPED).to_string();
        let began = Instant::now();
        Ok(match timeout(PATIENCE, self.client(step)?.watch(&target)).await?? {
            Ok(watch) => {
                self.watches.insert(name.to_owned(), (watch, began));
                json!({"status": 200})
            }
            Err(answer) => json!({"status": answer.status, "body": body_of(&answer.body)}),
        })
    }

    async fn read(&mut self, name: &str, how: &Read, within: Option<(f64, f64)>) -> Result<Value, Failure> {
        let (watch, began) = self.watches.get_mut(name).ok_or("no such watch is open")?;
        let mut events: Vec<Value> = Vec::new();
        let limit = if matches!(how, Read::Quiet) { QUIET } else { PATIENCE };
        while events.len() < EVENTS_MOST && !matches!(how, Read::Events(most) if events.len() == *most) {
            match timeout(limit, watch.next_line()).await {
                Ok(line) => match line? {
                    Some(line) => {
                        let event = event_of(&line, within.map(|bounds| (began.elapsed(), bounds)))?;
                        // kube-apiserver may repeat a bookmark that says nothing new.
                        events.extend(event.filter(|event| event["type"] != "BOOKMARK" || events.last() != Some(event)));
                    }
                    None => {
                        events.push(json!("the stream has ended"));
                        break;
                    }
                },
                Err(_) if matches!(how, Read::Quiet) => break,
                Err(_) => {
                    events.push(json!("nothing more has come"));
                    break;
                }
            }
        }
        Ok(json!({"events": events}))
    }

    /// The text with `${name}`, `${name+1}`, `${x*1000}` and `${[text]*1000}` filled in.
    fn filled(&self, text: &str) -> Result<String, Failure> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let end =
                if after.starts_with('[') { after.find("]*").and_then(|at| Some(at + after[at..].find('}')?)) } else { after.find('}') };
            let (inner, after) = after.split_at(end.ok_or("an open ${")?);
            out.push_str(&self.value(inner).ok_or_else(|| format!("what is ${{{inner}}}"))?);
            rest = &after[1..];
        }
        Ok(out + rest)
    }

    fn value(&self, inner: &str) -> Option<String> {
        if let Some((text, count)) = inner.strip_prefix('[').and_then(|i| i.rsplit_once("]*")).or_else(|| inner.rsplit_once('*')) {
            return Some(text.repeat(count.parse().ok()?));
        }
        if let Some(hex) = inner.strip_prefix("0x") {
            return Some(char::from_u32(u32::from_str_radix(hex, 16).ok()?)?.to_string());
        }
        if let Some((name, more)) = inner.split_once('+') {
            return Some((self.kept.get(name)?.parse::<u64>().ok()? + more.parse::<u64>().ok()?).to_string());
        }
        if let Some((name, less)) = inner.split_once('-').filter(|(_, less)| less.parse::<u64>().is_ok()) {
            return Some((self.kept.get(name)?.parse::<u64>().ok()? - less.parse::<u64>().ok()?).to_string());
        }
        self.kept.get(inner).cloned()
    }
}

fn value_of(answer: &Whole) -> Value {
    let mut headers = Map::new();
    for name in HEADERS {
        let values: Vec<&str> = answer.header(name).filter(|value| !value.starts_with(STALE) && !value.contains(UNAPPLIED)).collect();
        if !values.is_empty() {
            headers.insert(name.to_owned(), json!(values));
        }
    }
    let body = match answer.header("content-type").next() {
        Some(media) if media.starts_with(protobuf::MEDIA) => body_of(protobuf::readable(&answer.headers, &answer.body).as_bytes()),
        _ => body_of(&answer.body),
    };
    json!({"status": answer.status, "headers": headers, "body": body})
}

/// The bytes that a step sends.
fn sent(coding: &Coding, body: String) -> Result<Vec<u8>, Failure> {
    match coding {
        Coding::Text => Ok(body.into_bytes()),
        Coding::Protobuf(told) => {
            let told = told.as_ref().map(|(api_version, kind)| (api_version.as_str(), kind.as_str()));
            protobuf::enveloped(&body, told).ok_or_else(|| format!("no message of protobuf: {body}").into())
        }
        Coding::Bytes => {
            let digits: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(|| format!("no bytes: {body}").into())
        }
    }
}

/// JSON as a tree; a stream of events as `{"events"}`; anything else as text.
fn body_of(body: &[u8]) -> Value {
    if let Ok(value) = serde_json::from_slice::<Value>(body)
        && value.get("type").is_none_or(|_| value.get("object").is_none())
    {
        return value;
    }
    let lines = body.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    match lines.map(|line| event_of(line, None)).collect::<Result<Vec<_>, _>>() {
        Ok(events) if !events.is_empty() => json!({"events": events.into_iter().flatten().collect::<Vec<_>>()}),
        _ => json!(String::from_utf8_lossy(body)),
    }
}

/// An event; `None` for a plain bookmark, which comes when a timer says so: shown only with the time at which it came, and whether that was within
/// bounds, s.
fn event_of(line: &[u8], came: Option<(Duration, (f64, f64))>) -> serde_json::Result<Option<Value>> {
    let mut event: Value = serde_json::from_slice(line)?;
    let ends_the_list = |object: &Value| !object["metadata"]["annotations"]["k8s.io/initial-events-end"].is_null();
    let object = &event["object"];
    if event["type"] != "BOOKMARK" || ends_the_list(object) || ends_the_list(&object["rows"][0]["object"]) {
        return Ok(Some(event));
    }
    let Some((after, (from, to))) = came else { return Ok(None) };
    let after = after.as_secs_f64();
    event["came"] = if (from..=to).contains(&after) { json!("in time") } else { json!(format!("after {after:.2} s")) };
    Ok(Some(event))
}
