//! What a server shows of the real cluster behind it (`/watchcache/api/v1/cluster`): the same as its metrics tell, and how that cluster has failed last.

use serde_json::Value;
use tokio::time::{Duration, Instant, sleep};

use super::Outcome;
use crate::{alone::asked, client::Client};

/// How long it may take until it is so.
const SOON: Duration = Duration::from_secs(40);

async fn cluster(client: &Client) -> Result<Value, Box<dyn std::error::Error>> {
    Ok(asked(client, ("GET", "/watchcache/api/v1/cluster"), None, 200).await.map_err(|error| error.to_string())?)
}

/// The figures of a server in front of an API server, once it is known whether that answers.
pub(super) async fn upstream(client: &Client, is_source: bool, answers: bool) -> Outcome {
    let began = Instant::now();
    loop {
        let shown = cluster(client).await?;
        let text = String::from_utf8(client.fetch("/metrics").await?.body.to_vec())?;
        let upstream = &shown["upstream"];
        // Requests may come between the two.
        let wrong = differs(upstream, &text).or_else(|| (upstream["answers"] != answers).then(|| "whether it answers".to_owned()));
        let Some(wrong) = wrong else {
            assert_eq!(upstream["isSource"], is_source, "{shown}");
            assert!(upstream["resources"]["fromMemory"].as_u64() > Some(0) && shown["host"].is_null(), "{shown}");
            assert!(upstream["forwarded"].as_array().is_some_and(|rows| !rows.is_empty()), "{shown}");
            if !answers {
                let why = upstream["lastFault"]["why"].as_str().unwrap_or_default();
                assert!(!why.is_empty() && upstream["trouble"].is_string(), "{shown}");
                assert!(upstream["checks"].as_array().into_iter().flatten().any(|check| check["ok"] == false), "{shown}");
            }
            return Ok(());
        };
        assert!(began.elapsed() < SOON, "{wrong}: {shown}\n{text}");
        sleep(Duration::from_millis(500)).await;
    }
}

/// What of the requests that were forwarded is shown otherwise than the metrics have it.
fn differs(upstream: &Value, metrics: &str) -> Option<String> {
    upstream["forwarded"].as_array()?.iter().find_map(|row| {
        let reason = row["reason"].as_str()?;
        let figure = |what: &str| {
            let series = format!("watchcache_forwarded_duration_seconds_{what}{{reason=\"{reason}\"}} ");
            metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse::<f64>().ok())
        };
        let codes: u64 = row["codes"].as_object()?.values().filter_map(Value::as_u64).sum();
        let is_same = figure("count") == row["count"].as_f64() && figure("sum") == row["seconds"].as_f64() && row["count"] == codes;
        (!is_same).then(|| format!("{row}"))
    })
}
