use pvm3::Task;

const SLICES: usize = 1_000_000;
const SUM: i32 = 1;

fn main() -> pvm3::Result<()> {
    let mut task = Task::enrol()?;
    // All copies that were started together.
    let size = task.siblings()?.len();
    let mut group = task.group("pi");
    // 0, 1, … in the order of joining.
    let rank = group.join()?;
    // All are members.
    group.barrier(size)?;
    let height = |slice: usize| {
        let x = (slice as f64 + 0.5) / SLICES as f64;
        4.0 / (1.0 + x * x)
    };
    let mut sum = [(rank..SLICES).step_by(size).map(height).sum::<f64>() / SLICES as f64];
    group.sum(SUM, 0, &mut sum)?;
    if rank == 0 {
        println!("pi is {:.6}, by {size} tasks", sum[0]);
    }
    // Nobody leaves before the sum is complete.
    group.barrier(size)?;
    group.leave()?;
    task.exit()
}
