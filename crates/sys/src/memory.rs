//! How the kernel is to map memory.

use std::mem::MaybeUninit;

use rustix::mm::{Advice, madvise};

use crate::error::{SysError, SysResult};

/// Least bytes that a page can have, and that advice is given for.
const PAGE_BYTES: usize = 4096;

/// Asks for large pages for memory that is not used yet: whatever is spread over many megabytes and
/// read in no order is found faster in few pages.
///
/// Advice only: where it is not taken, memory is as it is without.
///
/// # Errors
/// Whatever the kernel answers; `EINVAL` where it has no large pages.
pub fn prefer_large_pages<T>(unused: &mut [MaybeUninit<T>]) -> SysResult<()> {
    let start = unused.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE_BYTES);
    let len = size_of_val(unused).saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    if len == 0 {
        return Ok(());
    }
    let start = start.wrapping_add(skipped).cast();
    // SAFETY: the pages lie within `unused`, and this advice changes no byte.
    let given = unsafe { madvise(start, len, Advice::LinuxHugepage) };
    given.map_err(|errno| SysError::new("madvise", errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_can_be_used_after_advice_and_small_pieces_are_left_alone() {
        let mut memory: Vec<u64> = Vec::with_capacity(1 << 20);
        // A kernel without large pages refuses; nothing else may come of it.
        if let Err(error) = prefer_large_pages(memory.spare_capacity_mut()) {
            assert!(error.is_unsupported(), "{error}");
        }
        memory.resize(1 << 20, 7);
        assert!(memory.iter().all(|number| *number == 7));
        let mut small: Vec<u8> = Vec::with_capacity(100);
        assert!(prefer_large_pages(small.spare_capacity_mut()).is_ok());
    }
}
