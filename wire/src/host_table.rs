//! The hosts of a virtual machine, and their table as bytes.

use crate::blob::Blob;
use crate::codec::{self, CodecError};
use crate::tid::HostIndex;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A host as the host table has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostEntry {
    /// Its place.
    pub index: HostIndex,
    /// Its name in the virtual machine.
    pub name: String,
    /// Its architecture.
    pub arch: String,
    /// Its speed as the hostfile gives it (1000 if it does not).
    pub speed: i32,
    /// `C_i`, for placement; 1000 is a reference core.
    pub capability: f64,
    /// Tasks above which it starts none.
    pub task_limit: u32,
    /// Its data signature.
    pub signature: u32,
    /// The cluster that it belongs to.
    pub cluster: Option<ClusterName>,
    /// Where its daemon listens; `None` for the master, which dials and is never dialled.
    pub address: Option<SocketAddr>,
}

/// A cluster of hosts (`cluster=` of the hostfile).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterName {
    /// Its name.
    pub name: String,
    /// The domain of clusters that it belongs to (`domain=` of its link).
    pub domain: Option<String>,
}

/// A table of hosts as its bytes: thousands of copies for thousands of hosts share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTable(Blob);

impl HostTable {
    /// The bytes of these entries.
    ///
    /// # Errors
    ///
    /// They are longer than a message may be.
    pub fn of(entries: &[HostEntry]) -> Result<Self, CodecError> {
        let mut kinds: Vec<HostKind> = Vec::new();
        let hosts = entries.iter().map(|entry| {
            let kind = HostKind::of(entry);
            let known = kinds.iter().position(|other| *other == kind);
            let kind = known.unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            TableHost(entry.index, entry.name.clone(), kind, entry.address)
        });
        let hosts: Vec<TableHost> = hosts.collect();
        Ok(Self(Blob(codec::encode(&(kinds, hosts))?.into())))
    }

    /// The entries.
    ///
    /// # Errors
    ///
    /// The bytes are no table.
    pub fn entries(&self) -> Result<Vec<HostEntry>, CodecError> {
        if self.0.0.is_empty() {
            return Ok(Vec::new());
        }
        let (kinds, hosts): (Vec<HostKind>, Vec<TableHost>) = codec::decode(&self.0.0)?;
        let entry = |TableHost(index, name, kind, address)| {
            let HostKind { arch, speed, capability, task_limit, signature, cluster } =
                HostKind::clone(kinds.get(kind)?);
            Some(HostEntry { index, name, arch, speed, capability, task_limit, signature, cluster, address })
        };
        hosts.into_iter().map(entry).collect::<Option<_>>().ok_or(CodecError::Reference)
    }
}

/// A host of a table: its place, its name, its kind by number, and its address.
#[derive(Serialize, Deserialize)]
struct TableHost(HostIndex, String, usize, Option<SocketAddr>);

/// What many hosts have in common: a table has it once.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct HostKind {
    arch: String,
    speed: i32,
    capability: f64,
    task_limit: u32,
    signature: u32,
    cluster: Option<ClusterName>,
}

impl HostKind {
    fn of(entry: &HostEntry) -> Self {
        let HostEntry { arch, speed, capability, task_limit, signature, cluster, .. } = entry.clone();
        Self { arch, speed, capability, task_limit, signature, cluster }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_many_hosts_is_short() {
        let entry = |index: u32| HostEntry {
            index: HostIndex::new(index).unwrap(),
            name: format!("node{index:04}"),
            arch: "LINUX64".to_owned(),
            speed: 1000 * (index % 3) as i32,
            capability: 1000.0,
            task_limit: 3948,
            signature: 0x0408_8841,
            cluster: Some(ClusterName {
                name: format!("rack{}", index % 2),
                domain: Some("hall".to_owned()),
            }),
            address: Some(([10, 0, 0, 1], 40_000).into()),
        };
        let entries: Vec<HostEntry> = (1..=4000).map(entry).collect();
        let table = HostTable::of(&entries).unwrap();
        assert!(table.0.0.len() <= 22 * entries.len(), "{} bytes", table.0.0.len());
        assert_eq!(table.entries().unwrap(), entries);
        assert_eq!(HostTable::default().entries().unwrap(), []);
        let hosts = vec![TableHost(HostIndex::MASTER, "a".to_owned(), 1, None)];
        let wrong = codec::encode(&(vec![HostKind::of(&entries[0])], hosts)).unwrap();
        assert!(matches!(HostTable(Blob(wrong.into())).entries(), Err(CodecError::Reference)));
    }
}
