//! Hostfiles, and hosts as `pvm_addhosts` names them.

use pvmd_core::hostfile::{Hostfile, parse_host};

/// Reads bytes as a hostfile, and as a host.
pub fn read(bytes: &[u8]) {
    match Hostfile::parse(bytes) {
        Ok(hostfile) => {
            for host in hostfile.hosts {
                // What has a meaning at the start of a line cannot be written as a host.
                if let Ok(again) = parse_host(&host.to_string()) {
                    assert_eq!(again.name, host.name);
                }
            }
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            assert!(!mistakes.iter().any(|mistake| mistake.to_string().contains('\0')));
        }
    }
    let _ = parse_host(&String::from_utf8_lossy(bytes));
}
