//! Waits for states that stay.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Failure, Outcome, PATIENCE};
use crate::client::Client;

const PAUSE: Duration = Duration::from_millis(20);

/// Waits until the object at the target is right, and returns it; null is an object that is not there.
pub(super) async fn until(client: &Client, target: &str, is_right: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
    let began = Instant::now();
    loop {
        let answer = client.fetch(target).await?;
        let found: Value = if answer.status == 404 { Value::Null } else { serde_json::from_slice(&answer.body)? };
        if is_right(&found) {
            return Ok(found);
        }
        pause(began, || format!("{target} is {found}")).await?;
    }
}

/// Waits until the target is answered with this status, and returns the body.
pub(super) async fn until_status(client: &Client, target: &str, status: u16) -> Result<Vec<u8>, Failure> {
    let began = Instant::now();
    loop {
        let answer = client.fetch(target).await?;
        if answer.status == status {
            return Ok(answer.body.to_vec());
        }
        pause(began, || format!("{target} is answered with {}, not {status}", answer.status)).await?;
    }
}

/// Waits until something is so.
pub(super) async fn until_so(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool, Failure>) -> Outcome {
    let began = Instant::now();
    while !is_so().await? {
        pause(began, || format!("not in time: {what}")).await?;
    }
    Ok(())
}

fn pause(began: Instant, why: impl FnOnce() -> String) -> impl Future<Output = Outcome> {
    let late = (began.elapsed() > PATIENCE).then(why);
    async move {
        match late {
            Some(why) => Err(format!("after {PATIENCE:?}: {why}").into()),
            None => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
        }
    }
}
