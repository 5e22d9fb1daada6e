//! Memory aligned for direct I/O, zeroed and present before anyone times its use.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A fixed-size, aligned, initialised byte buffer.
pub struct AlignedBuf {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the buffer owns its memory alone, and bytes have no thread affinity.
unsafe impl Send for AlignedBuf {}

impl AlignedBuf {
    /// Allocates `len` zero bytes aligned to `align`, and touches every page.
    ///
    /// # Panics
    /// When `len` is zero, or `align` is not a power of two.
    pub fn zeroed(len: usize, align: usize) -> Self {
        assert!(len > 0, "an aligned buffer holds at least one byte");
        let layout = Layout::from_size_align(len, align).expect("alignment is a power of two");
        // SAFETY: the layout's size is not zero, asserted above.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(raw) else { handle_alloc_error(layout) };
        let mut buffer = Self { start, layout };
        // A write per page makes the kernel map it now; zeroed memory is mapped on first write.
        for byte in buffer.iter_mut().step_by(4096) {
            *std::hint::black_box(byte) = 0;
        }
        buffer
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points at `layout.size()` initialised bytes that live as long as self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the slice the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this very layout, and freed nowhere else.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_zeroed_and_writable() {
        for align in [512, 4096, 1 << 16] {
            let mut buffer = AlignedBuf::zeroed(3 * 4096 + 512, align);
            assert_eq!(buffer.as_ptr().addr() % align, 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
            assert_eq!(
                buffer.iter().map(|byte| usize::from(*byte)).sum::<usize>(),
                7 * buffer.len()
            );
        }
    }
}
