//! Graphical sessions of the login manager: their desktops tell it whether they are in use.
//!
//! The manager's own `IdleHint` is of no use. It takes in the sessions of terminals, which it calls idle half an hour after their last
//! input, whatever the rule says, and sessions without a terminal, which it never calls idle: the daemon's own is one if it was started by
//! ssh. Terminals are watched by themselves.

use super::{Complaint, Signs, Told};
use crate::io::settings::is_executable;
use pvmd_core::event::OwnerSign;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::{sleep, timeout};
use tracing::warn;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// Between two looks where they fail.
const RETRY: Duration = Duration::from_secs(60);
/// How long the program may take.
const LIMIT: Duration = Duration::from_secs(2);
/// The program that shows sessions.
const PROGRAM: &str = "loginctl";
/// This folder is there if the login manager runs.
const SEATS: &str = "/run/systemd/seats";
/// Kinds of sessions whose desktops tell whether they are in use.
const GRAPHICAL: [&str; 3] = ["x11", "wayland", "mir"];
/// What is asked of each session.
const PROPERTIES: [&str; 4] =
    ["--property=Class", "--property=Type", "--property=State", "--property=IdleHint"];

/// The program, where there is a login manager.
pub(super) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").filter(|_| Path::new(SEATS).exists())?;
    std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|file| is_executable(file))
}

/// Tells for ever whether a session is in use; not at all without a program.
pub(super) async fn watch(signs: &Signs, program: Option<PathBuf>) {
    let Some(program) = program else { return };
    let (mut told, mut complaint) = (Told::default(), Complaint::default());
    loop {
        let looked = match look(&program).await {
            // A session may have ended between the two questions.
            Err(_) => look(&program).await,
            done => done,
        };
        if let Err(reason) = &looked {
            if complaint.is_new() {
                warn!(program = %program.display(), reason, "sessions do not tell of the owner of this host");
            }
        } else {
            complaint.is_over();
        }
        let pause = if looked.is_ok() { LOOK } else { RETRY };
        if let Some(is_used) = told.news(looked.unwrap_or(false)) {
            signs.tell(OwnerSign::Session(is_used)).await;
        }
        sleep(pause).await;
    }
}

/// Whether a session is in use.
async fn look(program: &Path) -> Result<bool, String> {
    let listed = run(program, &["list-sessions", "--no-legend", "--no-pager"]).await?;
    let ids = ids(&listed);
    if ids.is_empty() {
        return Ok(false);
    }
    let arguments: Vec<&str> =
        ["show-session", "--no-pager"].into_iter().chain(PROPERTIES).chain(ids).collect();
    Ok(is_used(&run(program, &arguments).await?))
}

/// What the program prints.
async fn run(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = match timeout(LIMIT, command.output()).await {
        Err(_) => return Err(format!("no answer within {LIMIT:?}")),
        Ok(output) => output.map_err(|error| pvm_wire::plain(&error))?,
    };
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, complaint.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first word of each line.
fn ids(listed: &str) -> Vec<&str> {
    let words = listed.lines().filter_map(|line| line.split_ascii_whitespace().next());
    words.filter(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric())).collect()
}

/// From the properties of all sessions, between which there are empty lines.
fn is_used(shown: &str) -> bool {
    shown.split("\n\n").any(|session| {
        let property = |name: &str| {
            let mut values =
                session.lines().filter_map(|line| line.split_once('=')).filter(|(key, _)| *key == name);
            values.next().map_or("", |(_, value)| value)
        };
        // Not the screen at which users log in, which may never tell that it is idle.
        property("Class").starts_with("user")
            && GRAPHICAL.contains(&property("Type"))
            && property("State") != "closing"
            && property("IdleHint") == "no"
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::next;
    use super::*;
    use crate::io::captured_log::CapturedLog;
    use std::os::unix::fs::PermissionsExt;
    use tokio::sync::mpsc;

    fn session(class: &str, kind: &str, state: &str, idle: &str) -> String {
        format!("Type={kind}\nClass={class}\nState={state}\nIdleHint={idle}\n")
    }

    #[test]
    fn sessions_in_use_are_told_from_others() {
        for (session, expected) in [
            (session("user", "wayland", "active", "no"), true),
            (session("user", "x11", "online", "no"), true),
            (session("user", "x11", "active", "yes"), false),
            (session("user", "x11", "closing", "no"), false),
            (session("greeter", "x11", "active", "no"), false),
            (session("user", "tty", "active", "no"), false),
            (session("manager", "unspecified", "active", "no"), false),
            (String::new(), false),
        ] {
            assert_eq!(is_used(&session), expected, "{session}");
        }
        let both = [session("user", "tty", "active", "yes"), session("user", "x11", "active", "no")];
        assert!(is_used(&both.join("\n")));
        // They are not mixed.
        let none = [session("user", "x11", "active", "yes"), session("user", "tty", "active", "no")];
        assert!(!is_used(&none.join("\n")));
    }

    #[test]
    fn sessions_have_names() {
        assert_eq!(ids("   c1 1000 me   seat0 tty2\n     7 1000 me         pts/0\n\n"), ["c1", "7"]);
        assert!(ids("").is_empty() && ids("--all x\n").is_empty());
    }

    fn script(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join(PROGRAM);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[tokio::test]
    async fn changes_of_sessions_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let answer = folder.path().join("answer");
        std::fs::write(&answer, session("user", "x11", "active", "no")).unwrap();
        let list = "if test $1 = list-sessions; then echo '  c1 1000 me seat0 tty2'; exit; fi";
        let show = format!("test \"$1 $7\" = 'show-session c1' && cat {}", answer.display());
        let program = script(folder.path(), &format!("{list}\n{show}"));
        let (input, mut signs) = mpsc::channel(4);
        let watching = tokio::spawn(async move { watch(&Signs(input), Some(program)).await });
        assert_eq!(next(&mut signs).await, OwnerSign::Session(true));
        std::fs::write(&answer, session("user", "x11", "active", "yes")).unwrap();
        assert_eq!(next(&mut signs).await, OwnerSign::Session(false));
        watching.abort();
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed_and_complained_of_once() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), "exec sleep 1000");
        let (log, _guard) = CapturedLog::start();
        let (input, mut signs) = mpsc::channel(4);
        let watching = async { watch(&Signs(input), Some(program)).await };
        tokio::select! {
            () = watching => {}
            sign = next(&mut signs) => assert_eq!(sign, OwnerSign::Session(false)),
        }
        assert!(log.text().contains("no answer within 2s"), "{}", log.text());
    }

    #[tokio::test]
    async fn a_program_that_fails_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let failed = look(&script(folder.path(), "echo 'no bus' >&2; exit 1")).await.unwrap_err();
        assert_eq!(failed, "exit status: 1: no bus");
        assert_eq!(look(&script(folder.path(), "true")).await, Ok(false));
        assert!(look(&folder.path().join("none")).await.is_err());
    }
}
