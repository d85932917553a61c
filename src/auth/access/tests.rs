//! Rights that are not loaded yet, and rights that are lost while streams begin and go on.

use super::*;
use crate::authz::rbac::Kind;
use crate::authz::{Decision, Target};

/// A right that is lost after it was looked at and before its stream is filed ends the stream all the same.
#[tokio::test(start_paused = true)]
async fn what_is_lost_while_a_stream_begins_ends_it() {
    let config =
        Authorization { modes: vec![Mode::AlwaysDeny], file: None, anonymous: false, ends_watches: true, constrained_impersonation: true };
    let access = Arc::new(Access::new(&config, false, &Arc::default()).expect("no files"));
    let judging = tokio::spawn({
        let access = access.clone();
        async move { access.judge().await }
    });
    let opened = |name: &str| {
        let user = Arc::new(User { name: name.to_owned(), ..User::default() });
        let info = RequestInfo { path: "/x".into(), verb: "get".to_owned(), ..RequestInfo::default() };
        Opened { user, impersonator: None, info: info.into(), is_still_valid: None, goodbye: Arc::default() }
    };
    let is_over = |permission: &Permission| permission.poll_refused(&std::task::Context::from_waker(std::task::Waker::noop())).is_some();
    let (losses, mut affected) = (access.losses(), Affected::default());
    let other = access.open_stream(opened("joe"), losses).expect("filed");
    affected.add_user("jane");
    access.lost(affected);
    tokio::time::sleep(JUDGE_PAUSE * 2).await;
    let late = access.open_stream(opened("jane"), losses).expect("filed");
    tokio::time::sleep(JUDGE_PAUSE * 2).await;
    assert_eq!((is_over(&late), is_over(&other)), (true, false), "nobody who has lost nothing is looked at");
    let fresh = access.open_stream(opened("jane"), access.losses()).expect("filed");
    tokio::time::sleep(JUDGE_PAUSE * 2).await;
    assert!(!is_over(&fresh), "it was decided after that");
    access.reloaded();
    tokio::time::sleep(JUDGE_PAUSE * 2).await;
    assert!(is_over(&other) && is_over(&fresh));
    judging.abort();
}

/// 50,000 watches of 5,000 users, and one of them loses a binding. Prints what it costs (`cargo test --release` for figures).
#[tokio::test]
async fn fifty_thousand_watches() {
    let config =
        Authorization { modes: vec![Mode::Rbac], file: None, anonymous: false, ends_watches: true, constrained_impersonation: true };
    let access = Access::new(&config, false, &Arc::default()).expect("no files");
    let mut index = RbacIndex::default();
    let role = br#"{"rules":[{"verbs":["watch"],"apiGroups":[""],"resources":["pods"]}]}"#;
    index.put(Kind::ClusterRole, "", "r", role).expect("a role");
    let binding =
        |nth: usize| format!(r#"{{"roleRef":{{"kind":"ClusterRole","name":"r"}},"subjects":[{{"kind":"User","name":"u{nth}"}}]}}"#);
    for nth in 0..5_000 {
        index.put(Kind::ClusterRoleBinding, "", &nth.to_string(), binding(nth).as_bytes()).expect("a binding");
    }
    access.rbac.0.store(Arc::new(index.clone()));
    let streams = access.streams.as_ref().expect("streams end");
    let users: Vec<Arc<User>> = (0..5_000).map(|nth| Arc::new(User { name: format!("u{nth}"), ..User::default() })).collect();
    let open = |nth: usize| {
        let path = "/api/v1/pods".into();
        let info = RequestInfo { path, verb: "watch".to_owned(), is_resource: true, resource: "pods".to_owned(), ..RequestInfo::default() };
        let user = users[nth % users.len()].clone();
        streams.open(Opened { user, impersonator: None, info: info.into(), is_still_valid: None, goodbye: Arc::default() })
    };
    let held: Vec<Permission> = (0..50_000).map(open).collect();
    let before = index.clone();
    index.remove(Kind::ClusterRoleBinding, "", "7");
    access.rbac.0.store(Arc::new(index.clone()));
    let mut affected = Affected::default();
    before.lost(&index, Kind::ClusterRoleBinding, "", "7", &mut affected);
    let evaluate = |affected: &Affected| {
        let (began, authorizers) = (std::time::Instant::now(), access.authorizers());
        let evaluate = streams.depending_on(affected);
        let ends = |stream: &&Arc<Stream>| {
            let judgement = authorizers.remembered(|asking| stream.evaluate(asking, &access.impersonation));
            matches!(judgement, Some(Evaluation::Ends(_)))
        };
        let ended = evaluate.iter().filter(ends).count();
        (evaluate.len(), ended, began.elapsed())
    };
    let (all, few) = (evaluate(&Affected::everybody()), evaluate(&affected));
    let told = format!("{} watches judged: {:?}; {}: {:?}\n", all.0, all.2, few.0, few.2);
    std::io::Write::write_all(&mut std::io::stdout(), told.as_bytes()).expect("stdout");
    assert_eq!((all.0, all.1, few.0, few.1), (50_000, 10, 10, 10), "the same end");
    drop(held);
}

/// Before roles and bindings are loaded a no would be a judgement about what is not known.
#[tokio::test(start_paused = true)]
async fn nobody_is_refused_for_what_is_not_loaded() {
    let config =
        Authorization { modes: vec![Mode::AlwaysDeny], file: None, anonymous: false, ends_watches: true, constrained_impersonation: true };
    let access = Arc::new(Access::new(&config, false, &Arc::default()).expect("no files"));
    let ask = |group: &str, seconds| {
        let (access, user) = (access.clone(), User { name: "jane".to_owned(), groups: vec![group.to_owned()], ..User::default() });
        tokio::spawn(async move {
            let asked = Attributes { user: &user, verb: "get", target: Target::Path("/x") };
            let until = Instant::now() + Duration::from_secs(seconds);
            access.decide(&Asker { user: &user, address: None, until }, &asked).await.map(|verdict| verdict.decision)
        })
    };
    access.loading.send_replace(2);
    assert_eq!(ask("", 1).await.expect("no panic"), Err(Undecided::Loading));
    assert_eq!(ask(MASTERS, 1).await.expect("no panic"), Ok(Decision::Allow), "no role is needed");
    let patient = ask("", 9);
    tokio::time::sleep(Duration::from_secs(3)).await;
    access.loading.send_replace(0);
    assert_eq!(patient.await.expect("no panic"), Ok(Decision::NoOpinion));
}
