//! What a simulated process does: enrol as any libpvm does, then spawn, or manage batches, or nothing.

use bytes::Bytes;
use pvm_task_manager::machine::Machine;
use pvm_wire::batch::BatchMsg;
use pvm_wire::body::BodyReader;
use pvm_wire::calls::Call;
use pvm_wire::calls::Request;
use pvm_wire::calls::enrolment::{Conn2, Connect, Extension, Introduction};
use pvm_wire::codes::{BATCH_TAG, CONTEXT_TM, EXTENSION_VERSION, TASK_PROTOCOL, Tm};
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::message::Assembled;
use pvm_wire::spawn::SpawnRequest;
use pvm_wire::{FragmentHeader, Message, MessageHeader, Reassembler, Tid};
use pvmd_core::event::Cookie;

enum Role {
    /// Runs and ends, without a word.
    Program,
    /// Enrols and hands out batches.
    Manager(Machine),
    /// Enrols and spawns once.
    Spawner { count: i32 },
}

pub struct Process {
    pub pid: i32,
    /// The answer to its spawn, when it has come.
    pub answer: Option<Vec<i32>>,
    role: Role,
    incoming: Reassembler,
}

/// The first thing a library says.
pub fn connect() -> Message {
    let request = Connect {
        version: TASK_PROTOCOL,
        auth_file: "/tmp/auth".into(),
        extension: Extension(Some(EXTENSION_VERSION)),
    };
    request_message(Tm::Connect, request.encode())
}

fn request_message(request: Tm, body: Vec<u8>) -> Message {
    let header = MessageHeader {
        encoding: XDR_WORD,
        tag: request.tag(),
        context: CONTEXT_TM,
        wait_id: 1,
        ..MessageHeader::default()
    };
    Message { src: Tid::ANY, dst: Tid::MY_DAEMON, header, body: body.into() }
}

impl Process {
    fn new(pid: i32, role: Role) -> Self {
        Self { pid, answer: None, role, incoming: Reassembler::new(1 << 24) }
    }

    pub fn program(pid: i32) -> Self {
        Self::new(pid, Role::Program)
    }

    pub fn manager(pid: i32) -> Self {
        Self::new(pid, Role::Manager(Machine::default()))
    }

    pub fn spawner(count: i32) -> Self {
        Self::new(1, Role::Spawner { count })
    }

    pub fn is_program(&self) -> bool {
        matches!(self.role, Role::Program)
    }

    pub fn is_manager(&self) -> bool {
        matches!(self.role, Role::Manager(_))
    }

    pub fn enrols(&self) -> bool {
        !self.is_program()
    }

    /// Takes a fragment from the daemon; what the process says in return.
    pub fn hear(&mut self, cookie: Cookie, header: &FragmentHeader, data: Bytes) -> Vec<Message> {
        match self.incoming.push(header, data) {
            Ok(Assembled::Whole(message)) => self.on_message(cookie, &message),
            Ok(_) => Vec::new(),
            Err(error) => panic!("the daemon sent nonsense: {error}"),
        }
    }

    fn on_message(&mut self, cookie: Cookie, message: &Message) -> Vec<Message> {
        match (Tm::from_tag(message.header.tag), &mut self.role) {
            (Some(Tm::Connect), _) => {
                assert!(Connect::decode_answer(&message.body).expect("an answer").expect("a reply").accepted);
                let enrol =
                    Conn2 { process: Introduction { pid: self.pid, cookie: cookie.0.max(0), name: None } };
                vec![request_message(Tm::Conn2, enrol.encode())]
            }
            (Some(Tm::Conn2), role) => {
                Conn2::decode_answer(&message.body)
                    .expect("an answer")
                    .expect("a reply")
                    .0
                    .expect("enrolled");
                match role {
                    Role::Spawner { count } => {
                        let spawn =
                            SpawnRequest { file: "program".into(), count: *count, ..SpawnRequest::default() };
                        vec![request_message(Tm::Spawn, spawn.encode())]
                    }
                    _ => Vec::new(),
                }
            }
            (Some(Tm::Spawn), _) => {
                let mut reader = BodyReader::new(&message.body);
                let count = reader.count(4).expect("a count");
                self.answer = Some(reader.ints(count).expect("as many numbers"));
                Vec::new()
            }
            (None, Role::Manager(machine)) if message.header.tag == BATCH_TAG => {
                let said = machine
                    .on_message(message.src, BatchMsg::decode(&message.body).expect("a batch message"));
                said.into_iter().map(|(dst, message)| batch_message(dst, &message)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn batch_message(dst: Tid, message: &BatchMsg) -> Message {
    let header = MessageHeader { encoding: XDR_WORD, tag: BATCH_TAG, ..MessageHeader::default() };
    Message { src: Tid::ANY, dst, header, body: message.encode().expect("it fits").into() }
}
