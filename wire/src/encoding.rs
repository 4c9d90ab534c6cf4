//! How message bodies are encoded, and the signature by which hosts compare their native formats.

use serde::{Deserialize, Serialize};

/// The style given to `pvm_initsend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `PvmDataDefault`: XDR, readable everywhere.
    Xdr,
    /// `PvmDataRaw`: the sender's native format.
    Raw,
    /// `PvmDataInPlace`: native, read from the program's memory when the message is sent.
    InPlace,
}

/// Word 0 of the header of an XDR message.
pub const XDR_WORD: u32 = 0x1000_0000;
/// Word 0 of the header of a message in default encoding that was not converted: elements in the host's own format. Of
/// which kind they are the checksum word says, if all are of one, or else how many bytes of [`crate::Runs`] are behind them. It
/// never leaves a host.
pub const LOCAL_WORD: u32 = 0x1000_0001;
/// Word 0 that a library knows an in-place message by. It travels inside other messages only, whose body is native by then.
pub const IN_PLACE_WORD: u32 = 0x2000_0000;
/// Word 0 of the header of a trace message.
pub const TRACE_WORD: u32 = 0x4000_0000;

impl Encoding {
    /// The style with PVM's number, if it is one of these.
    pub fn from_style(style: i32) -> Option<Self> {
        match style {
            0 => Some(Self::Xdr),
            1 => Some(Self::Raw),
            2 => Some(Self::InPlace),
            _ => None,
        }
    }

    /// PVM's number of the style.
    pub fn style(self) -> i32 {
        match self {
            Self::Xdr => 0,
            Self::Raw => 1,
            Self::InPlace => 2,
        }
    }

    /// Word 0 of the message header.
    pub fn word(self) -> u32 {
        match self {
            Self::Xdr => XDR_WORD,
            Self::Raw | Self::InPlace => DataSignature::NATIVE.0,
        }
    }

    /// How to read a message with this word 0; `None` is an alien format, of which only bytes can be unpacked.
    pub fn of_word(word: u32) -> Option<Self> {
        match word {
            XDR_WORD | TRACE_WORD => Some(Self::Xdr),
            _ if word == DataSignature::NATIVE.0 => Some(Self::Raw),
            _ => None,
        }
    }
}

/// Sizes and byte orders of a host's native types, packed into PVM's 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DataSignature(pub u32);

impl DataSignature {
    /// This host's signature; `0x00408c41` on 64-bit little-endian Linux.
    pub const NATIVE: Self = Self::of(cfg!(target_endian = "big"), cfg!(target_pointer_width = "64"));

    const fn of(big_endian: bool, long_is_64: bool) -> Self {
        let order: u32 = if big_endian { 3 } else { 0 };
        let long_log2: u32 = if long_is_64 { 3 } else { 2 };
        let integers = 1 | order << 3 | 2 << 5 | order << 8 | long_log2 << 10 | order << 13;
        let floats = 1 << 15 | order << 19 | 2 << 21 | order << 25;
        Self(integers | floats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_of_64_bit_linux_is_pvms() {
        assert_eq!(DataSignature::of(false, true), DataSignature(0x0040_8c41));
    }
}
