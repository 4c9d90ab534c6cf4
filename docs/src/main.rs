//! `pvm-docs man FOLDER` writes the manual pages; `pvm-docs reference` the same for the book; `pvm-docs compatibility`, `pvm-docs constants` and
//! `pvm-docs measurements` update tables in `docs`.
#![forbid(unsafe_code)]

use anyhow::Context;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};

/// Write the generated parts of the documentation.
#[derive(Parser)]
#[command(name = "pvm-docs", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the manual pages into FOLDER/man1 and FOLDER/man3, replacing their contents
    Man {
        /// The folder to write to
        folder: PathBuf,
    },
    /// Write the pages of docs/reference
    Reference,
    /// Update the function tables of docs/compatibility.md
    Compatibility,
    /// Update the tables of docs/constants.md
    Constants,
    /// Update the tables of measurements in the pages of docs
    Measurements,
}

fn main() -> anyhow::Result<()> {
    let root = pvm_docs::root();
    match Cli::parse().command {
        Command::Man { folder } => pvm_docs::write_manual(&root, &folder),
        Command::Reference => pvm_docs::reference::write(&root),
        Command::Compatibility => {
            let text = pvm_docs::table::compatibility(&root)?;
            write(&root.join(pvm_docs::table::PAGE), &text)
        }
        Command::Constants => {
            write(&root.join(pvm_docs::constants::PAGE), &pvm_docs::constants::constants(&root)?)
        }
        Command::Measurements => {
            let pages = pvm_docs::measurements::pages(&root)?;
            pages.iter().try_for_each(|(page, text)| write(&root.join(page), text))
        }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}
