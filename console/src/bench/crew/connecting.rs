//! Connections by plain TCP between workers, as their parent has them made.

use super::{Crew, Job, Outcome, Problem, Role};
use std::fs::File;
use std::io::Read;

impl Crew {
    /// Makes the connection between the main workers of two hosts, if there is none yet.
    pub fn connect(&mut self, a: usize, b: usize) -> Result<(), Problem> {
        if let Some(made) = self.wires.get(&(a, b)) {
            return made.clone();
        }
        let made = self.try_connect(a, b).map_err(|problem| match problem {
            // That hosts do not reach each other by TCP is no failure of the virtual machine.
            Problem::Failed(reason) => {
                let [from, to] = [b, a].map(|host| &self.hosts[host].info.name);
                Problem::LeftOut(format!("{from} does not reach {to} by TCP: {reason}"))
            }
            other => other,
        });
        self.wires.insert((a, b), made.clone());
        made
    }

    fn try_connect(&mut self, a: usize, b: usize) -> Result<(), Problem> {
        let (near, far) = (self.worker(a, Role::Main)?, self.worker(b, Role::Main)?);
        let towards = self.hosts[b].hello.as_ref().map_or(0, |hello| hello.address);
        let outcomes = self.order(vec![(near, Job::Listen { towards })])?;
        let Some(Outcome::Bound(address)) = outcomes.first().copied() else {
            return Err(Problem::Failed("the worker does not listen".into()));
        };
        let token = token().map_err(|error| Problem::Failed(format!("no random numbers: {error}")))?;
        let accept = Job::Accept { peer: far.raw(), token };
        let connect = Job::Connect { peer: near.raw(), address, token };
        self.order(vec![(far, connect), (near, accept)]).map(drop)
    }
}

/// Random numbers of the operating system.
fn token() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
