use super::super::values::SLOTS;
use super::*;
use proptest::prelude::*;
use pvm_wire::turn_rules::Means;

const COSCHEDULING: [Coscheduling; 3] = [
    Coscheduling { means: Means::Weights, has_rows: false },
    Coscheduling { means: Means::Auto, has_rows: true },
    Coscheduling { means: Means::Priorities, has_rows: true },
];

fn parsed(text: &str) -> Hostfile {
    Hostfile::parse(text).expect("a hostfile without mistakes")
}

/// The mistakes as they are printed.
fn mistakes(text: impl AsRef<[u8]>) -> Vec<String> {
    Hostfile::parse(text).expect_err("a hostfile with mistakes").iter().map(ToString::to_string).collect()
}

#[test]
fn every_option_finds_its_place() {
    let text = "node lo=me so=ms dx=/bin/pvmd ep=/a:$HOME/b wd=/tmp sp=2000 bx=dbg ip=10.0.0.1 id=x via=local net=private slice=20 coscheduling=dasic,stop policy=round-robin succession=silent owner=idle:10m held=least job=17 slots=4 cluster=east";
    let options = HostOptions {
        login: Some("me".to_owned()),
        start_options: Some("ms".to_owned()),
        daemon: Some("/bin/pvmd".to_owned()),
        exec_path: Some("/a:$HOME/b".to_owned()),
        working_directory: Some("/tmp".to_owned()),
        speed: Some(2000),
        debugger: Some("dbg".to_owned()),
        address: Some("10.0.0.1".to_owned()),
        vmid: Some("x".to_owned()),
        via: Some(Via::Local),
        network: Some(Network::Private),
        slice: Some(20),
        coscheduling: Some(Coscheduling { means: Means::Stop, has_rows: true }),
        owner: Some(OwnerRule::Idle(600)),
        held: Some(Held::Least),
        job: Some(17),
        policy: Some(Policy::RoundRobin),
        succession: Some(SuccessionRule::Silent),
        slots: Some(4),
        cluster: Some("east".to_owned()),
    };
    let host = HostSpec { name: "node".to_owned(), options, start: true, shared_address: false };
    assert_eq!(parse_host(text), Ok(host.clone()));
    assert_eq!(parsed(text).hosts, [host]);
}

/// The names with their slots.
fn slots(text: &str) -> Vec<(String, Option<u32>)> {
    parsed(text).hosts.into_iter().map(|host| (host.name, host.options.slots)).collect()
}

#[test]
fn hostfiles_of_other_systems_give_slots() {
    let expected = |name: &str, slots| vec![(name.to_owned(), Some(slots))];
    for (text, count) in [
        ("node slots=4", 4),
        ("node:4", 4),
        ("node:4 user=me", 4),
        ("node cpu=4 user=me", 4),
        ("node cpus=4", 4),
        ("node np=4", 4),
        ("node 4 all.q@node UNDEFINED", 4),
        ("node 4", 4),
        ("node\nnode\nnode\n", 3),
        ("node slots=2\nnode:3", 5),
    ] {
        assert_eq!(slots(text), expected("node", count), "{text}");
    }
    assert_eq!(slots("a\nb\nb\na\na"), [("a".to_owned(), Some(3)), ("b".to_owned(), Some(2))]);
    assert_eq!(slots("fe80::1"), [("fe80::1".to_owned(), None)]);
    assert_eq!(parsed("node:4 user=me").hosts[0].options.login.as_deref(), Some("me"));
    let repeated = parsed("node sp=2 lo=me\nnode sp=2 lo=me\nnode");
    assert_eq!((repeated.hosts.len(), repeated.hosts[0].options.slots), (1, Some(3)));
}

#[test]
fn what_cannot_be_taken_from_other_systems_is_said() {
    let text =
        "a slots=0\nb:x\nc:2 slots=3\nd max_slots=4\ne[01-04]\nf sp=1\n\nf sp=2\n& g\ng\nh ifname=eth0\n";
    assert_eq!(
        mistakes(text),
        [
            "line 1: `0`: the number of slots is from 1 to 1000000",
            "line 2: `x`: the number of slots is from 1 to 1000000",
            "line 3: the number of slots is given twice",
            "line 4: `max_slots=`: not supported: slots= is no firm limit here; PVM_TASK_LIMIT in that host's \
             environment is one",
            "line 5: `e[01-04]` stands for several hosts: write one line for each (scontrol show hostnames)",
            "line 8: f is in line 6 already, with other options",
            "line 10: g is in line 9 already, with other options",
            "line 11: `ifname=`: not supported: an option of another system",
        ]
    );
}

#[test]
fn marks_comments_and_blank_lines() {
    let file = parsed("# all\n\n \t\na # b lo=x\n&b\n & c\r\n$ d\n$&e lo=a#b");
    let seen: Vec<_> = file.hosts.iter().map(|h| (h.name.as_str(), h.start, h.shared_address)).collect();
    assert_eq!(
        seen,
        [("a", true, false), ("b", false, false), ("c", false, false), ("d", true, true), ("e", false, true)]
    );
    assert_eq!(file.hosts[0].options, HostOptions::default());
    assert_eq!(file.hosts[4].options.login.as_deref(), Some("a#b"));
}

#[test]
fn defaults_apply_below_and_replace_earlier_ones() {
    let file = parsed("a\n* lo=x sp=7\nb\nc sp=9\n* wd=/w\nd\n");
    let seen: Vec<_> = file
        .hosts
        .iter()
        .map(|h| (h.options.login.as_deref(), h.options.speed, h.options.working_directory.as_deref()))
        .collect();
    assert_eq!(
        seen,
        [
            (None, None, None),
            (Some("x"), Some(7), None),
            (Some("x"), Some(9), None),
            (None, None, Some("/w"))
        ]
    );
    assert_eq!(
        file.defaults,
        HostOptions { working_directory: Some("/w".to_owned()), ..HostOptions::default() }
    );
}

#[test]
fn a_backslash_joins_lines_but_not_out_of_a_comment() {
    let file = parsed("a lo=x\\\n  sp=3 \\\r\n wd=/w\n# comment \\\nb\nc # too \\\nd \\");
    let names: Vec<_> = file.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(file.hosts[0].options.speed, Some(3));
    assert_eq!(file.hosts[0].options.working_directory.as_deref(), Some("/w"));
    assert_eq!(
        mistakes("a \\\n \\\n zz=1\nb yy=1"),
        ["line 1: unknown option `zz=`", "line 4: unknown option `yy=`"]
    );
}

#[test]
fn every_mistake_is_told_with_its_line() {
    let text = "good\nbad foo=1\n\nlo=me\n& \nd sp=fast\ne sp=0\nf via=rsh\ng wd=\nh word\ni so=\n-oProxyCommand=x\n-v\nj ip=-x\nk net=mine\nl slice=0\nm policy=best\nn succession=on\no via=srun job=17_2\np coscheduling=on\nq coscheduling=dasic,implicit\nr coscheduling=";
    assert_eq!(
        mistakes(text),
        [
            "line 2: unknown option `foo=`",
            "line 4: the host's name is missing before `lo=me`",
            "line 5: the host's name is missing",
            "line 6: `sp=fast`: a speed is a whole number from 1 to 1000000",
            "line 7: `sp=0`: a speed is a whole number from 1 to 1000000",
            "line 8: `via=rsh`: a host is started via one of ssh, local, srun, blaunch, qrsh",
            "line 9: `wd=` has no value",
            "line 10: `word` is not an option: options have the form key=value",
            "line 11: `so=` has no value",
            "line 12: the host's name is missing before `-oProxyCommand=x`",
            "line 13: the host's name `-v` begins with `-`",
            "line 14: `ip=-x` begins with `-`",
            "line 15: `net=mine`: a network is `private` or `open`",
            "line 16: `slice=0`: a slice is 1 to 60000 milliseconds",
            "line 17: `policy=best`: the policies are active-pulling, round-robin, proportional, lightly-loaded, local, sender-initiated, receiver-initiated, bidding, up-down, hierarchical, graph-theoretic, coallocation",
            "line 18: `succession=on`: a succession is `proved`, `silent` or `off`",
            "line 19: `job=17_2`: a job of Slurm is a number from 1 on",
            "line 20: `coscheduling=on`: must be auto, priorities, weights, stop, implicit, dasic or dasic,MEANS",
            "line 21: `coscheduling=dasic,implicit`: must be auto, priorities, weights, stop, implicit, dasic or dasic,MEANS",
            "line 22: `coscheduling=`: must be auto, priorities, weights, stop, implicit, dasic or dasic,MEANS",
        ]
    );
}

#[test]
fn names_of_hosts_are_no_paths() {
    const NAMES: &str = "a name is at most 253 bytes of letters, digits, and `-`, `_`, `.`, `:`, `%`";
    for (name, found) in
        [("../../x", '/'), ("/x", '/'), ("a@b", '@'), ("a;b", ';'), ("a$b", '$'), ("a\\b", '\\')]
    {
        let reason = format!("the host's name `{name}` contains `{found}`: {NAMES}");
        assert_eq!(parse_host(name), Err(reason.clone()));
        assert_eq!(mistakes(format!("{name} sp=1\n")), [format!("line 1: {reason}")]);
    }
    for name in [".", "..", "-", ":"] {
        assert!(parse_host(name).is_err(), "{name}");
    }
    assert!(parse_host(&"x".repeat(254)).is_err());
    for name in ["n1", "n-1_a.example.org", "10.0.0.1", "fe80::1%eth0", "zürich"] {
        assert_eq!(parse_host(name).expect("a name").name, name);
    }
}

#[test]
fn at_most_twenty_mistakes_are_told() {
    let found = mistakes("a x=1\n".repeat(50));
    assert_eq!(found.len(), MISTAKES_MAX);
    assert_eq!(found[19], "line 20: unknown option `x=`");
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    assert_eq!(mistakes(b"a\nb\xff\nc"), ["line 2: not UTF-8"]);
    assert_eq!(mistakes(b"a\0b\n"), ["line 1: contains a NUL byte"]);
    assert_eq!(mistakes("a\x1b[31m\n"), [r"line 1: contains the control character \u{1b}"]);
    assert_eq!(parse_host("a\nb"), Err(r"contains the control character \u{a}".to_owned()));
}

#[test]
fn long_lines_and_files_are_refused() {
    let long = format!("ok\nhost {}\nbad q=1\n", "x".repeat(1024 * 1024));
    assert_eq!(mistakes(long), ["line 2: longer than 65536 bytes", "line 3: unknown option `q=`"]);
    let joined = format!("host \\\n{}\nbad q=1\n", "wd=/x \\\n".repeat(20_000));
    assert_eq!(mistakes(joined), ["line 1: longer than 65536 bytes", "line 20003: unknown option `q=`"]);
    assert_eq!(
        mistakes(vec![b'\n'; HOSTFILE_MAX + 1]),
        ["line 1: the hostfile is longer than 16777216 bytes"]
    );
    assert!(parse_host(&"x".repeat(HOSTFILE_LINE_MAX + 1)).is_err());
    let fits = format!("h wd={}", "x".repeat(HOSTFILE_LINE_MAX - 5));
    assert_eq!(parsed(&fits).hosts, [parse_host(&fits).expect("a line of the greatest length")]);
}

#[test]
fn a_mistake_shows_a_long_word_in_part() {
    let found = mistakes(format!("a {}=1", "é".repeat(1000)));
    assert_eq!(found, [format!("line 1: unknown option `{}…=`", "é".repeat(40))]);
}

#[test]
fn strings_for_addhosts_have_no_marks() {
    for text in ["", "  ", "& a", "$a", "* lo=x", "lo=x"] {
        assert!(parse_host(text).is_err(), "{text:?}");
    }
    assert_eq!(parse_host(" a ").map(|spec| (spec.name, spec.start)), Ok(("a".to_owned(), true)));
}

#[test]
fn a_later_host_takes_what_the_file_says_of_it() {
    let file = parsed("* lo=x wd=/w\n& $ a sp=5\n* lo=last\n");
    let added = |text| file.complete(parse_host(text).expect("a host"));
    assert_eq!(added("a").to_string(), "$ a lo=x wd=/w sp=5");
    assert_eq!(added("a sp=6 lo=me").to_string(), "$ a lo=me wd=/w sp=6");
    assert_eq!(added("b").to_string(), "b lo=last");
    assert_eq!(added("b lo=me").to_string(), "b lo=me");
}

fn value() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[a-z/$][a-z0-9/:$#=.-]{0,12}")
}

prop_compose! {
    fn spec()(
        name in "[a-z][a-z0-9.-]{0,12}",
        (login, start_options, daemon, exec_path, working_directory) in (value(), value(), value(), value(), value()),
        (debugger, address, vmid) in (value(), value(), value()),
        speed in prop::option::of(SPEEDS),
        via in prop::option::of(prop::sample::select(Via::ALL.to_vec())),
        network in prop::option::of(prop_oneof![Just(Network::Open), Just(Network::Private)]),
        (slice, coscheduling, job) in (
            prop::option::of(1..=60_000_u32),
            prop::option::of(prop::sample::select(&COSCHEDULING[..])),
            prop::option::of(1..=u64::MAX),
        ),
        policy in prop::option::of(prop::sample::select(&Policy::ALL[..])),
        succession in prop::option::of(prop::sample::select(&SuccessionRule::ALL[..])),
        owner in prop::option::of(prop_oneof![
            Just(OwnerRule::None),
            (1..=3600_u32).prop_map(OwnerRule::Idle),
            "[a-z/.:-]{1,12}".prop_map(OwnerRule::Run),
        ]),
        held in prop::option::of(prop::sample::select(&Held::ALL[..])),
        (slots, cluster) in (prop::option::of(SLOTS), prop::option::of("[a-zA-Z0-9._-]{1,64}")),
        start: bool,
        shared_address: bool,
    ) -> HostSpec {
        let options =
            HostOptions { login, start_options, daemon, exec_path, working_directory, speed, debugger, address, vmid, via, network, slice, coscheduling, policy, succession, slots, owner, held, job, cluster };
        HostSpec { name, options, start, shared_address }
    }
}

proptest! {
    #[test]
    fn a_printed_host_parses_back(mut hosts in prop::collection::vec(spec(), 0..5)) {
        // A name that stands there twice is one host.
        hosts.sort_by(|a, b| a.name.cmp(&b.name));
        hosts.dedup_by(|a, b| a.name == b.name);
        let lines: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let text = lines.join("\n");
        prop_assert_eq!(parsed(&text).hosts, hosts);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Hostfile::parse(&bytes);
        let _ = parse_host(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_text_of_its_characters_makes_it_panic(text in r"[&$*#=\\ \t\r\nabceiklnoprstuvw0-9-]{0,200}") {
        let _ = Hostfile::parse(&text);
        if let Err(found) = Hostfile::parse(&text) {
            prop_assert!(!found.is_empty() && found.len() <= MISTAKES_MAX);
            prop_assert!(found.is_sorted_by_key(|mistake| mistake.line));
        }
    }
}
