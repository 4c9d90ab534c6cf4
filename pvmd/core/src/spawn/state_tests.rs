use super::State::{Cancelled, Dividing, Failing, InLine, Managed, Over, Pinned, Placed, Resting};
use super::*;
use proptest::prelude::*;

const MANAGER: Tid = Tid::from_raw(0x4_0001);
const OTHER: Tid = Tid::from_raw(0x4_0002);
const WAIT: Event<'_> = Event::TasksWait { more: 3 };
const UNPLACEABLE: Event<'_> = Event::Unplaceable { error: PvmError::DSysErr, reason: "none" };
const REFUSE: Effect<'_> = Effect::Refuse { error: PvmError::DSysErr, reason: "none" };
const HOPELESS: Event<'_> = Event::Hopeless(PvmError::NoHost);
const FAILING: State = Failing(PvmError::NoHost);

const AGENTS: Event<'_> = Event::AgentsWanted { more: 3 };

const STATES: [State; 9] =
    [Pinned, Resting, InLine, Managed(MANAGER), Dividing(MANAGER), Placed, FAILING, Cancelled, Over];
const EVENTS: [Event<'_>; 13] = [
    WAIT,
    AGENTS,
    Event::NoRoom,
    Event::Assigned(OTHER),
    Event::ManagerGone,
    Event::NothingWaits,
    Event::Held,
    Event::LimitsReached,
    Event::Settled,
    UNPLACEABLE,
    HOPELESS,
    Event::Cancelled,
    Event::Over,
];

/// Every pair that changes a state or has an effect; whatever is not listed does neither.
fn table() -> Vec<(State, Event<'static>, State, Vec<Effect<'static>>)> {
    let (managed, dividing) = (Managed(MANAGER), Dividing(MANAGER));
    let free = || vec![Effect::Free(MANAGER)];
    let leave = || vec![Effect::LeaveLine];
    let dismiss = || vec![Effect::DismissAgents];
    let fail = |before: Vec<_>| [before, vec![Effect::Fail(PvmError::NoHost)]].concat();
    vec![
        (Resting, WAIT, InLine, vec![Effect::FindManager]),
        (Resting, AGENTS, Placed, vec![Effect::TellAgents(None)]),
        (Placed, AGENTS, Placed, vec![Effect::TellAgents(Some(3))]),
        (FAILING, AGENTS, FAILING, fail(vec![])),
        (Placed, Event::NoRoom, Placed, vec![Effect::DivideNow]),
        (Placed, Event::NothingWaits, Resting, dismiss()),
        (Placed, Event::Held, Resting, dismiss()),
        (Placed, UNPLACEABLE, Placed, vec![REFUSE]),
        (Placed, HOPELESS, FAILING, fail(dismiss())),
        (Placed, Event::Cancelled, Cancelled, dismiss()),
        (Placed, Event::Over, Over, dismiss()),
        (InLine, WAIT, InLine, vec![Effect::FindManager]),
        (managed, WAIT, managed, vec![Effect::TellMore(MANAGER, 3)]),
        (dividing, WAIT, dividing, vec![Effect::TellMore(MANAGER, 3)]),
        (FAILING, WAIT, FAILING, fail(vec![])),
        (InLine, Event::Assigned(OTHER), Managed(OTHER), vec![]),
        (managed, Event::ManagerGone, Resting, vec![Effect::CloseNodes]),
        (dividing, Event::ManagerGone, Resting, vec![Effect::CloseNodes]),
        (InLine, Event::NothingWaits, Resting, leave()),
        (managed, Event::NothingWaits, Resting, free()),
        (dividing, Event::NothingWaits, Resting, free()),
        (FAILING, Event::NothingWaits, Resting, vec![]),
        (InLine, Event::Held, Resting, leave()),
        (managed, Event::Held, Resting, free()),
        (dividing, Event::Held, Resting, free()),
        (managed, Event::LimitsReached, dividing, vec![Effect::Divide]),
        (dividing, Event::LimitsReached, dividing, vec![Effect::Divide]),
        (dividing, Event::Settled, dividing, vec![Effect::Divide]),
        (Resting, UNPLACEABLE, Resting, vec![REFUSE]),
        (InLine, UNPLACEABLE, Resting, vec![Effect::LeaveLine, REFUSE]),
        (managed, UNPLACEABLE, managed, vec![REFUSE]),
        (dividing, UNPLACEABLE, dividing, vec![REFUSE]),
        (Resting, HOPELESS, FAILING, fail(vec![])),
        (InLine, HOPELESS, FAILING, fail(leave())),
        (managed, HOPELESS, FAILING, fail(free())),
        (dividing, HOPELESS, FAILING, fail(free())),
        (FAILING, HOPELESS, FAILING, fail(vec![])),
        (Resting, Event::Cancelled, Cancelled, vec![]),
        (InLine, Event::Cancelled, Cancelled, leave()),
        (managed, Event::Cancelled, Cancelled, free()),
        (dividing, Event::Cancelled, Cancelled, free()),
        (FAILING, Event::Cancelled, Cancelled, vec![]),
        (Pinned, Event::Over, Over, vec![]),
        (Resting, Event::Over, Over, vec![Effect::CloseNodes]),
        (InLine, Event::Over, Over, vec![Effect::LeaveLine, Effect::CloseNodes]),
        (managed, Event::Over, Over, free()),
        (dividing, Event::Over, Over, free()),
        (FAILING, Event::Over, Over, vec![Effect::CloseNodes]),
        (Cancelled, Event::Over, Over, vec![Effect::CloseNodes]),
    ]
}

#[test]
fn each_state_answers_each_event_as_the_table_says() {
    let table = table();
    for state in STATES {
        for event in EVENTS {
            let listed = table.iter().find(|row| (row.0, row.1) == (state, event));
            let expected = listed.map_or((state, vec![]), |row| (row.2, row.3.clone()));
            assert_eq!(state.next(event), expected, "{state:?}, {event:?}");
        }
    }
}

proptest! {
    /// However events follow each other: a spawn has at most one manager, stands in line exactly in its state, and keeps neither when
    /// it is over.
    #[test]
    fn who_is_asked_to_hand_out_is_also_freed(events in proptest::collection::vec(0..EVENTS.len(), 0..60)) {
        let (mut state, mut manager, mut in_line) = (Resting, None, false);
        for event in events.into_iter().map(|index| EVENTS[index]).chain([Event::Over]) {
            let (next, effects) = state.next(event);
            match event {
                Event::Assigned(tid) if state == InLine => (manager, in_line) = (Some(tid), false),
                Event::ManagerGone => manager = None,
                _ => {}
            }
            for effect in effects {
                match effect {
                    Effect::FindManager => in_line = true,
                    Effect::LeaveLine => prop_assert!(std::mem::take(&mut in_line)),
                    Effect::Free(tid) => prop_assert_eq!(manager.take(), Some(tid)),
                    Effect::TellMore(tid, _) => prop_assert_eq!(manager, Some(tid)),
                    _ => {}
                }
            }
            prop_assert_eq!((next.manager(), next == InLine), (manager, in_line));
            state = next;
        }
        prop_assert_eq!((state, manager, in_line), (Over, None, false));
    }
}
