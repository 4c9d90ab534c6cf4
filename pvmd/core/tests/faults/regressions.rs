//! Plans that once failed.

use crate::plan::{Op, Plan};
use crate::shrink::attempt;

pub fn check(seed: u64, hosts: u32, ops: &[Op]) {
    check_with_deputies(seed, hosts, false, 1, ops);
}

fn check_with_turns(seed: u64, hosts: u32, ops: &[Op]) {
    check_with_deputies(seed, hosts, true, 1, ops);
}

pub fn check_with_deputies(seed: u64, hosts: u32, turns: bool, deputies: usize, ops: &[Op]) {
    check_large(seed, hosts, turns, deputies, None, 256, ops);
}

pub fn check_large(
    seed: u64,
    hosts: u32,
    turns: bool,
    deputies: usize,
    width: Option<usize>,
    watched_max: usize,
    ops: &[Op],
) {
    let ops = ops.to_vec();
    attempt_plan(&Plan { seed, hosts, turns, shares: false, deputies, width, watched_max, ops });
}

pub fn attempt_plan(plan: &Plan) {
    if let Err(reason) = attempt(plan) {
        panic!("{reason}");
    }
}

#[test]
fn nothing_happens() {
    check(1, 4, &[Op::Wait(1_000_000)]);
    check_with_turns(1, 4, &[Op::Wait(1_000_000)]);
}

#[test]
fn a_task_that_waits_for_itself_to_read_is_killed() {
    check(
        42,
        1,
        &[
            Op::Enrol(0),
            Op::Wait(1_000_000),
            Op::Stop(0, 2834),
            Op::Send(0, 0, 20, 300_000),
            Op::Wait(1_500_000),
            Op::Kill(0),
        ],
    );
}

#[test]
fn a_member_hears_newcomers_of_whom_it_was_told_late() {
    use Op::*;
    check(
        445,
        1,
        &[
            Enrol(49055),
            Enrol(59058),
            WatchHost(1413, 28892),
            Enrol(39058),
            Wait(30000),
            Enrol(25619),
            Spawn(24601, 6, 48124),
            Mail(47553, 19710),
            Multicast(51563),
            Spawn(33454, 3, 0),
            AddHosts(4486, 1),
            Send(13914, 11410, 4, 200_000),
            Wait(1_500_000),
            Mail(1338, 20863),
            Kill(11656),
            Ask(7245, 51150),
            Send(26540, 35457, 1, 10),
            AddHosts(65167, 2),
            Wait(30000),
            Cut(59445, 27568, 2900),
            Spawn(36524, 6, 0),
            Spawn(38962, 5, 0),
            Wait(1_500_000),
            Ask(39178, 32841),
        ],
    );
}

#[test]
fn a_machine_halts_while_a_host_is_deleted_and_tasks_start() {
    use Op::*;
    check(
        4519,
        5,
        &[
            Enrol(43337),
            Wait(1_500_000),
            WatchTask(28704, 35469),
            Enrol(65177),
            Print(43729),
            DeleteHost(33651, 54562),
            Spawn(38762, 6, 0),
            Send(25045, 35258, 4, 200_000),
            WatchTask(16838, 31089),
            Spawn(34847, 1, 0),
            Leave(42377),
            Halt(0),
        ],
    );
}

#[test]
fn the_master_crashes_while_much_is_on_its_way_to_one_task() {
    use Op::*;
    check(
        5042,
        5,
        &[
            Wait(1_500_000),
            Wait(1_500_000),
            Enrol(56278),
            Enrol(30181),
            Wait(1000),
            Enrol(58467),
            Stop(41185, 2672),
            Wait(30000),
            Spawn(25304, 1, 31258),
            Multicast(41658),
            Spawn(32393, 4, 12001),
            Send(21492, 49052, 55, 300_000),
            Wait(50),
            Enrol(37184),
            Send(39161, 58249, 2, 3000),
            WatchTask(16068, 59845),
            Stop(1397, 839),
            Leave(44646),
            Stop(61854, 400),
            AddHosts(36385, 1),
            Multicast(43997),
            Send(2285, 55564, 34, 300_000),
            Wait(30000),
            CrashMaster(0),
        ],
    );
}

#[test]
fn a_newcomer_vanishes_that_was_asked_whether_it_lives() {
    use Op::*;
    let ops = [
        Wait(30000),
        Enrol(28008),
        Wait(30000),
        Send(35631, 6761, 1, 10),
        Stop(24462, 788),
        AddHosts(32655, 1),
        Send(2818, 35155, 25, 300_000),
        Ask(9979, 37576),
        DeleteHost(51636, 57923),
        Wait(1_500_000),
        Crash(10692),
    ];
    check(43, 5, &ops);
}

#[test]
fn an_observer_follows_another_while_a_task_ends() {
    use Op::*;
    check_with_turns(
        1803,
        2,
        &[
            Enrol(64361),
            HearEpoch(60984, 593, 28693),
            Cut(869, 3512, 2900),
            CancelBatch(11445, 12699),
            Await(48667, 63261),
            Leave(19026),
            Enrol(21568),
            Spawn(21450, 6, 23755),
            WatchTask(9916, 47473),
            Spawn(52466, 1, 0),
            AddHosts(5742, 1),
            Page(28050),
            Stop(61764, 688),
            Ask(6008, 49905),
            Page(49500),
            WatchTask(13938, 55670),
            Team(30769, 0),
            Send(31932, 36215, 2, 3000),
            HearEpoch(42121, 38961, 63427),
            Mail(24679, 35273),
            Wait(50),
            Send(26787, 17819, 3, 9000),
            WatchTask(36618, 16026),
            Send(64211, 25161, 4, 200_000),
            Wait(1_500_000),
            Spawn(50958, 6, 0),
            Spawn(54771, 1, 42832),
            Spawn(27037, 6, 0),
            Kill(43910),
            Ask(37054, 48088),
            Enrol(1646),
            Ask(34799, 1742),
            Enrol(19351),
            Print(13703),
            Send(48783, 63027, 3, 9000),
            Print(20676),
            Wait(50),
            Spawn(56584, 6, 0),
            Wait(30000),
            Leave(63868),
            Leave(59138),
            Wait(30000),
            Sleep(12603, 52564),
            Kill(48073),
            Enrol(32203),
            Leave(5805),
            Page(57446),
            Sleep(24772, 26485),
            Observe(43840),
            Spawn(60494, 6, 0),
            WatchTask(15058, 1156),
            Signal(32407, 3395),
            Kill(2784),
            Observe(13064),
        ],
    );
}

#[test]
fn a_manager_dies_that_has_not_read_that_two_batches_are_over() {
    use Op::*;
    check(
        2292,
        3,
        &[
            Enrol(58632),
            Multicast(8006),
            Spawn(4190, 6, 15013),
            DeleteHost(51792, 60630),
            Kill(1837),
            Unwatch(3088, 12155),
            Kill(4365),
            Enrol(39070),
            Wait(1000),
            Queue(651, 3, 0),
            Wait(30000),
            Kill(32579),
            Kill(19254),
            Queue(17923, 2, 2),
            KillManagers(49730),
            Kill(31812),
        ],
    );
}

#[test]
fn the_master_crashes_when_a_task_of_a_newcomer_has_asked_it_for_something() {
    check(8682, 5, NEWCOMERS_AND_A_CRASH);
}

const NEWCOMERS_AND_A_CRASH: &[Op] = {
    use Op::*;
    &[
        Enrol(62217),
        Wait(1000),
        AddHosts(23015, 2),
        WatchTask(61524, 2189),
        WatchTask(25084, 13353),
        Send(9707, 4868, 3, 9000),
        Enrol(61033),
        Ask(28350, 62685),
        Stop(27790, 2534),
        Send(32489, 65481, 48, 300_000),
        WatchArrivals(28436),
        Mail(2860, 6080),
        Ask(61208, 40234),
        Spawn(50131, 5, 0),
        Ask(29871, 21433),
        Ask(46195, 32289),
        Spawn(5620, 3, 0),
        WatchHost(57050, 11491),
        Queue(39134, 5, 2),
        Unwatch(54340, 16898),
        Wait(1_500_000),
        Wait(30000),
        Mail(1472, 49664),
        Spawn(6273, 4, 0),
        Leave(33345),
        Enrol(46101),
        Cut(8965, 7357, 2900),
        Wait(30000),
        Send(28765, 53472, 4, 200_000),
        Wait(30000),
        WatchHost(60162, 59780),
        Queue(52072, 4, 1),
        WatchTask(20808, 24596),
        Wait(1000),
        Stop(14266, 457),
        Reset(29301, 41439),
        Queue(1586, 1, 1),
        Wait(30000),
        KillManagers(24584),
        WatchTask(59508, 35601),
        WatchTask(40981, 32799),
        Spawn(2153, 6, 0),
        AddHosts(42787, 2),
        Wait(30000),
        Spawn(28049, 6, 0),
        Wait(50),
        AddHosts(36575, 1),
        WatchTask(59, 2993),
        Wait(30000),
        Group(22206, 39580),
        Mail(51235, 25643),
        Signal(52579, 54223),
        Spawn(64802, 4, 10819),
        AddHosts(968, 2),
        Send(851, 35264, 1, 10),
        Wait(30000),
        Ask(35698, 42376),
        Enrol(46813),
        Enrol(45498),
        Kill(27043),
        WatchTask(52197, 60532),
        Wait(1_500_000),
        Multicast(49327),
        Enrol(32506),
        Spawn(32214, 4, 0),
        KillManagers(8449),
        Crash(27158),
        Send(55889, 64419, 3, 9000),
        Load(56126, 1),
        Cut(28500, 19183, 10000),
        Crash(7782),
        Send(50462, 43078, 4, 200_000),
        Send(21441, 40278, 3, 9000),
        Ask(46812, 57883),
        AddHosts(48549, 2),
        Wait(1_500_000),
        DeleteHost(38645, 49723),
        Wait(1_500_000),
    ]
};

#[test]
fn another_host_takes_the_place_of_a_master_that_is_lost() {
    for crash in [0, 1] {
        let ops = [Op::Wait(1_500_000), Op::CrashMaster(crash), Op::Wait(3_600_000)];
        check_with_deputies(5, 4, false, 3, &ops);
        check_with_deputies(6, 5, true, 5, &ops);
    }
}

#[test]
fn a_newcomer_hears_of_a_loss_before_it_is_a_member() {
    attempt_plan(&Plan::new(7706, super::LENGTH));
}

#[test]
fn batches_of_a_host_that_is_out_are_not_opened_while_its_vote_is_needed() {
    let ops = [
        Op::Wait(1_500_000),
        Op::Enrol(56274),
        Op::Multicast(50919),
        Op::Enrol(22018),
        Op::Reset(12910, 45418),
        Op::WatchHost(25951, 22053),
        Op::Cut(10133, 50375, 2900),
        Op::Leave(52254),
        Op::Send(52047, 57758, 3, 9000),
        Op::Queue(47296, 4, 0),
        Op::CrashMaster(1),
        Op::Reset(49855, 50996),
        Op::Spawn(15636, 6, 0),
        Op::Spawn(55019, 5, 0),
        Op::Cut(38910, 65110, 2900),
        Op::Spawn(11621, 4, 0),
    ];
    check_large(5282, 4, false, 3, None, 2, &ops);
}

#[test]
fn a_parallel_jobs_group_ends_with_its_tasks() {
    let ops = [
        Op::Enrol(58994),
        Op::Send(54893, 37371, 3, 9000),
        Op::Spawn(913, 4, 0),
        Op::Spawn(12820, 1, 7045),
        Op::Enrol(62905),
        Op::Enrol(53068),
        Op::Enrol(39377),
        Op::Kill(34537),
        Op::Send(59311, 7285, 3, 9000),
        Op::Send(57768, 14054, 2, 3000),
        Op::AddHosts(52614, 2),
        Op::WatchTask(8185, 55424),
        Op::Team(35604, 2),
        Op::Wait(1_500_000),
        Op::WatchTask(42873, 1611),
        Op::Submit(10040, 6, 2130),
        Op::KillManagers(49947),
        Op::Send(28190, 65155, 2, 3000),
        Op::Multicast(45712),
        Op::Send(781, 53156, 2, 3000),
        Op::Print(64901),
        Op::Leave(19502),
        Op::Multicast(11268),
        Op::Sleep(3929, 38757),
        Op::Wait(1_500_000),
    ];
    check_large(2033, 1, true, 1, Some(2), 256, &ops);
}

#[test]
fn a_master_whose_clock_jumps_waits_no_longer_for_a_daemon_that_ends() {
    attempt_plan(&Plan::new(6008, super::LENGTH));
}

/// The batch is placed by a policy that tells only some hosts of it.
#[test]
fn a_batch_whose_manager_is_killed_is_closed_on_all_hosts() {
    let ops = [
        Op::Wait(1_500_000),
        Op::Enrol(50619),
        Op::Wait(1_500_000),
        Op::Sleep(58120, 60437),
        Op::WatchTask(43183, 57246),
        Op::Send(17394, 17726, 2, 3000),
        Op::Spawn(3410, 1, 0),
        Op::ChangeJob(16402, 15823),
        Op::Submit(36629, 3, 9569),
        Op::Page(60275),
        Op::Leave(12907),
        Op::Enrol(46462),
        Op::Spawn(17693, 5, 49495),
        Op::Send(37274, 19259, 2, 3000),
        Op::Sleep(20972, 46163),
        Op::Team(12936, 1),
        Op::Group(11392, 64722),
        Op::HearEpoch(20189, 9233, 55639),
        Op::Send(39778, 35286, 4, 200_000),
        Op::WatchHost(9443, 35073),
        Op::Spawn(63977, 3, 136),
        Op::Observe(1327),
        Op::Spawn(38238, 6, 23038),
        Op::DeleteHost(49511, 7220),
        Op::AddHosts(7447, 1),
        Op::AddHosts(41375, 1),
        Op::Wait(1000),
        Op::WatchHost(25872, 48934),
        Op::DeleteHost(10098, 37233),
        Op::Mail(48247, 40),
        Op::Mail(34543, 9469),
        Op::Ask(62467, 20824),
        Op::Page(25310),
        Op::WatchHost(30448, 13329),
        Op::WatchTask(52875, 27287),
        Op::WatchHost(51092, 19176),
        Op::Wait(1_500_000),
        Op::AddHosts(7116, 1),
        Op::Spawn(65186, 1, 0),
        Op::Spawn(10441, 5, 0),
        Op::WatchTask(36356, 6842),
        Op::Queue(39831, 5, 1),
        Op::Enrol(3739),
        Op::Send(18026, 15879, 2, 3000),
        Op::Wait(1_500_000),
        Op::KillManagers(126),
    ];
    check_with_deputies(251, 2, true, 3, &ops);
}

/// A host that had rows, and has no teams any more, asked each new master for its clock for ever.
#[test]
fn a_host_without_teams_needs_no_clock_of_a_new_master() {
    let ops = [
        Op::Wait(1_500_000),
        Op::Wait(1_500_000),
        Op::Enrol(47339),
        Op::Send(17365, 43385, 3, 9000),
        Op::Leave(10383),
        Op::Sleep(24918, 52871),
        Op::HearEpoch(22912, 49897, 32324),
        Op::HearEpoch(54272, 37363, 31838),
        Op::Send(65006, 51987, 1, 10),
        Op::Await(33644, 57637),
        Op::Team(55827, 0),
        Op::Wait(30000),
        Op::Spawn(33754, 3, 31570),
        Op::WatchTask(58422, 10264),
        Op::Queue(30101, 4, 2),
        Op::Wait(1_500_000),
        Op::CrashMaster(0),
    ];
    check_large(623, 5, true, 5, Some(1), 256, &ops);
}

/// The master has told a daemon to end, and added its host anew, when its clock jumped.
#[test]
fn a_master_whose_clock_jumps_waits_no_longer_for_a_daemon_that_it_has_told_to_end() {
    let ops = [
        Op::Enrol(33884),
        Op::Wait(30000),
        Op::Spawn(33207, 3, 0),
        Op::Mail(57517, 27180),
        Op::Wait(1_500_000),
        Op::Wait(1_500_000),
        Op::AddHosts(56119, 1),
        Op::Wait(1_500_000),
        Op::DeleteHost(44617, 31489),
        Op::AddHosts(1505, 2),
        Op::Jump(37992, 20000),
    ];
    check_with_turns(3193, 4, &ops);
}

/// Hosts were leaving a link when a newcomer made them neighbours.
#[test]
fn a_link_that_was_being_left_is_made_again_for_neighbours() {
    let ops = [
        Op::Wait(1_500_000),
        Op::Cut(64869, 63760, 2900),
        Op::Wait(30000),
        Op::Enrol(653),
        Op::Cut(36292, 35850, 1000),
        Op::Sleep(58355, 52415),
        Op::Wait(50),
        Op::Enrol(50616),
        Op::Enrol(13841),
        Op::Group(5425, 44387),
        Op::Leave(27487),
        Op::Wait(30000),
        Op::HearEpoch(29604, 4384, 1356),
        Op::Spawn(15716, 2, 23461),
        Op::Ask(20323, 22384),
        Op::Wait(30000),
        Op::Wait(1_500_000),
        Op::Ask(59354, 39283),
        Op::Send(43685, 31361, 3, 9000),
        Op::Mail(35395, 3363),
        Op::Send(34731, 59139, 4, 200_000),
        Op::Sleep(59666, 55579),
        Op::Submit(12613, 4, 7263),
        Op::Signal(948, 53874),
        Op::Team(1122, 0),
        Op::Send(32566, 47584, 2, 3000),
        Op::Kill(2668),
        Op::Crash(45563),
        Op::Enrol(1090),
        Op::Wait(30000),
        Op::AddHosts(27758, 1),
        Op::AddHosts(33214, 2),
        Op::Page(19887),
        Op::AddHosts(39707, 2),
        Op::WatchTask(50370, 16305),
        Op::Kill(38945),
        Op::Enrol(64893),
        Op::Enrol(4419),
        Op::Wait(1_500_000),
        Op::Spawn(51377, 3, 0),
        Op::Leave(30706),
        Op::Team(11919, 0),
        Op::Wait(30000),
        Op::Wait(1000),
        Op::Ask(41349, 18738),
        Op::Jump(22029, 20000),
        Op::Send(901, 40264, 1, 10),
        Op::Multicast(48126),
        Op::Enrol(33020),
        Op::Send(57760, 6142, 2, 3000),
        Op::Multicast(27305),
        Op::DeleteHost(11213, 53804),
        Op::Send(31907, 58993, 1, 10),
        Op::Await(32822, 39600),
        Op::WatchTask(36057, 49574),
        Op::Sleep(59954, 44251),
        Op::WatchHost(25234, 21696),
        Op::HearEpoch(54855, 48741, 13560),
        Op::AddHosts(51312, 1),
    ];
    check_large(4161, 5, true, 1, None, 3, &ops);
}

/// A newcomer asked the master whether it lives, and a host that was ending asked for news of tasks when it was out already.
#[test]
fn what_is_asked_beside_joining_and_leaving_does_not_stay() {
    for seed in [4436, 9086] {
        attempt_plan(&Plan::new(seed, super::LENGTH));
    }
}

/// The owner of the last host was there, and a policy that divides at once went on handing its tasks to that host.
#[test]
fn a_host_whose_owner_is_there_is_not_handed_the_same_tasks_for_ever() {
    let ops = [
        Op::Wait(1_500_000),
        Op::Enrol(61168),
        Op::AddHosts(47371, 2),
        Op::Team(48375, 0),
        Op::Ask(14865, 9508),
        Op::HearEpoch(16023, 9155, 57473),
        Op::Await(36153, 15185),
        Op::AddHosts(30928, 1),
        Op::Spawn(48344, 2, 0),
        Op::Send(13820, 48561, 4, 200_000),
        Op::AddHosts(49446, 1),
        Op::Spawn(38427, 1, 0),
        Op::Sleep(62240, 61667),
        Op::Send(61386, 15497, 1, 10),
        Op::Multicast(30785),
        Op::Submit(790, 4, 3875),
        Op::Send(16153, 18944, 2, 3000),
        Op::Crash(37867),
        Op::Wait(1_500_000),
        Op::Crash(29760),
        Op::Leave(59335),
        Op::Enrol(22896),
        Op::Page(13),
        Op::Crash(23097),
        Op::Wait(50),
        Op::DeleteHost(17501, 62172),
        Op::Wait(1_500_000),
        Op::Owner(60303, 23437),
        Op::Wait(1_500_000),
    ];
    check_large(5065, 5, true, 1, Some(1), 3, &ops);
}

/// The master has told a daemon to end, which runs a task of a job, when its clock jumped.
#[test]
fn a_master_whose_clock_jumps_starts_a_task_of_a_job_again() {
    let ops = [
        Op::Wait(1_500_000),
        Op::Enrol(15264),
        Op::Enrol(11757),
        Op::Cut(16531, 50758, 10000),
        Op::WatchHost(59773, 22468),
        Op::Send(25704, 19982, 1, 10),
        Op::Send(9189, 19661, 4, 200_000),
        Op::Leave(33638),
        Op::Wait(1000),
        Op::Send(25458, 26376, 2, 3000),
        Op::Group(7984, 23008),
        Op::Observe(15996),
        Op::Signal(47150, 18672),
        Op::WatchHost(48122, 44896),
        Op::Enrol(6261),
        Op::WatchHost(56289, 51981),
        Op::Wait(1_500_000),
        Op::Enrol(56870),
        Op::WatchTask(54983, 43769),
        Op::Move(2632, 23, 17415),
        Op::Send(480, 33135, 1, 10),
        Op::Signal(17678, 40090),
        Op::Leave(23382),
        Op::WatchHost(15453, 61121),
        Op::Send(11187, 15859, 3, 9000),
        Op::Enrol(62195),
        Op::Wait(1_500_000),
        Op::AddHosts(45926, 1),
        Op::Send(23642, 6293, 1, 10),
        Op::Crash(56137),
        Op::Enrol(28324),
        Op::Cut(41307, 59798, 10000),
        Op::Enrol(37316),
        Op::Wait(30000),
        Op::Send(18016, 10051, 3, 9000),
        Op::Send(52478, 4113, 1, 10),
        Op::Submit(48009, 3, 5441),
        Op::Mail(25558, 50341),
        Op::Ask(10924, 21036),
        Op::Send(29688, 25828, 3, 9000),
        Op::Enrol(36393),
        Op::Kill(43086),
        Op::Wait(1_500_000),
        Op::DeleteHost(2412, 21689),
        Op::Jump(25605, 20000),
    ];
    check_large(10448, 4, false, 1, Some(2), 3, &ops);
}
