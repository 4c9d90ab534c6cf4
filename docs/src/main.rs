//! `pvm-docs man FOLDER` writes the manual pages, `pvm-docs compatibility` brings `docs/compatibility.md` up to date.
#![forbid(unsafe_code)]

use anyhow::Context;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Writes what is generated of the documentation.
#[derive(Parser)]
#[command(name = "pvm-docs", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the manual pages into FOLDER/man1 and FOLDER/man3, which are emptied before
    Man {
        /// Where to
        folder: PathBuf,
    },
    /// Bring the function tables of docs/compatibility.md up to date
    Compatibility,
}

fn main() -> anyhow::Result<()> {
    let root = pvm_docs::root();
    match Cli::parse().command {
        Command::Man { folder } => pvm_docs::write_manual(&root, &folder),
        Command::Compatibility => {
            let text = pvm_docs::table::compatibility(&root)?;
            let path = root.join(pvm_docs::table::PAGE);
            std::fs::write(&path, text).with_context(|| path.display().to_string())
        }
    }
}
