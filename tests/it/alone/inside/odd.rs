//! Texts of others that are not as one wishes: markup, marks that turn the direction, very long ones. They are told as they are, cut where they are long, and
//! nothing breaks.

use super::*;

/// What a name of a role may be: any part of a path.
const ODD: &str = "<img src=x onerror=alert(1)>\u{202e}\u{5d0}\u{5d1} \u{1}'\"&amp;";
/// Bytes of a text of a client that are shown, with the mark that there was more.
const SHOWN: usize = 256 + "…".len();
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_told_as_they_are() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let long = "n".repeat(253);
    for name in [ODD, &long] {
        let labels = json!({"a": "b", (format!("{}.{}/c", "d".repeat(63), "e".repeat(63))): "f".repeat(63)});
        let role = json!({"metadata": {"name": name, "labels": labels, "annotations": {"text": ODD}}, "rules": []});
        asked(&client, ("POST", &format!("{ROLES}?fieldManager=%3Cb%3E")), Some(&role), 201).await?;
    }
    let all = until(&client, &format!("{API}/history{ROLES}?limit=500"), |answer| {
        answer["items"].as_array().into_iter().flatten().any(|item| item["name"] == *long)
    })
    .await?;
    assert!(all["items"].as_array().into_iter().flatten().any(|item| item["name"] == ODD && item["manager"] == "<b>"), "{all}");
    let encoded = query(&[("", ODD)]);
    let path = format!("{API}/history{ROLES}/{}", encoded.trim_start_matches("?="));
    let one = get(&client, &path).await?;
    assert_eq!((one["items"].as_array().map(Vec::len), &one["items"][0]["name"]), (Some(1), &json!(ODD)), "{one}");
    let revision = one["items"][0]["revision"].as_u64().ok_or("no revision")?;
    let state = get(&client, &format!("{path}?revision={revision}")).await?;
    assert_eq!(state["metadata"]["annotations"]["text"], ODD);
    for (target, code) in [
        (format!("{API}/history{ROLES}/%2e%2e"), 400),
        (format!("{API}/history{ROLES}/%00"), 200),
        (format!("{API}/history{ROLES}/a%2Fb"), 404),
        (format!("{API}/history{MAPS}/{}", "x".repeat(10_000)), 200),
        (format!("{API}/watches/%F0%9F%92%A9"), 404),
        (format!("{API}/watches/99999999999999999999999"), 404),
        (format!("{API}/watches{}", query(&[("filter", ODD)])), 200),
        (format!("{API}/resources{}", query(&[("filter", "\u{0}\n\u{202e}")])), 200),
        (format!("{API}/resources{}", query(&[("filter", &"\u{5d0}".repeat(129))])), 400),
        (format!("{API}/resources?filter=%FF%FE"), 200),
        (format!("{API}/watches?sort=-lag&offset=4294967295"), 200),
        (format!("{API}/watches?offset=4294967296"), 400),
    ] {
        assert_eq!(status(&client, "GET", &target).await?, code, "{target}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_clients_are_cut() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    // A browser's name of ten thousand bytes, a user of as many, each with what HTTP lets through.
    let odd = format!("<b>\u{202e}\u{5d0}{}", "x".repeat(10_000));
    let selector = format!("a in ({})", (0..200).map(|nth| format!("value-{nth}")).collect::<Vec<_>>().join(","));
    let target = format!("{MAPS}{}", query(&[("watch", "1"), ("labelSelector", &selector)]));
    let mut stream = client.raw().await?;
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {odd}\r\nImpersonate-User: {odd}\r\nImpersonate-Group: system:masters\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).await?;
    let shown = until(&client, &format!("{API}/watches?sort=user"), |answer| answer["open"] == 1).await?;
    let row = &shown["items"][0];
    for member in ["user", "agent", "labelSelector"] {
        let text = row[member].as_str().ok_or("a text")?;
        assert!(text.ends_with('…') && text.len() <= SHOWN && text.len() > SHOWN - 4, "{member}: {text}");
    }
    assert!(row["user"].as_str().is_some_and(|user| user.starts_with("<b>\u{202e}\u{5d0}x")), "{row}");
    assert_eq!((&row["impersonator"], row["labelSelector"].as_str().map(|text| &text[..6])), (&json!("system:unsecured"), Some("a in (")));
    // It is found by what is shown of it, and ended by its number.
    let found = get(&client, &format!("{API}/watches{}", query(&[("filter", "<B>\u{202e}")]))).await?;
    assert_eq!(found["total"], 1, "{found}");
    let number = &row["id"];
    asked(&client, ("DELETE", &format!("{API}/watches/{number}")), None, 200).await?;
    until(&client, &format!("{API}/watches"), |answer| answer["open"] == 0).await?;
    Ok(())
}

/// The right to one namespace shows that one, whatever is asked with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_namespace_is_all_of_it() -> Outcome {
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let server = start(dir.path(), &site, listener, &[]).await?;
    let (admin, jane) = (site.client(listener), site.client_of(listener, "janetoken"));
    let (group, others) = ("rbac.authorization.k8s.io", "/api/v1/namespaces/kube-system/configmaps");
    let role =
        json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]});
    let binding = json!({
        "metadata": {"name": "r"}, "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}],
    });
    asked(&admin, ("POST", &format!("{RBAC}/namespaces/default/roles")), Some(&role), 201).await?;
    asked(&admin, ("POST", &format!("{RBAC}/namespaces/default/rolebindings")), Some(&binding), 201).await?;
    let made = asked(&admin, ("POST", others), Some(&json!({"metadata": {"name": "hidden"}, "data": {"k": "hidden"}})), 201).await?;
    asked(&admin, ("POST", MAPS), Some(&json!({"metadata": {"name": "seen"}})), 201).await?;
    let shown =
        until(&jane, &format!("{API}/history{MAPS}"), |answer| answer["items"].as_array().is_some_and(|items| !items.is_empty())).await?;
    assert!(shown["items"].as_array().into_iter().flatten().all(|item| item["namespace"] == "default"), "{shown}");
    let revision = made["metadata"]["resourceVersion"].as_str().ok_or("no revision")?;
    for (method, target) in [
        ("GET", format!("{API}/history{others}/hidden?revision={revision}")),
        ("GET", format!("{API}/history{others}?before={revision}")),
        ("HEAD", format!("{API}/history{others}/hidden")),
        ("GET", format!("{API}/history/api/v1/namespaces/kube-system")),
        ("GET", format!("{API}/cluster")),
        ("GET", API.to_owned()),
        ("DELETE", format!("{API}/watches/1")),
        // What the tail asks.
        ("GET", format!("{others}?watch=1")),
        ("GET", "/api/v1/configmaps?watch=1".to_owned()),
        ("GET", format!("{others}?limit=1")),
    ] {
        let answer = jane.whole(method, &target, &[], b"").await?;
        assert_eq!(answer.status, 403, "{method} {target}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("\"k\""), "{method} {target}");
    }
    let mut tail = jane.watch(&format!("{MAPS}?watch=1&resourceVersion=0")).await?.map_err(|answer| format!("{}", answer.status))?;
    let line: Value = serde_json::from_slice(&timeout(SOON, tail.next_line()).await??.ok_or("it has ended")?)?;
    assert_eq!(
        (&line["object"]["metadata"]["namespace"], &line["object"]["metadata"]["name"]),
        (&json!("default"), &json!("seen")),
        "{line}"
    );
    drop(server);
    Ok(())
}
