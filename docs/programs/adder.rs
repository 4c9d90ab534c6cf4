use pvm3::{Pack, Task, Tid};

const NUMBER: i32 = 1;
const SUM: i32 = 2;
const LAST: i32 = 100;

fn main() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    if let Some(parent) = task.parent() {
        add_up(&mut task, parent)?;
    } else {
        ask(&mut task)?;
    }
    task.exit()
}

/// Adds up numbers until 0 comes. After a move the program begins again with `main`, and gets here, too.
fn add_up(task: &mut Task, parent: Tid) -> pvm3::Result<()> {
    // What the worker takes along: the sum, and how often it has moved.
    let state = task.on_move((0_i32, 0_i32))?;
    if task.has_moved() {
        state.lock().expect("no thread has panicked").1 += 1;
    }
    loop {
        // It moves in this call.
        let number: i32 = task.recv(parent, NUMBER)?.get_one()?;
        if number == 0 {
            return Ok(());
        }
        let (sum, moves) = {
            let mut state = state.lock().expect("no thread has panicked");
            state.0 += number;
            *state
        };
        let mut answer = Pack::new();
        answer.put(&[sum])?.put(&[moves])?;
        task.send(parent, SUM, &answer)?;
    }
}

/// Sends the numbers 1 to `LAST`, and moves the worker on the way.
fn ask(task: &mut Task) -> pvm3::Result<()> {
    let program = std::env::current_exe().expect("a process has a program");
    let worker = task.spawn(program).start()?.tids[0];
    let (mut sum, mut moves) = (0_i32, 0_i32);
    for number in 1..=LAST {
        send_number(task, worker, number)?;
        let mut answer = task.recv(worker, SUM)?;
        (sum, moves) = (answer.get_one()?, answer.get_one()?);
        if number == LAST / 2 {
            task.move_task(worker, None)?;
        }
    }
    send_number(task, worker, 0)?;
    println!("sum {sum}, moves {moves}");
    Ok(())
}

fn send_number(task: &mut Task, worker: Tid, number: i32) -> pvm3::Result<()> {
    let mut message = Pack::new();
    message.put(&[number])?;
    task.send(worker, NUMBER, &message)
}
