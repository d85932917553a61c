//! Families of metrics that forget the series of what is gone, whatever other labels those have.

use std::{collections::HashMap, fmt::Debug};

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};

/// The labels of a series, by name.
pub(super) type Labels<'a> = HashMap<&'a str, &'a str>;

/// A family with labels.
pub(super) trait Family: Debug + Send + Sync {
    /// Removes the series whose labels match. Handles that exist keep counting, but are no longer exported.
    fn forget(&self, is_gone: &dyn Fn(&Labels<'_>) -> bool);
}

impl<T: MetricVecBuilder + 'static> Family for MetricVec<T> {
    fn forget(&self, is_gone: &dyn Fn(&Labels<'_>) -> bool) {
        for family in self.collect() {
            for series in family.get_metric() {
                let labels: Labels<'_> = series.get_label().iter().map(|label| (label.name(), label.value())).collect();
                if is_gone(&labels) {
                    // That it is there no more is what is wanted.
                    let _ = self.remove(&labels);
                }
            }
        }
    }
}
