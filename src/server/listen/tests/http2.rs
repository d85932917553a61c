//! Clients of HTTP/2 that send more than they ask for, or take less than they are sent. Frames by hand: no client does this.

use super::*;

const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What a connection begins with, with these settings.
pub(super) fn opened(settings: &[u8]) -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, settings)].concat()
}

/// A request without a body: `:method GET`, `:scheme http`, `:path` and `:authority localhost`, none of them indexed.
pub(super) fn get(stream: u32, path: &str) -> Vec<u8> {
    let literal = |name: u8, value: &str| [&[name, u8::try_from(value.len()).expect("short")], value.as_bytes()].concat();
    frame(1, 5, stream, &[vec![0x82, 0x86], literal(4, path), literal(1, "localhost")].concat())
}

fn window_update(stream: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1])
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])
}

/// Reads frames until one of this kind; `None` at the end of the connection.
async fn next(stream: &mut (impl AsyncRead + Unpin), kind: u8) -> Option<Vec<u8>> {
    timeout(LONG, async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.ok()?;
            let mut payload = vec![0; usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])];
            stream.read_exact(&mut payload).await.ok()?;
            if head[3] == kind {
                return Some(payload);
            }
        }
    })
    .await
    .expect("a frame or the end")
}

/// 15 bytes cost 7 us, and a client that sent nothing else made others wait for seconds.
#[tokio::test]
async fn floods_of_control_frames_are_sent_away_while_others_are_served() {
    let server = plain(limits());
    for (name, flood) in
        [("SETTINGS", frame(SETTINGS, 0, 0, &[])), ("PING", frame(PING, 0, 0, &[0; 8])), ("unknown", frame(200, 0, 0, &[]))]
    {
        let (mut from, mut to) = tokio::io::split(connect(&server).await);
        to.write_all(&opened(&[])).await.expect("sent");
        let flood = flood.repeat(1_000);
        let flooding = tokio::spawn(async move { while to.write_all(&flood).await.is_ok() {} });
        let goodbye = next(&mut from, GOAWAY).await.expect(name);
        assert_eq!(goodbye[4..8], [0; 4], "{name}: without a fault");
        assert!(ask(connect(&server).await, "/", "").await.ends_with("local"), "{name}");
        // It is not read any more, and it ends.
        timeout(LONG, flooding).await.expect("the connection ends").expect("no panic");
    }
    assert_eq!(server.metrics.connections_closed.with_label_values(&["flood"]).get(), 3);
}

#[tokio::test]
async fn thousands_of_cancelled_requests_and_window_updates_are_no_flood() {
    let server = plain(Limits { streams_max: 250, ..limits() });
    let mut stream = connect(&server).await;
    stream.write_all(&opened(&[])).await.expect("sent");
    for hundred in 0..30 {
        let cancelled = |n: u32| [get(n, "/never"), window_update(n), window_update(0), reset(n)].concat();
        let mut batch: Vec<u8> = (0..100).flat_map(|n| cancelled(200 * hundred + 2 * n + 1)).collect();
        batch.extend(frame(PING, 0, 0, &[0; 8]));
        stream.write_all(&batch).await.expect("sent");
        assert!(next(&mut stream, PING).await.is_some(), "after {hundred} hundred");
    }
    stream.write_all(&get(6_001, "/")).await.expect("sent");
    assert_eq!(next(&mut stream, 0).await.as_deref(), Some(&b"local"[..]), "the last one is answered");
    assert_eq!(server.metrics.connections_closed.with_label_values(&["flood"]).get(), 0);
}

/// The window is one byte, so the rest of the answer can never be sent.
#[tokio::test]
async fn answers_that_cannot_be_sent_end_and_others_go_on() {
    let server = plain(Limits { unread_max: SHORT, ..limits() });
    let mut stream = connect(&server).await;
    // SETTINGS_INITIAL_WINDOW_SIZE of 1.
    stream.write_all(&[opened(&[0, 4, 0, 0, 0, 1]), get(1, "/")].concat()).await.expect("sent");
    assert_eq!(next(&mut stream, 0).await.as_deref(), Some(&b"l"[..]));
    assert_eq!(next(&mut stream, RST_STREAM).await.as_deref(), Some(&[0, 0, 0, 8][..]), "cancelled");
    let more = frame(WINDOW_UPDATE, 0, 3, &100_u32.to_be_bytes());
    stream.write_all(&[get(3, "/"), more].concat()).await.expect("sent");
    assert_eq!(next(&mut stream, 0).await.as_deref(), Some(&b"local"[..]));
}

/// The others of its connection, which a client has for everything, go on.
#[tokio::test]
async fn a_body_that_panics_ends_its_stream_alone() {
    let server = plain(limits());
    let (sender, connection) = h2::client::handshake(connect(&server).await).await.expect("HTTP/2");
    tokio::spawn(connection);
    let ask = async |path: &str| {
        let request = http::Request::get(format!("http://localhost{path}")).body(()).expect("a request");
        let (answer, _) = sender.clone().ready().await?.send_request(request, true)?;
        let (mut body, mut bytes) = (answer.await?.into_body(), Vec::new());
        while let Some(data) = body.data().await {
            bytes.extend(data?);
        }
        Ok::<_, h2::Error>(bytes)
    };
    let many = async {
        for _ in 0..20 {
            assert!(ask("/faulty").await.expect_err("it cannot come to its end").is_reset());
        }
    };
    let (slow, ()) = timeout(LONG, async { tokio::join!(ask("/slow"), many) }).await.expect("all end");
    assert_eq!(slow.expect("it is not touched"), b"local");
    assert_eq!(ask("/").await.expect("new streams are taken"), b"local");
}

/// With `--goaway-chance` a client is sent away, and loses nothing: what it has asked for is answered.
#[tokio::test]
async fn clients_are_sent_to_other_servers_gently() {
    let server = plain(Limits { goaway_chance: 1.0, ..limits() });
    let mut stream = connect(&server).await;
    stream.write_all(&[opened(&[]), get(1, "/slow")].concat()).await.expect("sent");
    let goodbye = next(&mut stream, GOAWAY).await.expect("it is told");
    assert_eq!(goodbye[4..8], [0; 4], "without a fault");
    let ping = next(&mut stream, PING).await.expect("it is asked whether it has heard");
    stream.write_all(&frame(PING, 1, 0, &ping)).await.expect("sent");
    let last = next(&mut stream, GOAWAY).await.expect("it is told again");
    assert_eq!(last, [0, 0, 0, 1, 0, 0, 0, 0], "which request is the last one");
    assert_eq!(next(&mut stream, 0).await.as_deref(), Some(&b"local"[..]), "the answer comes nevertheless");
    assert_eq!(next(&mut stream, 0).await, None, "then the connection ends");
    let other = ask(connect(&plain(limits())).await, "/", "").await;
    assert!(other.ends_with("local"), "{other}");
}

#[tokio::test]
async fn windows_of_bodies_are_small() {
    let server = plain(limits());
    let mut stream = connect(&server).await;
    stream.write_all(&opened(&[])).await.expect("sent");
    let settings = next(&mut stream, SETTINGS).await.expect("settings");
    let window = settings.chunks_exact(6).find(|setting| setting[1] == 4).map(|s| u32::from_be_bytes([s[2], s[3], s[4], s[5]]));
    assert_eq!(window, Some(256 << 10));
    // The window of the connection is 64 KiB - 1 and what is added.
    let more = next(&mut stream, 8).await.expect("an update");
    assert_eq!(u32::from_be_bytes([more[0], more[1], more[2], more[3]]) + 65_535, 512 << 10);
}

/// 200 bytes named 128 KiB of the connection's table, and nobody counted that.
#[tokio::test]
async fn heads_are_counted_until_their_requests_are_over() {
    let server = plain(limits());
    let mut stream = connect(&server).await;
    stream.write_all(&opened(&[])).await.expect("sent");
    let line = [&[0x82, 0x86, 0x04, 6][..], b"/never"].concat();
    // 3,000 bytes that go into the table, which each request names four times.
    let value = [&[0x40, 1, b'x', 0x7f, 0xb9, 0x16][..], &[b'v'; 3_000]].concat();
    stream.write_all(&frame(1, 5, 1, &[&line[..], &value, &[0xbe; 3]].concat())).await.expect("sent");
    for number in [3, 5, 7, 9] {
        stream.write_all(&frame(1, 5, number, &[&line[..], &[0xbe; 4]].concat())).await.expect("sent");
    }
    counted(&server, |bytes| bytes > 5 * 12_000 - (16 << 10)).await;
    drop(stream);
    counted(&server, |bytes| bytes == 0).await;
}

/// Waits until heads count so much.
async fn counted(server: &Server, wanted: impl Fn(i64) -> bool) {
    let waits = async {
        while !wanted(server.metrics.head_bytes.get()) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, waits).await.expect("they are counted");
}

#[tokio::test]
async fn heads_that_have_come_in_part_are_counted() {
    let server = plain(Limits { header_bytes_max: 128 << 10, ..limits() });
    let of_http1 = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "v".repeat(96_000)).into_bytes();
    let part = |kind| frame(kind, 0, 1, &[0; 16_000]);
    let of_http2 = [opened(&[]), part(1), part(9).repeat(5)].concat();
    for head in [of_http1, of_http2] {
        let mut stream = connect(&server).await;
        stream.write_all(&head).await.expect("sent");
        counted(&server, |bytes| bytes > 79_000).await;
        drop(stream);
        counted(&server, |bytes| bytes == 0).await;
    }
    // A body is no head.
    let mut stream = connect(&server).await;
    let body = format!("POST /never HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n{}", "v".repeat(50_000));
    stream.write_all(body.as_bytes()).await.expect("sent");
    sleep(Duration::from_millis(100)).await;
    stream.write_all(&[b'v'; 20_000]).await.expect("sent");
    sleep(Duration::from_millis(100)).await;
    assert_eq!(server.metrics.head_bytes.get(), 0);
}
