//! Programs of the user's that stand in for a part of the daemon.

use pvm_tests::machine::Plan;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, wait};

#[test]
fn a_hoster_starts_hosts_in_the_masters_place() {
    let Some(ours) = Installation::ours_only("a hoster of the user's") else { return };
    let Some(programs) = Programs::compile(&["hoster"], &ours, Linking::Shared) else { return };
    // ssh must not be what starts them.
    let machine = Plan::of(&ours).name("master").variable("PVM_RSH", "no-such-rsh").start();
    let hoster = machine.program::<&str>(programs.path("hoster"), &[]);
    wait::until(wait::PATIENCE, || hoster.stdout().contains("registered 0").then_some(()))
        .expect("the hoster registers");
    let mut console = machine.console();
    let daemon = ours.pvmd();
    let node = format!("node lo=me ip=127.0.0.1 id={}-node dx={}", std::process::id(), daemon.display());
    let broken = "broken ip=127.0.0.2 dx=no-such-daemon";
    let answers = console.add(&[&node, broken]);
    let [(_, added), (_, refused)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(added.as_deref(), Ok("80000"));
    assert!(refused.as_ref().is_err_and(|reason| reason.contains("PvmCantStart")), "{refused:?}");
    assert!(hoster.stdout().contains("start me@127.0.0.1"), "{}", hoster.stdout());
    assert_eq!(console.conf().len(), 2);
    let spawned = console.spawn("-node /bin/true");
    assert!(spawned.tasks.iter().all(Result::is_ok), "{spawned:?}");
    drop(hoster);
    let answers = console.add(&["later ip=127.0.0.3"]);
    assert!(
        answers.iter().all(|(_, result)| result.is_err()),
        "without the hoster it is ssh again: {answers:?}"
    );
    console.quit();
    machine.finish();
}
