//! Which names and addresses are this very host's: a hostfile may have it under any of them.

use pvmd_core::hostfile::{HostSpec, Hostfile, Via};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a name that is probably this host's may be looked up.
const LOOKUP: Duration = Duration::from_secs(2);
/// Names that every host has for itself.
const LOCAL_NAMES: [&str; 4] = ["localhost", "localhost.localdomain", "localhost4", "localhost6"];
/// Addresses that every host has for itself; the second is that of Debian's /etc/hosts. The other loopback addresses may be
/// those of daemons that look like further hosts.
const LOCAL_ADDRESSES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1)),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// Whether an address is one of this host's: only then it can be bound to.
pub fn is_own_address(address: IpAddr) -> bool {
    if address.is_loopback() || address.is_unspecified() {
        return LOCAL_ADDRESSES.contains(&address);
    }
    UdpSocket::bind((address, 0)).is_ok()
}

/// Gives all lines about this host its own name and makes one of them: `name` is what it has in the virtual machine, `node`
/// what the system calls it.
pub fn recognise(hostfile: &mut Hostfile, name: &str, node: &str) -> Result<(), String> {
    let mut own: Option<usize> = None;
    let mut index = 0;
    while let Some(spec) = hostfile.hosts.get_mut(index) {
        if spec.name != name && !is_own(spec, node) {
            index += 1;
            continue;
        }
        let written = std::mem::replace(&mut spec.name, name.to_owned());
        match own {
            None => {
                own = Some(index);
                index += 1;
            }
            Some(first) => {
                let further = hostfile.hosts.remove(index);
                let Some(first) = hostfile.hosts.get_mut(first) else { continue };
                if !first.repeats(&further) {
                    return Err(format!("{written}: this host is in another line with other options"));
                }
                first.add_slots(&further);
            }
        }
    }
    Ok(())
}

/// Whether a line names this host. One that gives an address, or that shares one, means what it says.
fn is_own(spec: &HostSpec, node: &str) -> bool {
    let options = &spec.options;
    !spec.shared_address
        && options.address.is_none()
        && options.via != Some(Via::Local)
        && is_own_name(&spec.name, node, &addresses)
}

/// Whether a name is this host's. Only one that begins as the system's is looked up, so that the name service of all others
/// need not be waited for; if it is unknown there, nothing else can be meant.
fn is_own_name(name: &str, node: &str, lookup: &dyn Fn(&str) -> Option<Vec<IpAddr>>) -> bool {
    if let Ok(address) = name.parse() {
        return is_own_address(address);
    }
    if LOCAL_NAMES.contains(&name) || name.eq_ignore_ascii_case(node) {
        return true;
    }
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    if short(name) != short(node) || (name.contains('.') && node.contains('.')) {
        return false;
    }
    lookup(name).is_none_or(|addresses| addresses.into_iter().any(is_own_address))
}

/// The addresses of a name, if it has some and they are known soon.
fn addresses(name: &str) -> Option<Vec<IpAddr>> {
    let (sender, found) = channel();
    let name = name.to_owned();
    std::thread::Builder::new()
        .name("own name".into())
        .spawn(move || {
            let addresses = (name.as_str(), 0).to_socket_addrs();
            // Nobody waits any more if it took too long.
            let _ = sender.send(addresses.map(|all| all.map(|address| address.ip()).collect()).ok());
        })
        .ok()?;
    found.recv_timeout(LOOKUP).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_knows_its_own_addresses() {
        for own in ["127.0.0.1", "127.0.1.1"] {
            assert!(is_own_address(own.parse().unwrap()), "{own}");
        }
        for other in ["127.0.0.2", "192.0.2.1", "0.0.0.0", "2001:db8::1"] {
            assert!(!is_own_address(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn names_are_compared_before_they_are_looked_up() {
        let never = |name: &str| -> Option<Vec<IpAddr>> { panic!("{name} is looked up") };
        for own in ["n1.cluster.org", "N1.cluster.org", "localhost", "127.0.0.1"] {
            assert!(is_own_name(own, "n1.cluster.org", &never), "{own}");
        }
        for other in ["n2", "n1.other.org", "192.0.2.1"] {
            assert!(!is_own_name(other, "n1.cluster.org", &never), "{other}");
        }
        let found = |address: &str| {
            let address = address.parse().unwrap();
            move |_: &str| Some(vec![address])
        };
        assert!(is_own_name("n1", "n1.cluster.org", &found("127.0.1.1")));
        assert!(is_own_name("n1.cluster.org", "n1", &|_| None), "it has no address, so no other host has it");
        assert!(!is_own_name("n1.other.org", "n1", &found("192.0.2.1")));
    }

    fn recognised(text: &str) -> Result<Hostfile, String> {
        let mut hostfile = Hostfile::parse(text).expect("a hostfile");
        recognise(&mut hostfile, "me", "me.cluster.org").map(|()| hostfile)
    }

    #[test]
    fn lines_about_this_host_become_one() {
        let hostfile =
            recognised("n2\nlocalhost sp=7\nme.cluster.org slots=3\n127.0.0.1\nn3 ip=127.0.0.1\n").unwrap();
        let names: Vec<_> = hostfile.hosts.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["n2", "me", "n3"], "a line with an address means another host");
        assert_eq!((hostfile.hosts[1].options.speed, hostfile.hosts[1].options.slots), (Some(7), Some(5)));
        let error = recognised("me sp=1\nlocalhost sp=2\n").unwrap_err();
        assert_eq!(error, "localhost: this host is in another line with other options");
        let text = "$ localhost\n127.0.0.1 via=local\n";
        assert_eq!(recognised(text), Ok(Hostfile::parse(text).unwrap()));
    }
}
