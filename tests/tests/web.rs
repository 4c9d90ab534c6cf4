//! `pvm web` in a real browser.

use pvm_tests::browser::{Answer, Browser, Driver, exchange};
use pvm_tests::machine::Plan;
use pvm_tests::peers::{self, Peer};
use pvm_tests::programs::{Linking, Programs};
use pvm_tests::{Installation, Machine, Program, process, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A machine with its page.
struct Scene {
    machine: Machine,
    programs: Programs,
    server: Program,
    url: String,
}

impl Scene {
    /// `None`, and a line that says so, when something for it is missing.
    fn new(check: &str, hosts: usize) -> Option<Self> {
        Self::by(check, hosts, "auto")
    }

    /// A machine whose teams take turns by these means.
    fn by(check: &str, hosts: usize, means: &str) -> Option<Self> {
        let ours = Installation::ours_only(check)?;
        peers::require(&[Peer::Browser], check)?;
        let programs = Programs::compile(&["pulse"], &ours, Linking::Shared)?;
        let machine = Plan::of(&ours).path(programs.folder()).variable("PVM_COSCHEDULING", means);
        let machine = machine.local_hosts(hosts).start();
        machine.console_with_hosts(hosts).quit();
        let (server, url) = serve(&machine, &["--interval", "0.3"]);
        Some(Self { machine, programs, server, url })
    }

    fn browser<'a>(&self, driver: &'a Driver) -> Browser<'a> {
        let browser = driver.browser();
        browser.open(&self.url);
        browser.await_texts("#status", "a live page", |texts| texts[0].starts_with("Live"));
        browser
    }

    /// Starts a program that sends messages; its task id.
    fn pulse(&self, workers: &str) -> (Program, String) {
        let program = self.machine.program(self.programs.path("pulse"), &[workers]);
        let tid = program.await_line("its tid", |line| line.strip_prefix("pulse ").map(str::to_owned));
        (program, format!("t{tid}"))
    }

    fn port(&self) -> u16 {
        self.url.split(['/', ':']).nth(4).expect("a port").parse().expect("a number")
    }

    fn token(&self) -> &str {
        self.url.split('/').nth(3).expect("a token")
    }

    fn get(&self, path: &str, host: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        exchange(self.port(), &request).expect("an answer")
    }

    /// Ends the server as Ctrl-C does.
    fn interrupt(self) {
        process::signal(self.server.pid(), Signal::INT);
        self.server.end().expect_success();
        self.machine.finish();
    }
}

fn serve(machine: &Machine, args: &[&str]) -> (Program, String) {
    let mut command = machine.command(machine.installation().pvm());
    let server = Program::start(command.arg("web").args(args));
    let url = server.await_line("its address", |line| line.starts_with("http").then(|| line.to_owned()));
    (server, url)
}

/// The cells of a column of a table that can be seen.
fn column(browser: &Browser<'_>, table: &str, number: usize) -> Vec<String> {
    browser.texts(&format!("#table-{table} tbody td:nth-child({number})"))
}

fn number(browser: &Browser<'_>, name: &str) -> i64 {
    browser.attribute("#status", name).parse().unwrap_or(0)
}

#[test]
fn hosts_and_tasks_are_shown_sorted_and_filtered() {
    let Some(scene) = Scene::new("the page of pvm web", 3) else { return };
    let driver = Driver::start();
    let page = scene.browser(&driver);
    assert_eq!(column(&page, "hosts", 1), ["h1", "h2", "h3"]);
    assert_eq!(page.texts("#total-hosts"), ["3"]);
    page.click("#table-hosts th:nth-child(1) button");
    assert_eq!(column(&page, "hosts", 1), ["h3", "h2", "h1"]);
    assert_eq!(page.attribute("#table-hosts th:nth-child(1)", "aria-sort"), "descending");

    page.click("#tab-tasks");
    page.await_texts("#table-tasks .none", "no task", |texts| texts == ["No task runs."]);
    let (pulse, master) = scene.pulse("3");
    page.await_texts("#table-tasks tbody td:nth-child(2)", "the spawned tasks", |names| {
        names.iter().filter(|name| *name == "pulse").count() == 3
    });
    assert_eq!(column(&page, "tasks", 8).iter().filter(|parent| **parent == master).count(), 3);
    page.write("#filter-tasks", "pulse h2");
    let hosts =
        page.await_texts("#table-tasks tbody td:nth-child(3)", "the tasks of h2", |hosts| hosts.len() == 1);
    assert_eq!(hosts, ["h2"]);
    assert_eq!(page.texts("#count-tasks"), ["1 of 4 tasks"]);

    page.click("#tab-teams");
    page.await_texts("#table-teams tbody td:nth-child(2)", "the team of all four", |sizes| sizes == ["4"]);
    page.click("#tab-work");
    assert_eq!(page.texts("#work h2"), ["Batches (0)", "Queues (1)", "Jobs (0)"]);
    assert_eq!(page.texts("#table-queues tbody td:nth-child(1)"), ["default"]);
    page.reload();
    page.await_texts("#work h2", "the same view after a reload", |titles| titles.len() == 3);
    page.await_texts("#total-tasks", "the same tasks after a reload", |texts| texts == ["4"]);
    assert_eq!(page.errors(), Vec::<String>::new());
    drop((page, pulse));
    scene.interrupt();
}

#[test]
fn rows_of_teams_and_owners_are_shown() {
    let Some(scene) = Scene::by("rows and owners on the page of pvm web", 2, "dasic,stop") else { return };
    let driver = Driver::start();
    let page = scene.browser(&driver);
    let mut console = scene.machine.console();
    console.command("export PVM_TEAM");
    for team in ["left", "right"] {
        console.command(&format!("setenv PVM_TEAM {team}"));
        for host in ["h1", "h2"] {
            console.spawn(&format!("-{host} -2 /usr/bin/sha1sum /dev/zero"));
        }
    }
    page.click("#tab-teams");
    page.await_texts("#table-rows tbody td:nth-child(4)", "a row for each team", |rows| {
        rows == ["left (4 tasks on h1, h2)", "right (4 tasks on h1, h2)"]
    });
    page.await_texts("#table-rows tbody td:nth-child(2)", "the row that has its slice", |slices| {
        slices.iter().filter(|slice| *slice == "has it").count() == 1
    });
    let pvm = scene.machine.installation().pvm();
    Program::run(scene.machine.command(pvm).args(["owner", "h2", "here"])).expect_success();
    page.await_texts("#table-rows tbody td:nth-child(4)", "rows of one host", |rows| {
        rows == ["left (2 tasks on h1)", "right (2 tasks on h1)"]
    });
    page.click("#tab-hosts");
    page.await_texts("#table-hosts tbody td:nth-child(2)", "the owner", |states| {
        states == ["up", "owner is there"]
    });
    console.quit();
    assert_eq!(page.errors(), Vec::<String>::new());
    drop(page);
    scene.interrupt();
}

#[test]
fn batches_have_their_progress() {
    let Some(scene) = Scene::new("the progress of jobs on the page of pvm web", 1) else { return };
    let pvm =
        |args: &[&str]| Program::run(scene.machine.command(scene.machine.installation().pvm()).args(args));
    pvm(&["submit", "--name", "quick", "--output", "none", "/bin/true"]).expect_success();
    let driver = Driver::start();
    let page = scene.browser(&driver);
    page.click("#tab-work");
    page.await_texts("#table-jobs tbody td:nth-child(5)", "the end of the job", |states| states == ["done"]);
    assert_eq!(column(&page, "jobs", 2), ["quick"]);
    assert_eq!(column(&page, "jobs", 6), ["1 of 1"]);
    drop(page);
    scene.interrupt();
}

#[test]
fn a_dead_host_is_marked_and_the_end_of_the_machine_is_said() {
    let Some(scene) = Scene::new("a lost host on the page of pvm web", 2) else { return };
    let driver = Driver::start();
    let page = scene.browser(&driver);
    let slaves = scene.machine.slave_daemons();
    let [slave] = &slaves[..] else { panic!("{slaves:?}") };
    process::signal(slave.pid, Signal::KILL);
    page.await_texts("#table-hosts tbody td.bad", "the lost host", |texts| {
        texts.len() == 1 && texts[0].starts_with("gone ")
    });
    assert_eq!(column(&page, "hosts", 1), ["h1", "h2"]);
    assert_eq!(page.texts("#total-hosts"), ["1"]);

    // The files of the killed daemon are there until a daemon starts again, so that not all is checked that `finish` does.
    let Scene { machine, server, .. } = scene;
    let mut console = machine.console();
    console.send("halt");
    console.into_program().end();
    page.await_texts("#status", "the end of the machine", |texts| {
        texts[0] == "The virtual machine has ended"
    });
    let ended = server.end();
    ended.expect_success();
    assert!(ended.stderr.contains("the virtual machine has ended"), "{}", ended.stderr);
}

#[test]
fn two_viewers_see_one_collection() {
    let Some(scene) = Scene::new("two viewers of pvm web", 1) else { return };
    let driver = Driver::start();
    let one = scene.browser(&driver);
    let other = scene.browser(&driver);
    wait::becomes_true("both are counted", || number(&one, "data-viewers") == 2);
    // The rounds are counted by the collector: both see the same ones, no more than one per interval.
    let begun = std::time::Instant::now();
    let first = number(&one, "data-number");
    let [mut last, mut seen] = [0, 0];
    wait::becomes_true("six more rounds", || {
        (last, seen) = (number(&one, "data-number"), number(&other, "data-number"));
        last >= first + 6
    });
    assert!((last - seen).abs() <= 1, "{last} and {seen}");
    let rounds = begun.elapsed().as_secs_f64() / 0.3;
    assert!(
        f64::from((last - first) as i32) <= rounds + 1.5,
        "{} rounds in the time of {rounds}",
        last - first
    );
    drop(other);
    wait::becomes_true("the one that went is not counted", || number(&one, "data-viewers") == 1);

    // Nobody looks: nothing is collected, until somebody does.
    let before = number(&one, "data-number");
    one.open("about:blank");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let again = scene.browser(&driver);
    let after = number(&again, "data-number");
    assert!(after - before <= 4, "{} rounds while nobody looked", after - before);
    drop((one, again));
    scene.interrupt();
}

#[test]
fn strangers_get_nothing() {
    let Some(scene) = Scene::new("what strangers get of pvm web", 1) else { return };
    let (port, token) = (scene.port(), scene.token());
    let here = format!("127.0.0.1:{port}");
    for path in
        ["/", "/app.js", "/events", "/events?trace", &format!("/{}/", "0".repeat(token.len())), "/%00/"]
    {
        let answer = scene.get(path, &here);
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
        assert!(answer.body.contains("Open the address"), "{answer:?}");
        assert!(!answer.body.contains("h1") && !answer.head.contains(token));
    }
    for host in ["evil.example", "10.1.2.3:80", "localhost.evil.example"] {
        assert_eq!(scene.get(&format!("/{token}/"), host).status, 403, "{host}");
    }
    let page = scene.get(&format!("/{token}/"), &here);
    assert_eq!(page.status, 200);
    assert!(
        page.head.contains("content-security-policy: default-src 'none'; script-src 'self'"),
        "{}",
        page.head
    );
    assert!(page.head.contains("referrer-policy: no-referrer"));
    assert_eq!(scene.get(&format!("/{token}/"), "localhost:9999").status, 200, "as through an ssh tunnel");

    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    for request in ["\r\n\r\n", "GET\r\n\r\n", "\0\0\0\0", "GET / HTTP/9\r\n\r\n", &long] {
        let status = exchange(port, request).map_or(0, |answer| answer.status);
        assert!(
            status == 0 || (400..500).contains(&status),
            "{status} for {:?}",
            &request[..request.len().min(20)]
        );
    }
    let post = format!(
        "POST /{token}/ HTTP/1.1\r\nHost: {here}\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    );
    assert_eq!(exchange(port, &post).expect("an answer").status, 405);
    assert_eq!(scene.get(&format!("/{token}/style.css"), &here).status, 200, "it still serves");
    scene.interrupt();
}

#[test]
fn places_for_viewers_are_limited() {
    let Some(scene) = Scene::new("the number of viewers of pvm web", 1) else { return };
    let request = format!("GET /{}/events HTTP/1.1\r\nHost: localhost\r\n\r\n", scene.token());
    let join = || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", scene.port())).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("an answer");
        (stream, String::from_utf8_lossy(&status[9..]).into_owned())
    };
    let mut viewers: Vec<_> = (0..32).map(|_| join()).collect();
    assert!(viewers.iter().all(|(_, status)| status == "200"));
    assert_eq!(join().1, "503");
    viewers.clear();
    wait::becomes_true("a free place", || join().1 == "200");
    scene.interrupt();
}

#[test]
fn other_interfaces_are_encrypted() {
    let Some(ours) = Installation::ours_only("pvm web with TLS") else { return };
    let Some(()) = peers::require(&[Peer::Browser], "pvm web with TLS") else { return };
    let machine = Plan::of(&ours).local_hosts(1).start();
    let (server, url) = serve(&machine, &["--listen", "0.0.0.0:0"]);
    assert!(url.starts_with("https://"), "{url}");
    let printed =
        server.await_line("its fingerprint", |line| line.contains("SHA-256").then(|| line.to_owned()));
    let (port, token) =
        (url.split([':', '/']).nth(4).expect("a port"), url.split('/').nth(3).expect("a token"));
    let plain = exchange(port.parse().expect("a number"), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        plain.is_err() || plain.is_ok_and(|answer| answer.status == 0),
        "without TLS nothing is answered"
    );
    let driver = Driver::start();
    let page = driver.trusting_browser();
    page.open(&format!("https://127.0.0.1:{port}/{token}/"));
    page.await_texts("#total-hosts", "the host", |texts| texts == ["1"]);
    assert_eq!(printed.rsplit(' ').next().expect("a fingerprint").len(), 32 * 3 - 1);
    drop(page);
    process::signal(server.pid(), Signal::INT);
    server.end().expect_success();
    machine.finish();
}

/// Gets the page under a name, as a program that knows this authority: curl's exit status, and the page.
fn get_by_curl(authority: Option<&Path>, name: &str, url: &str) -> (Option<i32>, String) {
    let (port, token) =
        (url.split([':', '/']).nth(4).expect("a port"), url.split('/').nth(3).expect("a token"));
    let mut command = Command::new("curl");
    command.args(["--silent", "--fail", "--noproxy", "*", "--max-time", "20"]);
    command.args(["--resolve", &format!("{name}:{port}:127.0.0.1")]);
    if let Some(authority) = authority {
        command.arg("--cacert").arg(authority);
    }
    let output = command.arg(format!("https://{name}:{port}/{token}/")).output().expect("curl runs");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_machines_authority_certifies_pages_of_all_its_hosts() {
    const UNKNOWN: Option<i32> = Some(60);
    let check = "the certificates of pvm web";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(()) = peers::require(&[Peer::Curl], check) else { return };
    let [machine, other] = [2, 1].map(|hosts| Plan::of(&ours).local_hosts(hosts).start());
    machine.console_with_hosts(2).quit();
    let file = |name: &str| machine.folder().join(name);
    let vmid = |command: &Command| {
        let variable = command.get_envs().find(|(name, _)| *name == "PVM_VMID");
        variable.and_then(|(_, value)| value).expect("a name").to_string_lossy().into_owned()
    };
    let page = |machine: &Machine, suffix: &str, authority: &Path| {
        let mut command = machine.command(machine.installation().pvm());
        let vmid = vmid(&command);
        command.env("PVM_VMID", vmid + suffix).args(["web", "--listen", "0.0.0.0:0", "--name", "a.example"]);
        let server = Program::start(command.arg("--authority").arg(authority));
        let url = server.await_line("its address", |line| line.starts_with("https").then(|| line.to_owned()));
        let fingerprint = server.await_line("the authority's fingerprint", |line| {
            line.strip_prefix("SHA-256 fingerprint of the machine's authority: ").map(str::to_owned)
        });
        (server, url, fingerprint)
    };
    let pages = [page(&machine, "", &file("1.pem")), page(&machine, ".h2", &file("2.pem"))];
    let stranger = page(&other, "", &file("3.pem"));
    let [one, two, three] = ["1.pem", "2.pem", "3.pem"]
        .map(|name| fs::read_to_string(file(name)).expect("the authority's certificate"));
    assert!(one.starts_with("-----BEGIN CERTIFICATE-----\n"), "{one}");
    assert!(one == two && one != three);
    assert!(pages[0].2 == pages[1].2 && pages[0].2 != stranger.2);
    for (_, url, _) in &pages {
        for name in ["localhost", "127.0.0.1", "a.example"] {
            let (status, page) = get_by_curl(Some(&file("1.pem")), name, url);
            assert!(status == Some(0) && page.contains("<html"), "{url} as {name}: {status:?}, {page}");
        }
        assert_eq!(get_by_curl(Some(&file("1.pem")), "b.example", url).0, UNKNOWN, "another name");
        assert_eq!(
            get_by_curl(Some(&file("3.pem")), "localhost", url).0,
            UNKNOWN,
            "another machine's authority"
        );
        assert_eq!(get_by_curl(None, "localhost", url).0, UNKNOWN, "an authority that is not known");
    }
    for (server, ..) in pages.into_iter().chain([stranger]) {
        process::signal(server.pid(), Signal::INT);
        server.end().expect_success();
    }
    let refused = |args: &[&str], reason: &str| {
        let ended = Program::run(machine.command(machine.installation().pvm()).arg("web").args(args));
        assert!(
            ended.status.code() == Some(1) && ended.stderr.contains(reason),
            "{args:?}: {}",
            ended.stderr
        );
    };
    refused(&["--listen", "0.0.0.0:0", "--name", "h2.pvm"], "names that end in .pvm are those of daemons");
    refused(
        &["--listen", "0.0.0.0:0", "--authority", "/no/such/folder/a.pem"],
        "cannot write /no/such/folder/a.pem",
    );
    refused(&["--authority", "a.pem"], "see --listen");
    [machine, other].into_iter().for_each(Machine::finish);
}

/// The middle of the line of a message in the window, and the message.
const MIDDLE: &str = "return import('./app.js').then(({ spacetime, trace }) => {
    spacetime.draw();
    const box = document.getElementById('chart').getBoundingClientRect();
    for (const message of trace.messages.slice().reverse()) {
        const ends = spacetime.ends(message);
        if (!ends || ends[0] < 250 || ends[2] > box.width - 50) continue;
        const [x, y] = [(ends[0] + ends[2]) / 2, (ends[1] + ends[3]) / 2];
        if (spacetime.messageAt(x, y) !== message) continue;
        return { x: box.left + x, y: box.top + y, from: message.from, to: message.to, tag: message.tag, bytes: message.bytes };
    }
    return null;
})";

#[test]
fn messages_are_lines_that_can_be_clicked() {
    let Some(scene) = Scene::new("the space-time view of pvm web", 2) else { return };
    let driver = Driver::start();
    let page = scene.browser(&driver);
    page.click("#tab-spacetime");
    page.await_texts("#spacetime .note.tracer", "the trace is on", |notes| {
        notes[0].starts_with("Tasks that started")
    });
    let (pulse, master) = scene.pulse("2");
    let span = || page.attribute("#chart", "data-span").parse::<f64>().unwrap_or(0.0);
    let end = || page.attribute("#chart", "data-end").parse::<i64>().unwrap_or(0);
    wait::becomes_true("rows of three tasks", || page.attribute("#chart", "data-rows") == "3");

    let (wide, then) = (span(), end());
    wait::becomes_true("the picture moves", || end() > then);
    for _ in 0..5 {
        page.click("#zoom-in");
    }
    wait::becomes_true("a wider scale", || (span() - wide / 32.0).abs() < 1.0);
    wait::becomes_true("a message in the picture", || !page.script(MIDDLE).is_null());
    // What was in the picture may have left it before the click.
    let (paused, line) = wait::eventually("a message in the paused picture", || {
        page.click("#pause");
        assert_eq!(page.texts("#pause"), ["Resume"]);
        let paused = wait::eventually("a picture that stands still", || {
            // What had arrived before the click may still be drawn.
            let one = end();
            std::thread::sleep(std::time::Duration::from_millis(300));
            (one == end()).then_some(one)
        });
        let line = page.script(MIDDLE);
        if line.is_null() {
            page.click("#pause");
            return None;
        }
        Some((paused, line))
    });
    page.click_at(line["x"].as_f64().expect("x"), line["y"].as_f64().expect("y"));
    let shown = page.await_texts("#message dd", "the message", |texts| texts.len() == 7);
    let tid = |value: &Value| format!("t{:x} ", value.as_i64().expect("a tid"));
    assert!(
        shown[0].starts_with(&tid(&line["from"])) && shown[1].starts_with(&tid(&line["to"])),
        "{shown:?} {line}"
    );
    assert!(shown[0].starts_with(&master) || shown[1].starts_with(&master), "{shown:?}");
    assert_eq!((&*shown[2], &*shown[3]), (&*line["tag"].to_string(), "4"));
    assert!(shown[2] == "7" || shown[2] == "8", "{shown:?}");
    assert_eq!(end(), paused, "it stands still");
    page.click("#pause");
    wait::becomes_true("the picture moves again", || end() > paused);

    page.click("#tab-messages");
    page.await_texts("#table-pairs tbody td:nth-child(1)", "pairs of hosts", |hosts| {
        hosts.iter().any(|host| host == "h2")
    });
    // A reload in this view gets what is kept.
    page.click("#tab-spacetime");
    page.reload();
    wait::becomes_true("the rows after a reload", || page.attribute("#chart", "data-rows") == "3");
    assert_eq!(page.errors(), Vec::<String>::new());
    drop(page);
    drop(pulse);
    scene.interrupt();
}

/// A snapshot of 1,000 hosts and 10,000 tasks, and a trace of all, through the functions that the server's events go through.
const LARGE: &str = "return import('./app.js').then(({ showSnapshot, showTrace, tables, spacetime }) => {
    const hosts = [], tasks = [], rows = [], changes = [], messages = [], now = Date.now() * 1000;
    for (let at = 1; at <= 1000; at += 1) hosts.push([at << 18, `node${at}`, 'LINUX64', 1000, '', 7, 0, at % 1000, 0, 64e9, 1e9, at, at, at]);
    for (let at = 0; at < 10000; at += 1) tasks.push([((at % 1000 + 1) << 18) + 2 + Math.floor(at / 1000), 0, at % 1000, 0, 'a', 'r', at % 1000, at]);
    for (const [tid] of tasks) {
        rows.push([tid, tid & ~0x3ffff, 'worker']);
        for (let at = 0; at < 10; at += 1) changes.push(tid, now - 9e6 + at * 8e5, 1 + at % 3);
        messages.push(tid, tasks[messages.length % 10000][0], 5, 8, now - 5e6, now - 4e6);
    }
    const raw = { n: 1, time: Date.now(), viewers: 1, hosts, gone: [], tasks, programs: ['/bin/worker'], teams: [], batches: [], jobs: [], jobs_left: 0, queues: [], rows: { on: false, hosts: [], rows: [] } };
    showSnapshot(raw);
    const place = document.getElementById('table-tasks');
    const ends = [tables.tasks.rows.length, place.scrollHeight];
    const frames = [];
    return new Promise((done) => {
        let last = performance.now();
        const step = () => {
            const at = performance.now();
            frames.push(at - last);
            last = at;
            place.scrollTop += 1500;
            if (frames.length < 30) return requestAnimationFrame(step);
            showTrace({ all: true, tracer: 'on', now, rows, changes, messages });
            const keys = [...place.querySelectorAll('tbody tr[data-key]')].map((row) => row.getAttribute('aria-rowindex'));
            done({ rows: ends[0], height: ends[1], drawn: document.querySelectorAll('tr').length, first: Number(keys[0]), frames });
        };
        requestAnimationFrame(step);
    });
})";

#[test]
fn large_machines_take_few_rows_of_the_document() {
    let Some(scene) = Scene::new("a large machine on the page of pvm web", 1) else { return };
    let driver = Driver::start();
    let page = scene.browser(&driver);
    page.click("#tab-tasks");
    // The server's own snapshots would come between.
    process::signal(scene.server.pid(), Signal::STOP);
    let found = page.script(LARGE);
    assert_eq!(found["rows"], 10_000);
    assert!(found["height"].as_f64() >= Some(280_000.0), "all rows can be scrolled to: {found}");
    assert!(found["drawn"].as_i64() < Some(200), "{found}");
    assert!(found["first"].as_i64() > Some(100), "the rows that are drawn are those in view: {found}");
    assert_eq!(page.texts("#total-hosts"), ["1,000"]);
    page.click("#tab-spacetime");
    wait::becomes_true("rows of all tasks", || page.attribute("#chart", "data-rows") == "10000");
    page.click("#tab-hosts");
    page.write("#filter-hosts", "node999");
    page.await_texts("#table-hosts tbody td:nth-child(1)", "one host", |hosts| hosts == ["node999"]);
    process::signal(scene.server.pid(), Signal::CONT);
    assert_eq!(page.errors(), Vec::<String>::new());
    drop(page);
    scene.interrupt();
}
