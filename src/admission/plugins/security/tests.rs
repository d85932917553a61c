//! The fixtures of kube-apiserver's own tests by each level and minor, and the cases of its `admission_test.go`.

use serde_json::json;

use super::{level::PREFIX, *};
use crate::plugins::write::ERROR;
use crate::plugins::{
    Plugin, Plugins, Settings, mutate,
    testing::{Objects, creation, only, update},
    validate as judge,
    write::Denial,
};

/// Each Pod of the fixtures of `pod-security-admission`, and below it, for each level, the minors from which on its evaluator says something else, with what
/// it says.
const FIXTURES: &str = include_str!("fixtures.txt");

/// The annotations, as names and values.
fn told(notes: &Notes) -> Vec<(&str, String)> {
    notes.annotations.iter().map(|one| (&*one.name, one.value.clone())).collect()
}

#[test]
fn the_fixtures_are_judged_by_each_level_and_minor() {
    let (mut pod, mut cases) = (Value::Null, 0);
    let mut lines = FIXTURES.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with('{') {
            pod = serde_json::from_str(line).expect("a Pod");
            continue;
        }
        let parts: Vec<&str> = line.split('\t').collect();
        let [_, by, want] = parts.as_slice() else { panic!("no case: {line}") };
        let (level, from) = by.split_once(":v1.").expect("a level and a minor");
        let from: u64 = from.parse().expect("a minor");
        let next = lines.peek().and_then(|next| next.strip_prefix(&format!("\t{level}:v1.")));
        let end = next.and_then(|next| next.split('\t').next()).map_or(37, |minor| minor.parse().expect("a minor"));
        let level = if level == "baseline" { Level::Baseline } else { Level::Restricted };
        for minor in (from..end).map(Some).chain((end == 37).then_some(None)) {
            let found = checks::evaluate(&level::LevelVersion { level, minor }, &Pod { metadata: &pod["metadata"], spec: &pod["spec"] });
            assert_eq!(found.to_string(), *want, "{level:?} {minor:?} {pod}");
            cases += 1;
        }
    }
    assert!(cases > 25_000, "{cases} cases");
}

fn namespace(labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<String, Value> = labels.iter().map(|(name, value)| (format!("{PREFIX}{name}"), (*value).into())).collect();
    json!({"metadata": {"name": "ns", "labels": labels}})
}

/// What becomes of a write in a namespace with these labels.
fn judged(write: &Write<'_>, object: &Value, labels: &[(&str, &str)]) -> (Result<(), String>, Notes) {
    let (cluster, mut notes, mut object) = (Objects::of(Lookup::Namespace, &[namespace(labels)]), Notes::default(), object.clone());
    let plugins: Plugins = only(Plugin::PodSecurity);
    mutate(&plugins, write, &mut object, &cluster).expect("nothing is changed");
    let verdict = judge(&plugins, write, &object, &cluster, &mut notes);
    let why = |denial| match denial {
        Denial::Forbidden { why, .. } | Denial::Failed(why) => why,
        Denial::Invalid(wrong) => wrong.iter().map(|wrong| format!("{}: {}", wrong.field, wrong.why)).collect(),
    };
    (verdict.map_err(why), notes)
}

fn a_pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

const PRIVILEGED: &str = r#"privileged (container "c" must not set securityContext.privileged=true)"#;

fn privileged() -> Value {
    a_pod(json!({"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}]}))
}

#[test]
fn pods_are_refused_and_warned_of() {
    let pod = privileged();
    let (verdict, notes) = judged(&creation("pods"), &pod, &[("enforce", "baseline")]);
    assert_eq!(verdict, Err(format!(r#"violates PodSecurity "baseline:latest": {PRIVILEGED}"#)));
    assert_eq!(notes.warnings, Vec::<String>::new(), "who is refused is not warned");
    assert_eq!(told(&notes), [(ENFORCED, "baseline:latest".to_owned())]);
    let (verdict, notes) = judged(&creation("pods"), &pod, &[("audit", "baseline"), ("audit-version", "v1.20"), ("warn", "baseline")]);
    assert_eq!((verdict, &notes.warnings), (Ok(()), &vec![format!(r#"would violate PodSecurity "baseline:latest": {PRIVILEGED}"#)]));
    assert_eq!(
        told(&notes),
        [(ENFORCED, "privileged:latest".to_owned()), (VIOLATIONS, format!(r#"would violate PodSecurity "baseline:v1.20": {PRIVILEGED}"#))]
    );
    let (verdict, notes) = judged(&creation("pods"), &pod, &[]);
    assert_eq!((verdict, notes.warnings.len(), notes.annotations.len()), (Ok(()), 0, 1));
}

/// Cases of `TestValidatePodAndController`.
#[test]
fn which_updates_of_pods_are_judged() {
    let old = privileged();
    let labels = [("enforce", "baseline")];
    let mut tolerating = old.clone();
    tolerating["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let mut other_image = old.clone();
    other_image["spec"]["containers"][0]["image"] = "j".into();
    let mut ephemeral = old.clone();
    ephemeral["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i"}]);
    for (subresource, new, want) in [
        ("", &tolerating, true),
        ("", &other_image, false),
        ("status", &other_image, true),
        ("ephemeralcontainers", &ephemeral, false),
        ("ephemeralcontainers", &old, true),
        ("resize", &old, true),
        ("binding", &other_image, true),
    ] {
        let write = Write { subresource, ..update("pods", &old) };
        assert_eq!(judged(&write, new, &labels).0.is_ok(), want, "{subresource} {new}");
    }
    let write = Write { subresource: "ephemeralcontainers", ..update("pods", &ephemeral) };
    assert_eq!(judged(&write, &ephemeral, &labels).0, Ok(()));
}

#[test]
fn templates_are_warned_of() {
    let labels = [("enforce", "restricted"), ("audit", "baseline"), ("warn", "baseline")];
    let spec = privileged()["spec"].clone();
    let warning = format!(r#"would violate PodSecurity "baseline:latest": {PRIVILEGED}"#);
    for (group, resource, object) in [
        ("", "podtemplates", json!({"template": {"spec": spec}})),
        ("", "replicationcontrollers", json!({"spec": {"template": {"spec": spec}}})),
        ("apps", "deployments", json!({"spec": {"template": {"spec": spec}}})),
        ("apps", "daemonsets", json!({"spec": {"template": {"spec": spec}}})),
        ("batch", "jobs", json!({"spec": {"template": {"spec": spec}}})),
        ("batch", "cronjobs", json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}})),
    ] {
        let write = Write { group, ..creation(resource) };
        let (verdict, notes) = judged(&write, &object, &labels);
        assert_eq!((verdict, notes.warnings), (Ok(()), vec![warning.clone()]), "{resource}");
        assert_eq!(notes.annotations.len(), 1, "{resource}");
        let (_, notes) = judged(&write, &object, &[("enforce", "baseline"), ("warn", "privileged")]);
        assert_eq!((notes.warnings.len(), notes.annotations.len()), (0, 0), "{resource}");
        let (_, notes) = judged(&Write { subresource: "scale", ..write }, &object, &labels);
        assert_eq!(notes.warnings.len(), 0, "{resource}");
    }
    let (_, notes) = judged(&creation("replicationcontrollers"), &json!({"spec": {"replicas": 1}}), &labels);
    assert_eq!((notes.warnings.len(), notes.annotations.len()), (0, 0));
}

#[test]
fn labels_that_cannot_be_read_count_as_the_strictest_level() {
    let (verdict, notes) = judged(&creation("pods"), &privileged(), &[("enforce", "loose")]);
    assert!(verdict.is_err_and(|why| why.starts_with(r#"violates PodSecurity "restricted:latest": privileged ("#)));
    assert_eq!(
        told(&notes)[0],
        (
            ERROR,
            "Failed to parse policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"loose\": must be one of privileged, \
             baseline, restricted"
                .to_owned()
        )
    );
}

/// Cases of `TestValidateNamespace`.
#[test]
fn labels_of_namespaces_must_be_readable() {
    let wrong = "metadata.labels[pod-security.kubernetes.io/enforce]: must be one of privileged, baseline, restricted";
    let create = Write { namespace: "", ..creation("namespaces") };
    for (labels, want) in [(&[("enforce", "baseline")][..], Ok(())), (&[("enforce", "loose")], Err(wrong.to_owned()))] {
        assert_eq!(judged(&create, &namespace(labels), &[]).0, want);
    }
    let (fine, loose) = (namespace(&[]), namespace(&[("enforce", "loose")]));
    for (old, new, want) in [(&fine, &loose, Err(wrong.to_owned())), (&loose, &loose, Ok(())), (&loose, &fine, Ok(()))] {
        assert_eq!(judged(&update("namespaces", old), new, &[]).0, want);
    }
    let status = Write { subresource: "status", ..update("namespaces", &fine) };
    assert_eq!(judged(&status, &loose, &[]).0, Ok(()));
}

#[test]
fn who_raises_the_level_is_warned_of_the_pods_that_are_there() {
    let pod = |name: &str, owner: &str, spec: &Value| {
        let owners = if owner.is_empty() { json!([]) } else { json!([{"controller": true, "uid": owner}]) };
        json!({"metadata": {"name": name, "namespace": "ns", "ownerReferences": owners}, "spec": spec})
    };
    let (bad, worse) =
        (privileged()["spec"].clone(), json!({"hostPID": true, "containers": [{"name": "c", "securityContext": {"privileged": true}}]}));
    let fine = json!({"containers": [{"name": "c"}]});
    let pods = [pod("d", "", &bad), pod("b", "u", &bad), pod("a", "u", &bad), pod("w", "", &worse), pod("f", "", &fine)];
    let warned = |old: &[(&str, &str)], new: &[(&str, &str)]| {
        let (cluster, mut notes, old) = (Objects::of(Lookup::Pod, &pods), Notes::default(), namespace(old));
        let write = Write { namespace: "", ..update("namespaces", &old) };
        judge(&only(Plugin::PodSecurity), &write, &namespace(new), &cluster, &mut notes).expect("nothing is refused");
        notes.warnings
    };
    assert_eq!(
        warned(&[], &[("enforce", "baseline")]),
        [
            r#"existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest""#,
            "a (and 2 other pods): privileged",
            "w: host namespaces, privileged",
        ]
    );
    let none = Vec::<String>::new();
    assert_eq!(warned(&[("enforce", "baseline")], &[("enforce", "baseline"), ("warn", "restricted")]), none);
    assert_eq!(warned(&[("enforce", "restricted")], &[("enforce", "baseline")]), none, "a lower level");
    assert_eq!(warned(&[("enforce", "baseline")], &[("enforce", "privileged")]), none);
    assert_eq!(warned(&[("enforce", "restricted")], &[("enforce", "baseline"), ("enforce-version", "v1.1")]).len(), 3, "another version");
}

/// Settings of a configuration file.
fn settings(configuration: &Value) -> SecuritySettings {
    SecuritySettings::read(configuration).expect("settings")
}

#[test]
fn namespaces_that_say_nothing_keep_to_the_defaults() {
    let judged = |configuration: &Value, labels: &[(&str, &str)]| {
        let mut plugins = only(Plugin::PodSecurity);
        plugins.settings = std::sync::Arc::new(Settings { security: settings(configuration), ..Settings::default() });
        let (cluster, mut notes) = (Objects::of(Lookup::Namespace, &[namespace(labels)]), Notes::default());
        let verdict = judge(&plugins, &creation("pods"), &privileged(), &cluster, &mut notes);
        (verdict.is_ok(), notes.warnings.len())
    };
    let strict = json!({"defaults": {"enforce": "baseline", "audit": "restricted"}});
    assert_eq!(judged(&strict, &[]), (false, 0));
    assert_eq!(judged(&strict, &[("enforce", "privileged")]), (true, 0));
    assert_eq!(judged(&json!({"defaults": {"enforce": "privileged", "warn": "baseline"}}), &[]), (true, 1));
    assert_eq!(judged(&json!({}), &[]), (true, 0));
}

#[test]
fn what_is_exempt_is_not_judged() {
    let restricted = json!({"defaults": {"enforce": "restricted", "audit": "restricted"}, "exemptions": {"namespaces": ["system"], "usernames": ["root"], "runtimeClasses": ["vm"]}});
    let mut plugins = only(Plugin::PodSecurity);
    plugins.settings = std::sync::Arc::new(Settings { security: settings(&restricted), ..Settings::default() });
    let judged = |write: &Write<'_>, object: &Value| {
        let (cluster, mut notes) = (Objects::of(Lookup::Namespace, &[namespace(&[])]), Notes::default());
        let verdict = judge(&plugins, write, object, &cluster, &mut notes);
        (verdict.is_ok(), told(&notes).into_iter().find(|(name, _)| *name == EXEMPT).map(|(_, why)| why), notes.warnings)
    };
    let vm = a_pod(json!({"runtimeClassName": "vm", "containers": [{"name": "c", "securityContext": {"privileged": true}}]}));
    let of = |why: &str| Some(why.to_owned());
    let none = Vec::<String>::new();
    assert_eq!(judged(&creation("pods"), &privileged()), (false, None, none.clone()));
    assert_eq!(judged(&Write { namespace: "system", ..creation("pods") }, &privileged()), (true, of("namespace"), none.clone()));
    assert_eq!(judged(&Write { user: "root", ..creation("pods") }, &privileged()), (true, of("user"), none.clone()));
    assert_eq!(judged(&creation("pods"), &vm), (true, of("runtimeClass"), none.clone()));
    let job = json!({"spec": {"template": vm}});
    assert_eq!(judged(&Write { group: "batch", ..creation("jobs") }, &job), (true, of("runtimeClass"), none));
    let mut system = namespace(&[("enforce", "baseline"), ("warn", "privileged")]);
    system["metadata"]["name"] = "system".into();
    let warned = r#"namespace "system" is exempt from Pod Security, and the policy (enforce=baseline:latest) will be ignored"#;
    assert_eq!(judged(&creation("namespaces"), &system), (true, None, vec![warned.to_owned()]));
}
