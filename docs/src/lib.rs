//! Writes what is generated of the documentation: the manual pages, the same as pages of the book (`docs/reference`), the function tables of
//! `docs/compatibility.md`, and the tables of measurements.
//!
//! `docs/functions/*.toml` says what each function does and where it differs from PVM 3.4; C prototypes come from
//! `pvm3.h`, options of commands from their command lines, settings and the hostfile from the pages in `docs`, measured values from
//! `docs/measurements/*.toml`, tuned constants from the table in `wire/src/tuned.rs`.
#![forbid(unsafe_code)]

pub mod commands;
pub mod constants;
pub mod functions;
pub mod header;
pub mod markup;
pub mod measurements;
pub mod reference;
pub mod roff;
pub mod sheet;
pub mod source;
pub mod table;

use anyhow::Context;
use std::path::{Path, PathBuf};

/// A manual page.
#[derive(Debug)]
pub struct ManualPage {
    /// Its path below `share/man`: `man3/pvm_send.3`.
    pub path: String,
    /// What is in the file.
    pub text: String,
}

/// The root of the source tree.
pub fn root() -> PathBuf {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR"));
    docs.parent().unwrap_or(docs).to_path_buf()
}

/// The text of a file of the source tree.
pub fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    let path = root.join(path);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The files of a folder with this ending, in the order of their names.
pub fn files(folder: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    files.sort();
    Ok(files)
}

/// Replaces the text between two marks of a page.
pub(crate) fn replaced(
    root: &Path,
    page: &str,
    marks: (&str, &str),
    between: &str,
) -> anyhow::Result<String> {
    let text = read(root, page)?;
    let missing = || format!("{page} has no place for the tables");
    let (before, rest) = text.split_once(marks.0).with_context(missing)?;
    let (_, after) = rest.split_once(marks.1).with_context(missing)?;
    Ok(format!("{before}{}{between}\n{}{after}", marks.0, marks.1))
}

/// Every manual page of the source tree at `root`.
pub fn manual(root: &Path) -> anyhow::Result<Vec<ManualPage>> {
    let areas = source::load(root)?;
    let prototypes = header::prototypes(root)?;
    let mut pages = functions::pages(&areas, &prototypes)?;
    pages.extend(commands::pages(root)?);
    Ok(pages)
}

/// Writes the manual pages into a folder laid out as `share/man`, which has nothing else in it afterwards.
pub fn write_manual(root: &Path, folder: &Path) -> anyhow::Result<()> {
    let pages = manual(root)?;
    for section in ["man1", "man3"] {
        let folder = folder.join(section);
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    for page in pages {
        let path = folder.join(&page.path);
        std::fs::write(&path, page.text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
