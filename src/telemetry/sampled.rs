//! A gauge that is absent from `/metrics` until its value is known, so that nobody takes "not sampled yet" or "there is none" for 0.

use prometheus::core::Collector;
use prometheus::{GaugeVec, Opts};

use super::Catalogue;

/// See the file's header. A family without labels has one series, which this adds and removes.
#[derive(Clone, Debug)]
pub struct SampledGauge {
    family: GaugeVec,
}

impl SampledGauge {
    pub(super) fn new(catalogue: &Catalogue<'_>, name: &str, help: &str) -> Self {
        Self { family: catalogue.add(GaugeVec::new(Opts::new(name, help), &[])) }
    }

    /// Shows this value from now on.
    pub fn set(&self, value: f64) {
        self.family.with_label_values::<&str>(&[]).set(value);
    }

    /// Shows this number of bytes from now on.
    pub fn set_bytes(&self, bytes: u64) {
        self.set(bytes as f64);
    }

    /// Shows 1 or 0 from now on.
    pub fn set_is(&self, is_so: bool) {
        self.set(f64::from(u8::from(is_so)));
    }

    /// Shows nothing until the next value.
    pub fn clear(&self) {
        // That there is no series is what is wanted.
        let _ = self.family.remove_label_values::<&str>(&[]);
    }

    /// Returns the value that is shown.
    pub fn get(&self) -> Option<f64> {
        let families = self.family.collect();
        families.first()?.get_metric().first().map(|metric| metric.get_gauge().get_value())
    }
}
