//! Certificates for servers that tasks run, signed by the machine's authority. Their types are [`crate::certificate`]'s: the daemons use
//! them, too.
//!
//! | request | body | answer |
//! |---|---|---|
//! | [`Certify`], TMX | a [`CertificateRequest`] in bincode | int 0, a [`Certified`] in bincode |

use super::{Request, answers, values};
use crate::certificate::{CertificateRequest, Certified};
use crate::codes::Tmx;
use serde::{Deserialize, Serialize};

/// Asks for a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certify(pub CertificateRequest);

impl Request for Certify {
    const TAG: i32 = Tmx::Certify.tag();
}

answers! {
    Certify => 0, Certified, |_| "the machine's authority";
}

values! { Certify, Certified }
