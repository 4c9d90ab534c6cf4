//! A task manager that records the messages it receives and sends, in the file that `PVM_BENCH_RECORD` names.

use benches::live::record::Recorder;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Recorder::open() {
        Ok(mut recorder) => {
            pvm_task_manager::run_observed(std::env::args_os().skip(1), move |_, received, sent| {
                if let Err(error) = recorder.write(received, sent) {
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
