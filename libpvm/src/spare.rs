//! Received messages in memory that is used again: what a thread has dropped it receives the next ones in.

use pvm_engine::Incoming;
use pvm_engine::Near;
use pvm_wire::tuned::SPARE_MESSAGES;
use pvm_wire::{Message, MessageHeader, Tid};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

thread_local! {
    // As boxes, so that taking one moves nothing.
    #[expect(clippy::vec_box, reason = "taking one moves a pointer")]
    static SPARE: RefCell<Vec<Box<Content>>> = const { RefCell::new(Vec::new()) };
}

/// The parts of a message.
#[derive(Clone, Debug)]
pub struct Content {
    pub src: Tid,
    pub dst: Tid,
    pub header: MessageHeader,
    pub body: Incoming,
    /// Of a body that may lie in others' memory: whether the task has left that has received it, and with it that memory.
    has_left: Option<Arc<AtomicBool>>,
}

static NOTHING: Content = Content::new();

const NO_HEADER: MessageHeader = MessageHeader { encoding: 0, tag: 0, context: 0, wait_id: 0, checksum: 0 };

impl Content {
    const fn new() -> Self {
        Self { src: Tid::NONE, dst: Tid::NONE, header: NO_HEADER, body: Incoming::nothing(), has_left: None }
    }

    /// Whether what was just read may have been something else.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.has_left.as_ref().is_some_and(|has_left| {
            // Earlier reads of the body come before this load.
            fence(Ordering::Acquire);
            has_left.load(Ordering::SeqCst)
        })
    }

    /// Has a body that may lie in others' memory copied.
    pub fn take_out(&mut self) {
        if self.has_left.is_some() {
            self.body.take_out();
        }
        if !self.is_lost() {
            self.has_left = None;
        }
    }
}

/// A message whose memory is kept when it is dropped.
#[derive(Clone, Debug)]
pub struct Held(
    /// Always there, until it is dropped.
    Option<Box<Content>>,
);

impl Held {
    /// One that was kept, or a new one.
    #[inline]
    fn take() -> Box<Content> {
        let kept = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop());
        kept.ok().flatten().unwrap_or_else(new_content)
    }

    /// A message.
    pub fn new(message: Message) -> Self {
        let mut content = Self::take();
        (content.src, content.dst, content.header) = (message.src, message.dst, message.header);
        let Content { header, body, .. } = &mut *content;
        body.renew(header, message.body);
        Self(Some(content))
    }

    /// As [`Self::new`], of a message that this task has received.
    pub fn until(message: Message, has_left: &Arc<AtomicBool>) -> Self {
        let mut held = Self::new(message);
        let content = held.content_mut();
        content.has_left = content.body.is_long().then(|| has_left.clone());
        held
    }

    /// A message from a ring.
    #[inline(always)]
    pub fn near(near: &Near<'_>, dst: Tid) -> Self {
        let mut content = Self::take();
        (content.src, content.dst, content.header) = (near.src, dst, near.found.header);
        let Content { header, body, .. } = &mut *content;
        body.renew_near(header, near);
        Self(Some(content))
    }

    #[inline(always)]
    pub fn content(&self) -> &Content {
        self.0.as_deref().unwrap_or(&NOTHING)
    }

    #[inline(always)]
    pub fn content_mut(&mut self) -> &mut Content {
        self.0.get_or_insert_with(new_content)
    }
}

#[cold]
fn new_content() -> Box<Content> {
    Box::new(Content::new())
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        let Some(mut content) = self.0.take() else { return };
        content.body.release();
        content.has_left = None;
        // In a thread that ends nothing is kept.
        let _ = SPARE.try_with(|spare| {
            if let Ok(mut spare) = spare.try_borrow_mut()
                && spare.len() < SPARE_MESSAGES
            {
                spare.push(content);
            }
        });
    }
}
