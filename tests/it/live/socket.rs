//! WebSockets on ours and on kube-apiserver: the recorded answers are asked again, and the frames of both are the same bytes.

use super::{
    Outcome,
    floor::{Floor, stand},
    objects, say,
};
use crate::{
    alone::socket::{differences, differences_of_tokens, differences_without_origin, prepare},
    client::{Client, SocketFrame},
};

/// Times that all is asked until nothing differs: kube-apiserver leaves it to chance what a watch of a second shows when the machine stood still for it.
const TRIES: usize = 3;
/// Namespaces with what is always there: none of them changes by itself.
const QUIET: &str = "/api/v1/namespaces?watch=true&resourceVersion=0&timeoutSeconds=2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn sockets() -> Outcome {
    let floor = stand().await?;
    let (ours, theirs) = (floor.ours(), floor.theirs());
    let plainly = |error: Box<dyn std::error::Error + Send + Sync>| error.to_string();
    prepare(&theirs).await.map_err(plainly)?;
    // Each needs to have seen the object: a watch from revision 0 shows what is there.
    objects::served(&ours, "/api/v1/namespaces/default/configmaps/watched").await?;
    let mut wrong = looked_at(&floor, &ours, &theirs).await?;
    for _ in 1..TRIES {
        if !wrong.is_empty() {
            say(&format!("live sockets: again, for {wrong:?}"));
            wrong = looked_at(&floor, &ours, &theirs).await?;
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// What differs from the recorded answers, and between the two.
async fn looked_at(floor: &Floor, ours: &Client, theirs: &Client) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let plainly = |error: Box<dyn std::error::Error + Send + Sync>| error.to_string();
    let mut wrong = Vec::new();
    for (name, client) in [("theirs", theirs), ("ours", ours)] {
        wrong.extend(differences(client).await.map_err(plainly)?.into_iter().map(|difference| format!("{name}: {difference}")));
    }
    // The plain listener asks for no token.
    let (_, asks) = floor.ours_url();
    for (name, client) in [("theirs", theirs), ("ours", ours)].into_iter().take(if asks { 2 } else { 1 }) {
        let differences = differences_of_tokens(client).await.into_iter().chain(differences_without_origin(client).await);
        wrong.extend(differences.map(|difference| format!("{name}: {difference}")));
    }
    let (left, right) = (frames(theirs).await?, frames(ours).await?);
    if left != right || left.len() < 5 {
        wrong.push(format!("frames: {left:?} and {right:?}"));
    }
    say(&format!("live sockets: {} differences, {} frames the same", wrong.len(), left.len()));
    Ok(wrong)
}

async fn frames(client: &Client) -> std::io::Result<Vec<SocketFrame>> {
    client.socket(QUIET, &[]).await?.opened()?.rest().await
}
