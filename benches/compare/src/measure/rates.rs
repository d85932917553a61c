//! Measurement of watches at heavy rates: what an event costs then, how late it comes, and whether it comes at all.

use std::time::Duration;

use anyhow::Result;

use super::watches::DELIVERY_SECONDS;
use super::{Bench, Shape, Subject, as_float, busy, micros, plain, row};
use crate::load::Heard;

/// Writes before the measured ones.
const WARM: Duration = Duration::from_secs(2);

impl Bench {
    /// Every watch hears `rate` writes a second, or as many as the writing server makes. A lost event is told, not an error.
    pub(crate) async fn heavy(&mut self, subject: &Subject, shape: Shape, rate: u64) -> Result<()> {
        self.rest(subject).await?;
        let mut load = self.open_watches_at_ease(subject, shape).await?;
        let warm_seq = self.writer.seq() + 1;
        let warm = self.writer.heavy(rate, WARM).await?;
        load.heard(warm_seq, warm, DELIVERY_SECONDS).await?;
        self.rest(subject).await?;

        let (client_before, first_seq) = (load.meter().cpu()?, self.writer.seq() + 1);
        let lasting = Duration::from_secs(self.sizes.seconds);
        let hear = async || {
            let writes = self.writer.heavy(rate, lasting).await?;
            let written = writes.len() as u64;
            let span = writes.iter().map(|write| write.acknowledged).max().unwrap_or(0) - writes.first().map_or(0, |write| write.sent);
            Ok((load.heard(first_seq, writes, DELIVERY_SECONDS).await?, written, span))
        };
        let (server, (heard, written, span)) = busy(subject.meter, hear).await?;
        let client = load.meter().cpu()? - client_before;
        load.close().await?;

        let Heard { delivered, ended, first_end, from_acknowledged } = heard;
        let wanted = written * self.sizes.watchers as u64;
        let (side, figures, key) = (subject.side, &mut self.figures, format!("{}_{rate}", shape.key));
        let title = |what: &str| format!("{what}, {}", shape.title);
        let what = title(&format!("at {rate} writes/s, deliver 1 event to 1 of {} watches", self.sizes.watchers));
        let achieved = as_float(written) / (as_float(span) / 1e6);
        figures.add(side, plain("heavy_rate", &key, title("… writes acknowledged"), "1/s"), achieved);
        figures.add(side, plain("heavy_lost", &key, title("… events lost"), ""), as_float(wanted - delivered));
        if let Some(latency) = from_acknowledged {
            figures.add(side, row("heavy", &key, what, "µs CPU"), micros(server) / as_float(delivered));
            figures.add(side, plain("heavy_p50", &key, title("… write acknowledged → client, p50"), "ms"), latency.p50);
            figures.add(side, row("heavy_p99", &key, title("… write acknowledged → client, p99"), "ms"), latency.p99);
            figures.add(side, row("heavy_max", &key, title("… write acknowledged → client, max"), "ms"), latency.max);
            let client = micros(client) / as_float(delivered);
            figures.add(side, plain("heavy_client", &key, title("… load generator, per event"), "µs CPU"), client);
        }
        if ended > 0 {
            let why = first_end.unwrap_or_default();
            figures.note(format!("{side:?}, {rate} writes/s, {}: {ended} watches ended, the first with: {why}", shape.title));
        }
        Ok(())
    }
}
