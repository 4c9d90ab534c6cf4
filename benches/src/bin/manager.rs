//! A task manager that writes down what it hears and answers, in the file that `PVM_BENCH_RECORD` names.

use benches::live::record::Recorder;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Recorder::open() {
        Ok(mut recorder) => {
            pvm_task_manager::run_observed(std::env::args_os().skip(1), move |_, heard, said| {
                if let Err(error) = recorder.write(heard, said) {
                    eprintln!("the record cannot be written: {error}");
                }
            })
        }
        Err(error) => {
            eprintln!("the record cannot be opened: {error}");
            ExitCode::FAILURE
        }
    }
}
