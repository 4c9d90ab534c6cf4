//! Draws `mandelbrot.png`: `pvm run --hosts 4 mandelbrot`.

use pvm_examples::mandelbrot::{Workers, master, worker};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut task = pvm3::Task::enrol()?;
    if task.parent().is_some() {
        worker(&mut task)?;
    } else {
        let program = std::env::current_exe()?.display().to_string();
        let mut tiles = 0;
        let picture = master(&mut task, &Workers { program, args: Vec::new() }, |_| tiles += 1)?;
        picture.save(Path::new("mandelbrot.png"))?;
        println!("{tiles} tiles: mandelbrot.png");
    }
    Ok(task.exit()?)
}
