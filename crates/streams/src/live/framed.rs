//! Bytes within the frame of a chunk of HTTP/1.1 (RFC 9112, section 7.1), so that what many
//! readers get is framed once as well. Who frames otherwise takes the bytes alone, of the same
//! memory.

use bytes::Bytes;

/// Room for the longest length in hexadecimal, and its line end.
const HEAD_BYTES: usize = usize::BITS as usize / 4 + END.len();
const END: &[u8] = b"\r\n";

/// Some bytes in their frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Framed {
    chunk: Bytes,
    head_len: usize,
}

impl Framed {
    /// Frames what is written, unless that is nothing: an empty chunk would be the last one.
    pub fn new(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut out = vec![0; HEAD_BYTES];
        write(&mut out);
        let len = out.len() - HEAD_BYTES;
        if len == 0 {
            return Self { chunk: Bytes::new(), head_len: 0 };
        }
        out.extend_from_slice(END);
        let head = format!("{len:x}\r\n");
        let start = HEAD_BYTES - head.len();
        out[start..HEAD_BYTES].copy_from_slice(head.as_bytes());
        // It is kept for as long as the slowest reader takes: without room to grow.
        out.shrink_to_fit();
        Self { chunk: Bytes::from(out).slice(start..), head_len: head.len() }
    }

    /// Gives the bytes alone.
    pub fn bytes(&self) -> Bytes {
        if self.chunk.is_empty() {
            return Bytes::new();
        }
        self.chunk.slice(self.head_len..self.chunk.len() - END.len())
    }

    /// Gives all of it.
    pub fn chunk(&self) -> Bytes {
        self.chunk.clone()
    }

    /// Has all of its memory held by what is made of it.
    pub fn held(self, by: impl FnOnce(Bytes) -> Bytes) -> Self {
        Self { chunk: by(self.chunk), head_len: self.head_len }
    }

    /// Bytes that it takes.
    pub fn len(&self) -> usize {
        self.chunk.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_chunk_says_how_long_it_is_and_holds_what_was_written(
            bytes in prop::collection::vec(any::<u8>(), 1..600)
        ) {
            let framed = Framed::new(|out| out.extend_from_slice(&bytes));
            let mut expected = format!("{:x}\r\n", bytes.len()).into_bytes();
            expected.extend_from_slice(&bytes);
            expected.extend_from_slice(b"\r\n");
            prop_assert_eq!(&framed.chunk(), &expected);
            prop_assert_eq!(&framed.bytes(), &bytes);
        }
    }

    #[test]
    fn nothing_is_no_chunk_since_that_would_be_the_last() {
        let framed = Framed::new(|_| {});
        assert_eq!((framed.chunk(), framed.bytes()), (Bytes::new(), Bytes::new()));
    }
}
