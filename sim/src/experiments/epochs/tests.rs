use super::*;

fn settings() -> Settings {
    let grain = vec![1.0];
    Settings { nodes: 6, jobs: 2, grain, slice: 20.0, spin: 5, time: 0.4, visit: 0.05, ..Settings::default() }
}

fn of(policy: Policy, grain: f64) -> Outcome {
    simulate(&settings(), Case { policy, grain }, 5)
}

#[test]
fn all_get_on_and_repeat_themselves() {
    for policy in Policy::ALL {
        let outcome = of(policy, 1.0);
        assert!(outcome.steps > 100 && outcome.slowdown > 0.9, "{policy:?}: {outcome:?}");
        assert_eq!(outcome, of(policy, 1.0));
    }
}

#[test]
fn a_job_alone_has_the_machine() {
    for policy in Policy::ALL {
        let settings = Settings { jobs: 1, ..settings() };
        let outcome = simulate(&settings, Case { policy, grain: 1.0 }, 5);
        assert!(outcome.slowdown < 1.25, "{policy:?}: {outcome:?}");
    }
}

#[test]
fn an_owner_holds_up_all_who_wait_for_the_node() {
    for policy in Policy::ALL {
        let with =
            |idle| simulate(&Settings { idle, time: 2.0, ..settings() }, Case { policy, grain: 1.0 }, 5);
        let (alone, visited) = (with(0.0), with(0.5));
        // Each of six nodes is away for a tenth of the time.
        let more = visited.slowdown / alone.slowdown;
        assert!(more > 1.1 && more < 3.0, "{policy:?}: {more}");
        assert_eq!(visited, with(0.5));
    }
}

#[test]
fn daemons_take_the_processor_for_messages() {
    let alone = |policy, daemon, interrupt| {
        let settings = Settings { nodes: 2, jobs: 1, daemon, interrupt, variation: 0.0, ..settings() };
        settings.time * 1000.0 * 2.0 / simulate(&settings, Case { policy, grain: 1.0 }, 5).steps as f64
    };
    // Work, a message that leaves and comes, its way, and a switch if the process has blocked.
    let near = |step: f64, expected: f64| (step - expected).abs() < 0.02 * expected;
    assert!(near(alone(Policy::Blocking, 0.0, 0.0), 1.0 + 0.05 + 0.05));
    assert!(near(alone(Policy::Blocking, 0.2, 0.5), 1.0 + 0.05 + 0.05 + 2.0 * 0.2));
    assert!(near(alone(Policy::Local, 0.2, 0.5), 1.0 + 0.05 + 2.0 * (0.2 + 0.5)), "it does not let them");
}

#[test]
fn daemons_do_not_wait_while_turns_are_taken() {
    let of = |policy, interrupt| {
        let settings = Settings { nodes: 2, daemon: 0.05, interrupt, ..settings() };
        simulate(&settings, Case { policy, grain: 0.2 }, 5).steps as f64
    };
    assert!(of(Policy::Local, 0.3) < of(Policy::Local, 0.0) * 0.7);
    assert!(of(Policy::DemandSpinning, 0.3) > of(Policy::DemandSpinning, 0.0) * 0.9);
}

#[test]
fn fine_grains_need_coscheduling() {
    let gang = of(Policy::Gang, 0.2);
    assert!(gang.slowdown < 1.3, "{gang:?}");
    assert!(gang.slowdown < of(Policy::Local, 0.2).slowdown);
    assert!(gang.fairness > 0.95);
}

#[test]
fn a_report() {
    let report = run(&Settings { time: 0.05, ..settings() }, &Runs::quiet(1, 2)).expect("a report");
    assert_eq!(report.tables[0].rows.len(), 6);
    assert!(report.plots.iter().all(|plot| plot.svg().is_ok()));
}

/// Nodes of several processors.
fn several(nodes: u32, processors: u32, tasks: u32) -> Settings {
    let (processors, tasks) = (Some(processors), Some(tasks));
    Settings { nodes, processors, tasks, ..settings() }
}

#[test]
fn nodes_of_several_processors_get_on_and_repeat_themselves() {
    for settings in [several(1, 2, 2), several(3, 1, 1), several(2, 4, 2)] {
        let settings = Settings { daemon: 0.01, ..settings };
        for policy in Policy::ALL {
            let case = Case { policy, grain: 1.0 };
            let outcome = simulate(&settings, case, 5);
            assert!(outcome.steps > 100 && outcome.slowdown > 0.9, "{policy:?}: {outcome:?}");
            assert!(outcome.fairness > 0.8, "{policy:?}: {outcome:?}");
            assert_eq!(outcome, simulate(&settings, case, 5));
        }
    }
}

#[test]
fn a_job_alone_has_all_processors() {
    for policy in Policy::ALL {
        for settings in [several(1, 4, 4), several(2, 2, 2)] {
            let outcome = simulate(&Settings { jobs: 1, ..settings }, Case { policy, grain: 1.0 }, 5);
            assert!(outcome.slowdown < 1.25, "{policy:?}: {outcome:?}");
        }
    }
}

#[test]
fn jobs_that_fit_run_beside_each_other() {
    for policy in Policy::ALL {
        let settings = Settings { time: 2.0, ..several(1, 4, 2) };
        let outcome = simulate(&settings, Case { policy, grain: 1.0 }, 5);
        assert!(outcome.slowdown < 1.25, "{policy:?}: {outcome:?}");
    }
}

#[test]
fn spinning_jobs_on_one_node_need_turns() {
    let of = |policy| {
        let settings = Settings { jobs: 3, time: 3.0, ..several(1, 2, 2) };
        simulate(&settings, Case { policy, grain: 0.1 }, 5).slowdown
    };
    let [local, demand, gang] = [Policy::Local, Policy::DemandSpinning, Policy::Gang].map(of);
    assert!(demand < local && gang < local, "{local} {demand} {gang}");
}

#[test]
fn settings_that_make_no_sense() {
    let check = |nodes, processors, tasks| Settings { nodes, processors, tasks, ..settings() }.check();
    assert_eq!(check(1, None, None), Err(Error::OneNode));
    assert_eq!(check(1, Some(1), None), Err(Error::OneProcess));
    assert_eq!(check(1, Some(4), Some(1)), Err(Error::OneProcess));
    for (nodes, processors, tasks) in [(2, None, None), (1, Some(2), None), (2, Some(4), Some(1))] {
        assert_eq!(check(nodes, processors, tasks), Ok(()));
    }
}
