//! Many who look, many that are looked at: what is gathered is shared, lists come in pages, who does not read is cut.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::*;

/// Streams that follow the overview at once.
const VIEWERS: usize = 100;
/// Of one user: seven of the eight parts of `VIEWERS_MAX` in `apiserver/inside/shown`.
const VIEWERS_MAX: usize = 112;
/// Lines that each reads.
const LINES: usize = 4;
/// Rows of a page without `limit`, and at most.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_who_look_share_what_is_gathered() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let target = format!("{API}/overview?watch=true");
    let read = async |nth: usize| {
        let mut stream = client.watch(&target).await?.map_err(|answer| format!("{nth}: {}", answer.status))?;
        let mut gathered = Vec::new();
        for _ in 0..LINES {
            let line: Value = serde_json::from_slice(&timeout(SOON, stream.next_line()).await??.ok_or("it has ended")?)?;
            gathered.push(line["at"].as_u64().ok_or("no time")?);
        }
        Ok::<_, Failure>((gathered, stream))
    };
    let began = Instant::now();
    let mut times = BTreeSet::new();
    let mut streams = Vec::new();
    for answer in join_all((0..VIEWERS).map(read)).await {
        let (gathered, stream) = answer?;
        times.extend(gathered);
        streams.push(stream);
    }
    let seconds = usize::try_from(began.elapsed().as_secs())?;
    // One a second, however many look; a first look may come between.
    assert!(times.len() <= seconds + 2, "{} were gathered in {seconds} s for {VIEWERS} who look", times.len());
    assert!(times.len() >= LINES, "{times:?}");
    until(&client, &format!("{API}/overview"), |overview| overview["viewers"] == VIEWERS).await?;
    for nth in VIEWERS..VIEWERS_MAX {
        streams.push(client.watch(&target).await?.map_err(|answer| format!("{nth}: {}", answer.status))?);
    }
    let refused = client.whole("GET", &target, &[], b"").await?;
    assert_eq!((refused.status, refused.header("retry-after").next()), (429, Some("10")));
    assert_eq!(status(&client, "GET", &format!("{API}/overview")).await?, 200, "who looks once needs no seat");
    drop(streams);
    until(&client, &format!("{API}/overview"), |overview| overview["viewers"] == 0).await?;
    assert!(client.watch(&target).await?.is_ok(), "there is room again");
    Ok(())
}

/// The client takes the head of the answer and no byte of its body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_is_cut() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start_with(dir.path(), &["--request-timeout=5s"]).await?;
    let client = server.client();
    let mut builder = h2::client::Builder::new();
    let (mut sender, connection) = builder.initial_window_size(1_000).handshake::<_, bytes::Bytes>(client.raw().await?).await?;
    let running = tokio::spawn(connection);
    sender = sender.ready().await?;
    let request = http::Request::builder().uri(format!("http://localhost{API}/overview?watch=true")).body(())?;
    let (answer, _) = sender.send_request(request, true)?;
    let answer = timeout(SOON, answer).await??;
    assert_eq!(answer.status().as_u16(), 200);
    let mut reader = client.watch(&format!("{API}/overview?watch=true")).await?.map_err(|answer| format!("{}", answer.status))?;
    // What comes is not given back to the window.
    let mut body = answer.into_body();
    let cut = async {
        loop {
            match body.data().await {
                Some(Ok(_)) => {}
                ended => return ended,
            }
        }
    };
    let cut = timeout(SOON, cut).await.map_err(|_| "who does not read looks on")?;
    assert!(matches!(cut, Some(Err(_))), "the stream came to its end");
    let left = async {
        loop {
            let line: Value = serde_json::from_slice(&reader.next_line().await?.ok_or("who reads is not cut")?)?;
            if line["viewers"] == 1 {
                return Ok::<_, Failure>(());
            }
        }
    };
    timeout(SOON, left).await.map_err(|_| "who is cut is still counted")??;
    running.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_pages() -> Outcome {
    let dir = tempfile::tempdir()?;
    let server = Alone::start(dir.path()).await?;
    let client = server.client();
    let count = 2 * LIMIT + 7;
    let open = (0..count).map(|nth| {
        let client = client.clone();
        async move { client.watch(&format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Dm{nth}")).await }
    });
    let watches = join_all(open).await;
    assert!(watches.iter().all(|watch| matches!(watch, Ok(Ok(_)))));
    let list = format!("{API}/watches?sort=-id");
    let first = until(&client, &list, |answer| answer["open"] == count).await?;
    let numbers =
        |answer: &Value| -> Vec<u64> { answer["items"].as_array().into_iter().flatten().filter_map(|row| row["id"].as_u64()).collect() };
    let mut seen = numbers(&first);
    assert_eq!((seen.len(), &first["total"]), (LIMIT, &json!(count)), "a page is no longer, unless it is asked for");
    for offset in [LIMIT, 2 * LIMIT] {
        seen.extend(numbers(&get(&client, &format!("{list}&offset={offset}")).await?));
    }
    assert!(seen.len() == count && seen.is_sorted_by(|a, b| a > b), "each once, in order: {seen:?}");
    assert_eq!(numbers(&get(&client, &format!("{list}&limit={LIMIT_MAX}")).await?), seen);
    assert_eq!(numbers(&get(&client, &format!("{list}&offset={count}")).await?), [0; 0]);
    assert_eq!(status(&client, "GET", &format!("{list}&limit={}", LIMIT_MAX + 1)).await?, 400);
    Ok(())
}
