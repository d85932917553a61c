//! Watches over HTTP/1.1, which have their connection to themselves until they end.

use super::*;

const REQUEST: &str = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
const CHUNKS: &str = "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n";

/// Reads until what has come ends with this; all of it.
async fn read_until(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let mut buffer = [0; 512];
        let read = timeout(LONG, stream.read(&mut buffer)).await.expect("in time").expect("the connection is there");
        assert!(read > 0, "it ended after {text:?}");
        text.push_str(std::str::from_utf8(&buffer[..read]).expect("text"));
    }
    text
}

fn is_a_watch(answer: &str) -> bool {
    let (head, chunks) = answer.split_once("\r\n\r\n").expect("a head");
    head.starts_with("HTTP/1.1 200 OK\r\n")
        && head.contains("transfer-encoding: chunked")
        && head.contains("\r\ndate: ")
        && chunks == CHUNKS
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_watch() {
    let papers = Papers::new();
    let (plain, secure) = (plain(limits()), secure(&papers, limits()));
    let token = "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n";
    let mut encrypted = tls(&secure, &papers.client(None, &[b"http/1.1"])).await;
    let mut clear = connect(&plain).await;
    for _ in 0..2 {
        clear.write_all(REQUEST.as_bytes()).await.expect("sent");
        assert!(is_a_watch(&read_until(&mut clear, "0\r\n\r\n").await));
        clear.write_all(token.as_bytes()).await.expect("sent");
        assert!(read_until(&mut clear, "local").await.contains("content-length: 5"));
        encrypted.write_all(REQUEST.as_bytes()).await.expect("sent");
        assert!(is_a_watch(&read_until(&mut encrypted, "0\r\n\r\n").await));
        encrypted.write_all(token.as_bytes()).await.expect("sent");
        assert!(read_until(&mut encrypted, "bob").await.contains("content-length: 3"));
    }
}

#[tokio::test]
async fn requests_that_come_during_a_watch_are_answered_after_it() {
    let server = plain(limits());
    let second = "GET /second HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // All at once, or the second one in two parts while the watch lasts.
    for (first, later) in [(format!("{REQUEST}{second}"), ""), (format!("{REQUEST}{}", &second[..9]), &second[9..])] {
        let mut stream = connect(&server).await;
        stream.write_all(first.as_bytes()).await.expect("sent");
        let watch = read_until(&mut stream, "one\r\n").await;
        stream.write_all(later.as_bytes()).await.expect("sent");
        let rest = read_until(&mut stream, "local").await;
        let (end, answer) = rest.split_once("0\r\n\r\n").expect("the last chunk");
        assert!(is_a_watch(&format!("{watch}{end}0\r\n\r\n")) && answer.starts_with("HTTP/1.1 200 OK"), "{watch}{rest}");
    }
}

#[tokio::test]
async fn a_client_that_wants_no_more_is_told_so() {
    let server = plain(limits());
    let answer = ask(connect(&server).await, "/events", "").await;
    assert!(answer.contains("connection: close") && answer.ends_with(CHUNKS), "{answer}");
    let mut old = connect(&server).await;
    old.write_all(b"GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n").await.expect("sent");
    assert!(read_all(old).await.ends_with("\r\n\r\nonetwo"), "HTTP/1.0 has no chunks");
    // A request with a body that nobody reads.
    let mut stream = connect(&server).await;
    let request = "GET /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody";
    stream.write_all(request.as_bytes()).await.expect("sent");
    assert!(is_a_watch(&read_until(&mut stream, "0\r\n\r\n").await));
}

/// An error of the API server behind a replica comes as the answer to a watch, and says how long it is.
#[tokio::test]
async fn an_answer_with_a_length_has_no_chunks() {
    let server = plain(limits());
    let mut stream = connect(&server).await;
    for _ in 0..2 {
        stream.write_all(REQUEST.replace("/events", "/told").as_bytes()).await.expect("sent");
        let answer = read_until(&mut stream, "two").await;
        assert!(answer.contains("content-length: 6\r\n") && answer.ends_with("\r\n\r\nonetwo"), "{answer}");
    }
}

#[tokio::test]
async fn a_stop_waits_for_the_end_of_a_watch_and_then_closes() {
    let server = plain(limits());
    let mut stream = connect(&server).await;
    stream.write_all(REQUEST.as_bytes()).await.expect("sent");
    let begun = read_until(&mut stream, "one\r\n").await;
    server.stop.send(true).expect("it listens");
    let rest = read_all(stream).await;
    assert!(is_a_watch(&format!("{begun}{rest}")), "{begun}{rest}");
    assert_eq!(server.task.await.expect("no panic").expect("served"), 0);
}
