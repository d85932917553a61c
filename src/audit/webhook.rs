//! The webhook backend: posts events as an `audit.k8s.io/v1` EventList to the server of a kubeconfig file. A post that fails is tried again, whatever the
//! reason.

use std::{sync::Arc, time::Duration};

use client::{Client, Limits, Login, WEBHOOK_BACKOFF, WEBHOOK_TRIES};
use prometheus::IntCounterVec;
use retry::Backoff;
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use crate::{
    Counters,
    queue::{Batches, Encoding, Message, Mode, Queue, Truncation, Waiting},
};

/// As metrics name it.
const PLUGIN: &str = "webhook";

/// Batches that are on their way at once. When there are more, events wait in the queue.
pub const SENDING_MAX: usize = 16;

/// How long one post may take: kube-apiserver's number for its webhooks.
const POST_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer, which nobody reads.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How events are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookConfig {
    /// The wait before the second try; each further one is half as long again.
    pub initial_backoff: Duration,
    /// Whether requests wait.
    pub mode: Mode,
    /// What becomes of large events.
    pub truncation: Option<Truncation>,
}

/// Starts the task that sends, on the runtime of the caller.
///
/// # Errors
/// The certificate and the key of the kubeconfig file do not fit.
pub fn start(config: &WebhookConfig, server: &Arc<Login>, counters: &Counters) -> Result<Queue, String> {
    let limits = Limits { timeout: POST_TIMEOUT, answer_bytes_max: ANSWER_BYTES_MAX, concurrent_max: SENDING_MAX };
    let sender = Sender {
        client: Client::following(server, limits)?,
        login: server.clone(),
        backoff: Backoff { first: config.initial_backoff, ..WEBHOOK_BACKOFF },
        errors: counters.errors.clone(),
    };
    let (queue, batches) = Queue::new(PLUGIN, Encoding::ListItem, config.mode, config.truncation, counters.errors.clone());
    tokio::spawn(send_all(batches, Arc::new(sender)));
    Ok(queue)
}

struct Sender {
    client: Client,
    login: Arc<Login>,
    backoff: Backoff,
    errors: IntCounterVec,
}

/// Sends batches until nothing can come any more, several at once.
async fn send_all(mut batches: Batches, sender: Arc<Sender>) {
    let turns = Arc::new(Semaphore::new(SENDING_MAX));
    let mut sending = JoinSet::new();
    while let Some(batch) = batches.next().await {
        let (mut events, mut flushes) = (Vec::new(), Vec::new());
        for message in batch {
            match message {
                Message::Event(event) => events.push(event),
                Message::Flush(told) => flushes.push(told),
            }
        }
        if !events.is_empty() {
            let Ok(turn) = turns.clone().acquire_owned().await else { return };
            let sender = sender.clone();
            sending.spawn(async move {
                sender.send(events).await;
                drop(turn);
            });
        }
        // Done ones are let go; who flushes waits for all.
        while sending.try_join_next().is_some() {}
        for told in flushes {
            while sending.join_next().await.is_some() {}
            let _ = told.send(());
        }
    }
}

impl Sender {
    /// Sends events until somebody takes them or the tries are used up. Then they are lost and counted.
    async fn send(&self, events: Vec<Waiting>) {
        let mut list = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#.to_vec();
        for (at, event) in events.iter().enumerate() {
            if at > 0 {
                list.push(b',');
            }
            list.extend_from_slice(&event.bytes);
        }
        list.extend_from_slice(b"]}\n");
        let outcome = self.post(list.into()).await;
        if let Err(why) = &outcome {
            self.errors.with_label_values(&[PLUGIN]).inc_by(events.len() as u64);
            tracing::error!(plugin = PLUGIN, events = events.len(), %why, "audit events could not be sent and are lost");
        }
        for written in events.into_iter().filter_map(|event| event.written) {
            // Who sent it may have gone away.
            let _ = written.send(outcome.is_ok());
        }
    }

    async fn post(&self, list: bytes::Bytes) -> Result<(), String> {
        for failures in 0..WEBHOOK_TRIES - 1 {
            if self.post_once(list.clone()).await.is_ok() {
                return Ok(());
            }
            sleep(self.backoff.wait(failures)).await;
        }
        self.post_once(list).await
    }

    async fn post_once(&self, list: bytes::Bytes) -> Result<(), String> {
        let answer = self.client.post(&self.login.url(""), list).await.map_err(|error| error.to_string())?;
        answer.failure().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
