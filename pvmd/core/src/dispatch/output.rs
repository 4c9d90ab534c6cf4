//! What tasks write to their standard output: to whatever collects it, else to the master's log.

use crate::Core;
use crate::event::{Action, Cookie};
use crate::flow::Source;
use bytes::Bytes;
use pvm_wire::Tid;
use pvm_wire::codes::Tc;
use pvm_wire::daemon::{Blob, DaemonMsg};
use pvm_wire::limits::OUTPUT_PIECE;
use pvm_wire::output::{OutputEvent, OutputFrame};
use pvm_wire::spawn::Sink;

impl Core {
    /// A child runs: its sink hears of it.
    pub(crate) fn output_started(&mut self, cookie: Cookie) {
        if let Some(stream) = self.tasks.outputs.get(&cookie) {
            let (tid, sink, parent) = (stream.tid, stream.sink, stream.parent);
            self.send_output(Source::Daemon, sink, tid, OutputEvent::Started(parent));
        }
    }

    /// A child wrote something.
    pub(crate) fn on_output(&mut self, cookie: Cookie, data: &Bytes) {
        let Some(stream) = self.tasks.outputs.get_mut(&cookie) else { return };
        let (tid, sink) = (stream.tid, stream.sink);
        if sink.receiver().is_some() {
            for piece in data.chunks(OUTPUT_PIECE) {
                self.send_output(Source::Output(cookie), sink, tid, OutputEvent::Text(piece.to_vec()));
            }
            return;
        }
        for line in stream.add(data) {
            self.log_output(tid, line);
        }
    }

    /// A child's output has ended.
    pub(crate) fn on_output_end(&mut self, cookie: Cookie) {
        self.tasks.flow.forget(Source::Output(cookie));
        let Some(stream) = self.tasks.outputs.remove(&cookie) else { return };
        if !stream.goes_on {
            self.send_output(Source::Daemon, stream.sink, stream.tid, OutputEvent::Eof);
        }
        if !stream.line.is_empty() {
            self.log_output(stream.tid, stream.line);
        }
    }

    /// A task's sink changes (TM_SETOPT): the old one sees an end, the new one a beginning.
    pub(crate) fn change_sink(&mut self, tid: Tid, sink: Sink) {
        let Some(task) = self.tasks.get_mut(tid) else { return };
        let old = std::mem::replace(&mut task.output, sink);
        let Some(stream) = task.cookie.and_then(|cookie| self.tasks.outputs.get_mut(&cookie)) else { return };
        stream.sink = sink;
        let parent = stream.parent;
        self.send_output(Source::Daemon, old, tid, OutputEvent::Eof);
        self.send_output(Source::Daemon, sink, tid, OutputEvent::Spawned(parent));
        self.send_output(Source::Daemon, sink, tid, OutputEvent::Started(parent));
    }

    /// Sends an output frame to a sink, if there is one.
    pub(crate) fn send_output(&mut self, source: Source, sink: Sink, tid: Tid, what: OutputEvent) {
        let Some(receiver) = sink.receiver() else { return };
        let body = OutputFrame { tid, what }.encode();
        let tag = if sink.tag == 0 && sink.context == 0 { Tc::Output.tag() } else { sink.tag };
        self.send_message(source, receiver, sink.context, tag, body);
    }

    /// A whole line for the master's log, or for this host's while there is no master.
    fn log_output(&mut self, tid: Tid, mut line: Vec<u8>) {
        while line.last().is_some_and(|&byte| byte == b'\n' || byte == b'\r') {
            line.pop();
        }
        match self.hosts.master().filter(|_| !self.is_master()) {
            Some(master) => self.tell(master, DaemonMsg::LogOutput { tid, text: Blob(line.into()) }),
            None => self.on_log_output(tid, &line),
        }
    }

    pub(crate) fn on_log_output(&mut self, tid: Tid, line: &[u8]) {
        self.out.act(Action::LogOutput { tid, line: String::from_utf8_lossy(line).into_owned() });
    }
}
