//! Reading and writing numbers at places in byte slices.
//!
//! The `_at` functions are for places that the caller has checked; [`Input`] is for lengths that
//! come from the bytes themselves.

use super::error::{FormatError, Structure};

/// Reads `N` bytes at a place that is known to be inside.
pub(super) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}

/// Reads a `u16`.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// Reads a `u32`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// Reads a `u64`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Writes bytes at a place.
pub(super) fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Widens a length; every machine this runs on has addresses of 32 bits or more, and at most 64.
pub(super) fn len_u64(len: usize) -> u64 {
    u64::try_from(len).expect("lengths have at most 64 bits")
}

/// Narrows a stored length to one in memory.
pub(super) fn len_usize(len: u32) -> usize {
    usize::try_from(len).expect("addresses have at least 32 bits")
}

/// Rounds a length up to a multiple of a power of two.
pub(super) const fn round_up(len: usize, unit: usize) -> usize {
    (len + unit - 1) & !(unit - 1)
}

/// Whether all bytes are zero.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 512] = [0; 512];
    bytes.chunks(ZEROS.len()).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

/// Checks that bytes are zero.
pub(super) fn check_zero(
    bytes: &[u8],
    structure: Structure,
    field: &'static str,
) -> Result<(), FormatError> {
    if is_zero(bytes) { Ok(()) } else { Err(FormatError::NotZero { structure, field }) }
}

/// Checks that there are exactly so many bytes.
pub(super) fn check_len(
    bytes: &[u8],
    structure: Structure,
    needed: usize,
) -> Result<(), FormatError> {
    if bytes.len() == needed {
        return Ok(());
    }
    let (needed, got) = (len_u64(needed), len_u64(bytes.len()));
    Err(FormatError::WrongLength { structure, needed, got })
}

/// A number or length and its bounds.
pub(super) struct Bounds {
    /// In what.
    pub(super) structure: Structure,
    /// Of what.
    pub(super) field: &'static str,
    /// Smallest allowed.
    pub(super) least: u64,
    /// Largest allowed.
    pub(super) most: u64,
}

impl Bounds {
    /// Checks a number.
    pub(super) fn check(&self, stored: u64) -> Result<(), FormatError> {
        let Self { structure, field, least, most } = *self;
        if (least..=most).contains(&stored) {
            return Ok(());
        }
        Err(FormatError::OutOfRange { structure, field, stored, least, most })
    }
}

/// Bytes of which a prefix has been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a> {
    structure: Structure,
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    /// Starts at the first byte.
    pub(super) const fn new(structure: Structure, bytes: &'a [u8]) -> Self {
        Self { structure, bytes }
    }

    /// Bytes that are left.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads so many bytes.
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(len) else {
            let (needed, got) = (len_u64(len), len_u64(self.bytes.len()));
            return Err(FormatError::WrongLength { structure: self.structure, needed, got });
        };
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads zero bytes that fill up a length to a multiple of a power of two.
    pub(super) fn take_pad(&mut self, len: usize, unit: usize) -> Result<(), FormatError> {
        let pad = self.take(round_up(len, unit) - len)?;
        check_zero(pad, self.structure, "padding")
    }
}

/// Bytes of which a prefix has been written.
#[derive(Debug)]
pub(super) struct Output<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Output<'a> {
    /// Starts at the first byte.
    pub(super) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Writes bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        put(self.bytes, self.at, bytes);
        self.at += bytes.len();
    }

    /// Writes zeros up to a multiple of a power of two, counted from the first byte.
    pub(super) fn pad(&mut self, unit: usize) {
        let end = round_up(self.at, unit);
        self.bytes[self.at..end].fill(0);
        self.at = end;
    }

    /// Ends; all bytes must have been written.
    pub(super) fn finish(self) {
        assert_eq!(self.at, self.bytes.len(), "the encoded length was announced wrongly");
    }
}
