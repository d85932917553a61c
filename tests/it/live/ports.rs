//! Ports for programs that a test is about to start. Knows no program.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    ops::Range,
    sync::Mutex,
};

/// Below those that Linux gives away by itself (`ip_local_port_range`, from 32,768): a port from there that is free now may belong to somebody's outgoing
/// connection before the program has started. Above those that the scripts of this project name.
const PORTS: Range<u16> = 23_000..32_000;

/// What keeps other tests away from a port, here and in other processes: the UDP socket of the same number, until this process ends.
static HELD: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// An address on loopback that nobody listens on, and that no other test is told.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    let from = rand::random_range(PORTS);
    for port in (from..PORTS.end).chain(PORTS.start..from) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let Ok(held) = UdpSocket::bind(address) else { continue };
        if TcpListener::bind(address).is_ok() {
            HELD.lock().expect("no holder panics").push(held);
            return Ok(address);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, format!("no port of {PORTS:?} is free")))
}

#[test]
fn no_port_is_told_twice() -> io::Result<()> {
    let told = (0..50).map(|_| free_address()).collect::<io::Result<Vec<_>>>()?;
    let ports: std::collections::BTreeSet<u16> = told.iter().map(SocketAddr::port).collect();
    assert_eq!(ports.len(), told.len());
    Ok(())
}
