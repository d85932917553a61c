//! Too many connections: of strangers, of one address, of one user.

use std::future::pending;

use tokio::net::TcpSocket;

use super::http2::{get, opened};
use super::*;

const TOKEN: &str = "Authorization: Bearer s3cret\r\n";

/// A connection from 127.0.0.`last`.
async fn connect_from(server: &Server, last: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).expect("loopback is a network");
    socket.connect(server.address).await.expect("connected")
}

/// Sends a request on a connection that stays; the end of its answer.
async fn keep(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), header: &str) -> String {
    let _ = stream.write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{header}\r\n").as_bytes()).await;
    let mut answer = [0; 1_024];
    let read = timeout(LONG, stream.read(&mut answer)).await.expect("an answer or the end").unwrap_or(0);
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

/// What a connection that is closed at once has to say.
async fn is_refused(mut stream: TcpStream) -> bool {
    matches!(timeout(LONG, stream.read(&mut [0; 1])).await.expect("at once"), Ok(0) | Err(_))
}

fn closed(server: &Server, reason: &str) -> u64 {
    server.metrics.connections_closed.with_label_values(&[reason]).get()
}

/// 22 connections with one stream each, whose window is zero, took both listeners for as long as they liked.
#[tokio::test]
async fn strangers_that_take_no_answer_lock_nobody_out() {
    let papers = Papers::new();
    let server = secure(&papers, Limits { count_max: 22, header_timeout: 10 * SHORT, ..limits() });
    let (stranger, jane) =
        (papers.client(None, &[b"h2"]), papers.client(Some(papers.issue("jane", ExtendedKeyUsagePurpose::ClientAuth)), &[]));
    let mut crowd = Vec::new();
    for _ in 0..22 {
        let mut stream = tls(&server, &stranger).await;
        // SETTINGS_INITIAL_WINDOW_SIZE of 0.
        let _ = stream.write_all(&[opened(&[0, 4, 0, 0, 0, 0]), get(1, "/")].concat()).await;
        crowd.push(stream);
    }
    assert!(ask(tls(&server, &jane).await, "/", "").await.ends_with("jane"), "a newcomer displaces one of them");
    let displaced = async {
        while closed(&server, "displaced") < 20 {
            sleep(SHORT / 8).await;
        }
    };
    timeout(LONG, displaced).await.expect("the others go when their arrival is over");
    for stream in crowd {
        read_all(stream).await;
    }
    assert!(closed(&server, "unproven") >= 1);
}

#[tokio::test]
async fn a_stranger_has_its_time_and_a_probe_more() {
    let papers = Papers::new();
    let server = secure(&papers, Limits { header_timeout: 6 * SHORT, ..limits() });
    let client = papers.client(None, &[]);
    let mut probe = tls(&server, &client).await;
    probe.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    assert!(probe.read(&mut [0; 512]).await.is_ok_and(|read| read > 0));
    let mut known = tls(&server, &client).await;
    assert!(keep(&mut known, TOKEN).await.ends_with("bob"));
    let mut asking = tls(&server, &client).await;
    // It asks again and again, and never says who it is.
    let answers = async {
        while keep(&mut asking, "").await.ends_with("none") {
            sleep(SHORT / 4).await;
        }
    };
    timeout(LONG, answers).await.expect("it ends");
    assert_eq!(closed(&server, "unproven"), 1);
    assert!(keep(&mut probe, "").await.ends_with("none") && keep(&mut known, "").await.ends_with("none"), "both are still there");
}

#[tokio::test]
async fn a_stranger_has_so_many_requests() {
    let papers = Papers::new();
    let server = secure(&papers, limits());
    let mut asking = tls(&server, &papers.client(None, &[])).await;
    let mut answers = 0;
    while keep(&mut asking, "").await.ends_with("none") {
        answers += 1;
    }
    assert!((100..=101).contains(&answers), "{answers}");
    assert_eq!(closed(&server, "requests"), 1);
}

#[tokio::test]
async fn an_address_has_its_share() {
    // Six places for an address.
    let server = plain(Limits { count_max: 8, ..limits() });
    let mut mine = Vec::new();
    for _ in 0..6 {
        let mut stream = connect_from(&server, 2).await;
        assert!(keep(&mut stream, "").await.ends_with("local"));
        mine.push(stream);
    }
    assert!(is_refused(connect_from(&server, 2).await).await);
    assert_eq!(closed(&server, "address_share"), 1);
    let mut other = connect_from(&server, 3).await;
    assert!(keep(&mut other, "").await.ends_with("local"));
    mine.pop();
    let back = async {
        while !keep(&mut connect_from(&server, 2).await, "").await.ends_with("local") {
            sleep(SHORT / 40).await;
        }
    };
    timeout(LONG, back).await.expect("one left");
}

#[tokio::test]
async fn a_user_has_his_share() {
    let papers = Papers::new();
    // Six places for a user; the sockets come from two addresses, which have six each.
    let server = secure(&papers, Limits { count_max: 8, ..limits() });
    let client = papers.client(None, &[]);
    let shake = async |last: u8| {
        client.connect(ServerName::try_from("localhost").expect("a name"), connect_from(&server, last).await).await.expect("hands")
    };
    let mut bobs = Vec::new();
    for n in 0..6 {
        let mut stream = shake(2 + n % 2).await;
        assert!(keep(&mut stream, TOKEN).await.ends_with("bob"));
        bobs.push(stream);
    }
    let one_more = shake(2).await;
    let answer = timeout(LONG, async {
        let mut stream = one_more;
        let first = keep(&mut stream, TOKEN).await;
        first + &read_all(stream).await
    });
    let answer = answer.await.expect("the connection ends after its answer");
    assert!(answer.contains(" 429 "), "{answer}");
    assert_eq!(closed(&server, "user_share"), 1);
    let jane = papers.client(Some(papers.issue("jane", ExtendedKeyUsagePurpose::ClientAuth)), &[]);
    assert!(ask(tls(&server, &jane).await, "/", "").await.ends_with("jane"));
}

#[tokio::test]
async fn silent_connections_are_bounded_and_starve_nobody_for_long() {
    let server = plain(Limits { count_max: 20, header_timeout: SHORT, ..limits() });
    let mut crowd = Vec::new();
    for _ in 0..200 {
        crowd.push(TcpStream::connect(server.address).await);
    }
    let served = async {
        while !ask(connect(&server).await, "/", "").await.ends_with("local") {
            sleep(SHORT / 8).await;
        }
    };
    timeout(LONG, served).await.expect("the silent ones leave after the header timeout");
    assert!(closed(&server, "address_share") >= 100);
}

/// hyper has the last byte of an answer long before a client that does not read takes it, so no body can tell.
#[tokio::test]
async fn an_answer_that_is_not_read_ends_its_connection() {
    let server = plain(Limits { unread_max: SHORT, ..limits() });
    let mut stream = connect(&server).await;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    let gone = async {
        while closed(&server, "unread") == 0 {
            sleep(SHORT / 8).await;
        }
    };
    timeout(LONG, gone).await.expect("it is closed");
    assert!(read_all(stream).await.len() < LARGE);
}

/// An answer that hyper has whole was no open request: the idle limit cut it off.
#[tokio::test]
async fn an_answer_that_is_read_slowly_is_read_to_its_end() {
    let server = plain(Limits { idle_timeout: SHORT, unread_max: 10 * SHORT, ..limits() });
    let mut stream = connect(&server).await;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.expect("sent");
    let (mut read, mut buffer) = (0, vec![0; 256 << 10]);
    loop {
        // 128 pieces in more than three times the idle limit.
        let _ = timeout(SHORT / 40, pending::<()>()).await;
        match stream.read(&mut buffer).await.expect("not cut off") {
            0 => break,
            more => read += more,
        }
    }
    assert!(read > LARGE, "{read} bytes");
}
