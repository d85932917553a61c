//! ValidatingAdmissionPolicies: what they refuse, warn of and note, with parameters, variables and rights. The texts are those of kube-apiserver 1.36.3.

use serde_json::{Value, json};

use super::{Alone, Failure, Outcome, asked};
use crate::client::Client;

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn rules(resources: &[&str]) -> Value {
    json!({"resourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}]})
}

async fn bound(client: &Client, name: &str, spec: &Value, binding: &Value) -> Outcome {
    let mut spec = spec.clone();
    if spec.get("matchConstraints").is_none() {
        spec["matchConstraints"] = rules(&["configmaps"]);
    }
    asked(client, ("POST", POLICIES), Some(&json!({"metadata": {"name": name}, "spec": spec})), 201).await?;
    let mut binding = binding.clone();
    binding["policyName"] = name.into();
    asked(client, ("POST", BINDINGS), Some(&json!({"metadata": {"name": name}, "spec": binding})), 201).await.map(drop)
}

fn config(name: &str, data: &Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

async fn told(client: &Client, object: &Value) -> Result<(u16, Value, Vec<String>), Failure> {
    let head = [("content-type".to_owned(), "application/json".to_owned())];
    let answer = client.whole("POST", CONFIGS, &head, object.to_string().as_bytes()).await?;
    Ok((answer.status, serde_json::from_slice(&answer.body)?, answer.header("warning").map(str::to_owned).collect()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_refuses_and_warns() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let rule = json!({"variables": [{"name": "size", "expression": "size(object.data)"}],
        "validations": [{"expression": "variables.size < 3", "messageExpression": "'it has ' + string(variables.size)", "reason": "Forbidden"}]});
    bound(&client, "few", &rule, &json!({"validationActions": ["Deny"]})).await?;
    bound(
        &client,
        "none",
        &json!({"validations": [{"expression": "!('x' in object.data)"}]}),
        &json!({"validationActions": ["Warn", "Audit"]}),
    )
    .await?;
    let (status, answer, warnings) = told(&client, &config("a", &json!({"x": "1"}))).await?;
    assert_eq!(status, 201, "{answer}");
    let warning =
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'none' with binding 'none': failed expression: !('x' in object.data)\"";
    assert_eq!(warnings, [warning]);
    let (status, answer, _) = told(&client, &config("b", &json!({"a": "1", "b": "2", "c": "3"}))).await?;
    let why = "ValidatingAdmissionPolicy 'few' with binding 'few' denied request: it has 3";
    let want = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": format!("configmaps \"b\" is forbidden: {why}"), "details": {"name": "b", "kind": "configmaps", "causes": [{"message": why}]}});
    assert_eq!((status, answer), (403, want));
    let patched = json!({"data": {"b": "1", "c": "2"}});
    let head = [("content-type".to_owned(), "application/merge-patch+json".to_owned())];
    let answer = client.whole("PATCH", &format!("{CONFIGS}/a"), &head, patched.to_string().as_bytes()).await?;
    assert_eq!(answer.status, 403);
    asked(&client, ("DELETE", &format!("{BINDINGS}/few")), None, 200).await?;
    let answer = client.whole("PATCH", &format!("{CONFIGS}/a"), &head, patched.to_string().as_bytes()).await?;
    assert_eq!(answer.status, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_namespaces_and_rights_count() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let params = json!({"paramKind": kind, "matchConstraints": rules(&["secrets"]),
        "validations": [{"expression": "object.metadata.name.startsWith(params.data.prefix)", "message": "the name is wrong"}]});
    bound(&client, "named", &params, &json!({"validationActions": ["Deny"], "paramRef": {"name": "p", "parameterNotFoundAction": "Deny"}}))
        .await?;
    let secrets = "/api/v1/namespaces/default/secrets";
    let status = asked(&client, ("POST", secrets), Some(&json!({"metadata": {"name": "a"}})), 422).await?;
    let why = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    let text = format!("secrets \"a\" is forbidden: ValidatingAdmissionPolicy 'named' with binding 'named' denied request: {why}");
    assert_eq!(status["message"], text);
    asked(&client, ("POST", CONFIGS), Some(&config("p", &json!({"prefix": "ok-"}))), 201).await?;
    // A parameter counts once the cache has seen it.
    loop {
        let answer = client
            .whole("POST", secrets, &[("content-type".to_owned(), "application/json".to_owned())], br#"{"metadata": {"name": "ok-a"}}"#)
            .await?;
        if answer.status == 201 {
            break;
        }
        assert_eq!(answer.status, 422);
    }
    let status = asked(&client, ("POST", secrets), Some(&json!({"metadata": {"name": "a"}})), 422).await?;
    assert!(status["message"].as_str().is_some_and(|text| text.ends_with("denied request: the name is wrong")), "{status}");
    let rights = json!({"matchConstraints": rules(&["services"]), "validations": [
        {"expression": "authorizer.group('').resource('services').namespace('default').check('create').allowed()", "message": "rights"},
        {"expression": "!authorizer.serviceAccount('default', 'nobody').path('/x').check('get').allowed()", "message": "account"},
        {"expression": "namespaceObject.metadata.name == 'default' && request.resource.resource == 'services'", "message": "namespace"},
        {"expression": "object.spec.ports[0].port > 80", "message": "port"}]});
    bound(&client, "rights", &rights, &json!({"validationActions": ["Deny"]})).await?;
    let service = |port: u16| json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": port}]}});
    let services = "/api/v1/namespaces/default/services";
    let status = asked(&client, ("POST", services), Some(&service(80)), 422).await?;
    assert!(status["message"].as_str().is_some_and(|text| text.ends_with("denied request: port")), "{status}");
    asked(&client, ("POST", services), Some(&service(81)), 201).await?;
    Ok(())
}
