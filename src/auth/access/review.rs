//! Access reviews as JSON trees: validates their specs, and makes the question for the authorizers out of them (spec api-surface §13.4). Pure.

use serde_json::{Map, Value, json};

use super::selectors::{of_fields, of_labels};
use crate::User;
use crate::authz::{Attributes, Operator, RequestInfo, Requirement, Selectors};
use go::tree::{text, texts};
use model::{
    invalid::{FieldError, FieldErrorKind},
    legal,
};

/// The three reviews of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessReview {
    /// May the one who asks?
    Own,
    /// May somebody?
    Subject,
    /// May somebody, in this namespace?
    Local,
}

/// Everything that is wrong with a review, in kube-apiserver's order.
#[must_use]
pub fn wrong(of: AccessReview, review: &Value) -> Vec<FieldError> {
    let spec = &review["spec"];
    let (resource, path) = (member(spec, "resourceAttributes"), member(spec, "nonResourceAttributes"));
    let mut wrong = Vec::new();
    let shown = path.map_or(Value::Null, |path| json!({"Path": text(path, "path"), "Verb": text(path, "verb")}));
    match (resource, path) {
        (Some(_), Some(_)) => {
            wrong.push(FieldError::invalid(
                "spec.nonResourceAttributes",
                &shown,
                "cannot be specified in combination with resourceAttributes",
            ));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            wrong.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, why));
        }
        _ => {}
    }
    if of != AccessReview::Own && text(spec, "user").is_empty() && spec["groups"].as_array().is_none_or(Vec::is_empty) {
        wrong.push(FieldError::invalid("spec.user", &"".into(), "at least one of user or group must be specified"));
    }
    if let Some(resource) = resource {
        for name in ["fieldSelector", "labelSelector"] {
            if let Some(selector) = member(resource, name) {
                wrong_selector(&format!("spec.resourceAttributes.{name}"), selector, name == "labelSelector", &mut wrong);
            }
        }
    }
    let metadata = &review["metadata"];
    let may_stay = |name: &str| name == "managedFields" || name == "namespace" && of == AccessReview::Local;
    if metadata.as_object().is_some_and(|members| members.keys().any(|name| !may_stay(name))) {
        let why = if of == AccessReview::Local { "must be empty except for namespace" } else { "must be empty" };
        let message = format!("Invalid value: {}: {why}", shown_metadata(metadata));
        wrong.push(FieldError { field: "metadata".to_owned(), kind: FieldErrorKind::Invalid, message });
    }
    if of == AccessReview::Local {
        if let Some(resource) = resource.filter(|resource| text(resource, "namespace") != text(metadata, "namespace")) {
            let namespace = text(resource, "namespace");
            wrong.push(FieldError::invalid("spec.resourceAttributes.namespace", &namespace.into(), "must match metadata.namespace"));
        }
        if path.is_some() {
            wrong.push(FieldError::invalid("spec.nonResourceAttributes", &shown, "disallowed on this kind of request"));
        }
    }
    wrong
}

/// Metadata as Go prints it: its members in the order of the type.
fn shown_metadata(metadata: &Value) -> String {
    const ORDER: [&str; 9] =
        ["name", "generateName", "namespace", "resourceVersion", "generation", "labels", "annotations", "ownerReferences", "finalizers"];
    let there = ORDER.iter().filter_map(|name| Some(format!("\"{name}\":{}", metadata.get(name)?)));
    format!("{{{}}}", there.collect::<Vec<_>>().join(","))
}

fn wrong_selector(path: &str, selector: &Value, of_labels: bool, wrong: &mut Vec<FieldError>) {
    let (raw, requirements) = (text(selector, "rawSelector"), selector["requirements"].as_array().map_or(&[][..], Vec::as_slice));
    if !raw.is_empty() && !requirements.is_empty() {
        wrong.push(FieldError::invalid(format!("{path}.rawSelector"), &raw.into(), "may not specified at the same time as requirements"));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        wrong.push(FieldError::required(format!("{path}.requirements"), &why));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let path = format!("{path}.requirements[{index}]");
        let has_values = requirement["values"].as_array().is_some_and(|values| !values.is_empty());
        let key = text(requirement, "key");
        if !of_labels && key.is_empty() {
            wrong.push(FieldError::required(format!("{path}.key"), "must be specified"));
        }
        match text(requirement, "operator") {
            "In" | "NotIn" if !has_values => {
                wrong.push(FieldError::required(format!("{path}.values"), "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if has_values => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                wrong.push(FieldError::forbidden(format!("{path}.values"), why));
            }
            // An operator of tomorrow is left to the authorizer.
            _ => {}
        }
        if of_labels {
            wrong.extend(legal::wrong_key(key).iter().map(|why| FieldError::invalid(format!("{path}.key"), &key.into(), why)));
            for (index, value) in texts(&requirement["values"]).iter().enumerate() {
                let field = || format!("{path}.values[{index}]");
                wrong.extend(legal::wrong_value(value).iter().map(|why| FieldError::invalid(field(), &value.as_str().into(), why)));
            }
        }
    }
}

/// Who is asked about.
#[must_use]
pub fn user(spec: &Value) -> User {
    let extra = spec["extra"].as_object().into_iter().flat_map(Map::iter);
    User {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.to_lowercase(), texts(values))).collect(),
    }
}

/// What a review that has nothing wrong asks about, of this user.
pub struct Subject {
    /// Who.
    user: User,
    /// To do what.
    info: RequestInfo,
    /// What could not be read of the selectors.
    pub ignored: Option<String>,
}

impl Subject {
    /// Reads the spec of a review.
    #[must_use]
    pub fn read(user: User, spec: &Value) -> Self {
        let Some(resource) = member(spec, "resourceAttributes") else {
            let path = &spec["nonResourceAttributes"];
            let info = RequestInfo { path: text(path, "path").into(), verb: text(path, "verb").to_owned(), ..RequestInfo::default() };
            return Self { user, info, ignored: None };
        };
        let own = |name: &str| text(resource, name).to_owned();
        let version = Some(own("version")).filter(|version| !version.is_empty()).unwrap_or_else(|| "*".to_owned());
        let (selectors, ignored) = selectors(resource);
        let info = RequestInfo {
            path: Box::default(),
            verb: own("verb"),
            is_resource: true,
            group: own("group"),
            version,
            namespace: own("namespace"),
            resource: own("resource"),
            subresource: own("subresource"),
            name: own("name"),
            selectors,
        };
        Self { user, info, ignored }
    }

    /// The question for the authorizers.
    #[must_use]
    pub fn attributes(&self) -> Attributes<'_> {
        self.info.attributes(&self.user)
    }
}

/// What is selected, and which selectors could not be read, or not whole.
fn selectors(resource: &Value) -> (Selectors, Option<String>) {
    let mut ignored = Vec::new();
    let mut read = |name: &str, of: fn(&str) -> Result<Vec<Requirement>, String>, requirement: fn(&Value) -> Option<Requirement>| {
        let Some(selector) = member(resource, name) else { return Vec::new() };
        let listed = selector["requirements"].as_array().map_or(&[][..], Vec::as_slice);
        let (found, is_whole) = if listed.is_empty() {
            let found = of(text(selector, "rawSelector"));
            let is_whole = found.is_ok();
            (found.unwrap_or_default(), is_whole)
        } else {
            let found: Vec<Requirement> = listed.iter().filter_map(requirement).collect();
            let is_whole = found.len() == listed.len();
            (found, is_whole)
        };
        if !is_whole {
            let partially = if found.is_empty() { "" } else { "partially " };
            ignored.push(format!("spec.resourceAttributes.{name} {partially}ignored due to parse error"));
        }
        found
    };
    let fields = read("fieldSelector", of_fields, field_requirement);
    let labels = read("labelSelector", of_labels, requirement);
    (Selectors { fields, labels }, (!ignored.is_empty()).then(|| ignored.join("; ")))
}

/// A requirement about a label; none with an operator of tomorrow.
fn requirement(requirement: &Value) -> Option<Requirement> {
    let operator = match text(requirement, "operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    };
    Some(Requirement { key: text(requirement, "key").to_owned(), operator, values: texts(&requirement["values"]) })
}

/// A requirement about a field: one value is an equation; more are none yet, and a field is always there.
fn field_requirement(of: &Value) -> Option<Requirement> {
    requirement(of).filter(|requirement| requirement.values.len() == 1)
}

/// A member that is an object.
fn member<'v>(of: &'v Value, name: &str) -> Option<&'v Value> {
    of.get(name).filter(|value| value.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(of: AccessReview, review: &Value) -> Vec<String> {
        wrong(of, review).into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    /// The texts are those of kube-apiserver 1.36.3.
    #[test]
    fn what_is_wrong_is_told_in_kube_apiservers_words() {
        let none =
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let both = "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes";
        let nobody = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
        let path = json!({"path": "/x", "verb": "get"});
        assert_eq!(told(AccessReview::Own, &json!({"spec": {}})), [none]);
        assert_eq!(told(AccessReview::Subject, &json!({"spec": {}})), [none, nobody]);
        assert_eq!(told(AccessReview::Own, &json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": path}})), [both]);
        let named = json!({"metadata": {"name": "x"}, "spec": {"groups": ["a"], "resourceAttributes": {}}});
        for of in [AccessReview::Own, AccessReview::Subject] {
            assert_eq!(told(of, &named), ["metadata: Invalid value: {\"name\":\"x\"}: must be empty"]);
        }
        let fields = json!({"metadata": {"managedFields": [{}]}, "spec": {"groups": ["a"], "resourceAttributes": {}}});
        assert_eq!(told(AccessReview::Subject, &fields), [""; 0]);
        let local = json!({"metadata": {"namespace": "ab"}, "spec": {"user": "j", "resourceAttributes": {"namespace": "x"}}});
        assert_eq!(
            told(AccessReview::Local, &local),
            ["spec.resourceAttributes.namespace: Invalid value: \"x\": must match metadata.namespace"]
        );
        let local = json!({"metadata": {"namespace": "ab"}, "spec": {"user": "j", "nonResourceAttributes": path}});
        assert_eq!(
            told(AccessReview::Local, &local),
            ["spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: disallowed on this kind of request"]
        );
    }

    #[test]
    fn selectors_are_raw_or_requirements() {
        let review = |selectors: Value| json!({"spec": {"resourceAttributes": selectors}});
        let bad = review(
            json!({"fieldSelector": {"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Bad", "values": ["b"]}]}, "labelSelector": {}}),
        );
        assert_eq!(
            told(AccessReview::Own, &bad),
            [
                "spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements",
                "spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, \
                 requirements or rawSelector is required",
            ]
        );
        let bad = review(json!({
            "fieldSelector": {"requirements": [{"key": "", "operator": "In", "values": []}]},
            "labelSelector": {"requirements": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
        }));
        assert_eq!(told(AccessReview::Own, &bad).len(), 3);
        let requirement = json!({"requirements": [{"key": "A/b/c", "operator": "Foo", "values": ["x_", "y"]}]});
        let fields: Vec<String> = wrong(AccessReview::Own, &review(json!({"fieldSelector": requirement, "labelSelector": requirement})))
            .into_iter()
            .map(|error| error.field)
            .collect();
        let at = "spec.resourceAttributes.labelSelector.requirements[0]";
        assert_eq!(fields, [format!("{at}.key"), format!("{at}.values[0]")], "only labels have a form");
    }

    #[test]
    fn a_question_has_what_its_selectors_want() {
        let ask = |attributes: Value| {
            let subject = Subject::read(User::default(), &json!({"resourceAttributes": attributes}));
            let told = |all: &[Requirement]| serde_json::to_value(all).expect("JSON");
            let selectors = &subject.info.selectors;
            (told(&selectors.fields), told(&selectors.labels), subject.ignored)
        };
        let (fields, ..) = ask(json!({"fieldSelector": {"rawSelector": "a=b,c!=d"}}));
        assert_eq!(fields, json!([{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "NotIn", "values": ["d"]}]));
        let requirements = json!([
            {"key": "k", "operator": "In", "values": ["v"]},
            {"key": "l", "operator": "In", "values": ["v", "w"]},
            {"key": "m", "operator": "Exists"},
        ]);
        let (fields, labels, ignored) =
            ask(json!({"fieldSelector": {"requirements": requirements}, "labelSelector": {"requirements": requirements}}));
        assert_eq!((fields, labels), (json!([requirements[0]]), requirements));
        assert_eq!(ignored.as_deref(), Some("spec.resourceAttributes.fieldSelector partially ignored due to parse error"));
        let tomorrow = json!({"requirements": [{"key": "a", "operator": "Foo"}]});
        assert_eq!(
            ask(json!({"labelSelector": tomorrow})).2.as_deref(),
            Some("spec.resourceAttributes.labelSelector ignored due to parse error")
        );
        let ignored = "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error";
        let bad = json!({"fieldSelector": {"rawSelector": "a==b=,,"}, "labelSelector": {"rawSelector": "!!"}});
        assert_eq!(ask(bad).2.as_deref(), Some(ignored));
    }
}
