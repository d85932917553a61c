//! Ranges of cluster IPs, and how an address is chosen from one (`pkg/registry/core/service/ipallocator`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses at the beginning of a range that are left to those that ask for them: a sixteenth of it, at least and at most so many.
const RESERVED_MIN: u128 = 16;
const RESERVED_MAX: u128 = 256;
const RESERVED_STEP: u128 = 16;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    network: u128,
    /// Bits of the prefix.
    prefix: u32,
    is_v4: bool,
}

impl AddressRange {
    /// Reads `10.0.0.0/24`; bits behind the prefix are dropped.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let (address, prefix) = (address.parse::<IpAddr>().ok()?, prefix.parse::<u32>().ok()?);
        let width: u32 = if address.is_ipv4() { 32 } else { 128 };
        let free = width.checked_sub(prefix)?;
        let mask = u128::MAX.checked_shl(free).unwrap_or(0);
        Some(Self { network: bits(address) & mask, prefix, is_v4: address.is_ipv4() })
    }

    #[must_use]
    pub fn is_v4(&self) -> bool {
        self.is_v4
    }

    /// Bits that are not of the prefix.
    #[must_use]
    pub fn free_bits(&self) -> u32 {
        if self.is_v4 { 32 - self.prefix } else { 128 - self.prefix }
    }

    /// The address that no Service gets.
    #[must_use]
    pub fn network(&self) -> IpAddr {
        self.address(self.network)
    }

    /// The first address that a Service gets.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        self.address(self.ends().0)
    }

    fn broadcast(&self) -> u128 {
        self.network | !u128::MAX.checked_shl(self.free_bits()).unwrap_or(0)
    }

    /// The first and the last address that Services get.
    fn ends(&self) -> (u128, u128) {
        (self.network.saturating_add(1), self.broadcast() - u128::from(self.is_v4))
    }

    /// Whether a Service may have this address from here.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        let (first, last) = self.ends();
        address.is_ipv4() == self.is_v4 && (first..=last).contains(&bits(address))
    }

    /// How many addresses at the beginning are used last.
    fn reserved(&self) -> u128 {
        let size = 1_u128.checked_shl(self.free_bits()).unwrap_or(u128::MAX);
        if size <= RESERVED_MIN { 0 } else { (size / RESERVED_STEP).clamp(RESERVED_MIN, RESERVED_MAX) }
    }

    /// Chooses a free address: from the one that a random number says on, those at the beginning only when all others are taken.
    pub(super) fn choose(&self, random: u64, is_taken: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let ((first, last), reserved) = (self.ends(), self.reserved());
        if first > last {
            return None;
        }
        let free = |from: u128, to: u128| {
            let start = from + u128::from(random) % (to - from + 1);
            (start..=to).chain(from..start).map(|at| self.address(at)).find(|address| !is_taken(*address))
        };
        let low = || (reserved > 0).then(|| free(first, first + reserved - 1)).flatten();
        free(first + reserved, last).or_else(low)
    }

    fn address(&self, bits: u128) -> IpAddr {
        if self.is_v4 { Ipv4Addr::from(bits as u32).into() } else { Ipv6Addr::from(bits).into() }
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.network(), self.prefix)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn range(text: &str) -> AddressRange {
        AddressRange::parse(text).expect("a range")
    }

    #[test]
    fn the_ends_belong_to_nobody() {
        let v4 = range("10.0.0.7/24");
        assert_eq!((v4.to_string(), v4.reserved()), ("10.0.0.0/24".to_owned(), 16));
        for (address, want) in
            [("10.0.0.0", false), ("10.0.0.1", true), ("10.0.0.254", true), ("10.0.0.255", false), ("10.0.1.1", false), ("::1", false)]
        {
            assert_eq!(v4.has(address.parse().expect("an address")), want, "{address}");
        }
        let v6 = range("fd00::/108");
        assert_eq!(v6.reserved(), 256);
        for (address, want) in [("fd00::", false), ("fd00::1", true), ("fd00::f:ffff", true), ("fd00::10:0", false)] {
            assert_eq!(v6.has(address.parse().expect("an address")), want, "{address}");
        }
        assert_eq!((AddressRange::parse("10.0.0.0/33"), AddressRange::parse("x/8"), AddressRange::parse("10.0.0.0")), (None, None, None));
    }

    #[test]
    fn every_address_is_given_once_and_those_at_the_beginning_last() {
        for (text, reserved) in [("10.0.0.0/26", 16), ("10.0.0.0/28", 0), ("fd00::/122", 16), ("fd00::/125", 0)] {
            let range = range(text);
            let mut taken = HashSet::new();
            let mut order = Vec::new();
            while let Some(address) = range.choose(rand::random(), |address| taken.contains(&address)) {
                assert!(range.has(address) && taken.insert(address), "{address}");
                order.push(bits(address) - range.network);
            }
            let size = (1_usize << range.free_bits()) - 1 - usize::from(range.is_v4);
            assert_eq!(order.len(), size, "{text}");
            assert!(order[..size - reserved].iter().all(|at| *at > reserved as u128), "{text} {order:?}");
        }
    }
}
