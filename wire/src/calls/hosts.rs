//! Hosts: which there are, how they are, adding and deleting them.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`Config`], TM_CONFIG | – | [`HostList`] |
//! | [`AddHosts`], TM_ADDHOST | int n, n × str | [`HostList`] |
//! | [`DeleteHosts`], TM_DELHOST | int n, n × str | int n, n × int |
//! | [`HostStatus`], TM_MSTAT | str | int 0 |
//! | [`HostClock`], TM_HOSTSYNC | int host | int 0, [`Clock`] |
//! | [`Tickle`], TM_TICKLE | int n, n × int | int m, m × int |
//! | [`Halt`], TM_HALT | – | none |
//! | [`StartUp`], TMX | – | [`HostList`] |
//! | [`Adding`], TMX | – | int 0, [`Additions`] |

use super::{Field, answers, fields, requests};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::codes::{Tm, Tmx};
use crate::tid::Tid;
use serde::{Deserialize, Serialize};

requests! {
    /// The hosts of the virtual machine (`pvm_config`).
    Config = Tm::Config; {}

    /// Add hosts (`pvm_addhosts`). Answered when all are settled.
    AddHosts = Tm::AddHost; {
        /// Their names, with options as in a hostfile.
        hosts: Vec<String>,
    }

    /// Delete hosts (`pvm_delhosts`).
    DeleteHosts = Tm::DelHost; {
        /// Their names.
        names: Vec<String>,
    }

    /// Whether a host is in the virtual machine and answers (`pvm_mstat`).
    HostStatus = Tm::Mstat; {
        /// Its name; `.` is the daemon's own.
        name: String,
    }

    /// A host's time of day (`pvm_hostsync`).
    HostClock = Tm::HostSync; {
        /// The host.
        host: Tid,
    }

    /// A service of the daemon to developers (`pvm_tickle`).
    Tickle = Tm::Tickle; {
        /// Which, and its arguments.
        args: Vec<i32>,
    }

    /// End the virtual machine (`pvm_halt`). In place of an answer the connection ends.
    Halt = Tm::Halt; {}

    /// What became of the hostfile's hosts. Answered when all are settled.
    StartUp = Tmx::StartUp; {}

    /// How far the hosts are that are being added. Answered at once.
    Adding = Tmx::Adding; {}
}

answers! {
    Config => HostList, |_| "the list of hosts";
    AddHosts => HostList, |_| "adding hosts";
    DeleteHosts => Vec<i32>, |_| "removing hosts";
    HostStatus => 0, (), |call| format!("the state of {}", call.name);
    HostClock => 0, Clock, |call| format!("the clock of host {}", call.host);
    Tickle => Vec<i32>, |_| "the daemon's service";
    Halt => (), |_| "ending the virtual machine";
    StartUp => HostList, |_| "the start of the hostfile's hosts";
    Adding => 0, Additions, |_| "the hosts that are being added";
}

fields! {
    /// The time of day.
    Clock {
        /// Seconds since 1970.
        seconds: i32,
        /// And microseconds.
        micros: i32,
    }

    /// One host in a [`HostList`].
    HostRecord {
        /// The host's tid (index in its place, no daemon bit); in answers to [`AddHosts`] an error code instead.
        tid: i32,
        /// Its name in the virtual machine.
        name: String,
        /// Its architecture.
        arch: String,
        /// Its speed as the hostfile gives it.
        speed: i32,
        /// Its data signature.
        signature: u32,
    }
}

/// How far the hosts are that are being added. All are 0 if none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Additions {
    /// Hosts to be added.
    pub total: u32,
    /// Those whose daemons run and have a link to the master.
    pub linked: u32,
    /// Those that could not be started.
    pub failed: u32,
}

impl Field for Additions {
    const LEAST: usize = 12;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        [self.total, self.linked, self.failed].iter().fold(body, |body, count| count.write(body))
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let [total, linked, failed] = [u32::read(reader)?, u32::read(reader)?, u32::read(reader)?];
        Ok(Self { total, linked, failed })
    }
}

/// Hosts, or what became of hosts that were to be added: int n, int formats, n × [`HostRecord`], at most n × str.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostList {
    /// Number of different data signatures (0 in answers to [`AddHosts`]).
    pub formats: i32,
    /// The hosts.
    pub hosts: Vec<HostRecord>,
    /// Per host why it could not be added, for people; only in answers to [`AddHosts`] and [`StartUp`], and only this system's
    /// daemon says that.
    pub reasons: Vec<String>,
}

impl Field for HostList {
    const LEAST: usize = 8;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        let body = body.int(self.hosts.len() as i32).int(self.formats);
        let body = self.hosts.iter().fold(body, |body, host| host.write(body));
        self.reasons.iter().fold(body, BodyWriter::str)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let count = reader.count(HostRecord::LEAST)?;
        let formats = reader.int()?;
        let hosts = (0..count).map(|_| HostRecord::read(reader)).collect::<Result<_, _>>()?;
        let reasons = (0..count).map_while(|_| String::read(reader).ok()).collect();
        Ok(Self { formats, hosts, reasons })
    }
}
