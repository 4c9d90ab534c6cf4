//! Telling the program of direct routes that open and close (`PvmRouteAdd`, `PvmRouteDelete`). These notices are the
//! library's own: no daemon knows of routes.

use super::{Engine, xdr_header};
use pvm_wire::body::BodyWriter;
use pvm_wire::{Message, Tid};

/// What the program wants to be told.
#[derive(Debug, Default)]
pub(super) struct RouteNotices {
    added: Vec<Added>,
    deleted: Vec<(Tid, i32, i32)>,
}

#[derive(Debug)]
struct Added {
    context: i32,
    tag: i32,
    left: i32,
}

impl Engine {
    /// Asks for notices (task, descriptor) of the next `count` routes that are granted or open, one for each descriptor:
    /// negative for all, 0 for no more.
    pub fn notify_route_add(&mut self, context: i32, tag: i32, count: i32) {
        let added = &mut self.route_notices.added;
        added.retain(|known| (known.context, known.tag) != (context, tag));
        if count != 0 {
            added.push(Added { context, tag, left: count });
        }
    }

    /// Asks for a notice (task, -1) when the direct route to each task closes; at once where there is none. Taken
    /// back, the notice comes at once, too, as with the daemon's.
    pub fn notify_route_delete(&mut self, context: i32, tag: i32, tasks: &[Tid], cancel: bool) {
        for &tid in tasks {
            let notice = (tid, context, tag);
            if cancel {
                let Some(index) = self.route_notices.deleted.iter().position(|&known| known == notice) else {
                    continue;
                };
                self.route_notices.deleted.remove(index);
            } else if self.open_routes().contains(&tid) {
                self.route_notices.deleted.push(notice);
                continue;
            }
            self.tell_program(context, tag, [tid.raw(), -1]);
        }
    }

    /// A route is granted or open at that descriptor.
    pub(super) fn tell_route_added(&mut self, tid: Tid, fd: i32) {
        let mut told = Vec::new();
        self.route_notices.added.retain_mut(|notice| {
            told.push((notice.context, notice.tag));
            notice.left = (notice.left - 1).max(-1);
            notice.left != 0
        });
        for (context, tag) in told {
            self.tell_program(context, tag, [tid.raw(), fd]);
        }
    }

    /// A route is closed.
    pub(super) fn tell_route_deleted(&mut self, tid: Tid) {
        let (told, left) =
            std::mem::take(&mut self.route_notices.deleted).into_iter().partition(|&(gone, ..)| gone == tid);
        self.route_notices.deleted = left;
        let told: Vec<_> = told;
        for (tid, context, tag) in told {
            self.tell_program(context, tag, [tid.raw(), -1]);
        }
    }

    fn tell_program(&mut self, context: i32, tag: i32, numbers: [i32; 2]) {
        let body = BodyWriter::new().ints(numbers).finish().into();
        self.inject(Message {
            src: Tid::MY_DAEMON,
            dst: self.tid(),
            header: xdr_header(tag, context, 0),
            body,
        });
    }
}
