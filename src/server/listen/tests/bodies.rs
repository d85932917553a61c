//! Bodies that do not come, come slowly, or are too many.

use tokio::io::{AsyncBufReadExt, BufReader};

use super::*;

/// A budget that leaves each connection 1 MiB.
const ROOM: usize = 8 << 20;

fn server(bodies_bytes_max: usize) -> Server {
    plain(Limits { header_timeout: SHORT, bodies_bytes_max, ..limits() })
}

/// Sends the beginning of a request for `/body`; the connection ends after its answer.
async fn post(server: &Server, headers: &str, body: &[u8]) -> TcpStream {
    let mut stream = connect(server).await;
    let head = format!("POST /body HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    // It may be refused before it is sent whole.
    let _ = stream.write_all(body).await;
    stream
}

fn length(bytes: usize) -> String {
    format!("Content-Length: {bytes}\r\n")
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

fn code(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[tokio::test]
async fn half_bodies_time_out_and_give_their_bytes_back() {
    let server = server(ROOM);
    let half = post(&server, &length(500_000), b"{").await;
    let held = async || {
        while server.metrics.body_bytes.get() == 0 {
            sleep(SHORT / 40).await;
        }
    };
    timeout(LONG, held()).await.expect("an announced body is counted");
    assert_eq!(code(&read_all(half).await), "504");
    assert_eq!(server.metrics.body_bytes.get(), 0);
    // The trailers are a part of the body.
    assert_eq!(code(&read_all(post(&server, CHUNKED, b"1\r\n{\r\n0\r\nX-Slow: ").await).await), "504");
}

#[tokio::test]
async fn a_body_that_drips_has_the_time_of_its_request() {
    let server = server(ROOM);
    let (mut from, mut to) = tokio::io::split(post(&server, &length(1_000), b"").await);
    let dripping = tokio::spawn(async move {
        while to.write_all(b" ").await.is_ok() && timeout(SHORT / 8, std::future::pending::<()>()).await.is_err() {}
    });
    let since = Instant::now();
    let mut answer = Vec::new();
    let _ = timeout(LONG, from.read_to_end(&mut answer)).await.expect("it ends");
    assert_eq!(code(&String::from_utf8_lossy(&answer)), "504");
    assert!(since.elapsed() >= BODY_TIME - SHORT, "{:?}", since.elapsed());
    dripping.abort();
}

#[tokio::test]
async fn bodies_past_the_budget_are_refused_and_small_ones_are_not() {
    // 128 KiB are left for each connection.
    let server = plain(Limits { bodies_bytes_max: 1 << 20, ..limits() });
    assert_eq!(code(&read_all(post(&server, &length(200_000), b"").await).await), "429", "before a byte of it came");
    let chunk = format!("{:x}\r\n{}\r\n", 200_000, "a".repeat(200_000));
    assert_eq!(code(&read_all(post(&server, CHUNKED, chunk.as_bytes()).await).await), "429");
    assert!(read_all(post(&server, &length(100_000), &vec![b'a'; 100_000]).await).await.ends_with("\r\n\r\n100000"));
    assert_eq!(server.metrics.body_bytes.get(), 0);
}

#[tokio::test]
async fn many_bodies_together_hold_what_the_budget_has() {
    const BODIES: usize = 200;
    let server = plain(Limits { bodies_bytes_max: ROOM, count_max: 2 * BODIES, ..limits() });
    let mut halves = Vec::new();
    for _ in 0..BODIES {
        halves.push(post(&server, &length(1 << 20), b"{").await);
    }
    let mut refused = 0;
    for half in &mut halves {
        let mut first = [0; 12];
        if timeout(SHORT / 40, half.read_exact(&mut first)).await.is_ok() {
            refused += 1;
        }
    }
    assert!((BODIES - 10..BODIES).contains(&refused), "{refused} of them");
    let held = server.metrics.body_bytes.get();
    assert!(held > 0 && held <= ROOM as i64, "{held} bytes");
}

#[tokio::test]
async fn a_body_of_many_small_pieces_is_whole() {
    let server = plain(Limits { bodies_bytes_max: ROOM, ..limits() });
    let pieces = "1\r\na\r\n".repeat(5_000) + "0\r\n\r\n";
    assert!(read_all(post(&server, CHUNKED, pieces.as_bytes()).await).await.ends_with("\r\n\r\n5000"));
    assert_eq!(code(&read_all(post(&server, &length((3 << 20) + 1), b"").await).await), "413");
}

#[tokio::test]
async fn a_stop_gives_up_half_bodies_at_once() {
    let mut server = plain(Limits { bodies_bytes_max: ROOM, ..limits() });
    let half = post(&server, &length(1_000), b"{").await;
    server.is_asked(1).await;
    server.stop.send(true).expect("it listens");
    assert_eq!(code(&read_all(half).await), "503");
    assert_eq!(timeout(LONG / 2, server.task).await.expect("at once").expect("no panic").expect("served"), 0);
}

/// One that the service has read, one that it has not, and one that is too long for that.
#[tokio::test]
async fn a_connection_goes_on_when_the_body_is_over() {
    let server = plain(limits());
    let mut stream = BufReader::new(connect(&server).await);
    for (path, bytes, goes_on) in [("/kept", 5, true), ("/none", 5, true), ("/none", 200_000, true), ("/none", 300_000, false)] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", length(bytes));
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(&vec![b'a'; bytes]).await.expect("sent");
        let (mut answer, mut body) = (String::new(), [0; 5]);
        while !answer.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut answer).await.expect("a head") > 0, "{answer}");
        }
        stream.read_exact(&mut body).await.expect("local");
        assert_eq!(!answer.contains("connection: close"), goes_on, "{path} {bytes}: {answer}");
    }
    assert_eq!(stream.read(&mut [0]).await.expect("no reset"), 0, "it is over");
}
