//! Certificates for servers that tasks run, signed by the machine's authority. Their types are [`crate::certificate`]'s: the daemons use
//! them, too.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`Certify`], TMX | a [`CertificateRequest`] in bincode | int 0, a [`Certified`] in bincode |

use super::{Call, Field, Request, read_value, write_value};
use crate::body::{BodyError, BodyReader, BodyWriter};
use crate::certificate::{CertificateRequest, Certified};
use crate::codes::Tmx;

/// Asks for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certify(pub CertificateRequest);

impl Request for Certify {
    const TAG: i32 = Tmx::Certify.tag();

    fn write(&self, body: BodyWriter) -> BodyWriter {
        write_value(&self.0, body)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        read_value(reader).map(Self)
    }
}

impl Call for Certify {
    type Reply = Certified;
    const STATUS: Option<i32> = Some(0);

    fn subject(&self) -> String {
        "the machine's authority".to_owned()
    }
}

impl Field for Certified {
    const LEAST: usize = 0;

    fn write(&self, body: BodyWriter) -> BodyWriter {
        write_value(self, body)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        read_value(reader)
    }
}
