//! Reductions: the arrays of all members become one, at the member called root.

use super::mark::{self, Call, Elements, Mark};
use super::port::Port;
use super::tree::Tree;
use super::{Client, check_name};
use crate::Result;
use pvm_wire::group::{Settler, View, tag as tags};
use pvm_wire::{Encoding, Message, PvmError, Tid};
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// The elements that a message carries.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// How they are encoded; `None` cannot be read.
    pub encoding: Option<Encoding>,
    /// The encoded elements.
    pub data: &'a [u8],
}

impl<'a> Part<'a> {
    /// A whole message.
    pub fn of(message: &'a Message) -> Self {
        Self { encoding: Encoding::of_word(message.header.encoding), data: &message.body }
    }
}

/// The array of one member, into which others' are reduced.
pub trait Operand {
    /// The elements in XDR, or as they are in memory.
    fn pack(&self, encoding: Encoding) -> Result<Elements<'_>>;
    /// Reduces others into these.
    fn fold(&mut self, other: Part<'_>) -> Result<()>;
    /// Takes others in their place.
    fn replace(&mut self, other: Part<'_>) -> Result<()>;
    /// Whether [`Self::fold`] calls a function of the program, which may use the task.
    fn calls_program(&self) -> bool {
        false
    }
}

/// The senders and receivers of a reduction.
///
/// The members of the last barrier of all (the view's settlers) form a tree whose top is the root; members that joined later, or all
/// if the root did, send to the root. The tree stays as it is until the next barrier of all, even if
/// a member of it is lost: so each member receives from exactly those that send to it, whatever changes each has learned of.
struct Plan {
    /// The members from which this task receives, and whether each sends for others, too.
    below: Vec<(Tid, bool)>,
    /// The member to which it sends.
    above: Option<Tid>,
    /// A member is lost to which others, or this task, send.
    is_broken: bool,
}

impl Plan {
    fn new(view: &View, own: Tid, root: Tid) -> Self {
        let settlers = &view.settlers;
        let place = |tid| settlers.iter().position(|settler| settler.tid == tid && !settler.lost);
        let top = place(root);
        let mut plan = Self { below: Vec::new(), above: Some(root), is_broken: false };
        if let Some((top, place)) = top.zip(place(own)) {
            plan.take_place(view, top, place);
        } else if own == root {
            plan.below
                .extend(settlers.iter().filter(|it| may_have_sent(view, **it)).map(|it| (it.tid, false)));
        }
        if own == root {
            let newcomers = view.members.iter().map(|&(_, tid)| tid).filter(|&tid| place(tid).is_none());
            plan.below.extend(newcomers.map(|tid| (tid, false)));
            plan.below.retain(|&(tid, _)| tid != own);
            plan.above = None;
        }
        plan
    }

    /// In the tree.
    fn take_place(&mut self, view: &View, top: usize, place: usize) {
        let settlers = &view.settlers;
        let host = settlers[top].tid.to_host();
        if settlers.iter().all(|settler| settler.tid.to_host() == host) {
            // All send to the root, whose messages these are.
            if place == top {
                let senders = settlers.iter().filter(|it| may_have_sent(view, **it));
                self.below.extend(senders.map(|settler| (settler.tid, false)));
            }
            return;
        }
        let tree = Tree::new(settlers.iter().map(|settler| settler.tid), top);
        for child in tree.children(place) {
            let has_children = tree.has_children(child);
            if may_have_sent(view, settlers[child]) {
                self.below.push((settlers[child].tid, has_children));
            } else {
                self.is_broken |= has_children;
            }
        }
        if let Some(parent) = tree.parent(place) {
            self.above = Some(settlers[parent].tid);
            self.is_broken |= settlers[parent].lost;
        }
    }
}

/// A lost member may have sent before; but if it has joined again, it sends as a new one.
fn may_have_sent(view: &View, settler: Settler) -> bool {
    !settler.lost || !view.has(settler.tid)
}

impl<P: Port> Client<'_, P> {
    /// Reduces the arrays of all members; the root has the result.
    pub fn reduce(&mut self, name: &OsStr, tag: i32, root: i32, operand: &mut dyn Operand) -> Result<()> {
        check_name(name)?;
        let call = Call { what: tags::REDUCED, tag, root };
        self.recorded("reduce", name, |client| client.reduce_with_others(name, call, operand))
    }

    fn reduce_with_others(&mut self, name: &OsStr, call: Call, operand: &mut dyn Operand) -> Result<()> {
        if self.server()?.ours {
            let view = self.view(name)?;
            let own = self.own()?;
            if !view.has(own) {
                return Err(PvmError::NotInGroup.into());
            }
            let top = view.members.iter().find(|&&(instance, _)| instance == call.root);
            let &(_, top) = top.ok_or(PvmError::NoInst)?;
            if view.ours {
                let mark = Mark::new(name, call, &view, own);
                return self.reduce_by_plan(&Plan::new(&view, own, top), &view, &mark, operand);
            }
            check_hosts(&view)?;
        }
        self.reduce_by_hosts(name, call, operand)
    }

    fn reduce_by_plan(
        &mut self,
        plan: &Plan,
        view: &View,
        mark: &Mark<'_>,
        operand: &mut dyn Operand,
    ) -> Result<()> {
        let mut outcome = if plan.below.is_empty() { Ok(()) } else { self.may_receive_marked(mark, view) };
        if plan.is_broken && outcome.is_ok() {
            outcome = Err(self.give_up(mark, view, PvmError::NoInst.into()));
        }
        if outcome.is_ok() {
            outcome = self.fold_all(&plan.below, view, mark, operand);
        }
        let Some(above) = plan.above else { return outcome };
        self.send_marked(above, mark, |encoding| outcome.and_then(|()| operand.pack(encoding)))
    }

    /// Reduces the others' elements. Their messages are received even after a failure, or the next reduction would receive them.
    fn fold_all(
        &mut self,
        from: &[(Tid, bool)],
        view: &View,
        mark: &Mark<'_>,
        operand: &mut dyn Operand,
    ) -> Result<()> {
        let mut outcome = Ok(());
        for &(member, for_others) in from {
            let message = match self.receive_marked(member, mark, view) {
                // It had left before this reduction.
                Err(error) if error.code() == PvmError::NoInst && !for_others && !view.has(member) => {
                    continue;
                }
                Err(error) => return Err(self.give_up(mark, view, error)),
                Ok(message) => message,
            };
            let folded = mark::elements(&message)
                .and_then(|part| if outcome.is_ok() { self.fold(operand, part) } else { Ok(()) });
            outcome = outcome.and(folded);
        }
        outcome
    }

    fn fold(&mut self, operand: &mut dyn Operand, other: Part<'_>) -> Result<()> {
        if operand.calls_program() {
            self.port.let_go();
        }
        operand.fold(other)
    }

    /// The original's algorithm: on each host the lowest member reduces, and the root reduces their results. The original
    /// takes messages in the order of arrival; here each is received by its sender, so that one for the next reduction waits.
    fn reduce_by_hosts(&mut self, name: &OsStr, call: Call, operand: &mut dyn Operand) -> Result<()> {
        let own = self.own()?;
        self.own_instance(name)?;
        let root = self.tid_of(name, call.root)?;
        let members: BTreeSet<Tid> = self.members(name)?.into_iter().collect();
        let here = members.iter().copied().filter(|tid| tid.to_host() == own.to_host());
        let here: Vec<Tid> = here.collect();
        let coordinator = here.first().copied().unwrap_or(own);
        if coordinator == own {
            for &member in here.iter().filter(|&&member| member != own) {
                let message = self.receive_from_member(name, member, call.tag, false)?;
                self.fold(operand, Part::of(&message))?;
            }
        }
        let next = if coordinator == own { root } else { coordinator };
        if next != own {
            self.port.send(next, call.tag, &operand.pack(Encoding::Xdr)?)?;
        }
        if root == own {
            if coordinator != own {
                // These elements are among what it sends.
                let message = self.receive_from_member(name, coordinator, call.tag, false)?;
                operand.replace(Part::of(&message))?;
            }
            let mut hosts = BTreeSet::from([own.to_host()]);
            for &member in members.iter().filter(|member| hosts.insert(member.to_host())) {
                let message = self.receive_from_member(name, member, call.tag, false)?;
                self.fold(operand, Part::of(&message))?;
            }
        }
        Ok(())
    }
}

/// Fails if the lowest member of a host was lost since the last barrier of all: members that did not know of
/// its loss have sent to it.
fn check_hosts(view: &View) -> Result<()> {
    let lowest = |host: Tid| view.settlers.iter().map(|it| it.tid).filter(|tid| tid.to_host() == host).min();
    let sent_to = |tid: Tid| {
        let mut there = view.members.iter().map(|&(_, tid)| tid);
        lowest(tid.to_host()) == Some(tid) && there.any(|other| other.to_host() == tid.to_host())
    };
    let broken = view.settlers.iter().any(|settler| settler.lost && sent_to(settler.tid));
    if broken { Err(PvmError::NoInst.into()) } else { Ok(()) }
}
