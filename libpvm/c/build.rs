//! Gives the shared library the name under which PVM programs look for it, and spares them the load of another.

use std::env::var_os;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpvm3.so.3");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CC");
    if let Some(folder) = unwinder_within() {
        println!("cargo:rustc-cdylib-link-arg=-L{}", folder.display());
    }
}

/// A folder in which the linker finds, in place of the shared libgcc_s, its archive: every task would have to load that library
/// only to be able to unwind, which takes a tenth of the time in which a process starts. Without that archive all stays as it is.
fn unwinder_within() -> Option<PathBuf> {
    let is_native = var_os("HOST")? == var_os("TARGET")? && var_os("CARGO_CFG_TARGET_ENV")? == "gnu";
    let compiler = var_os("CC").filter(|_| is_native).or_else(|| is_native.then(|| "cc".into()))?;
    let said = Command::new(compiler).arg("-print-file-name=libgcc_eh.a").output().ok()?;
    let archive = String::from_utf8(said.stdout).ok()?;
    let archive = Path::new(archive.trim());
    // A compiler that has none says the bare name.
    if !archive.is_absolute() || !archive.is_file() {
        return None;
    }
    let folder = PathBuf::from(var_os("OUT_DIR")?).join("unwinder");
    std::fs::create_dir_all(&folder).ok()?;
    std::fs::write(folder.join("libgcc_s.so"), format!("INPUT(\"{}\")\n", archive.display())).ok()?;
    Some(folder)
}
