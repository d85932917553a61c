//! Rights that are taken away from many at once: the watches that lived on them end, each soon, and no other does.
//!
//! `WATCHCACHE_TEST_USERS` says how many users there are (40), each with ten watches; `WATCHCACHE_TEST_BINDINGS` how many other bindings (200). A tenth of the
//! users lose their right.

use std::{env, fmt::Write, fs, net::SocketAddr, time::Duration};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{Alone, Failure, Outcome, asked, secure::start};
use crate::{
    client::Client,
    live::{free_address, peers::Site, say},
};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCHES: usize = 10;
/// Users of whom one loses the right.
const OF: usize = 10;
/// The promise, with room for a debug server. It is judged when somebody measures, on a machine that does nothing else: with `WATCHCACHE_TEST_USERS`.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// How long the others must go on.
const GOES_ON: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(600);
/// Writes whose CPU is measured together, for a clock of 10 ms.
const WRITES: usize = 100;
const AT_ONCE: usize = 16;

fn number(name: &str, default: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn binding(name: &str, users: impl Iterator<Item = usize>) -> Value {
    let group = "rbac.authorization.k8s.io";
    let subjects: Vec<Value> = users.map(|user| json!({"apiGroup": group, "kind": "User", "name": format!("u{user}")})).collect();
    json!({
        "metadata": {"name": name}, "subjects": subjects,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "watcher"},
    })
}

impl Alone {
    /// CPU of the server until now, in clock ticks of 10 ms.
    fn cpu(&self) -> Result<Duration, Failure> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().ok_or("no stat")?.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).ok_or("no ticks");
        Ok(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
    }

    /// CPU for each of many requests.
    async fn cost(
        &self,
        client: &Client,
        mut request: impl FnMut(usize) -> (&'static str, String, Value, u16),
    ) -> Result<Duration, Failure> {
        let before = self.cpu()?;
        for nth in 0..WRITES {
            let (method, target, body, status) = request(nth);
            asked(client, (method, &target), Some(&body), status).await?;
        }
        Ok((self.cpu()? - before) / WRITES as u32)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_watches_end_when_one_binding_goes() -> Outcome {
    let (users, bindings) = (number("WATCHCACHE_TEST_USERS", 40), number("WATCHCACHE_TEST_BINDINGS", 200));
    let (dir, listener) = (tempfile::tempdir()?, free_address()?);
    let site = Site::prepare(dir.path()).map_err(|error| error.to_string())?;
    let mut tokens = fs::read_to_string(site.path().join("tokens.csv"))?;
    for user in 0..users {
        writeln!(tokens, "token{user},u{user},{user}")?;
    }
    fs::write(site.path().join("tokens.csv"), tokens)?;
    let server = start(dir.path(), &site, listener, &[]).await?;
    let admin = site.client(listener);
    let role =
        json!({"metadata": {"name": "watcher"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch", "list"]}]});
    asked(&admin, ("POST", &format!("{RBAC}/clusterroles")), Some(&role), 201).await?;
    let bound = format!("{RBAC}/namespaces/default/rolebindings");
    let made: Vec<Result<Value, Failure>> = stream::iter(0..bindings)
        .map(|nth| {
            let (admin, bound) = (&admin, &bound);
            async move { asked(admin, ("POST", bound), Some(&binding(&format!("other{nth}"), nth..=nth)), 201).await }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    made.into_iter().collect::<Result<Vec<_>, _>>()?;
    // Whoever loses the right has it from one binding alone, and from none of the others.
    let is_loser = |user: usize| user.is_multiple_of(OF);
    for nth in (0..bindings.min(users)).filter(|nth| is_loser(*nth)) {
        asked(&admin, ("DELETE", &format!("{bound}/other{nth}")), None, 200).await?;
    }
    asked(&admin, ("POST", &bound), Some(&binding("losers", (0..users).filter(|user| is_loser(*user)))), 201).await?;
    asked(&admin, ("POST", &bound), Some(&binding("keepers", (0..users).filter(|user| !is_loser(*user)))), 201).await?;
    until_known(&site, listener, users).await?;

    let target = format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Dnone");
    let opened = stream::iter((0..users).flat_map(|user| (0..WATCHES).map(move |_| user))).map(|user| {
        let (client, target) = (site.client_of(listener, &format!("token{user}")), &target);
        async move { client.watch(target).await?.map(|watch| (user, watch)).map_err(|answer| format!("u{user}: {}", answer.status).into()) }
    });
    let opened: Vec<Result<_, Failure>> = opened.buffer_unordered(AT_ONCE).collect().await;
    let mut ends = Vec::new();
    for opened in opened {
        let (user, mut watch) = opened?;
        ends.push((user, tokio::spawn(async move { (watch.next_line().await, Instant::now()) })));
    }
    let event = server.cost(&admin, |nth| ("POST", MAPS.to_owned(), json!({"metadata": {"name": format!("m{nth}")}}), 201)).await?;
    let change = server.cost(&admin, |nth| ("POST", bound.clone(), binding(&format!("more{nth}"), 0..0), 201)).await?;
    sleep(Duration::from_secs(1)).await;

    asked(&admin, ("DELETE", &format!("{bound}/losers")), None, 200).await?;
    let taken = Instant::now();
    let mut times = Vec::new();
    let (losers, keepers): (Vec<_>, Vec<_>) = ends.into_iter().partition(|(user, _)| is_loser(*user));
    let count = losers.len();
    for (user, end) in losers {
        let (line, at) = timeout(PATIENCE, end).await.map_err(|_| format!("a watch of u{user} goes on"))??;
        let line: Value = serde_json::from_slice(&line?.ok_or("it ended without a reason")?)?;
        assert_eq!((&line["type"], &line["object"]["code"]), (&json!("ERROR"), &json!(403)));
        times.push(at.saturating_duration_since(taken));
    }
    times.sort_unstable();
    sleep(GOES_ON.saturating_sub(taken.elapsed())).await;
    let ended = keepers.iter().filter(|(_, end)| end.is_finished()).count();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    say(&format!(
        "alone revocation: {users} users, {bindings} bindings: {count} watches of {} ended, p50 {:?} p99 {:?} max {:?} after the answer; CPU of a write {event:?}, of a \
         binding's change {change:?}",
        users * WATCHES,
        at(50),
        at(99),
        at(100)
    ));
    assert_eq!((count, ended), (users.div_ceil(OF) * WATCHES, 0), "those and only those");
    assert!(at(100) < ENDS_WITHIN || env::var_os("WATCHCACHE_TEST_USERS").is_none(), "{:?}", at(100));
    server.kill()?;
    Ok(())
}

/// Waits until every user has the right.
async fn until_known(site: &Site, listener: SocketAddr, users: usize) -> Outcome {
    for user in 0..users {
        let client = site.client_of(listener, &format!("token{user}"));
        let known = async {
            while client.fetch(MAPS).await?.status != 200 {
                sleep(Duration::from_millis(20)).await;
            }
            Ok::<_, Failure>(())
        };
        timeout(PATIENCE, known).await.map_err(|_| format!("u{user} never has the right"))??;
    }
    Ok(())
}
