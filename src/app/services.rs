//! What Services get their addresses and ports from.

use crate::config::Config;
use storage::write::services::{AddressRange, PortRange, ServiceRanges};

/// The ranges of the flags, if this server is one that allocates: an upstream or a host does it otherwise.
pub(super) fn ranges(config: &Config) -> Option<ServiceRanges> {
    let is_own = config.replica.is_none() && config.source.is_none() && config.aggregated.is_none();
    let (base, size) = config.services.node_ports;
    let addresses = config.services.ranges.iter().filter_map(|range| AddressRange::parse(range)).collect();
    is_own.then_some(ServiceRanges { addresses, node_ports: PortRange { base, size } })
}
