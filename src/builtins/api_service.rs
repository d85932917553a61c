//! APIService (`pkg/apis/apiregistration/validation` of kube-aggregator). That its name is made of its version and group is asked where names are.

use serde_json::Value;

use crate::{FieldError, at::At, causes::Causes, names};

const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1_000;
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// What is wrong with an APIService, new or changed.
pub fn api_service(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let root = At::root(object);
        let spec = root.member("spec");
        let (group, version) = (spec.member("group"), spec.member("version"));
        match group.text() {
            "" if version.text() != "v1" => causes.required(&group, "only v1 may have an empty group and it better be legacy kube"),
            "" => {}
            text => causes.each_invalid(&group, names::subdomain(text)),
        }
        causes.each_invalid(&version.or_empty(), names::label_1035(version.text()));
        priority(&spec.member("groupPriorityMinimum"), GROUP_PRIORITY_MAX, causes);
        priority(&spec.member("versionPriority"), VERSION_PRIORITY_MAX, causes);
        place(&spec, causes);
    })
}

/// What is wrong with the status of an APIService.
pub fn update_status(_: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let root = At::root(new);
        for condition in root.member("status").member("conditions").items() {
            let status = condition.member("status");
            if !STATUSES.contains(&status.text()) {
                causes.not_supported(&status.or_empty(), &STATUSES);
            }
        }
    })
}

fn priority(at: &At<'_, '_>, max: i64, causes: &mut Causes) {
    if !(1..=max).contains(&at.integer()) {
        causes.invalid_as(at, &at.integer().into(), &format!("must be positive and less than {max}"));
    }
}

/// Where it is served: here, or by a Service.
fn place(spec: &At<'_, '_>, causes: &mut Causes) {
    let (service, bundle, insecure) = (spec.member("service"), spec.member("caBundle"), spec.member("insecureSkipTLSVerify"));
    let bytes = bytes_of(bundle.text());
    if service.is_absent() {
        if bytes > 0 {
            causes.invalid_as(&bundle, &format!("{bytes} bytes").into(), "local APIServices may not have a caBundle");
        }
        if insecure.is_true() {
            causes.invalid(&insecure, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    for name in ["namespace", "name"] {
        if service.member(name).text().is_empty() {
            causes.required(&service.member(name), "");
        }
    }
    let port = service.member("port");
    if let Some(why) = names::port_number(port.integer()) {
        causes.invalid_as(&port, &port.integer().into(), &format!("port is not valid: {why}"));
    }
    if insecure.is_true() && bytes > 0 {
        causes.invalid(&insecure, "may not be true if caBundle is present");
    }
}

/// How many bytes a base64 text is of.
fn bytes_of(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The rules of kube-aggregator, one by one.
    #[test]
    fn texts_are_those_of_kube_aggregator() {
        let right = json!({"group": "a.b", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10});
        let with = |changes: Value| {
            let mut spec = right.clone();
            changes.as_object().into_iter().flatten().for_each(|(name, value)| spec[name] = value.clone());
            json!({"spec": spec})
        };
        let service = json!({"namespace": "n", "name": "s", "port": 443});
        let cases = [
            (json!({}), ""),
            (json!({"service": service, "insecureSkipTLSVerify": true}), ""),
            (json!({"group": ""}), ""),
            (
                json!({"group": "", "version": "v2"}),
                "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
            ),
            (
                json!({"groupPriorityMinimum": 20_001}),
                "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
            ),
            (json!({"versionPriority": null}), "spec.versionPriority: Invalid value: 0: must be positive and less than 1000"),
            (json!({"caBundle": "YWI="}), "spec.caBundle: Invalid value: \"2 bytes\": local APIServices may not have a caBundle"),
            (
                json!({"insecureSkipTLSVerify": true}),
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ),
            (json!({"service": {"namespace": "n", "port": 443}}), "spec.service.name: Required value"),
            (
                json!({"service": {"namespace": "n", "name": "s"}}),
                "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ),
            (
                json!({"service": service, "caBundle": "YQ==", "insecureSkipTLSVerify": true}),
                "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
            ),
        ];
        for (changes, want) in cases {
            let texts: Vec<String> = api_service(&with(changes)).iter().map(|it| format!("{}: {}", it.field, it.message)).collect();
            assert_eq!(texts.join("\n"), want);
        }
        let texts = update_status(&Value::Null, &json!({"status": {"conditions": [{"status": "True"}, {"status": "x"}]}}));
        assert_eq!(texts[0].message, r#"Unsupported value: "x": supported values: "True", "False", "Unknown""#);
        assert_eq!((texts.len(), texts[0].field.as_str()), (1, "status.conditions[1].status"));
    }
}
