//! Events on their way to a server of the test.

use std::sync::atomic::{AtomicUsize, Ordering};

use client::testing::{Reaction, Server};
use serde_json::{Value, json};

use super::*;
use crate::queue::Batching;
use crate::queue::tests::send;

fn queue(server: &Server, mode: Mode, counters: &Counters) -> Queue {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("kubeconfig");
    std::fs::write(&file, server.kubeconfig("/audit")).expect("a file");
    let server = Login::read("--audit-webhook-config-file", &file).expect("a kubeconfig");
    let config = WebhookConfig { initial_backoff: Duration::from_millis(1), mode, truncation: None };
    start(&config, &server, counters).expect("a client")
}

fn refused() -> Reaction {
    Reaction::Answer(400, "application/json", "{}".into())
}

fn batch(size_max: usize) -> Mode {
    Mode::Batch(Batching { buffer: 100, size_max, wait_max: Duration::from_secs(30), throttle: None })
}

#[tokio::test]
async fn events_are_posted_as_a_list() {
    let server = Server::start(|_| Reaction::json(&json!({}))).await;
    let counters = Counters::of_a_test();
    let queue = queue(&server, batch(2), &counters);
    for item in ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"] {
        assert!(send(&queue, item.into()).await);
    }
    queue.close().await;
    let mut posted: Vec<Value> = server.asked().iter().map(|asked| serde_json::from_slice(&asked.body).expect("JSON")).collect();
    posted.sort_by_key(|list| list["items"][0]["a"].as_u64());
    let list = |items: Value| json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items});
    assert_eq!(posted, [list(json!([{"a": 1}, {"a": 2}])), list(json!([{"a": 3}]))]);
    assert_eq!(counters.errors.with_label_values(&[PLUGIN]).get(), 0);
}

/// Also a refusal that other webhooks would not try again.
#[tokio::test]
async fn a_failed_post_is_tried_five_times() {
    for (failures, stored) in [(4, true), (5, false)] {
        let tries = Arc::new(AtomicUsize::new(0));
        let server = Server::start({
            let tries = tries.clone();
            move |_| if tries.fetch_add(1, Ordering::SeqCst) < failures { refused() } else { Reaction::json(&json!({})) }
        })
        .await;
        let counters = Counters::of_a_test();
        let queue = queue(&server, Mode::BlockingStrict, &counters);
        assert_eq!(send(&queue, "{}".into()).await, stored);
        assert_eq!((tries.load(Ordering::SeqCst), counters.errors.with_label_values(&[PLUGIN]).get()), (5, u64::from(!stored)));
    }
}
