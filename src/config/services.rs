//! What Services get their addresses and ports from: `--service-cluster-ip-range`, `--service-node-port-range`.

use std::net::IpAddr;

/// The shortest prefix of a range of IPv6, as of ServiceCIDRs.
const V6_PREFIX_MIN: u32 = 64;

/// The ranges of a server that allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Services {
    /// `10.0.0.0/24`: one, or one of each family.
    pub ranges: Vec<String>,
    /// The first node port, and how many there are.
    pub node_ports: (u16, u32),
}

pub(super) fn services(ranges: &str, node_ports: &str) -> Result<Services, String> {
    const FLAG: &str = "--service-cluster-ip-range";
    let ranges: Vec<&str> = ranges.split(',').collect();
    let mut families = Vec::new();
    for range in &ranges {
        let (address, prefix) = parsed(range).ok_or_else(|| format!("{FLAG}: {range:?} is not a valid cidr"))?;
        if address.is_ipv6() && prefix < V6_PREFIX_MIN {
            return Err(format!("{FLAG}: {range:?}: the prefix of a range of IPv6 must have at least {V6_PREFIX_MIN} bits"));
        }
        families.push(address.is_ipv4());
    }
    match families[..] {
        [_] => {}
        [first, second] if first != second => {}
        [_, _] => return Err(format!("{FLAG}[0] and {FLAG}[1] must be of different IP family")),
        _ => return Err(format!("{FLAG} must not contain more than two entries")),
    }
    let ports = port_range(node_ports.trim()).map_err(|why| format!("--service-node-port-range: {why}"))?;
    Ok(Services { ranges: ranges.into_iter().map(str::to_owned).collect(), node_ports: ports })
}

fn parsed(range: &str) -> Option<(IpAddr, u32)> {
    let (address, prefix) = range.split_once('/')?;
    let (address, prefix) = (address.parse::<IpAddr>().ok()?, prefix.parse::<u32>().ok()?);
    (prefix <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, prefix))
}

/// `30000-32767`, `30000+2767` or a single port, in kube-apiserver's words.
fn port_range(text: &str) -> Result<(u16, u32), String> {
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!("unable to parse port range: {text}"));
    let (low, high) = match (text.split_once('-'), text.split_once('+')) {
        (Some((low, high)), None) => (number(low)?, number(high)?),
        (None, Some((low, more))) => (number(low)?, number(low)?.saturating_add(number(more)?)),
        (None, None) => (number(text)?, number(text)?),
        (Some(_), Some(_)) => return Err(format!("unable to parse port range: {text}")),
    };
    match u16::try_from(low) {
        Ok(base) if high <= u32::from(u16::MAX) && high >= low => Ok((base, high - low + 1)),
        Ok(_) if high < low => Err(format!("end port cannot be less than start port: {text}")),
        _ => Err(format!("the port range cannot be greater than 65535: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_kube_apiserver_reads_them() {
        let ports = |text: &str| services("10.0.0.0/24", text).map(|services| services.node_ports);
        for (text, want) in
            [("30000-32767", (30000, 2768)), (" 30000+10 ", (30000, 11)), ("30000", (30000, 1)), ("0-65535", (0, 65536)), ("1-1", (1, 1))]
        {
            assert_eq!(ports(text), Ok(want), "{text}");
        }
        for (text, why) in [
            ("5-3", "end port cannot be less than start port: 5-3"),
            ("30000-70000", "the port range cannot be greater than 65535: 30000-70000"),
            ("", "unable to parse port range: "),
            ("1-2+3", "unable to parse port range: 1-2+3"),
            ("a-3", "unable to parse port range: a"),
        ] {
            assert_eq!(ports(text), Err(format!("--service-node-port-range: {why}")));
        }
        let ranges = |text: &str| services(text, "30000-32767").map(|services| services.ranges.len());
        assert_eq!((ranges("10.0.0.0/24"), ranges("fd00::/108,10.0.0.0/16")), (Ok(1), Ok(2)));
        for (text, why) in [
            ("10.0.0.0/24,10.1.0.0/24", "[0] and --service-cluster-ip-range[1] must be of different IP family"),
            ("10.0.0.0/24,fd00::/108,10.1.0.0/24", " must not contain more than two entries"),
            ("10.0.0.0/24,x", ": \"x\" is not a valid cidr"),
            ("fd00::/48", ": \"fd00::/48\": the prefix of a range of IPv6 must have at least 64 bits"),
        ] {
            assert_eq!(ranges(text), Err(format!("--service-cluster-ip-range{why}")));
        }
    }
}
