//! IP addresses and networks, read as Go's `net/netip` reads them.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use go::{netip, quote::quoted};

/// An IP address without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ip(IpAddr);

/// A network: an address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Ip {
    /// Reads an address.
    ///
    /// # Errors
    /// Kubernetes' text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (address, zone) =
            netip::address(text).map_err(|why| format!("IP Address {} parse error during conversion from string: {why}", quoted(text)))?;
        if !zone.is_empty() {
            return Err(format!("IP address {} with zone value is not allowed", quoted(text)));
        }
        if is_mapped(address) {
            return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text)));
        }
        Ok(Self(address))
    }

    /// Returns whether a text is written as Go writes the address.
    ///
    /// # Errors
    /// The text is no address.
    pub(crate) fn is_canonical(text: &str) -> Result<bool, String> {
        Self::parse(text).map(|ip| ip.to_string() == text)
    }

    /// Returns 4 or 6.
    pub(crate) fn family(self) -> i64 {
        if self.0.is_ipv4() { 4 } else { 6 }
    }

    /// Returns its bytes.
    pub(crate) fn size(self) -> usize {
        if self.0.is_ipv4() { 4 } else { 16 }
    }

    pub(crate) fn is_unspecified(self) -> bool {
        self.0.is_unspecified()
    }

    pub(crate) fn is_loopback(self) -> bool {
        self.0.is_loopback()
    }

    pub(crate) fn is_link_local_multicast(self) -> bool {
        match self.0 {
            IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
            IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
        }
    }

    pub(crate) fn is_link_local_unicast(self) -> bool {
        match self.0 {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
        }
    }

    pub(crate) fn is_global_unicast(self) -> bool {
        let is_broadcast = matches!(self.0, IpAddr::V4(ip) if ip.is_broadcast());
        !is_broadcast && !self.is_unspecified() && !self.is_loopback() && !self.0.is_multicast() && !self.is_link_local_unicast()
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Cidr {
    /// Reads a network.
    ///
    /// # Errors
    /// Kubernetes' text, which says twice what was read.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const READ: &str = "network address parse error during conversion from string: ";
        let (address, bits) = netip::prefix(text).map_err(|why| format!("{READ}{READ}{why}"))?;
        if is_mapped(address) {
            return Err(format!("{READ}IPv4-mapped IPv6 address {} is not allowed", quoted(text)));
        }
        Ok(Self { address, bits })
    }

    pub(crate) fn ip(self) -> Ip {
        Ip(self.address)
    }

    pub(crate) fn prefix_length(self) -> i64 {
        self.bits.into()
    }

    /// Returns the bytes of its length.
    pub(crate) fn size(self) -> usize {
        usize::from(self.bits).div_ceil(8)
    }

    /// Returns it with the bits behind its length unset.
    pub(crate) fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask(self.bits, 32) as u32)),
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask(self.bits, 128))),
        };
        Self { address, ..self }
    }

    pub(crate) fn contains_ip(self, ip: Ip) -> bool {
        self.address.is_ipv4() == ip.0.is_ipv4() && Self { address: ip.0, ..self }.masked() == self.masked()
    }

    /// Returns whether every address of another network is one of this.
    pub(crate) fn contains(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains_ip(other.ip())
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// The first bits of the lower `width` ones, set.
fn mask(bits: u8, width: u32) -> u128 {
    let all = u128::MAX >> (128 - width);
    all & !all.checked_shr(bits.into()).unwrap_or(0)
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}
