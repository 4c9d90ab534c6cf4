use pvm3::{BatchEvent, Task, Tid};

const NOTICE: i32 = 7;

fn main() -> pvm3::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(count), Some(program)) = (arguments.next().and_then(|n| n.parse().ok()), arguments.next()) else {
        eprintln!("usage: queue COUNT PROGRAM [ARGUMENTS]");
        std::process::exit(2);
    };
    let mut task = Task::enrol()?;
    task.spawn(program).args(arguments).count(count).queued().notices(NOTICE).restarts(2).start()?;
    loop {
        match task.recv(Tid::MY_DAEMON, NOTICE)?.get_batch_event()?.1 {
            BatchEvent::Again { number, .. } => println!("task {number} is started again"),
            BatchEvent::Failed { number, .. } => println!("task {number} has failed"),
            BatchEvent::Done { done, failed, cancelled } => {
                println!("{done} done, {failed} failed, {cancelled} cancelled");
                break;
            }
            _ => {}
        }
    }
    task.exit()
}
