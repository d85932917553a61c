//! The address at which clients inside a cluster find the TLS listener, for the endpoints of the Service `default/kubernetes`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use crate::config::{Advertise, Config};
use controllers::Advertised;

/// Port of a kube-apiserver that is given none; the Service says so where there is no TLS listener.
const DEFAULT_PORT: u16 = 6443;

/// Returns what to advertise.
pub(super) fn find(config: &Config) -> Advertised {
    let service = config.cluster_addresses.first;
    let Some(listener) = &config.listeners.secure else { return Advertised { address: None, port: DEFAULT_PORT, service } };
    let address = match listener.advertised {
        Advertise::At(address) => Some(address),
        Advertise::AtDefaultRoute => outgoing(service),
        Advertise::Nowhere => None,
    };
    if address.is_none() {
        tracing::warn!(
            "this host has no address that others could reach: the Service default/kubernetes has no endpoints without --advertise-address"
        );
    }
    Advertised { address, port: listener.address.port(), service }
}

/// Returns what this host is called.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The address that packets to other networks come from, of the same family as this one. A UDP socket that is connected has asked the routes and sent nothing.
fn outgoing(like: IpAddr) -> Option<IpAddr> {
    // Networks for documentation: nobody has a route of its own to them.
    let (any, elsewhere): (IpAddr, IpAddr) = match like {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((elsewhere, 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_of_the_family_that_is_asked_for() {
        for like in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let found = outgoing(like);
            assert!(found.is_none_or(|found| found.is_ipv4() == like.is_ipv4() && !found.is_loopback()), "{found:?}");
        }
    }
}
