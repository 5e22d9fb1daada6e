//! A buffer that one writer fills from the front while any number of readers look at the part that
//! is published: what is published never changes again.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The memory that writer and readers share.
struct Shared {
    start: NonNull<u8>,
    layout: Layout,
    /// Bytes from the start that readers may see, and that the writer never touches again.
    published: AtomicUsize,
}

// SAFETY: the bytes before `published` are only read, those from there on only reached through the
// one `PublishedWriter`; moving `published` releases the bytes written before.
unsafe impl Send for Shared {}
// SAFETY: as above; every reader sees immutable bytes only.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: allocated in `PublishedWriter::new` with this layout, and freed nowhere else.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The one side that writes. Not clonable.
pub struct PublishedWriter {
    shared: Arc<Shared>,
    published: usize,
}

/// A side that reads.
#[derive(Clone)]
pub struct PublishedReader {
    shared: Arc<Shared>,
}

impl PublishedWriter {
    /// Allocates `len` zero bytes aligned to `align`; memory is used only where it is touched.
    ///
    /// # Panics
    /// When `len` is zero, or `align` is not a power of two.
    pub fn new(len: usize, align: usize) -> Self {
        assert!(len > 0, "a published buffer holds at least one byte");
        let layout = Layout::from_size_align(len, align).expect("alignment is a power of two");
        // SAFETY: the layout's size is not zero, asserted above.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(raw) else { handle_alloc_error(layout) };
        let shared = Shared { start, layout, published: AtomicUsize::new(0) };
        Self { shared: Arc::new(shared), published: 0 }
    }

    /// Bytes published so far.
    pub fn published(&self) -> usize {
        self.published
    }

    /// Bytes in all.
    pub fn capacity(&self) -> usize {
        self.shared.layout.size()
    }

    /// Gives everything that is not published, to be written.
    pub fn unpublished(&mut self) -> &mut [u8] {
        let len = self.capacity() - self.published;
        // SAFETY: `published` is at most the capacity, so the pointer stays in the allocation.
        let start = unsafe { self.shared.start.as_ptr().add(self.published) };
        // SAFETY: these bytes are initialised, no reader reaches them before `publish`, and
        // `&mut self` of the only writer makes the slice the only reference.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// Publishes the next `len` bytes for good.
    ///
    /// # Panics
    /// When fewer are left.
    pub fn publish(&mut self, len: usize) {
        assert!(len <= self.capacity() - self.published, "publishing more than there is");
        self.published += len;
        // Release: a reader that sees the new length sees the bytes.
        self.shared.published.store(self.published, Ordering::Release);
    }

    /// Gives a reader.
    pub fn reader(&self) -> PublishedReader {
        PublishedReader { shared: Arc::clone(&self.shared) }
    }
}

/// Knows whether anybody still holds the memory, without holding it.
#[derive(Clone)]
pub struct PublishedWeak {
    shared: Weak<Shared>,
}

impl PublishedWeak {
    /// Whether a writer or reader is left.
    pub fn is_held(&self) -> bool {
        self.shared.strong_count() > 0
    }
}

impl PublishedReader {
    /// Gives one that does not hold the memory.
    pub fn downgrade(&self) -> PublishedWeak {
        PublishedWeak { shared: Arc::downgrade(&self.shared) }
    }

    /// Gives the bytes published so far.
    pub fn bytes(&self) -> &[u8] {
        let len = self.shared.published.load(Ordering::Acquire);
        // SAFETY: these bytes are initialised, were released by the writer, and never change again;
        // the allocation lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.shared.start.as_ptr(), len) }
    }
}

impl std::fmt::Debug for PublishedWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublishedWriter({} of {})", self.published, self.capacity())
    }
}

impl std::fmt::Debug for PublishedWeak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublishedWeak({})", if self.is_held() { "held" } else { "gone" })
    }
}

impl std::fmt::Debug for PublishedReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublishedReader({})", self.bytes().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_is_published_and_nothing_else_while_the_writer_goes_on() {
        let mut writer = PublishedWriter::new(1 << 16, 4096);
        let reader = writer.reader();
        assert!(reader.bytes().is_empty());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 1 << 16 {
                    let bytes = reader.bytes();
                    assert!(bytes.len() >= seen);
                    seen = bytes.len();
                    assert!(bytes.chunks(256).all(|chunk| chunk.iter().all(|b| *b == chunk[0])));
                    assert!(bytes.is_empty() || bytes[seen - 1] != 0);
                }
            });
            for step in 0..256_usize {
                let value = u8::try_from(step % 255 + 1).unwrap();
                writer.unpublished()[..256].fill(value);
                writer.publish(256);
            }
        });
        assert!(writer.unpublished().is_empty());
        let kept = writer.reader();
        drop(writer);
        assert_eq!(kept.bytes().len(), 1 << 16);
        let weak = kept.downgrade();
        drop(reader);
        assert!(weak.is_held());
        drop(kept);
        assert!(!weak.is_held());
    }

    #[test]
    #[should_panic(expected = "more than there is")]
    fn publishing_beyond_the_end_is_a_broken_invariant() {
        PublishedWriter::new(16, 16).publish(17);
    }
}
