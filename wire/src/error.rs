//! PVM's error codes: number, name and sentence of each in one table.

use serde::{Deserialize, Serialize};

macro_rules! errors {
    ($($code:literal $name:ident $text:literal: $doc:literal;)*) => {
        /// An error as PVM's calls return it: a negative number in C, this in Rust.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
        #[repr(i32)]
        pub enum PvmError {
            $(#[doc = $doc] #[error($text)] $name = $code,)*
        }

        impl PvmError {
            /// Every error, in the order of the codes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The error with this code, if PVM has one.
            pub fn from_code(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// The code, a negative number.
            pub fn code(self) -> i32 {
                self as i32
            }

            /// The constant's name in `pvm3.h`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => concat!("Pvm", stringify!($name)),)* }
            }

            /// The error with this name in `pvm3.h`.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|error| error.name() == name)
            }

            /// PVM's text for it (`pvm_errlist`).
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

errors! {
    -2 BadParam "Bad parameter": "An argument is outside what the call accepts.";
    -3 Mismatch "Parameter mismatch": "Members of a group disagree about a count.";
    -4 Overflow "Value too large": "A value does not fit the encoding.";
    -5 NoData "End of buffer": "The message has less left than was asked for.";
    -6 NoHost "No such host": "The virtual machine has no such host, or its name cannot be resolved.";
    -7 NoFile "No such file": "The program to spawn was not found or is not executable.";
    -8 Denied "Permission denied": "The entry belongs to someone else.";
    -10 NoMem "Malloc failed": "A memory limit was reached.";
    -12 BadMsg "Can't decode message": "The message is in a format this host cannot read.";
    -14 SysErr "Can't contact local daemon": "No daemon runs here, or the connection to it broke.";
    -15 NoBuf "No current buffer": "There is no active message buffer.";
    -16 NoSuchBuf "No such buffer": "There is no buffer with this id.";
    -17 NullGroup "Null group name": "A group needs a name.";
    -18 DupGroup "Already in group": "The task is already a member.";
    -19 NoGroup "No such group": "There is no group of this name.";
    -20 NotInGroup "Not in group": "The task is not a member.";
    -21 NoInst "No such instance": "The group has no member with this number.";
    -22 HostFail "Host failed": "The host died while it was asked.";
    -23 NoParent "No parent task": "The task was not spawned by another.";
    -24 NotImpl "Not implemented": "The function is not available here.";
    -25 DSysErr "Pvmd system error": "The daemon met an error of the operating system.";
    -26 BadVersion "Version mismatch": "The daemons speak different protocols.";
    -27 OutOfRes "Out of resources": "A limit of processes, descriptors or ids was reached.";
    -28 DupHost "Duplicate host": "The host is already in the virtual machine.";
    -29 CantStart "Can't start pvmd": "The daemon on the host could not be started.";
    -30 Already "Already in progress": "The same operation is under way.";
    -31 NoTask "No such task": "There is no task with this id.";
    -32 NotFound "Not Found": "There is no such entry.";
    -33 Exists "Already Exists": "The entry or handler exists already.";
    -34 HostrNMstr "Hoster must run on master host": "A hoster can only register on the master's host.";
    -35 ParentNotSet "Spawning parent set PvmNoParent": "The parent asked not to be known.";
    -36 IPLoopback "Master Host IP Address is Loopback! (See pvm3/Readme)": "Other hosts cannot reach the master's address.";
}

/// PVM's text for any code: "Error n" for unused ones, "Unknown Error" outside the table.
pub fn text(code: i32) -> String {
    match PvmError::from_code(code) {
        Some(error) => error.text().to_owned(),
        None if (-36..=0).contains(&code) => format!("Error {}", -code),
        None => "Unknown Error".to_owned(),
    }
}

/// A count or id that is negative when it is an error, as PVM's replies carry it.
pub fn check(value: i32) -> Result<i32, PvmError> {
    if value >= 0 { Ok(value) } else { Err(PvmError::from_code(value).unwrap_or(PvmError::DSysErr)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_finds_its_error_and_text() {
        for &error in PvmError::ALL {
            assert_eq!(PvmError::from_code(error.code()), Some(error));
            assert_eq!(text(error.code()), error.to_string());
        }
        assert_eq!(text(0), "Error 0");
        assert_eq!(text(-9), "Error 9");
        assert_eq!(text(-37), "Unknown Error");
        assert_eq!(PvmError::NoFile.name(), "PvmNoFile");
        assert_eq!(check(-31), Err(PvmError::NoTask));
        assert_eq!(check(7), Ok(7));
    }
}
