//! Settings of a task in its environment, read when it enrols. docs/settings.md lists the variables.

use crate::{Error, Result};
use pvm_wire::PvmError;
use pvm_wire::limits::SHARED_MAX;
use std::env::VarError;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Default of `PVM_QUEUE_MAX_BYTES`.
const QUEUE_MAX: usize = 4 * 1024 * 1024 * 1024;

/// More than any machine has.
const MEMORY_MAX: u64 = 1 << 40;

/// Limits of a task's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// `PVM_SHM`: whether memory is shared with other tasks of the host.
    pub(super) shares: bool,
    /// `PVM_DIRECT`: whether tasks of other hosts are sent to on direct routes without being asked for.
    pub(super) direct: bool,
    /// `PVM_SHM_MAX`, bytes.
    pub(super) shared_max: u64,
    /// `PVM_QUEUE_MAX_BYTES`.
    pub(super) queue_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { shares: true, direct: true, shared_max: SHARED_MAX, queue_max: QUEUE_MAX }
    }
}

impl Settings {
    /// From this process's environment.
    pub(super) fn from_env() -> Result<Self> {
        Self::read(|name| std::env::var(name))
    }

    fn read(variable: impl Fn(&str) -> std::result::Result<String, VarError>) -> Result<Self> {
        let default = Self::default();
        let shares = number(&variable, "PVM_SHM", u8::from(default.shares), 0..=1)? == 1;
        let direct = number(&variable, "PVM_DIRECT", u8::from(default.direct), 0..=1)? == 1;
        let shared_max = number(&variable, "PVM_SHM_MAX", default.shared_max, 0..=MEMORY_MAX)?;
        let queue_max = number(&variable, "PVM_QUEUE_MAX_BYTES", default.queue_max, 0..=MEMORY_MAX as usize)?;
        Ok(Self { shares, direct, shared_max, queue_max })
    }
}

/// The value of a variable; the default if it is not set or empty.
fn number<T: FromStr + PartialOrd + Display>(
    variable: impl Fn(&str) -> std::result::Result<String, VarError>,
    name: &str,
    default: T,
    range: RangeInclusive<T>,
) -> Result<T> {
    let value = match variable(name) {
        Ok(value) if value.is_empty() => return Ok(default),
        Ok(value) => value,
        Err(VarError::NotPresent) => return Ok(default),
        Err(VarError::NotUnicode(value)) => value.to_string_lossy().into_owned(),
    };
    value.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let text =
            format!("{name}={value}: must be a whole number from {} to {}", range.start(), range.end());
        Error::new(PvmError::SysErr, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn with(name: &str, value: &str) -> Result<Settings> {
        Settings::read(|asked| if asked == name { Ok(value.to_owned()) } else { Err(VarError::NotPresent) })
    }

    #[test]
    fn unset_variables_have_defaults() {
        assert_eq!(with("PVM_SHM", "").unwrap(), Settings::default());
        assert!(!with("PVM_SHM", "0").unwrap().shares);
        assert!(!with("PVM_DIRECT", "0").unwrap().direct);
        assert_eq!(with("PVM_SHM_MAX", "4000000").unwrap().shared_max, 4_000_000);
        assert_eq!(with("PVM_QUEUE_MAX_BYTES", "10000").unwrap().queue_max, 10_000);
    }

    #[test]
    fn an_error_names_variable_value_and_range() {
        for (name, value, range) in [
            ("PVM_SHM", "yes", "from 0 to 1"),
            ("PVM_SHM", "2", "from 0 to 1"),
            ("PVM_SHM_MAX", "1G", "from 0 to 1099511627776"),
            ("PVM_SHM_MAX", "1099511627777", "from 0 to 1099511627776"),
            ("PVM_QUEUE_MAX_BYTES", "-1", "from 0 to 1099511627776"),
        ] {
            let text = with(name, value).unwrap_err().to_string();
            assert_eq!(text, format!("{name}={value}: must be a whole number {range}"));
        }
    }

    #[test]
    fn a_value_need_not_be_text() {
        let unreadable = OsString::from_vec(vec![b'9', 0xff]);
        let error = Settings::read(|_| Err(VarError::NotUnicode(unreadable.clone()))).unwrap_err();
        assert_eq!(error.to_string(), "PVM_SHM=9\u{fffd}: must be a whole number from 0 to 1");
    }
}
