//! Who uses this process.

/// The login name: `USER` or `LOGNAME`, else the user's number. Jobs count to its share of the machine.
pub fn login_name() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| rustix::process::getuid().as_raw().to_string())
}
