//! Plans that fail are shortened: operations are left out while it still fails.

use crate::check;
use crate::plan::Plan;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a plan; a panic is a failure like any other.
pub fn attempt(plan: &Plan) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| check::run(plan))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// The shortest plan found that still fails, and how.
pub fn shorten(plan: &Plan, reason: &str) -> (Plan, String) {
    let (mut best, mut reason) = (plan.clone(), reason.to_owned());
    let mut size = best.ops.len().div_ceil(2);
    loop {
        let mut shorter = false;
        let mut at = 0;
        while at < best.ops.len() {
            let mut candidate = best.clone();
            candidate.ops.drain(at..(at + size).min(best.ops.len()));
            match attempt(&candidate) {
                Err(why) if kind(&why) == kind(&reason) => {
                    (best, reason, shorter) = (candidate, why, true);
                }
                _ => at += size,
            }
        }
        if size == 1 && !shorter {
            return (best, reason);
        }
        size = size.div_ceil(2).max(1);
    }
}

/// What a reason says, but for the numbers.
fn kind(reason: &str) -> String {
    reason.chars().filter(|c| c.is_alphabetic() && !c.is_ascii_hexdigit()).take(12).collect()
}
