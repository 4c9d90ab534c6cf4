//! Messages between libraries (TC_ messages), served while the program sends or receives.

use super::Engine;
use pvm_wire::Message;
use pvm_wire::Tid;
use pvm_wire::body::{BodyError, BodyReader};
use pvm_wire::codes::{CONTEXT_TC, Tc, Tcx};
use pvm_wire::output::OutputFrame;
use pvm_wire::spawn::Sink;

impl Engine {
    /// Deals with a message that is for the library; `false` if it is for the program.
    pub(super) fn handle(&mut self, message: &Message) -> bool {
        if message.header.context != CONTEXT_TC {
            return self.hear_of_library(message)
                || self.handle_manager_exit(message)
                || Self::is_answer_to_own_move(message);
        }
        if let Some(kind) = Tcx::from_tag(message.header.tag) {
            let _ = self.serve_neighbour(kind, message);
            return true;
        }
        let Some(kind) = Tc::from_tag(message.header.tag) else { return false };
        // An invalid message is dropped, as PVM does: there is no caller to return an error to.
        let _ = self.serve(kind, message);
        true
    }

    fn serve(&mut self, kind: Tc, message: &Message) -> Result<(), BodyError> {
        let mut reader = BodyReader::new(&message.body);
        match kind {
            Tc::Output => self.take_output(OutputFrame::decode(&message.body)?),
            Tc::Siblings => {
                let count = reader.count(4)?;
                self.siblings = Some(reader.ints(count)?.into_iter().map(Tid::from_raw).collect());
            }
            Tc::ConReq => self.handle_route_request(message.src, &mut reader)?,
            Tc::ConAck => self.handle_route_answer(message.src, &mut reader)?,
            Tc::TaskExit if message.src.is_daemon() => self.end_negotiation(Tid::from_raw(reader.int()?)),
            Tc::SetTrace => self.set_trace(&mut reader)?,
            Tc::SetTmask => reader.str()?.clone_into(&mut self.options.own_trace_mask),
            Tc::SetTrcBuf => self.options.own_trace_buffer = reader.int()?,
            Tc::SetTrcOpt => self.options.own_trace_options = reader.int()?,
            Tc::OutputX => self.lose_host(Tid::from_raw(reader.int()?)),
            Tc::TaskExit | Tc::Noop | Tc::ShmAt => {}
        }
        Ok(())
    }

    fn set_trace(&mut self, reader: &mut BodyReader<'_>) -> Result<(), BodyError> {
        let mut sink =
            || Ok::<_, BodyError>(Sink { tid: reader.int()?, context: reader.int()?, tag: reader.int()? });
        let (trace, output) = (sink()?, sink()?);
        if trace.tid != 0 {
            (self.options.own_trace, self.options.child_trace) = (trace, trace);
        }
        if output.tid != 0 {
            (self.options.own_output, self.options.child_output) = (output, output);
        }
        reader.str()?.clone_into(&mut self.options.own_trace_mask);
        self.options.own_trace_buffer = reader.int()?;
        self.options.own_trace_options = reader.int()?;
        Ok(())
    }
}
