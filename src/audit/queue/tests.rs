//! Queues: who waits, what is lost, and how events are put together.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use prometheus::Opts;

use super::*;
use crate::event::{At, Stage};

fn errors() -> IntCounterVec {
    IntCounterVec::new(Opts::new("errors", "of a test"), &["plugin"]).expect("a name and a label")
}

fn queue(mode: Mode, truncation: Option<Truncation>) -> (Queue, Batches, IntCounterVec) {
    let errors = errors();
    let (queue, batches) = Queue::new("log", Encoding::JsonLine, mode, truncation, errors.clone());
    (queue, batches, errors)
}

fn batching(buffer: usize, size_max: usize) -> Batching {
    Batching { buffer, size_max, wait_max: Duration::from_secs(30), throttle: None }
}

fn event(level: Level, object: &str) -> Event {
    Event {
        level,
        id: String::new(),
        stage: Stage::ResponseComplete,
        uri: String::new(),
        verb: String::new(),
        user: None,
        impersonated: None,
        constraint: None,
        source_ips: Vec::new(),
        user_agent: String::new(),
        object: None,
        status: None,
        request_object: Some(object.as_bytes().to_vec()),
        response_object: None,
        received: At::default(),
        at: At::default(),
        annotations: BTreeMap::new(),
        late: Vec::new(),
    }
}

/// Sends an event that is encoded already.
pub(crate) async fn send(queue: &Queue, bytes: Vec<u8>) -> bool {
    queue.send(bytes.len(), || Some(bytes)).await
}

fn bytes(batch: &[Message]) -> Vec<&[u8]> {
    batch.iter().filter_map(|message| if let Message::Event(event) = message { Some(&*event.bytes) } else { None }).collect()
}

#[tokio::test]
async fn nobody_waits_in_batch_mode_and_what_finds_no_room_is_lost() {
    let (queue, mut batches, errors) = queue(Mode::Batch(batching(2, 10)), None);
    for line in ["a", "b", "c"] {
        assert!(send(&queue, line.into()).await);
    }
    queue.send_later("d".into());
    assert_eq!(errors.with_label_values(&[BUFFERED]).get(), 2);
    drop(queue);
    let batch = batches.next().await.expect("a batch");
    assert_eq!(bytes(&batch), [b"a", b"b"]);
    assert!(batches.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_full_or_has_waited_long_enough() {
    let (queue, mut batches, _) = queue(Mode::Batch(batching(10, 2)), None);
    for line in ["a", "b", "c"] {
        send(&queue, line.into()).await;
    }
    let began = Instant::now();
    assert_eq!(bytes(&batches.next().await.expect("a batch")).len(), 2);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(bytes(&batches.next().await.expect("a batch")).len(), 1);
    assert!(began.elapsed() >= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn batches_are_throttled() {
    let throttled = Batching { throttle: Some((2.0, 3)), ..batching(10, 1) };
    let (queue, mut batches, _) = queue(Mode::Batch(throttled), None);
    for _ in 0..6 {
        send(&queue, "a".into()).await;
    }
    let began = Instant::now();
    let mut came = Vec::new();
    for _ in 0..6 {
        batches.next().await.expect("a batch");
        came.push(began.elapsed().as_millis() / 500);
    }
    assert_eq!(came, [0, 0, 0, 1, 2, 3]);
}

#[tokio::test]
async fn requests_wait_in_the_blocking_modes_and_only_strictly_they_fail() {
    for (mode, goes_on) in [(Mode::Blocking, true), (Mode::BlockingStrict, false)] {
        for written in [true, false] {
            let (queue, mut batches, _) = queue(mode, None);
            let writer = async {
                let mut batch = batches.next().await.expect("a batch");
                let Some(Message::Event(event)) = batch.pop() else { panic!("an event") };
                event.written.expect("somebody waits").send(written).expect("it still waits");
            };
            let (outcome, ()) = tokio::join!(send(&queue, "a".into()), writer);
            assert_eq!(outcome, written || goes_on, "{mode:?} {written}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_stands_still_holds_nobody_for_ever() {
    let (queue, _batches, errors) = queue(Mode::BlockingStrict, None);
    let lost = || errors.with_label_values(&["log"]).get();
    let began = Instant::now();
    // It is in the queue and may still be written.
    assert!(!send(&queue, vec![b'x'; QUEUE_BYTES_MAX]).await);
    assert_eq!((began.elapsed(), lost()), (WRITE_WAIT_MAX, 0));
    // For this one there is no room.
    assert!(!send(&queue, "a".into()).await);
    assert_eq!((began.elapsed(), lost()), (2 * WRITE_WAIT_MAX, 1));
    // Nor for this one, which nobody waits for.
    assert!(timeout(Duration::from_secs(1), send(&queue, "a".into())).await.is_err());
    assert_eq!(lost(), 2);
    let began = Instant::now();
    queue.close().await;
    assert_eq!(began.elapsed(), CLOSE_WAIT_MAX);
}

/// Each request that waited had its event in hand, once for each backend.
#[tokio::test]
async fn an_event_is_made_when_there_is_room_for_it() {
    let (queue, mut batches, _) = queue(Mode::Blocking, None);
    let mut first = std::pin::pin!(send(&queue, vec![b'x'; QUEUE_BYTES_MAX]));
    assert!(first.as_mut().now_or_never().is_none(), "it waits to be written");
    let is_made = std::cell::Cell::new(false);
    let encode = || {
        is_made.set(true);
        Some(b"a".to_vec())
    };
    let mut second = std::pin::pin!(queue.send(1_000, encode));
    assert!(second.as_mut().now_or_never().is_none() && !is_made.get());
    drop(batches.next().await);
    assert!(second.as_mut().now_or_never().is_none() && is_made.get());
    assert_eq!(queue.room.available_permits(), QUEUE_BYTES_MAX - 1, "less was needed than it might have been");
}

#[tokio::test(start_paused = true)]
async fn bytes_are_limited_too() {
    let (queue, mut batches, errors) = queue(Mode::Batch(batching(10, 10)), None);
    let large = vec![b'x'; QUEUE_BYTES_MAX + 1];
    send(&queue, large.clone()).await;
    send(&queue, "a".into()).await;
    assert_eq!(errors.with_label_values(&[BUFFERED]).get(), 1);
    drop(batches.next().await);
    send(&queue, "a".into()).await;
    assert_eq!(errors.with_label_values(&[BUFFERED]).get(), 1);
}

#[test]
fn large_events_lose_their_objects_or_are_lost() {
    let limit = |event_bytes_max| queue(Mode::Blocking, Some(Truncation { event_bytes_max }));
    let object = format!("\"{}\"", "x".repeat(1000));
    let (wide, _batches, _) = limit(2000);
    assert!(wide.encode(&event(Level::Request, &object)).expect("small enough").len() > 1000);
    let (narrow, _batches, _) = limit(400);
    let told = String::from_utf8(narrow.encode(&event(Level::Request, &object)).expect("small without the object")).expect("UTF-8");
    assert!(told.contains(r#""annotations":{"audit.k8s.io/truncated":"true"}"#) && !told.contains("xxx"), "{told}");
    let (nothing, _batches, errors) = limit(10);
    assert!(nothing.encode(&event(Level::Request, &object)).is_none() && nothing.encode(&event(Level::Metadata, "1")).is_none());
    assert_eq!(errors.with_label_values(&[TRUNCATE]).get(), 2);
}
