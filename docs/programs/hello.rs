use pvm3::{Any, Pack, Task};

const GREETING: i32 = 1;

fn main() -> pvm3::Result<()> {
    // The process becomes a task.
    let mut task = Task::enrol()?;
    if let Some(parent) = task.parent() {
        // Started by a spawn: a worker.
        let mut greeting = Pack::new();
        greeting.put_tid(task.tid())?;
        task.send(parent, GREETING, &greeting)?;
    } else {
        // Started by hand: the parent.
        let program = std::env::current_exe().expect("a process has a program");
        for _ in task.spawn(program).count(4).start()?.tids {
            println!("hello from {}", task.recv(Any, GREETING)?.get_tid()?);
        }
    }
    task.exit()
}
