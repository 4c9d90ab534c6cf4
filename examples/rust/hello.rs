//! Four tasks greet the first one.

fn main() -> pvm3::Result<()> {
    let mut task = pvm3::Task::enrol()?;
    let mut greeting = pvm3::Pack::new();
    if let Some(parent) = task.parent() {
        greeting.put_str("hello")?.put_tid(task.tid())?;
        task.send(parent, 1, &greeting)?;
    } else {
        // Not spawned by a task: the master.
        let program = std::env::args().next().unwrap_or_default();
        for _ in task.spawn(&program).count(4).start()?.tids {
            let mut message = task.recv(pvm3::Any, 1)?;
            println!("{} from {}", message.get_str()?, message.get_tid()?);
        }
    }
    task.exit()
}
