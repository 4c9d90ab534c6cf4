//! Networks that let daemons talk, and not tasks.

use pvm_tests::machine::Plan;
use pvm_tests::program::Program;
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Network};
use std::path::Path;

/// What comes of `whisper` between two hosts when all TCP that leaves this host of the two is dropped.
fn whispered_without_answers_of(host: usize) -> Option<()> {
    let check = "tasks whose connections are dropped";
    let ours = Installation::ours_only(check)?;
    let network = Network::of(2, &ours, check)?;
    let programs = Programs::compile(&["whisper"], &Installation::under_test(), Linking::Shared)?;
    let hostfile = format!("* ep=@PATH@\n{}\n", network.line(1, ""));
    let plan = Plan::of(&ours).path(programs.folder()).name(&network.address(0));
    let machine = plan.hostfile(&hostfile).network(&network).start();
    machine.console_with_hosts(2).quit();
    let mut rule = network.namespace(host).command(Path::new("ip"));
    Program::run(rule.args(["rule", "add", "priority", "1", "ipproto", "tcp", "blackhole"])).expect_success();
    let words = ["200", "1000", "default"];
    let ended = Program::run(machine.command(programs.path("whisper")).args(words));
    ended.expect_success();
    assert_eq!(ended.stdout, "heard 200\n", "{:#?}", machine.logs());
    machine.finish();
    Some(())
}

#[test]
fn messages_go_by_the_daemons_where_a_connection_cannot_be_made() {
    for host in [0, 1] {
        let Some(()) = whispered_without_answers_of(host) else { return };
    }
}
