//! Gives the shared library the name under which PVM programs look for it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpvm3.so.3");
    println!("cargo:rerun-if-changed=build.rs");
}
