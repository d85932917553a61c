//! Requests to a server that answers, waits, falls silent or is lost, and the places of those who send them.

use std::io::Write;

use client::testing::{Reaction, Server};
use http_body_util::{BodyExt, Full};
use tokio::time::{sleep, timeout};

use super::*;
use crate::abandoned::ABANDONED_MAX;

const BODY: Bytes = Bytes::from_static(b"abc");
const SOON: Duration = Duration::from_secs(30);
const JANE: Client<'_> = Client { name: "jane", is_nobody: false, is_long: false };
const JOE: Client<'_> = Client { name: "joe", ..JANE };

async fn server(protocols: &[&[u8]]) -> Server {
    Server::speaking(protocols, |asked| Reaction::Answer(200, "text/plain", asked.body.clone())).await
}

fn upstream(server: &Server) -> Arc<Upstream<Full<Bytes>>> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(server.kubeconfig("").as_bytes()).expect("written");
    let at = Kubeconfig::read("--upstream-kubeconfig", file.path()).expect("a kubeconfig");
    Arc::new(Upstream::new(Settings { at: Arc::new(at), auth_mode: AuthMode::FrontProxy }).expect("an upstream"))
}

async fn echoed(upstream: &Upstream<Full<Bytes>>) -> Result<Bytes, String> {
    let request = Request::builder().uri("/a").body(Full::new(BODY)).expect("a request");
    let answer = upstream.send(request, JANE).await.map_err(|error| error.to_string())?;
    Ok(answer.response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes())
}

/// As many come at once as one connection takes, and a few of them leave: nobody is refused, and nobody makes a connection of his own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_waits_for_one_connection() {
    let server = server(&[b"h2", b"http/1.1"]).await;
    for round in 1..=20 {
        let upstream = upstream(&server);
        let crowd: Vec<_> = (0..STREAMS_WANTED as u64)
            .map(|nth| {
                let upstream = Arc::clone(&upstream);
                let patience = if nth % 8 == 0 { Duration::from_micros(round * nth * 10) } else { SOON };
                tokio::spawn(async move {
                    sleep(Duration::from_micros(round * nth)).await;
                    timeout(patience, echoed(&upstream))
                        .await
                        .unwrap_or_else(|_| if patience < SOON { Ok(BODY) } else { Err("no answer".to_owned()) })
                })
            })
            .collect();
        for one in crowd {
            assert_eq!(one.await.expect("no panic"), Ok(BODY));
        }
        assert_eq!(server.connections() as u64, round);
    }
}

#[tokio::test]
async fn a_lost_connection_is_made_anew() {
    let server = server(&[b"h2"]).await;
    let upstream = upstream(&server);
    for lost in 1..=5 {
        assert_eq!((echoed(&upstream).await, server.connections()), (Ok(BODY), lost));
        server.cut();
        // What is sent before the end is known is lost.
        while server.connections() == lost {
            let _ = echoed(&upstream).await;
        }
    }
}

#[tokio::test]
async fn an_upstream_of_http1_is_asked_in_its_way() {
    let server = server(&[b"http/1.1"]).await;
    let upstream = upstream(&server);
    for _ in 0..5 {
        assert_eq!(echoed(&upstream).await, Ok(BODY));
    }
    // One to find out, one to ask on.
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn nobody_there_is_found_again_and_again() {
    let server = server(&[b"h2"]).await;
    let upstream = upstream(&server);
    drop(server);
    for _ in 0..3 {
        assert!(echoed(&upstream).await.is_err_and(|why| why.contains("refused")));
    }
}

fn asked() -> Request<Full<Bytes>> {
    Request::builder().uri("/a").body(Full::new(BODY)).expect("a request")
}

fn open(upstream: &Upstream<Full<Bytes>>) -> usize {
    upstream.connections.lock().iter().map(PooledConnection::streams).sum()
}

/// Each takes a while; all of those who have asked leave at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_keeps_its_place_until_upstream_is_done() {
    let server = Server::speaking(&[b"h2"], |asked| {
        Reaction::After(Duration::from_millis(700), Box::new(Reaction::Answer(200, "text/plain", asked.body.clone())))
    })
    .await;
    let upstream = upstream(&server);
    let crowd: Vec<_> = (0..100)
        .map(|_| {
            let upstream = Arc::clone(&upstream);
            tokio::spawn(async move { timeout(Duration::from_millis(300), upstream.send(asked(), JANE)).await.is_ok() })
        })
        .collect();
    for one in crowd {
        assert!(!one.await.expect("no panic"), "it was given up");
    }
    assert_eq!(open(&upstream), 100, "upstream is at work on them");
    let patience = Instant::now() + SOON;
    while open(&upstream) > 0 && Instant::now() < patience {
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((open(&upstream), server.asked().len()), (0, 100), "each has ended");
    assert!(upstream.connections.lock().iter().all(|connection| !connection.is_worn()));
}

/// Answers without an end can only be reset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resets_wear_no_connection_out() {
    let server = Server::speaking(&[b"h2"], |_| Reaction::Giant).await;
    let upstream = upstream(&server);
    let of_joe = upstream.send(asked(), JOE).await.expect("an answer");
    let has_worn = || upstream.connections.lock().iter().any(PooledConnection::is_worn);
    // Each of somebody else: nobody has to pause.
    let patience = Instant::now() + SOON * 4;
    for nth in 0.. {
        if has_worn() || Instant::now() > patience {
            break;
        }
        let name = nth.to_string();
        drop(upstream.send(asked(), Client { name: &name, ..JANE }).await.expect("an answer"));
    }
    assert!(has_worn());
    // Resets that are still on their way may wear out the next one, too.
    let (mut more, patience) = (Vec::new(), Instant::now() + SOON);
    loop {
        more.push(upstream.send(asked(), JOE).await.expect("an answer"));
        if !has_worn() && !upstream.retired.lock().is_empty() {
            break;
        }
        assert!(Instant::now() < patience, "it takes no more requests");
        sleep(Duration::from_millis(20)).await;
    }
    let mut body = of_joe.response.into_body();
    assert!(body.frame().await.is_some_and(|frame| frame.is_ok()), "what is under way on it goes on");
    drop((more, body));
}

#[tokio::test]
async fn who_has_given_up_too_much_pauses_and_others_do_not() {
    let server = server(&[b"h2"]).await;
    let upstream = upstream(&server);
    (0..ABANDONED_MAX * 4).for_each(|_| upstream.given_up.count("jane", Instant::now()));
    let refused = upstream.send(asked(), JANE).await;
    assert!(matches!(refused, Err(UpstreamError::GivenUp(pause)) if pause > Duration::from_secs(10)), "{refused:?}");
    assert_eq!(server.connections(), 0, "upstream hears nothing of it");
    upstream.send(asked(), JOE).await.expect("an answer");
}

/// Whoever asks for more than his part is refused, and nobody else.
#[tokio::test]
async fn who_holds_many_places_leaves_others_theirs() {
    let server = server(&[b"h2", b"http/1.1"]).await;
    let upstream = upstream(&server);
    let long = Client { is_long: true, ..JANE };
    let nobody = Client { name: "127.0.0.9", is_nobody: true, is_long: false };
    let shared: Vec<_> = std::iter::from_fn(|| upstream.share(long, false, false).ok()).collect();
    assert!((REQUESTS_MAX / 2..=REQUESTS_MAX * 3 / 4).contains(&shared.len()), "{}", shared.len());
    let refused = upstream.send(asked(), long).await;
    assert!(matches!(refused, Err(UpstreamError::TooMany)), "{refused:?}");
    upstream.send(asked(), JOE).await.expect("another user's write passes");
    upstream.send(asked(), Client { is_long: true, ..JOE }).await.expect("and so does what lasts");
    let strangers: Vec<_> = std::iter::from_fn(|| upstream.share(nobody, true, false).ok()).collect();
    assert!(strangers.len() <= REQUESTS_MAX / NOBODYS_PART, "{}", strangers.len());
    assert!(upstream.share(nobody, true, false).is_err());
    assert!(upstream.share(Client { name: "127.0.0.8", ..nobody }, true, false).is_ok(), "another address");
    let exec: Vec<_> = std::iter::from_fn(|| upstream.share(JANE, true, true).ok()).collect();
    assert!(upstream.share(JOE, true, true).is_ok() && exec.len() > REQUESTS_MAX / 2, "{}", exec.len());
    drop((shared, strangers, exec));
    // What of Joe's answers nobody has read is read still.
    assert!(upstream.shared.all() <= 2 && upstream.apart.all() + upstream.nobodys.all() == 0);
}

/// The many names of one who holds what lasts leave places for what is brief.
#[tokio::test]
async fn long_requests_of_many_users_leave_places_for_short_ones() {
    let server = server(&[b"h2"]).await;
    let upstream = upstream(&server);
    let names: Vec<String> = (0..100).map(|nth| nth.to_string()).collect();
    let mut held = Vec::new();
    for name in &names {
        held.extend(std::iter::from_fn(|| upstream.share(Client { name, is_long: true, ..JANE }, false, false).ok()));
    }
    assert_eq!(upstream.shared.all(), REQUESTS_MAX * 3 / 4);
    upstream.send(asked(), JOE).await.expect("a write passes");
}
