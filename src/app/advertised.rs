//! The address at which clients inside a cluster find the TLS listener, for the Service `default/kubernetes`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::config::Listeners;
use controllers::Advertised;

/// What to advertise, if there is a listener that others can reach.
pub(super) fn find(listeners: &Listeners) -> Option<Advertised> {
    let listener = listeners.secure.as_ref()?;
    let advertised = listener.advertised?;
    let address = advertised.address.or_else(|| outgoing(advertised.service));
    if address.is_none() {
        tracing::warn!(
            "this host has no address that others could reach: no Service default/kubernetes is made without --advertise-address"
        );
    }
    Some(Advertised { endpoint: SocketAddr::new(address?, listener.address.port()), service: advertised.service })
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
