//! Measurements of what can be sent to another host.

use crate::Core;
use crate::probing::Next;
use bytes::Bytes;
use pvm_wire::HostIndex;
use pvm_wire::daemon::{Blob, DaemonMsg, ToMaster};

/// Bytes of one message of a burst. They are shared by all.
const PIECE: usize = 16 << 10;
static ZEROS: [u8; PIECE] = [0; PIECE];

impl Core {
    /// The master wants to know what this host can send to another one.
    pub(crate) fn on_measure_link(&mut self, to: HostIndex) {
        if to == self.config.index || !self.hosts.contains(to) {
            return self.tell_master(ToMaster::LinkMeasured { to, bandwidth: None });
        }
        self.probing.begin(to, self.now);
        self.tell(to, DaemonMsg::Probe { load: Blob::default(), last: true });
    }

    /// Another host measures what it can send to this one.
    pub(crate) fn on_probe(&mut self, host: HostIndex, last: bool) {
        if last {
            self.tell(host, DaemonMsg::ProbeHeard);
        }
    }

    /// A host has taken all that was sent to measure it.
    pub(crate) fn on_probe_heard(&mut self, host: HostIndex) {
        match self.probing.heard(host, self.now) {
            Some(Next::Burst(bytes)) => {
                for sent in (0..bytes).step_by(PIECE) {
                    let load = Blob(Bytes::from_static(&ZEROS[..PIECE.min(bytes - sent)]));
                    self.tell(host, DaemonMsg::Probe { load, last: sent + PIECE >= bytes });
                }
            }
            Some(Next::Measured(bits)) => {
                self.tell_master(ToMaster::LinkMeasured { to: host, bandwidth: Some(bits) });
            }
            None => {}
        }
    }

    /// A host is lost, which may have been measured.
    pub(crate) fn probing_host_gone(&mut self, host: HostIndex) {
        if self.probing.host_gone(host) {
            self.tell_master(ToMaster::LinkMeasured { to: host, bandwidth: None });
        }
    }
}
