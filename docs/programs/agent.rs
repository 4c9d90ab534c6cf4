use pvm_sched::allocation::agent::{Agent, Event, Scene};
use pvm_sched::allocation::{Agents, Algorithm, Machines, Request};
use std::collections::BTreeMap;

// ANCHOR: policy
/// Asks two random hosts for their loads, and gives a process to the one with the lower load.
#[derive(Debug, Default)]
struct TwoChoices {
    /// The first answer for each request that waits for its second one.
    first: BTreeMap<u64, (u32, usize)>,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
enum Message {
    Ask { request: u64 },
    Load { request: u64, load: u32 },
}

impl Agent for TwoChoices {
    type Message = Message;

    fn on(&mut self, event: Event<Message>, scene: &mut Scene<'_, Message>) {
        match event {
            Event::Created { request, count } => {
                for _ in 0..2 * count {
                    let host = scene.random_other().unwrap_or(scene.own);
                    scene.send(host, Message::Ask { request });
                }
            }
            Event::Heard { from, message: Message::Ask { request } } => {
                let load = scene.load;
                scene.send(from, Message::Load { request, load });
            }
            Event::Heard { from, message: Message::Load { request, load } } => {
                match self.first.remove(&request) {
                    Some(first) => scene.start(request, first.min((load, from)).1, 1),
                    None => _ = self.first.insert(request, (load, from)),
                }
            }
            _ => {}
        }
    }
}
// ANCHOR_END: policy

// ANCHOR: main
/// Machines that count messages.
#[derive(Default)]
struct Counted(u64);

impl Machines for Counted {
    fn send(&mut self, messages: u64) {
        self.0 += messages;
    }
    fn now(&self) -> u64 {
        0
    }
}

fn main() {
    let mut machines = Counted::default();
    let mut policy = Agents::new("two-choices", 8, None, TwoChoices::default);
    let mut loads = [0; 8];
    for id in 0..16 {
        for step in policy.created(Request { id, origin: 0, count: 1 }, &mut machines) {
            loads[step.host] += 1;
        }
    }
    println!("processes on each host: {loads:?}, {} messages", machines.0);
}
// ANCHOR_END: main
