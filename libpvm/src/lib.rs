//! What PVM programs link.
#![deny(unsafe_code)]

pub mod engine;
mod error;

pub use error::{Error, Result};
