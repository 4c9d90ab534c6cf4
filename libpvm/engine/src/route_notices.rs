//! Notices to the program about direct routes that open and close (`PvmRouteAdd`, `PvmRouteDelete`). The library makes these
//! notices itself: no daemon knows of routes.

use super::{Engine, xdr_header};
use pvm_wire::body::BodyWriter;
use pvm_wire::{Message, Tid};
use serde::{Deserialize, Serialize};

/// The notices that the program has asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct RouteNotices {
    added: Vec<Added>,
    deleted: Vec<(Tid, i32, i32)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
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

    /// Asks for a notice (task, -1) when the direct route to each task closes; at once where there is none. A cancelled
    /// notice is sent at once, too, as the daemon does.
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
            self.inject_notice(context, tag, [tid.raw(), -1]);
        }
    }

    /// A route is granted or open at that descriptor.
    pub(super) fn report_route_added(&mut self, tid: Tid, fd: i32) {
        let mut matching = Vec::new();
        self.route_notices.added.retain_mut(|notice| {
            matching.push((notice.context, notice.tag));
            notice.left = (notice.left - 1).max(-1);
            notice.left != 0
        });
        for (context, tag) in matching {
            self.inject_notice(context, tag, [tid.raw(), fd]);
        }
    }

    /// A route is closed.
    pub(super) fn report_route_deleted(&mut self, tid: Tid) {
        let (matching, left) =
            std::mem::take(&mut self.route_notices.deleted).into_iter().partition(|&(gone, ..)| gone == tid);
        self.route_notices.deleted = left;
        let matching: Vec<_> = matching;
        for (tid, context, tag) in matching {
            self.inject_notice(context, tag, [tid.raw(), -1]);
        }
    }

    fn inject_notice(&mut self, context: i32, tag: i32, numbers: [i32; 2]) {
        let body = BodyWriter::new().ints(numbers).finish().into();
        self.inject(Message {
            src: Tid::MY_DAEMON,
            dst: self.tid(),
            header: xdr_header(tag, context, 0),
            body,
        });
    }
}
