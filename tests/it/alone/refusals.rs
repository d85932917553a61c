//! What is refused, what is not, and in whose words: of both listeners where both are asked.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{Alone, Failure, Outcome, asked};
use crate::{
    client::Client,
    live::{free_address, peers::Site},
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BODY: &str = r#"{"metadata":{"name":"unwanted"}}"#;

/// Bytes that are no text take three times the room once they are written as the text that stands for them: more than a URI may have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_path_that_nothing_has_is_not_found() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for (root, status) in
        [("/apis/", 404), ("/apis/apps/", 404), ("/api/", 404), ("/openapi/", 404), ("/openapi/v3/", 404), ("/healthz/", 404)]
    {
        for name in ["x".to_owned(), "%FF".repeat(8_000)] {
            let answer = client.fetch(&format!("{root}{name}")).await?;
            assert_eq!(answer.status, status, "{root} {} bytes", name.len());
        }
    }
    let long = format!("/apis/!!!!!!!!?{}", "a=".repeat(15_000));
    assert_eq!(client.fetch(&long).await?.status, 404);
    Ok(())
}

/// Requests that were meant to be carried out with somebody else's rights were carried out with those of who sent them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_acts_as_somebody_else() -> Outcome {
    let (dir, secure) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let flag = |name: &str, file: &str| format!("{name}={}", site.path().join(file).display());
    let flags = [
        format!("--secure-port={}", secure.port()),
        "--bind-address=127.0.0.1".to_owned(),
        flag("--tls-cert-file", "server.crt"),
        flag("--tls-private-key-file", "server.key"),
        flag("--token-auth-file", "tokens.csv"),
    ];
    let server = Alone::start_with(dir.path(), &flags.each_ref().map(String::as_str)).await?;
    for client in [server.client(), site.client(secure)] {
        // As bob, who has no rights, though who asks may do everything.
        let told = refusal(&client, "POST", CONFIG_MAPS, "Impersonate-User", BODY).await?;
        assert_eq!((&told["code"], &told["reason"]), (&json!(403), &json!("Forbidden")), "{told}");
        assert!(told["message"].as_str().is_some_and(|text| text.contains("User \"bob\" cannot create resource \"configmaps\"")), "{told}");
        for header in ["impersonate-group", "Impersonate-Uid", "Impersonate-Extra-scopes"] {
            for (method, target, body) in
                [("POST", CONFIG_MAPS, BODY), ("GET", CONFIG_MAPS, ""), ("GET", "/version", ""), ("GET", "/readyz", "")]
            {
                let told = refusal(&client, method, target, header, body).await?;
                assert_eq!((&told["code"], &told["reason"]), (&json!(400), &json!("BadRequest")), "{method} {target} {header}: {told}");
                let message = told["message"].as_str().unwrap_or_default();
                assert!(message.ends_with("without impersonating a user name"), "{message}");
            }
        }
        asked(&client, ("GET", &format!("{CONFIG_MAPS}/unwanted")), None, 404).await?;
    }
    Ok(())
}

async fn refusal(client: &Client, method: &str, target: &str, header: &str, body: &str) -> Result<Value, Failure> {
    let headers = [(header.to_owned(), "bob".to_owned()), ("Content-Type".to_owned(), "application/json".to_owned())];
    Ok(serde_json::from_slice(&client.whole(method, target, &headers, body.as_bytes()).await?.body)?)
}

/// It was a 500 that told of storage keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dots_are_a_namespace_that_is_not_there() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    for (written, namespace) in [("nope", "nope"), ("%2e", "."), ("%2e%2e", ".."), ("%2E%2e", "..")] {
        let all = format!("/api/v1/namespaces/{written}/configmaps");
        let one = format!("{all}/x");
        assert_eq!(asked(&client, ("GET", &all), None, 200).await?["items"], json!([]), "{written}");
        let object = json!({"metadata": {"name": "x"}});
        let missing = json!("configmaps \"x\" not found");
        assert_eq!(asked(&client, ("GET", &one), None, 404).await?["message"], missing, "{written}");
        assert_eq!(asked(&client, ("PUT", &one), Some(&object), 404).await?["message"], missing, "{written}");
        assert_eq!(asked(&client, ("DELETE", &one), None, 404).await?["message"], missing, "{written}");
        let refused = asked(&client, ("POST", &all), Some(&object), 404).await?;
        assert_eq!(refused["message"], format!("namespaces {namespace:?} not found"), "{written}");
        assert_eq!(asked(&client, ("DELETE", &all), None, 200).await?["items"], json!([]), "{written}");
    }
    Ok(())
}

/// In HTTP/2 a body needs neither `Content-Length` nor `Transfer-Encoding`. kubectl's `create --raw` and the Python client name no type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_without_a_type_is_json_in_any_version_of_http() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    // A page that sends one without asking before has a browser that says so.
    for (name, value) in [("Origin", "http://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")] {
        let whole = client.whole("POST", CONFIG_MAPS, &[(name.to_owned(), value.to_owned())], BODY.as_bytes()).await?;
        assert_eq!(whole.status, 403, "{name}: {value}");
    }
    let whole = client.whole("POST", CONFIG_MAPS, &[], BODY.as_bytes()).await?;
    assert_eq!(whole.status, 201, "HTTP/1.1");
    for (typed, body, status) in [(false, BODY, 409), (true, BODY, 409), (false, "", 400)] {
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(TcpStream::connect(server.address).await?)).await?;
        let connection = tokio::spawn(connection);
        let mut request = Request::post(format!("http://{}{CONFIG_MAPS}", server.address));
        if typed {
            request = request.header("content-type", "application/json");
        }
        // One that does not say how long it is.
        let body = Full::new(Bytes::from(body)).map_frame(|frame| frame);
        let answer = sender.send_request(request.body(body)?).await?;
        let code = answer.status().as_u16();
        let told = answer.into_body().collect().await?.to_bytes();
        assert_eq!(code, status, "typed: {typed}: {}", String::from_utf8_lossy(&told));
        drop(sender);
        connection.await??;
    }
    Ok(())
}

/// A token and a binding count as new content, of which a namespace that goes takes none. The texts are those of kube-apiserver 1.36.3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_goes_takes_no_tokens_and_bindings() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let (client, all) = (server.client(), "/api/v1/namespaces");
    asked(&client, ("POST", all), Some(&json!({"metadata": {"name": "going"}})), 201).await?;
    asked(&client, ("POST", &format!("{all}/going/serviceaccounts")), Some(&json!({"metadata": {"name": "bot"}})), 201).await?;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "none:1"}]}});
    asked(&client, ("POST", &format!("{all}/going/pods")), Some(&pod), 201).await?;
    asked(&client, ("DELETE", &format!("{all}/going")), None, 200).await?;
    let kind = |group: &str, kind: &str| json!({"apiVersion": group, "kind": kind, "metadata": {}});
    let (mut token, mut binding) = (kind("authentication.k8s.io/v1", "TokenRequest"), kind("v1", "Binding"));
    token["spec"] = json!({});
    binding["metadata"]["name"] = json!("p");
    binding["target"] = json!({"kind": "Node", "name": "n"});
    for (path, body, of) in [
        ("serviceaccounts/bot/token", &token, r#"serviceaccounts "bot""#),
        ("serviceaccounts/nope/token", &token, r#"serviceaccounts "nope""#),
        ("pods/p/binding", &binding, r#"pods "p""#),
    ] {
        let refused = asked(&client, ("POST", &format!("{all}/going/{path}")), Some(body), 403).await?;
        let why = "unable to create new content in namespace going because it is being terminated";
        assert_eq!(refused["message"], format!("{of} is forbidden: {why}"));
        assert_eq!(refused["details"]["causes"][0]["reason"], "NamespaceTerminating");
        let missing = asked(&client, ("POST", &format!("{all}/missing/{path}")), Some(body), 404).await?;
        assert_eq!(missing["message"], r#"namespaces "missing" not found"#);
        let mut elsewhere = body.clone();
        elsewhere["metadata"]["namespace"] = json!("y");
        let refused = asked(&client, ("POST", &format!("{all}/missing/{path}")), Some(&elsewhere), 400).await?;
        assert_eq!(refused["message"], "the namespace of the provided object does not match the namespace sent on the request");
    }
    // The name counts before the account.
    token["metadata"]["name"] = json!("y");
    let refused = asked(&client, ("POST", &format!("{all}/default/serviceaccounts/nope/token")), Some(&token), 422).await?;
    assert_eq!(refused["details"]["causes"][0]["field"], "metadata.name");
    server.kill()?;
    Ok(())
}
