//! The UDP ports of a daemon's links, and who can reach them.
//!
//! A slave has one, which others call; it is on the slave's own address if that is a loopback address. The master calls and is never
//! called: it has no port before it calls the first host, one on a loopback address for hosts on the same machine, and one that the network
//! reaches only when it calls a host there.

use crate::io::alarm::LinkRuntime;
use crate::io::clock::Clock;
use crate::io::packet_filter::PacketFilter;
use crate::io::udp_socket::{LinkSocket, PACKET_MAX};
use quinn::{Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, VarInt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A socket, and QUIC on it.
#[derive(Debug)]
struct Port {
    address: IpAddr,
    socket: Arc<LinkSocket>,
    endpoint: Endpoint,
}

/// All ports of this daemon.
#[derive(Debug)]
pub struct Endpoints {
    clock: Clock,
    ports: Vec<Port>,
    /// Others call the first of them, which then is the only one.
    is_called: bool,
}

impl Port {
    fn open(address: IpAddr, server: Option<ServerConfig>, runtime: Arc<dyn Runtime>) -> io::Result<Self> {
        let filter = if server.is_some() { PacketFilter::Called } else { PacketFilter::calling() };
        let socket = Arc::new(LinkSocket::open(SocketAddr::new(address, 0), filter)?);
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(PACKET_MAX).map_err(io::Error::other)?;
        let endpoint = Endpoint::new_with_abstract_socket(config, server, socket.clone(), runtime)?;
        Ok(Self { address, socket, endpoint })
    }
}

impl Endpoints {
    /// None yet; others do not call.
    pub fn calling(clock: Clock) -> Self {
        Self { clock, ports: Vec::new(), is_called: false }
    }

    /// One at this address, which others call.
    pub fn called_at(clock: Clock, address: IpAddr, server: ServerConfig) -> io::Result<Self> {
        let port = Port::open(address, Some(server), Arc::new(LinkRuntime(clock.clone())))?;
        Ok(Self { clock, ports: vec![port], is_called: true })
    }

    /// That which others call.
    pub fn called(&self) -> Option<&Endpoint> {
        self.ports.first().filter(|_| self.is_called).map(|port| &port.endpoint)
    }

    /// One from which this address can be called.
    pub fn to_call(&mut self, remote: SocketAddr) -> io::Result<&Endpoint> {
        let address = own_side(remote.ip());
        let found = self.ports.iter().position(|port| self.is_called || port.address == address);
        let at = found.unwrap_or(self.ports.len());
        if found.is_none() {
            self.ports.push(Port::open(address, None, Arc::new(LinkRuntime(self.clock.clone())))?);
        }
        let port = &self.ports[at];
        port.socket.expect(remote);
        Ok(&port.endpoint)
    }

    /// How often packets have come. Who sees more of them than before may expect to hear of what they bring.
    pub fn arrivals(&self) -> usize {
        self.ports.iter().fold(0, |sum, port| sum.wrapping_add(port.socket.arrivals()))
    }

    /// Closes all connections, and waits for so long until the others know.
    pub async fn close(&self, patience: Duration) {
        self.ports.iter().for_each(|port| port.endpoint.close(VarInt::from_u32(0), b""));
        let closed = async {
            for port in &self.ports {
                port.endpoint.wait_idle().await;
            }
        };
        let _ = tokio::time::timeout(patience, closed).await;
    }
}

/// One at this address, which others call, by itself.
pub fn called_at(address: IpAddr, server: ServerConfig) -> io::Result<Endpoint> {
    Ok(Port::open(address, Some(server), Arc::new(TokioRuntime))?.endpoint)
}

/// One from which this address can be called and no other, by itself.
pub fn to_call(remote: SocketAddr) -> io::Result<Endpoint> {
    let port = Port::open(own_side(remote.ip()), None, Arc::new(TokioRuntime))?;
    port.socket.expect(remote);
    Ok(port.endpoint)
}

/// The narrowest address from which another can be called without asking the system for a route.
fn own_side(remote: IpAddr) -> IpAddr {
    match remote {
        IpAddr::V4(remote) if remote.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(remote) if remote.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(endpoints: &mut Endpoints, remote: &str) -> SocketAddr {
        endpoints.to_call(remote.parse().unwrap()).unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn the_network_reaches_who_calls_hosts_on_the_network() {
        let mut endpoints = Endpoints::calling(Clock::start().unwrap());
        assert!(endpoints.ports.is_empty(), "nobody reaches who calls nobody");
        let narrow = local(&mut endpoints, "127.80.0.2:9");
        assert_eq!(narrow.ip(), Ipv4Addr::LOCALHOST);
        let wide = local(&mut endpoints, "192.0.2.1:9");
        assert_eq!(wide.ip(), Ipv4Addr::UNSPECIFIED);
        assert_eq!(local(&mut endpoints, "127.80.0.3:9"), narrow, "links to hosts here stay as they are");
        assert_eq!(local(&mut endpoints, "192.0.2.2:9"), wide);
        assert_eq!(endpoints.ports.len(), 2);
    }
}
