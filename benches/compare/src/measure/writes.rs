//! Measurement of writes through a subject: what each costs the server, and how long its client waits.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

use super::{Bench, Subject, as_float, busy, micros, plain, row};
use crate::load::{Percentiles, Protocol};
use crate::writer::{CREATORS, replace};

/// Seconds in which nothing happens: what the server takes then is subtracted.
const IDLE_SECONDS: u64 = 5;

impl Bench {
    /// PUTs of ConfigMaps, as fast as the connections get their answers; the server hears of its own writes from etcd too, which is in it.
    pub(crate) async fn writes(&mut self, subject: &Subject, protocol: Protocol) -> Result<()> {
        let writes = self.sizes.writes;
        if writes == 0 {
            return Ok(());
        }
        replace(&subject.target, protocol, writes.div_ceil(10)).await?;
        self.rest(subject).await?;
        let idle = busy(subject.meter, async || {
            sleep(Duration::from_secs(IDLE_SECONDS)).await;
            Ok(())
        });
        let idle_share = idle.await?.0.as_secs_f64() / as_float(IDLE_SECONDS);
        let began = Instant::now();
        let (server, took) = busy(subject.meter, async || replace(&subject.target, protocol, writes).await).await?;
        let wall = began.elapsed();
        let net = micros(server) - idle_share * micros(wall);
        let latency = Percentiles::of(took).context("no writes to take percentiles of")?;

        let (key, title) = if protocol == Protocol::Http1 { ("h1", "HTTP/1.1") } else { ("h2", "HTTP/2") };
        let title = |what: &str| format!("{what}, {title}");
        let (side, figures) = (subject.side, &mut self.figures);
        figures.add(side, row("put", key, title("PUT of a ConfigMap, net"), "µs CPU"), net / as_float(writes));
        figures.add(side, row("put_p50", key, title(&format!("… {CREATORS} clients, p50")), "ms"), latency.p50);
        figures.add(side, row("put_p99", key, title(&format!("… {CREATORS} clients, p99")), "ms"), latency.p99);
        figures.add(side, plain("put_rate", key, title("… writes acknowledged"), "1/s"), as_float(writes) / wall.as_secs_f64());
        Ok(())
    }
}
