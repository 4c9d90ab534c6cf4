//! The way of a fragment: from a task, a child's output or another daemon to its receiver.

use crate::Core;
use crate::addresses::ReplyTo;
use crate::effect::Mark;
use crate::event::{Action, Attachment, ConnId};
use crate::flow::{FlowChange, Source};
use crate::holding::{Piece, Said};
use bytes::Bytes;
use pvm_wire::calls::{Call, CallError};
use pvm_wire::daemon::{Blob, DaemonMsg, ToMaster};
use pvm_wire::encoding::XDR_WORD;
use pvm_wire::group::{Key, Notice, Passed, Request};
use pvm_wire::header::{EOM, SOM};
use pvm_wire::limits::FRAGMENT_SIZE;
use pvm_wire::message::Assembled;
use pvm_wire::{FragmentHeader, HostIndex, Message, MessageHeader, PvmError, Tid, group};
use std::collections::BTreeMap;
use tracing::{debug, warn};

impl Core {
    /// A fragment from a local connection.
    pub(crate) fn on_fragment(&mut self, conn: ConnId, header: FragmentHeader, data: Bytes) {
        let Some(state) = self.tasks.conns.get(&conn) else { return };
        let tid = state.tid();
        let header = FragmentHeader { src: tid.unwrap_or(Tid::ANY), ..header };
        if header.dst.is_daemon() && header.dst.host().is_none_or(|host| host == self.config.index) {
            if let Some(tid) = tid {
                self.teams.carried(self.tasks.get(tid), data.len());
            }
            return self.on_request_fragment(conn, &header, data);
        }
        let Some(tid) = tid else {
            debug!(?conn, dst = %header.dst, "fragment from a connection that has not enrolled: dropped");
            return;
        };
        let task = self.tasks.get(tid);
        let is_manager = task.is_some_and(|task| task.manager);
        self.teams.carried(task, data.len());
        if is_manager {
            self.count_batch_fragment(tid, header.dst, header.flags, &data);
        }
        self.count_sent(conn, tid, &header, data.len());
        if header.dst == tid.multicast() {
            self.multicast(conn, &Piece { src: tid, flags: header.flags, data });
        } else {
            self.forward(Source::Conn(conn), header.dst, Piece { src: tid, flags: header.flags, data });
        }
    }

    /// Counts what a task with the original's library sends; ours count by themselves, on all routes.
    fn count_sent(&mut self, conn: ConnId, tid: Tid, header: &FragmentHeader, length: usize) {
        let Some(state) = self.tasks.conns.get(&conn).filter(|state| !state.extended) else { return };
        let receivers = if header.dst == tid.multicast() { state.multicast.len() } else { 1 };
        let (messages, head) =
            if header.flags & SOM != 0 { (receivers, MessageHeader::SIZE) } else { (0, 0) };
        if let Some(task) = self.tasks.get_mut(tid) {
            task.activity.sent.count(messages, receivers.saturating_mul(length.saturating_sub(head)));
        }
    }

    /// A fragment from another daemon. Senders must live on the host it comes from.
    pub(crate) fn on_peer_data(&mut self, from: HostIndex, src: Tid, dsts: &[Tid], flags: u8, data: &Bytes) {
        if self.hosts.place(src) != Some(from) {
            let said = Said { from, dsts: dsts.to_vec(), flags, data: data.clone() };
            if self.holding.keep_said(src, said) {
                return;
            }
            warn!(host = %from, %src, "fragment with a foreign sender: dropped");
            return;
        }
        for &dst in dsts {
            if dst.is_daemon() {
                self.on_peer_fragment(from, dst, Piece { src, flags, data: data.clone() });
            } else {
                if src.is_daemon() {
                    self.count_from_daemon(from, dst, flags, data);
                }
                self.deliver(Source::Host(from), dst, Piece { src, flags, data: data.clone() });
                if src.is_task() && flags & SOM != 0 {
                    self.teams(|teams, tasks, at| teams.on_hint(from, dst, tasks, at));
                }
            }
        }
    }

    /// Sends a piece of a message on its way to one receiver.
    pub(crate) fn forward(&mut self, source: Source, dst: Tid, piece: Piece) {
        let Some(piece) = self.keep(source, dst, piece) else { return };
        match self.hosts.place(dst) {
            _ if dst == group::keeper() => self.pass_to_keeper(source, piece),
            Some(host) if host == self.config.index => self.deliver(source, dst, piece),
            Some(host) if dst.is_task() || dst.is_daemon() => {
                self.send_data(source, host, piece.to(vec![dst]));
            }
            _ => debug!(src = %piece.src, %dst, "fragment to nobody: dropped"),
        }
    }

    /// Sends a piece of a multicast: one copy per host.
    fn multicast(&mut self, conn: ConnId, piece: &Piece) {
        let Some(state) = self.tasks.conns.get_mut(&conn) else { return };
        let receivers = if piece.flags & EOM == 0 {
            state.multicast.clone()
        } else {
            std::mem::take(&mut state.multicast)
        };
        self.forward_to_all(Source::Conn(conn), &receivers, piece);
    }

    /// Sends a piece of a message to several receivers: one copy per host.
    fn forward_to_all(&mut self, source: Source, to: &[Tid], piece: &Piece) {
        let mut remote: BTreeMap<HostIndex, Vec<Tid>> = BTreeMap::new();
        for &dst in to {
            let Some(piece) = self.keep(source, dst, piece.clone()) else { continue };
            match self.hosts.place(dst) {
                Some(host) if host == self.config.index => self.deliver(source, dst, piece),
                Some(host) => remote.entry(host).or_default().push(dst),
                None => {}
            }
        }
        for (host, dsts) in remote {
            self.send_data(source, host, piece.clone().to(dsts));
        }
    }

    /// Sends data over a link, and stops the source if the link or a receiver behind it is full.
    pub(crate) fn send_data(&mut self, source: Source, host: HostIndex, message: DaemonMsg) {
        let DaemonMsg::Data { src, dsts, data, flags } = &message else { return };
        let flags = *flags;
        self.teams(|teams, tasks, at| teams.sends(*src, host, dsts.first().copied(), tasks, at));
        let (now, high) = (self.now, self.config.limits.queue_high);
        let receivers: Vec<Tid> = dsts.iter().copied().chain([host.daemon()]).collect();
        let Some(link) = self.link_to(host) else {
            debug!(%host, ?dsts, "fragment to a host that is not there: dropped");
            return;
        };
        link.queued += data.len();
        let is_full = link.queued > high;
        if let Some(message) = link.send(message, now) {
            self.out.act(Action::SendPeer { host, message });
        }
        if is_full {
            self.tasks.flow.fill(host.daemon());
        }
        for receiver in receivers {
            self.hold_back(source, receiver, flags);
        }
    }

    /// Stops a source that sends to a full receiver. The original library writes a fragment of any length without reading
    /// meanwhile: stopped within a message, it would never drain what it waits for.
    pub(crate) fn hold_back(&mut self, source: Source, receiver: Tid, flags: u8) {
        if let Source::Conn(conn) = source
            && flags & EOM == 0
            && self.tasks.conns.get(&conn).is_some_and(|conn| !conn.extended)
        {
            return;
        }
        let change = self.tasks.flow.sent(source, receiver);
        self.apply_flow(change);
    }

    /// A piece of a local task's message to the keeper of groups. The master hears whole messages.
    fn pass_to_keeper(&mut self, source: Source, Piece { src, flags, data }: Piece) {
        if let Some(what) = self.exchange.assemble(src, flags, data) {
            self.tell_master(what);
            self.hold_back_from_keeper(source);
        }
    }

    /// Stops a source if there is much that no master has heard: none answers, or it is slow.
    pub(crate) fn hold_back_from_keeper(&mut self, source: Source) {
        if self.exchange.bytes() > self.config.limits.queue_high {
            self.tasks.flow.fill(group::keeper());
            self.hold_back(source, group::keeper(), EOM);
        }
    }

    /// The master has heard something.
    pub(crate) fn note_keeper_drained(&mut self) {
        let is_low = self.exchange.bytes() < self.config.limits.queue_low();
        if is_low && self.tasks.flow.is_full(group::keeper()) {
            self.clear_flow(group::keeper());
        }
    }

    /// A message of the keeper of groups to tasks of this host.
    pub(crate) fn deliver_from_keeper(&mut self, to: &[Tid], context: i32, tag: i32, body: &Blob) {
        let src = group::keeper();
        let header = MessageHeader { encoding: XDR_WORD, tag, context, ..MessageHeader::default() };
        let message = Message { src, dst: Tid::NONE, header, body: body.0.to_vec().into() };
        for (header, data) in message.fragments(FRAGMENT_SIZE) {
            for &dst in to {
                // Charged to the task itself: one that never reads answers is not read either.
                let conn = self.tasks.get(dst).and_then(|task| task.conn);
                let source = conn.map_or(Source::Daemon, Source::Conn);
                let piece = Piece { src, flags: header.flags, data: data.clone() };
                if let Some(piece) = self.keep(source, dst, piece) {
                    self.deliver(source, dst, piece);
                }
            }
        }
        // Behind the notices: a task that sees the count finds its notice at its socket.
        if (context, tag) == (group::CONTEXT, group::tag::CHANGED) {
            self.out.act(Action::CountGroupChange);
        }
    }

    /// Hands a piece to a local task, unless it moves.
    pub(crate) fn deliver(&mut self, source: Source, dst: Tid, piece: Piece) {
        if let Some(piece) = self.keep_or_pass_on(source, dst, piece) {
            self.hand_over(source, dst, piece);
        }
    }

    /// Hands a piece to a local task, or keeps it until the task has enrolled.
    fn hand_over(&mut self, source: Source, dst: Tid, Piece { src, flags, data }: Piece) {
        self.teams.carried(self.tasks.get(dst), data.len());
        let Some(task) = self.tasks.get_mut(dst).filter(|task| task.listens()) else {
            debug!(%src, %dst, "fragment to a task that is not there: dropped");
            return;
        };
        let header = FragmentHeader { dst, src, length: data.len() as u32, flags };
        task.queued += FragmentHeader::SIZE + data.len();
        let full = task.queued > self.config.limits.queue_high;
        match task.conn {
            Some(conn) => {
                if let Some((group, epoch)) = closing_notice(src, &data) {
                    self.out.act(Action::CloseLedger { conn, group, epoch });
                }
                self.out.act(Action::Send { conn, header, data, with: Attachment::Nothing });
            }
            None => task.backlog.push_back((header, data)),
        }
        if full {
            self.tasks.flow.fill(dst);
            self.hold_back(source, dst, flags);
        }
    }

    /// A task passes no more barriers of an epoch that is over, or it has ended: the keeper is told what it has passed.
    pub(crate) fn on_barriers_passed(&mut self, conn: ConnId, group: Key, passed: Option<Passed>) {
        let Some(from) = self.tasks.conns.get(&conn).and_then(crate::tasks::Conn::tid) else { return };
        if self.tasks.get(from).is_none_or(|task| task.conn != Some(conn)) {
            // It lives on elsewhere.
            return;
        }
        let request = Request::Passed(group, passed);
        let body = Blob(request.encode().into());
        self.tell_master(ToMaster::Keeper { from, context: group::CONTEXT, tag: request.tag(), body });
    }

    /// A task has taken bytes.
    pub(crate) fn on_task_drained(&mut self, conn: ConnId, bytes: usize) {
        let Some(tid) = self.tasks.conns.get(&conn).and_then(crate::tasks::Conn::tid) else { return };
        let Some(task) = self.tasks.get_mut(tid) else { return };
        task.queued = task.queued.saturating_sub(bytes);
        if task.queued < self.config.limits.queue_low() && self.tasks.flow.is_full(tid) {
            self.clear_flow(tid);
        }
    }

    /// A link has taken bytes.
    pub(crate) fn on_peer_drained(&mut self, host: HostIndex, bytes: usize) {
        let Some(link) = self.hosts.links.get_mut(&host) else { return };
        link.queued = link.queued.saturating_sub(bytes);
        if link.queued < self.config.limits.queue_low() && self.tasks.flow.is_full(host.daemon()) {
            self.clear_flow(host.daemon());
        }
    }

    /// Another daemon tells that one of its tasks is full, or no longer.
    pub(crate) fn on_congestion(&mut self, from: HostIndex, tid: Tid, full: bool) {
        if self.hosts.place(tid) != Some(from) {
            warn!(host = %from, %tid, "congestion of a foreign task: ignored");
        } else if full {
            self.tasks.flow.fill(tid);
        } else {
            self.clear_flow(tid);
        }
    }

    pub(crate) fn clear_flow(&mut self, receiver: Tid) {
        for change in self.tasks.flow.clear(receiver) {
            self.apply_flow(Some(change));
        }
    }

    pub(crate) fn apply_flow(&mut self, change: Option<FlowChange>) {
        let action = match change {
            None | Some(FlowChange::Stop(Source::Daemon, _) | FlowChange::Resume(Source::Daemon, _)) => {
                return;
            }
            Some(FlowChange::Stop(Source::Conn(conn), _)) => Action::PauseReading { conn },
            Some(FlowChange::Resume(Source::Conn(conn), _)) => Action::ResumeReading { conn },
            Some(FlowChange::Stop(Source::Output(cookie), _)) => Action::PauseOutput { cookie },
            Some(FlowChange::Resume(Source::Output(cookie), _)) => Action::ResumeOutput { cookie },
            Some(FlowChange::Stop(Source::Host(host), tid)) => {
                return self.tell(host, DaemonMsg::Congestion { tid, full: true });
            }
            Some(FlowChange::Resume(Source::Host(host), tid)) => {
                return self.tell(host, DaemonMsg::Congestion { tid, full: false });
            }
        };
        self.out.act(action);
    }

    /// A fragment addressed to this daemon by a local connection.
    fn on_request_fragment(&mut self, conn: ConnId, header: &FragmentHeader, data: Bytes) {
        let Some(state) = self.tasks.conns.get_mut(&conn) else { return };
        match state.requests.push(header, data) {
            Ok(Assembled::Partial) => {}
            Ok(Assembled::Stray) => debug!(?conn, "continuation of nothing: dropped"),
            Ok(Assembled::Whole(message)) => self.on_request(conn, &message),
            Err(error) => self.disconnect(conn, &error.to_string()),
        }
    }

    /// A fragment addressed to this daemon by a task of another host.
    fn on_peer_fragment(&mut self, from: HostIndex, dst: Tid, Piece { src, flags, data }: Piece) {
        let Some(link) = self.hosts.links.get_mut(&from) else { return };
        let header = FragmentHeader { dst, src, length: data.len() as u32, flags };
        match link.requests.push(&header, data) {
            Ok(Assembled::Partial) => {}
            Ok(Assembled::Stray) => debug!(%src, "continuation of nothing: dropped"),
            Ok(Assembled::Whole(message)) => self.on_system_message(&message),
            Err(error) => warn!(%src, %error, "message to this daemon refused"),
        }
    }

    /// Sends a message of this daemon to a task anywhere.
    pub(crate) fn send_message(&mut self, source: Source, dst: Tid, context: i32, tag: i32, body: Vec<u8>) {
        self.send_marked(source, dst, Mark { context, tag, wait_id: 0 }, body);
    }

    /// As [`Self::send_message`], marked with context, tag and wait id.
    pub(crate) fn send_marked(
        &mut self,
        source: Source,
        dst: Tid,
        Mark { context, tag, wait_id }: Mark,
        body: Vec<u8>,
    ) {
        // A task knows its own daemon by one name, other daemons by theirs.
        let local = self.hosts.lives_here(dst);
        let src = if local { Tid::MY_DAEMON } else { self.config.index.daemon() };
        let header = MessageHeader { encoding: XDR_WORD, tag, context, wait_id, ..MessageHeader::default() };
        let message = Message { src, dst, header, body: body.into() };
        for (header, data) in message.fragments(FRAGMENT_SIZE) {
            self.forward(source, dst, Piece { src, flags: header.flags, data });
        }
    }

    /// Answers a request, if the task that asked is still there.
    pub(crate) fn reply(&mut self, to: ReplyTo, body: Vec<u8>) {
        let Some(conn) = self.tasks.conns.get(&to.conn) else { return };
        let dst = conn.tid().unwrap_or(Tid::NONE);
        let header = MessageHeader {
            encoding: XDR_WORD,
            tag: to.tag,
            context: to.context,
            wait_id: to.wait_id,
            ..MessageHeader::default()
        };
        let message = Message { src: Tid::MY_DAEMON, dst, header, body: body.into() };
        for (header, data) in message.fragments(FRAGMENT_SIZE) {
            if dst == Tid::NONE {
                self.out.act(Action::Send { conn: to.conn, header, data, with: Attachment::Nothing });
            } else {
                // Charged to the task that asked: one that never reads answers is not read either.
                let piece = Piece { src: Tid::MY_DAEMON, flags: header.flags, data };
                self.hand_over(Source::Conn(to.conn), dst, piece);
            }
        }
    }

    /// Answers a request.
    pub(crate) fn reply_to<C: Call>(&mut self, to: ReplyTo, reply: &C::Reply) {
        self.reply(to, C::encode_reply(reply));
    }

    /// Answers a request with an error.
    pub(crate) fn reply_error(&mut self, to: ReplyTo, error: impl Into<CallError>) {
        self.reply(to, error.into().encode());
    }

    /// Answers a request with an error, or with the word that it has been carried out.
    pub(crate) fn reply_done<C: Call<Reply = ()>>(&mut self, to: ReplyTo, result: Result<(), PvmError>) {
        match result {
            Ok(()) => self.reply_to::<C>(to, &()),
            Err(error) => self.reply_error(to, error),
        }
    }
}

/// Of a piece of a message from the keeper of groups that asks what its receiver has passed: the group, and its epoch from now on.
fn closing_notice(src: Tid, piece: &[u8]) -> Option<(Key, i32)> {
    let (header, body) = piece.split_first_chunk().filter(|_| src == group::keeper())?;
    let header = MessageHeader::decode(header);
    let is_notice = (header.context, header.tag) == (group::CONTEXT, group::tag::CHANGED);
    let notice = Notice::decode(body).ok().filter(|notice| is_notice && notice.is_closing)?;
    Some((Key::of(notice.name), notice.epoch))
}
