//! The node ports that are taken, as kube-apiserver keeps them under `/registry/ranges/servicenodeports` (`pkg/registry/core/service/portallocator`).

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// Ports at the beginning of the range that are left to those that ask for them: a thirty-second of it, at least and at most so many.
const RESERVED_MIN: usize = 16;
const RESERVED_MAX: usize = 128;
const RESERVED_STEP: usize = 32;

pub(super) const ALLOCATED: &str = "provided port is already allocated";
pub(super) const FULL: &str = "range is full";

/// A range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub base: u16,
    /// How many ports it has: at least one.
    pub size: u32,
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.base, u32::from(self.base) + self.size - 1)
    }
}

impl PortRange {
    /// Reads `30000-32767`, as [`fmt::Display`] writes it.
    fn parse(text: &str) -> Option<Self> {
        let (low, high) = text.split_once('-')?;
        let (low, high) = (low.parse::<u16>().ok()?, high.parse::<u16>().ok()?);
        Some(Self { base: low, size: u32::from(high.checked_sub(low)?) + 1 })
    }

    fn offset(&self, port: i64) -> Option<usize> {
        let offset = usize::try_from(port - i64::from(self.base)).ok()?;
        (offset < self.size as usize).then_some(offset)
    }
}

/// Which ports of a range are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    range: PortRange,
    taken: Vec<bool>,
}

impl Ports {
    #[must_use]
    pub fn none(range: PortRange) -> Self {
        Self { range, taken: vec![false; range.size as usize] }
    }

    /// Reads a stored RangeAllocation, JSON or protobuf; none of what is no such thing.
    #[must_use]
    pub fn read(value: &[u8]) -> Option<Self> {
        let (range, data) = match value.strip_prefix(b"k8s\0") {
            Some(unknown) => {
                let allocation = member(unknown, 2)?;
                (String::from_utf8(member(allocation, 2)?.to_vec()).ok()?, member(allocation, 3).unwrap_or_default().to_vec())
            }
            None => {
                let value: Value = serde_json::from_slice(value).ok()?;
                let data = BASE64_STANDARD.decode(value["data"].as_str().unwrap_or_default()).ok()?;
                (value["range"].as_str()?.to_owned(), data)
            }
        };
        let mut ports = Self::none(PortRange::parse(&range)?);
        // The number whose bits say it is written from its highest byte on.
        for (nth, byte) in data.iter().rev().enumerate() {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                *ports.taken.get_mut(nth * 8 + bit)? = true;
            }
        }
        Some(ports)
    }

    /// The value that is stored.
    #[must_use]
    pub fn value(&self) -> Vec<u8> {
        let mut data: Vec<u8> =
            self.taken.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect();
        while data.last() == Some(&0) {
            data.pop();
        }
        data.reverse();
        let object = json!({"kind": "RangeAllocation", "apiVersion": "v1", "metadata": {}, "range": self.range.to_string(), "data": BASE64_STANDARD.encode(data)});
        format!("{object}\n").into_bytes()
    }

    #[must_use]
    pub fn range(&self) -> PortRange {
        self.range
    }

    #[must_use]
    pub fn has(&self, port: i64) -> bool {
        self.range.offset(port).is_some_and(|at| self.taken[at])
    }

    /// Takes a port.
    ///
    /// # Errors
    /// It is taken, or not in the range.
    pub fn take(&mut self, port: i64) -> Result<(), String> {
        let out = || format!("provided port is not in the valid range. The range of valid ports is {}", self.range);
        let taken = &mut self.taken[self.range.offset(port).ok_or_else(out)?];
        if std::mem::replace(taken, true) { Err(ALLOCATED.to_owned()) } else { Ok(()) }
    }

    /// Takes a free port: from the one that a random number says on, those at the beginning only when all others are taken.
    pub(super) fn take_next(&mut self, random: u64) -> Result<i64, String> {
        let size = self.taken.len();
        let reserved = if size <= RESERVED_MIN { 0 } else { (size / RESERVED_STEP).clamp(RESERVED_MIN, RESERVED_MAX) };
        let free = |from: usize, to: usize| {
            let start = if from < to { from + random as usize % (to - from) } else { from };
            (start..to).chain(from..start).find(|at| !self.taken[*at])
        };
        let at = free(reserved, size).or_else(|| free(0, reserved)).ok_or(FULL)?;
        self.taken[at] = true;
        Ok(i64::from(self.range.base) + i64::try_from(at).unwrap_or(0))
    }

    /// Gives a port back; one that is free or elsewhere is none.
    pub fn release(&mut self, port: i64) {
        if let Some(at) = self.range.offset(port) {
            self.taken[at] = false;
        }
    }

    /// All that are taken.
    pub fn all(&self) -> impl Iterator<Item = i64> {
        let taken = self.taken.iter().enumerate().filter(|(_, taken)| **taken);
        taken.map(|(at, _)| i64::from(self.range.base) + i64::try_from(at).unwrap_or(0))
    }
}

/// The bytes of the last member of this number, of a message whose members are all of the type of bytes.
fn member(mut message: &[u8], number: u64) -> Option<&[u8]> {
    let mut found = None;
    while !message.is_empty() {
        let (tag, rest) = varint(message)?;
        let (len, rest) = varint(rest)?;
        if tag & 7 != 2 {
            return None;
        }
        let (bytes, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        if tag >> 3 == number {
            found = Some(bytes);
        }
        message = rest;
    }
    found
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (nth, byte) in bytes.iter().enumerate().take(9) {
        number |= u64::from(byte & 0x7f) << (7 * nth);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[nth + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: PortRange = PortRange { base: 30000, size: 2768 };

    #[test]
    fn what_is_stored_is_read_again() {
        let mut ports = Ports::none(RANGE);
        assert_eq!(Ports::read(&ports.value()), Some(ports.clone()), "none");
        for port in [30000, 30001, 30080, 32767] {
            ports.take(port).expect("free");
        }
        assert_eq!(ports.take(30080), Err(ALLOCATED.to_owned()));
        assert_eq!(ports.take(80), Err("provided port is not in the valid range. The range of valid ports is 30000-32767".to_owned()));
        assert_eq!(Ports::read(&ports.value()), Some(ports.clone()));
        ports.release(32767);
        ports.release(80);
        assert_eq!(ports.all().collect::<Vec<_>>(), [30000, 30001, 30080]);
        for odd in [&b""[..], b"{}", b"k8s\0", b"k8s\0\x12\xff", b"{\"range\":\"5-3\"}", b"{\"range\":\"30000-30001\",\"data\":\"/w==\"}"] {
            assert_eq!(Ports::read(odd), None);
        }
    }

    /// As kube-apiserver 1.36.3 stores it as protobuf: 30000 and 30009 are taken.
    #[test]
    fn protobuf_is_read() {
        let mut value = b"k8s\0\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation\x12\x25".to_vec();
        let allocation = b"\x0a\x10\x0a\x00\x12\x00\x1a\x00\x22\x00\x2a\x002\x008\x00B\x00\x12\x0b30000-32767\x1a\x02\x02\x01";
        *value.last_mut().expect("a length") = u8::try_from(allocation.len()).expect("short");
        value.extend_from_slice(allocation);
        value.extend_from_slice(b"\x1a\x00\x22\x00");
        let ports = Ports::read(&value).expect("protobuf");
        assert_eq!(ports.all().collect::<Vec<_>>(), [30000, 30009]);
    }

    #[test]
    fn every_port_is_given_once_and_those_at_the_beginning_last() {
        for (size, reserved) in [(100, 16), (16, 0), (1, 0), (2768, 86)] {
            let mut ports = Ports::none(PortRange { base: 30000, size });
            let mut order = Vec::new();
            while let Ok(port) = ports.take_next(rand::random()) {
                order.push(port - 30000);
            }
            assert_eq!((order.len(), ports.take_next(rand::random())), (size as usize, Err(FULL.to_owned())));
            assert!(order[..size as usize - reserved].iter().all(|at| *at >= reserved as i64));
            assert_eq!(Ports::read(&ports.value()), Some(ports));
        }
    }
}
