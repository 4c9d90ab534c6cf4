//! A control group in which the daemon may make others, from the user's service manager: as `systemd-run --user --scope -p Delegate=yes`
//! gets one.
//!
//! After a login a user's processes are in a group that belongs to the system. Tasks can have no groups below it, so teams cannot take turns
//! by weights, and limits of memory hold for single processes only.

use crate::io::control_group::{self, Hierarchy};
use rustix::fs::{Access, access};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;
use tokio::process::{ChildStdin, Command};
use tokio::time::{sleep, timeout};
use tracing::info;

/// How long the manager may take, and the kernel's word that it is done.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// Whether the daemon asks for a group (`PVM_SCOPE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Where it is in the group of a login, and may not make groups.
    #[default]
    Auto,
    /// Never.
    None,
}

impl FromStr for Scope {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            _ => Err(()),
        }
    }
}

/// Keeps the login that the daemon has left. The user's manager ends with the last login, and all groups that are its own with it. A login
/// lasts while a process is in its group: one that ends when this is dropped, or with the daemon.
#[derive(Debug)]
pub struct Login {
    _keeper: ChildStdin,
}

/// Moves the daemon to a group of its own, if that is wanted and possible.
pub async fn enter(scope: Scope) -> Option<Login> {
    let uid = rustix::process::getuid().as_raw();
    let groups = control_group::place(Hierarchy::Unified).filter(|_| scope == Scope::Auto)?;
    if !is_of_login(&groups.own, uid) || access(groups.own.join("cgroup.procs"), Access::WRITE_OK).is_ok() {
        return None;
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.unwrap_or_else(|| format!("/run/user/{uid}").into());
    match ask(&runtime).await {
        Ok(login) => {
            let group = control_group::place(Hierarchy::Unified).map(|place| place.own);
            info!(?group, "has a control group of its own");
            Some(login)
        }
        Err(reason) => {
            info!(reason, "has no control group of its own: there is no help of the user's service manager");
            None
        }
    }
}

/// Whether a group is that of a login, and not of a batch system, say, whose limits have to hold.
fn is_of_login(group: &Path, uid: u32) -> bool {
    let slice = format!("user-{uid}.slice");
    group.components().any(|part| part.as_os_str() == slice.as_str())
}

async fn ask(runtime: &Path) -> Result<Login, String> {
    let bus = runtime.join("bus");
    if !bus.exists() {
        return Err(format!("there is no {}", bus.display()));
    }
    let mut keeper = Command::new("cat");
    keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut keeper = keeper.spawn().map_err(failed("cat"))?;
    let stdin = keeper.stdin.take().ok_or("cat has no input")?;
    let pid = std::process::id();
    let unit = format!("pvmd-{pid}.scope");
    let mut busctl = Command::new("busctl");
    busctl.args(request(&unit, pid)).env("XDG_RUNTIME_DIR", runtime).env_remove("DBUS_SESSION_BUS_ADDRESS");
    busctl.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(PATIENCE, busctl.output()).await;
    let output = output.map_err(|_| format!("busctl does not end within {PATIENCE:?}"))?;
    let output = output.map_err(failed("busctl"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let moved = timeout(PATIENCE, is_in(&unit)).await;
    moved.map_err(|_| format!("this process is not in {unit} after {PATIENCE:?}"))?;
    Ok(Login { _keeper: stdin })
}

fn failed<E: Display>(program: &str) -> impl Fn(E) -> String {
    move |error| format!("{program}: {error}")
}

/// The arguments of busctl that have the manager make a scope with this process in it.
fn request(unit: &str, pid: u32) -> Vec<String> {
    let method = "--user --quiet call org.freedesktop.systemd1 /org/freedesktop/systemd1 \
                  org.freedesktop.systemd1.Manager StartTransientUnit ssa(sv)a(sa(sv))";
    let properties = format!("PIDs au 1 {pid} Delegate b true CollectMode s inactive-or-failed");
    let words = format!("{method} {unit} fail 4 Description s pvmd {properties} 0");
    words.split_whitespace().map(str::to_owned).collect()
}

/// Waits until this process is in the unit's group: the manager answers before.
async fn is_in(unit: &str) {
    while !control_group::place(Hierarchy::Unified).is_some_and(|place| place.own.ends_with(unit)) {
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_group_of_a_login_is_left() {
        let root = Path::new("/sys/fs/cgroup");
        for (group, expected) in [
            ("user.slice/user-1000.slice/session-3.scope", true),
            ("user.slice/user-1000.slice/user@1000.service/app.slice/x.scope", true),
            ("user.slice/user-1001.slice/session-3.scope", false),
            ("system.slice/slurmstepd.scope/job_7", false),
            ("", false),
        ] {
            assert_eq!(is_of_login(&root.join(group), 1000), expected, "{group}");
        }
    }

    #[test]
    fn the_manager_is_asked_for_a_scope_with_this_process() {
        let words = request("pvmd-7.scope", 7).join(" ");
        let unit = "StartTransientUnit ssa(sv)a(sa(sv)) pvmd-7.scope fail";
        let properties = "4 Description s pvmd PIDs au 1 7 Delegate b true CollectMode s inactive-or-failed";
        assert!(words.ends_with(&format!(" {unit} {properties} 0")), "{words}");
    }
}
