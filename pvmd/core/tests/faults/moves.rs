//! Plans with moves of tasks that once failed.

use crate::plan::{Op, Plan};
use crate::regressions::{attempt_plan, check, check_large, check_with_deputies};

/// A daemon was told to watch a task that had moved there, ended and been forgotten: it waited for its end for ever.
#[test]
fn a_task_that_has_moved_and_ended_is_not_watched() {
    let ops = [
        Op::Enrol(13964),
        Op::Enrol(5620),
        Op::Wait(1_500_000),
        Op::Leave(63066),
        Op::Group(38497, 57611),
        Op::Spawn(2989, 6, 0),
        Op::Wait(30000),
        Op::Leave(31356),
        Op::Move(15349, 9993, 64633),
        Op::WatchTask(54152, 9012),
        Op::Signal(27506, 4323),
        Op::Send(46962, 51465, 3, 9000),
    ];
    check_large(1192, 4, false, 1, Some(1), 2, &ops);
}

/// A deputy that was out, and did not know it, had a task of its own move to the next master.
#[test]
fn a_task_of_a_host_that_is_out_does_not_move() {
    let ops = [
        Op::Enrol(51960),
        Op::Send(29159, 56145, 1, 10),
        Op::Send(24333, 52467, 2, 3000),
        Op::Move(29129, 29409, 34406),
        Op::Move(4318, 52366, 44978),
        Op::CancelBatch(52502, 3940),
        Op::WatchArrivals(24950),
        Op::Send(64272, 38779, 2, 3000),
        Op::WatchHost(34666, 16127),
        Op::Group(33890, 13710),
        Op::Ask(65177, 36799),
        Op::Send(16280, 14442, 4, 200_000),
        Op::Cut(6394, 57396, 100),
        Op::Wait(1_500_000),
        Op::Spawn(47146, 5, 43288),
        Op::Move(17630, 11222, 40542),
        Op::Enrol(5630),
        Op::Stop(64278, 76),
        Op::Spawn(53808, 1, 0),
        Op::Wait(1_500_000),
        Op::Send(38198, 22280, 4, 200_000),
        Op::KillManagers(2264),
        Op::Multicast(370),
        Op::Spawn(8173, 6, 0),
        Op::Enrol(17969),
        Op::Cut(22556, 42372, 2900),
        Op::Wait(1_500_000),
        Op::Kill(2635),
        Op::CrashMaster(0),
        Op::Move(58379, 20894, 29944),
        Op::Reset(24476, 9919),
    ];
    check_large(4020, 5, false, 3, Some(2), 2, &ops);
}

/// A task that had moved joined a group and ended: its new host spoke of the end when the master had forgotten where the task lived.
#[test]
fn a_group_ends_with_a_member_that_has_moved() {
    let ops = [
        Op::Wait(1_500_000),
        Op::Enrol(46091),
        Op::Wait(30000),
        Op::Spawn(23592, 3, 0),
        Op::WatchTask(6742, 13618),
        Op::Cut(14620, 9331, 1000),
        Op::Mail(26142, 23271),
        Op::Send(40090, 13208, 3, 9000),
        Op::Ask(59273, 39604),
        Op::AddHosts(12093, 2),
        Op::Spawn(35258, 4, 0),
        Op::AddHosts(45988, 2),
        Op::Spawn(1183, 4, 30997),
        Op::Wait(1_500_000),
        Op::Move(59058, 36544, 12390),
        Op::Wait(1_500_000),
        Op::Kill(35610),
        Op::Leave(18247),
        Op::Kill(36474),
        Op::Group(61973, 61660),
        Op::Leave(43301),
    ];
    check_with_deputies(9116, 4, false, 3, &ops);
}

/// What a task subscribed to between its move and the last word of its old host was forgotten.
#[test]
fn a_task_that_has_just_moved_can_subscribe() {
    for seed in [4393, 10304] {
        attempt_plan(&Plan::new(seed, super::LENGTH));
    }
}

/// The host that a task was to leave was out before the task's successor had a process: the successor stayed for ever.
#[test]
fn a_successor_that_starts_too_late_is_ended() {
    let ops = [
        Op::Wait(1_500_000),
        Op::Enrol(31752),
        Op::Wait(1000),
        Op::AddHosts(6047, 2),
        Op::Wait(1000),
        Op::Spawn(19500, 2, 28036),
        Op::Spawn(5972, 5, 20827),
        Op::Kill(43600),
        Op::Wait(1_500_000),
        Op::Stop(19176, 2067),
        Op::Send(19336, 11648, 2, 3000),
        Op::Stop(39034, 1586),
        Op::Spawn(1576, 5, 0),
        Op::Wait(1000),
        Op::Multicast(43972),
        Op::Enrol(46790),
        Op::Ask(32054, 17399),
        Op::Leave(20949),
        Op::Ask(7042, 34687),
        Op::Mail(21647, 14195),
        Op::Wait(1000),
        Op::Enrol(16970),
        Op::AddHosts(53042, 2),
        Op::WatchTask(26722, 19471),
        Op::Move(4234, 37411, 6891),
        Op::Cut(1603, 35990, 2900),
        Op::Kill(47435),
        Op::Wait(30000),
        Op::Reset(25303, 12046),
        Op::Wait(1_500_000),
        Op::Observe(37703),
    ];
    check(736, 4, &ops);
}

/// A task was asked to move, and spawned a queued batch before it could.
#[test]
fn a_task_that_has_spawned_a_queued_batch_meanwhile_stays() {
    let ops = [
        Op::Wait(1_500_000),
        Op::Enrol(36165),
        Op::Wait(1_500_000),
        Op::Kill(32050),
        Op::Enrol(33493),
        Op::Enrol(56181),
        Op::Wait(1_500_000),
        Op::Send(20061, 24225, 3, 9000),
        Op::Spawn(12806, 4, 21601),
        Op::Spawn(54837, 5, 0),
        Op::KillManagers(11594),
        Op::Multicast(50096),
        Op::Send(14790, 33777, 4, 200_000),
        Op::Ask(42090, 10020),
        Op::AddHosts(7061, 2),
        Op::Wait(50),
        Op::Send(48979, 61598, 1, 10),
        Op::KillManagers(34011),
        Op::Enrol(16739),
        Op::WatchTask(54896, 16351),
        Op::Mail(46258, 12768),
        Op::Multicast(37184),
        Op::WatchHost(22988, 64863),
        Op::Spawn(14835, 1, 0),
        Op::Spawn(15777, 3, 7216),
        Op::Send(63020, 32602, 56, 300_000),
        Op::Kill(25939),
        Op::Spawn(10662, 4, 0),
        Op::AddHosts(26649, 1),
        Op::ChangeJob(38127, 48404),
        Op::Leave(55849),
        Op::Wait(30000),
        Op::Send(50172, 50077, 4, 200_000),
        Op::Spawn(59573, 2, 0),
        Op::Wait(1_500_000),
        Op::DeleteHost(13093, 98),
        Op::Spawn(7647, 5, 48748),
        Op::Cut(1200, 31211, 1000),
        Op::Group(31050, 17446),
        Op::KillManagers(58509),
        Op::Spawn(50647, 6, 0),
        Op::Group(25774, 62554),
        Op::Ask(4507, 36203),
        Op::Enrol(26781),
        Op::Jump(38021, 3_600_000),
        Op::Kill(25612),
        Op::Spawn(16963, 2, 0),
        Op::Send(55938, 30846, 1, 10),
        Op::Cut(35487, 44703, 2900),
        Op::Wait(1000),
        Op::Ask(49533, 56905),
        Op::Send(18957, 24976, 1, 10),
        Op::Move(60996, 29209, 6651),
        Op::Kill(63655),
        Op::AddHosts(57581, 1),
        Op::WatchHost(53055, 29934),
        Op::AddHosts(7802, 2),
        Op::Spawn(5770, 3, 6427),
        Op::Multicast(46869),
        Op::Wait(1_500_000),
        Op::Crash(17538),
        Op::Queue(62251, 4, 2),
        Op::Wait(1_500_000),
        Op::Crash(35580),
    ];
    check_large(11168, 5, false, 1, None, 2, &ops);
}
