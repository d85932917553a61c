//! Scenario files become steps. The language is told in `tests/transcripts/README.md`; nothing is sent from here.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::protobuf;

/// A file of scenarios.
pub(super) struct Theme {
    pub(super) name: String,
    pub(super) scenarios: Vec<Scenario>,
}

/// One story: its steps run in order, in a namespace of its own when it names one.
pub(super) struct Scenario {
    /// Unique among all files; also the name of its namespace.
    pub(super) name: String,
    /// As those of a step, for every object in every answer; the pointers are the objects'.
    pub(super) marks: Vec<Mark>,
    pub(super) steps: Vec<Step>,
}

/// A word under which a difference is told, and the pointers that may differ.
pub(super) type Mark = (String, Vec<String>);

/// One step, with the marks that belong to it.
#[derive(Default)]
pub(super) struct Step {
    /// The first line, for a person and for the record.
    pub(super) shown: String,
    pub(super) act: Act,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    pub(super) coding: Coding,
    /// Name and JSON pointer into the answer's body.
    pub(super) keeps: Vec<(String, String)>,
    /// JSON pointer into the answer, and the JSON it must become.
    pub(super) until: Option<(String, String)>,
    /// A target that must answer 200 before the next step.
    pub(super) awaits: Option<String>,
    /// Where the answer may differ; no pointer: anywhere.
    pub(super) marks: Vec<Mark>,
    /// Pointers that kube-apiserver itself answers now one way, now another.
    pub(super) ignored: Vec<String>,
    /// JSON pointer into the answer's body: what stands there is a generated name.
    pub(super) names: Option<String>,
    /// Revisions of lists and bookmarks count like those of objects.
    pub(super) exact: bool,
    pub(super) place: Place,
}

/// How a step's body is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Coding {
    /// As it stands.
    #[default]
    Text,
    /// The JSON of an object as protobuf; its envelope tells another version and kind than it if they are here.
    Protobuf(Option<(String, String)>),
    /// Bytes of protobuf in hexadecimal, with spaces between them as one likes.
    Bytes,
}

/// Which server a step asks.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    First,
    /// The second one on the same etcd.
    Elsewhere,
    /// One whose cache of [`super::LATE`] is never ready.
    Late,
}

impl Scenario {
    /// Whether it does something to etcd, or asks another server on it.
    pub(super) fn needs_etcd(&self) -> bool {
        self.steps.iter().any(|step| step.place != Place::First || matches!(step.act, Act::Compact(_) | Act::Etcd(_)))
    }

    /// Whether its answers depend on what came first, or on how long something took: it watches, names a time, or stops etcd.
    pub(super) fn is_timed(&self) -> bool {
        self.steps.iter().any(|step| match &step.act {
            Act::Ask(_, target) => target.contains("timeout"),
            Act::Watch(..) | Act::Read(..) | Act::Pause(_) | Act::Compact(_) | Act::Etcd(_) => true,
            Act::Nothing => false,
        })
    }

    /// Whether it asks the server that is late.
    pub(super) fn needs_late(&self) -> bool {
        self.steps.iter().any(|step| step.place == Place::Late)
    }
}

/// What a step does.
#[derive(Default)]
pub(super) enum Act {
    #[default]
    Nothing,
    /// Method and target.
    Ask(String, String),
    /// Opens a watch under a name.
    Watch(String, String),
    /// Reads from a named watch; with bounds also plain bookmarks, which must come within them, s after the watch was opened.
    Read(String, Read, Option<(f64, f64)>),
    /// Waits this long, ms.
    Pause(u64),
    /// Compacts etcd at a revision, as an API server does.
    Compact(String),
    /// Does something to etcd's process.
    Etcd(Deed),
}

/// What is done to etcd's process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// It stops where it is; its connections stay.
    Stall,
    /// It goes on.
    GoOn,
    /// It is killed, and started again with its data.
    Restart,
}

/// How far a watch is read.
pub(super) enum Read {
    /// This many events; plain bookmarks count only where they are shown.
    Events(usize),
    /// To the end of the stream.
    End,
    /// Until nothing has come for a moment: shows that nothing more comes.
    Quiet,
}

/// `tests/transcripts`.
pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

/// All scenario files, sorted.
pub(super) fn themes() -> Result<Vec<Theme>, Box<dyn std::error::Error>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder().join("scenarios"))?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    let mut names = BTreeSet::new();
    let mut themes = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "txt")) {
        let name = path.file_stem().and_then(|s| s.to_str()).ok_or("a file without a name")?.to_owned();
        let scenarios = scenarios(&fs::read_to_string(path)?).map_err(|e| format!("{name}: {e}"))?;
        for scenario in &scenarios {
            if !names.insert(scenario.name.clone()) {
                return Err(format!("two scenarios are called {}", scenario.name).into());
            }
        }
        themes.push(Theme { name, scenarios });
    }
    Ok(themes)
}

fn scenarios(text: &str) -> Result<Vec<Scenario>, String> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for block in text.split("\n\n").map(|block| block.trim_matches('\n')).filter(|block| !block.is_empty()) {
        let mut lines = block.lines().filter(|line| !line.starts_with('#')).peekable();
        if let Some(name) = lines.peek().and_then(|line| line.strip_prefix("=== ")) {
            let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if !name.chars().all(named) || name.len() > 50 {
                return Err(format!("{name:?} is no name of a namespace"));
            }
            lines.next();
            let mut head = Step::default();
            while let Some(line) = lines.next_if(|line| line.starts_with("~ ")) {
                head.property(line)?;
            }
            scenarios.push(Scenario { name: name.to_owned(), marks: head.marks, steps: Vec::new() });
        }
        if lines.peek().is_none() {
            continue;
        }
        let scenario = scenarios.last_mut().ok_or("steps before the first ===")?;
        let step = step(lines).map_err(|e| format!("{}: {e}", scenario.name))?;
        scenario.steps.push(step);
    }
    Ok(scenarios)
}

fn step<'a>(mut lines: impl Iterator<Item = &'a str>) -> Result<Step, String> {
    let shown = lines.next().ok_or("an empty step")?.to_owned();
    let (verb, rest) = shown.split_once(' ').unwrap_or((&shown, ""));
    let mut step = Step { act: act(verb, rest).ok_or_else(|| format!("not a step: {shown}"))?, ..Step::default() };
    let media = match verb.strip_prefix("PATCH:") {
        Some("json") => Some("application/json-patch+json"),
        Some("merge") => Some("application/merge-patch+json"),
        Some("strategic") => Some("application/strategic-merge-patch+json"),
        Some("apply") => Some("application/apply-patch+yaml"),
        _ => None,
    };
    let mut body = Vec::new();
    for line in lines {
        if !body.is_empty() || !step.property(line)? {
            body.push(line);
        }
    }
    step.body = body.join("\n");
    let media =
        media.or((step.coding != Coding::Text).then_some(protobuf::MEDIA)).or((!step.body.is_empty()).then_some("application/json"));
    if let Some(media) = media.filter(|_| !step.headers.iter().any(|(name, _)| name == "Content-Type")) {
        step.headers.push(("Content-Type".into(), media.into()));
    }
    step.headers.retain(|(_, value)| !value.is_empty());
    step.shown = shown;
    Ok(step)
}

fn act(verb: &str, rest: &str) -> Option<Act> {
    let named = || rest.split_once(' ').map(|(name, rest)| (name.to_owned(), rest.to_owned()));
    Some(match verb {
        "WATCH" => named().map(|(name, target)| Act::Watch(name, target))?,
        "READ" => read(rest)?,
        "PAUSE" => Act::Pause(rest.parse().ok()?),
        "COMPACT" => Act::Compact(rest.to_owned()),
        "STALL" => Act::Etcd(Deed::Stall),
        "GO" if rest == "ON" => Act::Etcd(Deed::GoOn),
        "RESTART" => Act::Etcd(Deed::Restart),
        _ if verb.starts_with("PATCH:") => Act::Ask("PATCH".into(), rest.to_owned()),
        _ if verb.chars().all(|c| c.is_ascii_uppercase()) && rest.starts_with('/') => Act::Ask(verb.to_owned(), rest.to_owned()),
        _ => return None,
    })
}

fn read(rest: &str) -> Option<Act> {
    let mut words = rest.split(' ');
    let name = words.next()?.to_owned();
    let how = match words.next()? {
        "end" => Read::End,
        "quiet" => Read::Quiet,
        count => Read::Events(count.parse().ok()?),
    };
    let within = match (words.next(), words.next()) {
        (None, _) => None,
        (Some("bookmarks"), Some(within)) => {
            let (from, to) = within.split_once('-')?;
            Some((from.parse().ok()?, to.parse().ok()?))
        }
        _ => return None,
    };
    Some(Act::Read(name, how, within))
}

impl Step {
    /// Takes a line that is a property; `false`: the body begins.
    fn property(&mut self, line: &str) -> Result<bool, String> {
        let Some((sign, rest)) = line.split_once(' ').or(["elsewhere", "exact", "late"].contains(&line).then_some((line, ""))) else {
            return Ok(false);
        };
        let mut words = rest.split(' ').map(String::from);
        match sign {
            "|" => {
                let (name, value) = rest.split_once(':').ok_or_else(|| format!("not a header: {line}"))?;
                self.headers.push((name.to_owned(), value.trim().to_owned()));
            }
            "keep" => {
                let (name, pointer) = rest.split_once(' ').ok_or_else(|| format!("keep what: {line}"))?;
                self.keeps.push((name.to_owned(), pointer.to_owned()));
            }
            "until" => self.until = Some(rest.split_once(' ').map(|(p, v)| (p.to_owned(), v.to_owned())).ok_or("until what")?),
            "await" => self.awaits = Some(rest.to_owned()),
            "~" => self.marks.push((words.next().ok_or("a mark without a word")?, words.collect())),
            "named" => self.names = words.next(),
            "ignore" => self.ignored.extend(words),
            "as" => {
                self.coding = match (words.next().as_deref(), words.next(), words.next()) {
                    (Some("protobuf"), None, None) => Coding::Protobuf(None),
                    (Some("protobuf"), Some(api_version), Some(kind)) => Coding::Protobuf(Some((api_version, kind))),
                    (Some("bytes"), None, None) => Coding::Bytes,
                    _ => return Err(format!("as what: {line}")),
                }
            }
            "exact" => self.exact = true,
            "elsewhere" => self.place = Place::Elsewhere,
            "late" => self.place = Place::Late,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_steps() {
        let text = "# c\n=== one\n~ why /status\nPOST /a?b=c d\n| Accept: x/y\nkeep rv /metadata/resourceVersion\n~ word /status /body\n{\n \"a\": 1}\n\nREAD w 3 bookmarks 1.0-3.3\n\n=== two\nPATCH:merge /x\nlate\n{}\n\nGO ON\n";
        let scenarios = scenarios(text).expect("a file");
        assert_eq!(scenarios.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(scenarios[0].marks, [("why".into(), vec!["/status".into()])]);
        let post = &scenarios[0].steps[0];
        assert_eq!(post.body, "{\n \"a\": 1}");
        assert_eq!(post.headers, [("Accept".into(), "x/y".into()), ("Content-Type".into(), "application/json".into())]);
        assert_eq!(post.marks, [("word".into(), vec!["/status".into(), "/body".into()])]);
        assert!(matches!(scenarios[0].steps[1].act, Act::Read(_, Read::Events(3), Some((1.0, 3.3)))));
        assert!(scenarios[1].steps[0].place == Place::Late && scenarios[1].needs_late() && !scenarios[0].needs_etcd());
        assert!(matches!(scenarios[1].steps[1].act, Act::Etcd(Deed::GoOn)));
        assert_eq!(scenarios[1].steps[0].headers, [("Content-Type".into(), "application/merge-patch+json".into())]);
        let steps = super::scenarios("=== a\nPOST /x\nas protobuf v1 Pod\n{}\n\nPOST /x\nas bytes\n").expect("two").remove(0).steps;
        assert_eq!(steps[0].coding, Coding::Protobuf(Some(("v1".into(), "Pod".into()))));
        assert_eq!((&steps[1].coding, steps[1].headers[0].1.as_str()), (&Coding::Bytes, protobuf::MEDIA));
        assert!(
            ["=== a\nGET /x\nas text", "=== a\nfetch /x", "GET /x", "=== a\nREAD w 3 bookmarks 1"]
                .iter()
                .all(|text| super::scenarios(text).is_err())
        );
    }

    #[test]
    fn the_files_are_scenarios_and_many() {
        let themes = themes().expect("each file can be read");
        let count: usize = themes.iter().map(|theme| theme.scenarios.len()).sum();
        assert!(count >= 280, "{count} scenarios");
        assert!(themes.iter().flat_map(|t| &t.scenarios).all(|s| !s.steps.is_empty()));
    }
}
