//! Measurement of the floor: what the same events cost a process that does nothing but write them to TLS sockets.

use anyhow::{Context, Result};

use super::watches::{DELIVERY_SECONDS, WARM_SECONDS};
use super::{Bench, Sizes, Subject, as_float, busy, fetch, micros, plain};
use crate::floor::Floor;
use crate::load::{Form, Job, Load, Protocol, Watches, Work};

impl Bench {
    /// Events with the bytes of this subject's, to as many connections as a fan-out over HTTP/1.1 has.
    pub(crate) async fn floor(&mut self, subject: &Subject, rate: u64) -> Result<()> {
        let Sizes { watchers, seconds, .. } = self.sizes;
        let object = fetch(&subject.target, &format!("{}?resourceVersion=0", self.writer.last_written())).await?;
        let object = String::from_utf8(object).context("an object is text")?;
        let event = format!(r#"{{"type":"MODIFIED","object":{}}}"#, object.trim_end());
        let mut floor = Floor::start(&subject.target.certificates, watchers, event).await?;
        let work = Watches { path: "/".into(), watches: watchers, per_connection: 1, form: Form::Json, first_seq: 1, in_order: true };
        let job = Job { target: floor.target(), protocol: Protocol::Http1, work: Work::Watch(work) };
        let mut load = Load::open(&job).await.context("connect to the floor")?;
        let (warm, count) = (WARM_SECONDS * rate, seconds * rate);
        floor.burst(1, warm, rate).await?;
        load.reach(warm, DELIVERY_SECONDS).await?;
        self.rest(subject).await?;

        let (meter, client_before) = (floor.meter(), load.meter().cpu()?);
        let hear = async || {
            let times = floor.burst(warm + 1, count, rate).await?;
            load.reach(warm + count, DELIVERY_SECONDS).await?;
            Ok(times)
        };
        let (bare, times) = busy(meter, hear).await?;
        let client = load.meter().cpu()? - client_before;
        let (latency, _) = load.latency(warm + 1, times).await?;
        load.close().await?;
        floor.close().await?;

        let delivered = as_float(count) * as_float(watchers as u64);
        let (side, figures, key) = (subject.side, &mut self.figures, rate.to_string());
        let title = |what: &str| format!("{what}, bare TLS sockets");
        let what = title(&format!("at {rate} writes/s, deliver 1 event to 1 of {watchers} watches"));
        figures.add(side, plain("floor", &key, what, "µs CPU"), micros(bare) / delivered);
        figures.add(side, plain("floor_p50", &key, title("… sent → client, p50"), "ms"), latency.p50);
        figures.add(side, plain("floor_p99", &key, title("… sent → client, p99"), "ms"), latency.p99);
        figures.add(side, plain("floor_client", &key, title("… load generator, per event"), "µs CPU"), micros(client) / delivered);
        Ok(())
    }
}
