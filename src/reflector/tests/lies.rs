//! An upstream that is none, or somebody else's, or that means to take all there is.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// A bomb of gzip is never taken apart: nothing here asks for compressed answers.
#[tokio::test]
async fn compressed_answers_are_no_events() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![0; 10 << 20]).expect("memory");
    let bomb = Bytes::from(bomb.finish().expect("memory"));
    assert!(bomb.len() < 11 << 10);
    let compressed = Reaction::WithHeader("content-encoding", "gzip".to_owned(), bomb);
    let loads = vec![compressed.clone(), ended(&[put("a", 3), end(7)])];
    let bench = Bench::before(in_turn(loads, vec![compressed, open(&[put("b", 40)])])).await;
    bench.has("40: a@3 b@40").await;
    assert!(bench.server.asked().iter().all(|asked| !asked.headers.contains_key(http::header::ACCEPT_ENCODING)));
}

/// A server whose certificate another authority has signed is told nothing, and brings nothing.
#[tokio::test]
async fn the_certificate_of_another_is_not_believed() {
    let other = Server::start(|_| Reaction::Hang).await;
    let policy = Policy { all: true, ..Policy::default() };
    let bench = Bench::adjusted(Some(&other), policy, |_| {}, in_turn(vec![open(&[end(7)])], vec![Reaction::Hang])).await;
    let declined = async {
        while !bench.fed().is_declined() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(SOON, declined).await.is_ok());
    assert!(bench.asked().is_empty() && bench.server.connections() > 0 && bench.told() == "not ready");
}

/// Lists that go on for ever, or are none: of nothing that they have anything is shown.
#[tokio::test]
async fn lists_without_an_end_are_no_lists() {
    let lists: Vec<(&str, Reaction)> = vec![
        ("the same page again and again", listed(7, r#","continue":"t""#, &[object("x", 3)])),
        ("pages without objects", listed(7, r#","continue":"t0""#, &[])),
        ("pages of other revisions", listed(9, r#","continue":"t1""#, &[object("x", 3)])),
        ("HTML", Reaction::Answer(200, "text/html", Bytes::from_static(b"<html>sign in</html>"))),
        ("a redirect", Reaction::Answer(302, "text/html", Bytes::new())),
        ("another kind", listed(7, "", &[object("x", 3).replace("ConfigMap", "Secret")])),
        ("an object newer than its list", listed(7, "", &[object("x", 9)])),
        ("half a list", Reaction::CutOff),
    ];
    let mut cases = JoinSet::new();
    for (name, lie) in lists {
        cases.spawn(async move {
            let is_over = AtomicUsize::new(0);
            let bench = Bench::before(move |asked| match asked.uri.query().unwrap_or("") {
                query if query.contains("sendInitialEvents") => Reaction::Answer(422, "application/json", Bytes::new()),
                "limit=1" => at_revision(50),
                "limit=500" => match is_over.fetch_add(1, Ordering::Relaxed) {
                    // The first page of a list of two revisions is fine.
                    0 if name == "pages of other revisions" => listed(7, r#","continue":"t""#, &[object("x", 3)]),
                    0 => lie.clone(),
                    _ => listed(12, "", &[object("a", 3)]),
                },
                query if query.starts_with("limit=500&continue=t0") => {
                    let next = query.len();
                    listed(7, &format!(r#","continue":"t0{next}{}""#, "x".repeat(next)), &[])
                }
                query if query.contains("continue=") => lie.clone(),
                _ => Reaction::Hang,
            })
            .await;
            bench.has("12: a@3").await;
            assert!(bench.asked().len() < 8, "{name}: {} questions", bench.asked().len());
        });
    }
    cases.join_all().await;
}

/// Initial events that trickle on and never end are given up: others wait for their turn to be loaded.
#[tokio::test]
async fn a_load_that_trickles_is_given_up() {
    let trickle = Reaction::Repeated(Bytes::from(bookmark(5)));
    let policy = Policy { all: true, ..Policy::default() };
    let react = in_turn(vec![trickle, open(&[put("a", 3), end(7)])], vec![Reaction::Hang]);
    let bench = Bench::loading_within(Duration::from_millis(500), policy, react).await;
    bench.has("7: a@3").await;
}
