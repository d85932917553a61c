//! A connection over a pipe, with a client by hand.

use std::{
    future::{poll_fn, ready},
    sync::atomic::AtomicBool,
};

use http_body_util::Full;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::{JoinHandle, yield_now},
    time::timeout,
};

use super::*;
use crate::activity::{Longest, Timing};
use crate::answer::Alone;
use crate::answer::LongRunning;

const LIMIT: Duration = Duration::from_secs(60);

/// Polls after which a connection has read what was sent.
const TURNS_MAX: usize = 100;

const LIMITS: Limits =
    Limits { streams_max: 10, header_bytes_max: 10_000, stream_window: 65_535, connection_window: 65_535, faults_max: 5 };

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request for `/` or `/index.html`.
fn get(stream: u32, path: u8) -> Vec<u8> {
    frame(1, 5, stream, &[0x82, 0x86, path])
}

const ROOT: u8 = 0x84;
const INDEX: u8 = 0x85;

/// A connection whose client has a pipe of so many bytes, and sends its preface and these frames. `/` is answered with so many bytes, `/index.html` by a watch
/// that has shown everything and lasts for ten limits.
async fn connection(pipe: usize, bytes: usize, frames: &[u8]) -> (DuplexStream, JoinHandle<Result<(), String>>) {
    let (server, mut client) = duplex(pipe);
    let service = move |request: Request<RequestBody>| {
        let mut answer = Response::new(Full::new(Bytes::from(vec![b'x'; bytes])));
        if request.uri().path() != "/" {
            let may_rest = Arc::new(AtomicBool::new(true));
            let long_running = Some(LongRunning { until: Instant::now() + 10 * LIMIT, may_rest });
            answer.extensions_mut().insert(Timing { longest: Longest::of(None), long_running });
        }
        ready(Ok::<_, Infallible>(answer))
    };
    let mut streams = Streams::new(Rewind::new(server), &Arc::default(), &Account::of_a_test(), LIMITS, LIMIT, service);
    let served = tokio::spawn(async move { poll_fn(|cx| streams.poll(cx)).await.map_err(|error| error.to_string()) });
    let begun = [&frame(4, 0, 0, &[])[..], frames].concat();
    client.write_all(&begun).await.expect("the server reads");
    (client, served)
}

async fn next(client: &mut DuplexStream) -> (u8, u32, usize) {
    let mut head = [0; 9];
    client.read_exact(&mut head).await.expect("a frame");
    let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    client.read_exact(&mut payload).await.expect("its payload");
    (head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload.len())
}

/// When a connection ends whose client is there, and reads nothing.
async fn unread(mut client: DuplexStream, mut served: JoinHandle<Result<(), String>>) -> Duration {
    let began = Instant::now();
    let asks = async {
        while client.write_all(&frame(6, 0, 0, &[0; 8])).await.is_ok() {
            tokio::time::sleep(LIMIT / 6).await;
        }
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = &mut served => ended.expect("no panic"),
        () = asks => unreachable!("it goes on"),
    };
    assert!(ended.expect_err("it is unread").contains("takes nothing"));
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_left_though_all_is_answered() {
    let (client, served) = connection(500, 1_000, &[get(1, ROOT), get(3, ROOT)].concat()).await;
    let took = unread(client, served).await;
    assert!(took >= LIMIT && took <= 2 * LIMIT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_read_stands_still_until_its_time_is_over() {
    let (client, served) = connection(500, 100_000, &get(1, INDEX)).await;
    let took = unread(client, served).await;
    assert!(took >= 10 * LIMIT && took <= 12 * LIMIT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_answer_a_ping_is_gone() {
    let (mut client, served) = connection(100_000, 100_000, &get(1, INDEX)).await;
    let began = Instant::now();
    assert!(served.await.expect("no panic").expect_err("it says nothing").contains("PING"));
    assert_eq!(began.elapsed().as_secs(), (PING_INTERVAL + PING_TIMEOUT).as_secs());
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.expect("what was written");
    assert!(all.ends_with(b"alive???"));
}

/// What kept everybody else from large answers had ten times the time of a request, or any time if its client took a little of the connection now and then.
#[tokio::test(start_paused = true)]
async fn an_answer_that_others_wait_for_has_the_time_of_a_request() {
    for (is_alone, limits) in [(true, 1), (false, 10)] {
        let (server, mut client) = duplex(2_000);
        let service = move |_: Request<RequestBody>| {
            let mut answer = Response::new(Full::new(Bytes::from(vec![b'x'; 10_000_000])));
            if is_alone {
                answer.extensions_mut().insert(Timing { longest: Longest::of(Some(Alone(Instant::now()))), long_running: None });
            }
            ready(Ok::<_, Infallible>(answer))
        };
        let (activity, account) = (Arc::default(), Account::of_a_test());
        let mut streams = Streams::new(Rewind::new(server), &activity, &account, LIMITS, LIMIT, service);
        let _served = tokio::spawn(async move { poll_fn(|cx| streams.poll(cx)).await.map_err(|error| error.to_string()) });
        let room = [frame(4, 0, 0, &[0, 4, 0, 15, 66, 64]), frame(8, 0, 0, &100_000_000_u32.to_be_bytes())].concat();
        client.write_all(&[&room[..], &get(1, ROOT)].concat()).await.expect("sent");
        let (began, mut taken) = (Instant::now(), 0);
        let took = loop {
            let (kind, stream, size) = next(&mut client).await;
            if (kind, stream) == (3, 1) {
                break began.elapsed();
            }
            taken += size;
            // 64 KiB in the time of a request; and it is there.
            if taken >= 16 << 10 {
                taken = 0;
                for _ in 0..2 {
                    tokio::time::sleep(LIMIT / 8).await;
                    client.write_all(&frame(6, 0, 0, &[0; 8])).await.expect("sent");
                }
            }
            assert!(began.elapsed() < 30 * LIMIT, "it has no end");
        };
        assert!(took >= LIMIT * limits && took <= LIMIT * (limits + 3), "{is_alone} {took:?}");
    }
}

/// The first one took all the room there was, again and again.
#[tokio::test]
async fn streams_that_wait_have_their_turns() {
    let (mut client, _served) = connection(1_000_000, 200_000, &[get(1, ROOT), get(3, ROOT), get(5, ROOT)].concat()).await;
    let (mut taken, mut order) = (0, Vec::new());
    while order.len() < 9 {
        let (kind, stream, bytes) = timeout(LIMIT, next(&mut client)).await.expect("it goes on");
        if kind != 0 {
            continue;
        }
        if order.last() != Some(&stream) {
            order.push(stream);
        }
        taken += bytes;
        if taken >= 65_535 {
            taken = 0;
            let (all, each) = (frame(8, 0, 0, &65_535_u32.to_be_bytes()), |stream| frame(8, 0, stream, &65_535_u32.to_be_bytes()));
            client.write_all(&[each(1), each(3), each(5), all].concat()).await.expect("sent");
        }
    }
    assert!(order.windows(3).all(|three| three[0] != three[2]), "{order:?}");
}

/// A million of them made every WINDOW_UPDATE of the client a walk.
#[tokio::test]
async fn streams_that_are_reset_while_they_wait_are_forgotten() {
    let (server, mut client) = duplex(1_000_000);
    let service = |_: Request<RequestBody>| ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![b'x'; 100])))));
    let mut streams = Streams::new(Rewind::new(server), &Arc::default(), &Account::of_a_test(), LIMITS, LIMIT, service);
    let turn = async |streams: &mut Streams<_, _, _>| {
        yield_now().await;
        poll_fn(|cx| Poll::Ready(streams.poll(cx).is_pending())).await
    };
    // No stream's window has room.
    let mut frames = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    for stream in (1..200).step_by(2) {
        frames.extend(get(stream, ROOT));
        client.write_all(&std::mem::take(&mut frames)).await.expect("there is room");
        while streams.waiting.is_empty() {
            turn(&mut streams).await;
        }
        assert_eq!(streams.waiting, [stream]);
        frames.extend(frame(3, 0, stream, &[0, 0, 0, 8]));
        client.write_all(&std::mem::take(&mut frames)).await.expect("there is room");
        // A poll may end before it has read all.
        for _ in 0..TURNS_MAX {
            if !streams.waiting.is_empty() {
                turn(&mut streams).await;
            }
        }
        assert!(streams.waiting.is_empty(), "{:?}", streams.waiting);
    }
}

/// While nothing could be written they stayed, one for each reset.
#[tokio::test]
async fn streams_that_are_reset_before_their_turn_are_forgotten() {
    let (server, mut client) = duplex(2_000);
    let service = |_: Request<RequestBody>| ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(vec![b'x'; 500_000])))));
    let mut streams = Streams::new(Rewind::new(server), &Arc::default(), &Account::of_a_test(), LIMITS, LIMIT, service);
    let turn = async |streams: &mut Streams<_, _, _>| {
        yield_now().await;
        poll_fn(|cx| Poll::Ready(streams.poll(cx).is_pending())).await
    };
    // The windows have room for everything, and the client reads nothing.
    let room = [frame(4, 0, 0, &[0, 4, 0, 15, 66, 64]), frame(8, 0, 0, &1_000_000_u32.to_be_bytes())].concat();
    let mut frames = [&room[..], &get(1, ROOT)].concat();
    for stream in (3..400).step_by(2) {
        frames.extend([get(stream, ROOT), frame(3, 0, stream, &[0, 0, 0, 8])].concat());
        client.write_all(&std::mem::take(&mut frames)).await.expect("there is room");
        turn(&mut streams).await;
    }
    for _ in 0..TURNS_MAX {
        turn(&mut streams).await;
    }
    assert!(streams.output.room() == 0 && streams.due.len() <= 2, "{:?}", streams.due);
}
