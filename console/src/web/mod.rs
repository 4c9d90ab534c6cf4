//! `pvm web`: the virtual machine as a page in a browser.
//!
//! One thread is an enrolled task and collects (`collect.rs`); a runtime serves connections (`server.rs`); between them is the hub (`hub.rs`).
//! The page itself is in `page/`.

mod body;
mod collect;
mod deadline;
mod guard;
mod hub;
mod page;
mod server;
mod snapshot;
mod spans;
mod sse;
mod tls;

use crate::cli::WebArgs;
use crate::timeline::Target;
use anyhow::{Context, Result, bail};
use collect::Collector;
use guard::Guard;
use hub::Hub;
use pvm3::Task;
use server::Server;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// How long the last events may take to reach the viewers.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How long after a SIGTERM the daemon may be there, if the machine ends: it sends one to all tasks.
const HALT: Duration = Duration::from_millis(500);

/// Serves until Ctrl-C, or until the machine ends; returns the exit code.
pub fn run(args: &WebArgs) -> Result<u8> {
    let authority = authority_file(args)?;
    let mut task = Task::enrol_as(Some("pvm web"), true).context("cannot join a virtual machine")?;
    if !task.daemon_is_ours() {
        bail!(
            "the daemon here is that of PVM 3.4 or of another release, which cannot be asked for loads and queues"
        );
    }
    let listener =
        TcpListener::bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    listener.set_nonblocking(true).context("cannot listen")?;
    let address = listener.local_addr().context("cannot listen")?;
    let guard = Guard::new(address.ip().is_loopback()).context("no random numbers")?;
    let tls = announce(&mut task, args, address, guard.token(), authority)?;
    let interval = Duration::from_secs_f64(args.interval);
    let runtime =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().context("cannot start threads")?;
    let hub = Arc::new(Hub::default());
    let (ended, machine) = oneshot::channel();
    let collecting = Arc::clone(&hub);
    let collector = thread::spawn(move || {
        let collected = collect(task, &collecting, interval);
        // The other end goes when this program ends.
        let _ = ended.send(collected);
    });
    let server = Arc::new(Server::new(guard, Arc::clone(&hub), 2 * interval));
    let code = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).context("cannot listen")?;
        tokio::spawn(server.run(listener, tls));
        until_the_end(machine, &hub).await
    })?;
    let _ = collector.join();
    runtime.shutdown_timeout(LAST_WORDS);
    Ok(code)
}

/// Where the authority's certificate goes, if it is wanted. What is there does not change yet.
fn authority_file(args: &WebArgs) -> Result<Option<Target>> {
    let has_certificate = !args.listen.ip().is_loopback();
    if !has_certificate && (args.authority.is_some() || !args.names.is_empty()) {
        bail!(
            "--authority and --name are for a page with a certificate, and {} is a loopback address: see --listen",
            args.listen.ip()
        );
    }
    args.authority.as_deref().map(Target::open).transpose()
}

/// Prints the address; on another interface than loopback, connections are encrypted.
fn announce(
    task: &mut Task,
    args: &WebArgs,
    address: SocketAddr,
    token: &str,
    authority: Option<Target>,
) -> Result<Option<TlsAcceptor>> {
    let (text, tls) = if address.ip().is_loopback() {
        (format!("http://{address}/{token}/\n"), None)
    } else {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = if address.ip().is_unspecified() { host.clone() } else { shown(address.ip()) };
        let identity = tls::identity(task, &tls::names(host, address.ip(), &args.names), authority)?;
        let mut text = format!("https://{name}:{}/{token}/\n", address.port());
        let fingerprints =
            [("its certificate", identity.fingerprint), ("the machine's authority", identity.authority)];
        for (of, fingerprint) in fingerprints {
            let _ = writeln!(text, "SHA-256 fingerprint of {of}: {fingerprint}");
        }
        (text, Some(identity.acceptor))
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to standard output")?;
    Ok(tls)
}

/// An address as a part of a URL.
fn shown(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Collects until the hub ends, or the daemon is gone: then viewers are told.
fn collect(mut task: Task, hub: &Hub, interval: Duration) -> Result<()> {
    let collected = Collector::new(hub, interval).run(&mut task);
    match &collected {
        Ok(()) => {
            // Without a daemon there is nothing to leave.
            let _ = task.exit();
        }
        Err(_) => hub.end(r#"{"reason":"machine"}"#),
    }
    collected
}

/// Waits for a signal or the end of the machine; the exit code.
async fn until_the_end(machine: oneshot::Receiver<Result<()>>, hub: &Hub) -> Result<u8> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle signals")?;
    let mut machine = std::pin::pin!(machine);
    let lost = tokio::select! {
        _ = interrupt.recv() => None,
        _ = terminate.recv() => tokio::time::timeout(HALT, machine.as_mut()).await.ok(),
        ended = machine.as_mut() => Some(ended),
    };
    if let Some(Ok(Err(error))) = lost {
        eprintln!("pvm: the virtual machine has ended ({})", crate::plain(&error));
    }
    hub.end(r#"{"reason":"server"}"#);
    // The connections of viewers end with their last event.
    tokio::time::sleep(LAST_WORDS).await;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parts_of_urls() {
        assert_eq!(shown("10.0.0.1".parse().unwrap()), "10.0.0.1");
        assert_eq!(shown("fe80::1".parse().unwrap()), "[fe80::1]");
    }
}
