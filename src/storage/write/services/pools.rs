//! The addresses and ports that one write takes from and gives back to, as far as they are known.

use std::{collections::HashMap, net::IpAddr};

use super::{
    addresses::AddressRange,
    ports::{ALLOCATED, Ports},
    spec::IPV4,
};
use model::Revision;

/// The first port that a dry run says it would get, as kube-apiserver: a dry run looks for none.
const DRY_RUN_PORT: i64 = 32_769;

/// Something must be read from etcd before it can be decided.
#[derive(Debug)]
pub(super) struct Missing;

/// An address, as etcd has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Free,
    Taken,
    /// It is kept for this Service already.
    Own,
}

/// The stored node ports, and when they were written; zero when they were not.
#[derive(Clone, Debug)]
pub(super) struct StoredPorts {
    pub(super) ports: Ports,
    pub(super) revision: Revision,
}

/// What a write takes and gives back.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) taken: Vec<IpAddr>,
    pub(super) released: Vec<IpAddr>,
    /// The node ports as they should be; none when they stay.
    pub(super) ports: Option<Ports>,
}

/// What is known of etcd, of what must still be known, and what was decided.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) found: HashMap<IpAddr, Found>,
    pub(super) ports: Option<StoredPorts>,
    pub(super) wants_address: Option<IpAddr>,
    pub(super) wants_ports: bool,
    pub(super) plan: Plan,
    /// What is chosen by chance follows from this: a decision that is made again chooses the same.
    pub(super) seed: u64,
    /// Ports that a dry run has said it would take.
    dry_ports: Vec<i64>,
}

impl State {
    /// Nothing is known yet.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }
}

/// The pools for one decision.
pub(super) struct Pools<'a> {
    /// Those that are ready.
    pub(super) ranges: &'a [AddressRange],
    /// Whether the cache has this address as taken.
    pub(super) is_cached: &'a dyn Fn(IpAddr) -> bool,
    pub(super) dry_run: bool,
    /// What is kept for the Service already may be taken over.
    pub(super) by_server: bool,
    pub(super) configured: super::ports::PortRange,
    /// The address that is kept for another Service, whether it is there or not.
    pub(super) kept: Option<IpAddr>,
    pub(super) state: &'a mut State,
}

impl Pools<'_> {
    /// Begins a decision anew.
    pub(super) fn begin(&mut self) {
        self.state.plan = Plan::default();
        self.state.dry_ports.clear();
        (self.state.wants_address, self.state.wants_ports) = (None, false);
    }

    /// Any free address of a family; none when all are taken.
    pub(super) fn next_address(&mut self, family: &str) -> Result<Option<IpAddr>, Missing> {
        let mut ranges: Vec<&AddressRange> = self.ranges.iter().filter(|range| range.is_v4() == (family == IPV4)).collect();
        if self.dry_run {
            return Ok(ranges.first().map(|range| range.network()));
        }
        let random = self.state.seed.rotate_left(7 * u32::try_from(self.state.plan.taken.len()).unwrap_or(0));
        let is_taken = |ip: IpAddr| {
            let known = self.state.found.get(&ip);
            self.kept == Some(ip)
                || self.state.plan.taken.contains(&ip)
                || known.map_or_else(|| (self.is_cached)(ip), |found| *found == Found::Taken)
        };
        while !ranges.is_empty() {
            let range = ranges.swap_remove(random as usize % ranges.len());
            if let Some(ip) = range.choose(random, is_taken) {
                self.state.plan.taken.push(ip);
                return Ok(Some(ip));
            }
        }
        Ok(None)
    }

    /// Takes this address.
    ///
    /// # Errors
    /// Why it cannot be had; or it must be read first whether it can.
    pub(super) fn take_address(&mut self, ip: IpAddr) -> Result<Result<(), String>, Missing> {
        let of_family = || self.ranges.iter().filter(|range| range.is_v4() == ip.is_ipv4());
        if self.dry_run {
            let valid = of_family().next().map_or_else(String::new, ToString::to_string);
            let out = format!("the provided IP ({ip}) is not in the valid range. The range of valid IPs is {valid}");
            return Ok(if of_family().any(|range| range.has(ip)) { Ok(()) } else { Err(out) });
        }
        if !of_family().any(|range| range.has(ip)) {
            return Ok(Err("the provided network does not match the current range".to_owned()));
        }
        match self.state.found.get(&ip) {
            _ if self.kept == Some(ip) || self.state.plan.taken.contains(&ip) => Ok(Err("provided IP is already allocated".to_owned())),
            Some(Found::Own) if self.by_server => Ok(Ok(())),
            Some(Found::Own | Found::Taken) => Ok(Err("provided IP is already allocated".to_owned())),
            None if (self.is_cached)(ip) => {
                self.state.wants_address = Some(ip);
                Err(Missing)
            }
            Some(Found::Free) | None => {
                self.state.plan.taken.push(ip);
                Ok(Ok(()))
            }
        }
    }

    pub(super) fn release_address(&mut self, ip: IpAddr) {
        self.state.plan.released.push(ip);
    }

    /// The ports as this write leaves them; an error of a range that is not the configured one.
    fn ports(&mut self) -> Result<Result<&mut Ports, String>, Missing> {
        let State { ports, plan, wants_ports, .. } = &mut *self.state;
        let Some(stored) = ports else {
            *wants_ports = true;
            return Err(Missing);
        };
        if stored.ports.range() != self.configured {
            return Ok(Err("the provided range does not match the current range".to_owned()));
        }
        Ok(Ok(plan.ports.get_or_insert_with(|| stored.ports.clone())))
    }

    pub(super) fn take_port(&mut self, port: i64) -> Result<Result<(), String>, Missing> {
        if self.dry_run {
            let is_taken = self.ports()?.is_ok_and(|ports| ports.has(port));
            let is_taken = is_taken || self.state.dry_ports.contains(&port);
            self.state.dry_ports.push(port);
            return Ok(if is_taken { Err(ALLOCATED.to_owned()) } else { Ok(()) });
        }
        Ok(self.ports()?.and_then(|ports| ports.take(port)))
    }

    pub(super) fn next_port(&mut self) -> Result<Result<i64, String>, Missing> {
        if self.dry_run {
            let next = self.state.dry_ports.iter().max().map_or(DRY_RUN_PORT, |last| last + 1);
            self.state.dry_ports.push(next);
            return Ok(Ok(next));
        }
        let random = self.state.seed;
        Ok(self.ports()?.and_then(|ports| ports.take_next(random)))
    }

    /// Gives a port back; that of another range stays as it is.
    pub(super) fn release_port(&mut self, port: i64) -> Result<(), Missing> {
        if !self.dry_run
            && let Ok(ports) = self.ports()?
        {
            ports.release(port);
        }
        Ok(())
    }
}
