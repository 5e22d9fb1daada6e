//! A buffer that one writer fills from the front while any number of readers look at the part that
//! is published: what is published never changes again.
//!
//! Its memory is the kernel's own zeros, mapped page by page where it is touched. An allocator
//! that is asked for zeros on a page's boundary writes them all at once: tens of milliseconds for a
//! large one.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

#[cfg(loom)]
use loom::sync::atomic::AtomicUsize;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
#[cfg(not(loom))]
use std::sync::atomic::AtomicUsize;

/// Bytes of the smallest page that a kernel maps: the alignment that is had for nothing.
const PAGE_BYTES: usize = 4096;

/// The memory that writer and readers share.
struct Shared {
    start: NonNull<u8>,
    len: usize,
    /// Bytes from the start that readers may see, and that the writer never touches again.
    published: AtomicUsize,
    #[cfg(loom)]
    touched: Touched,
}

// SAFETY: the bytes before `published` are only read, those from there on only reached through the
// one `PublishedWriter`; moving `published` releases the bytes written before.
unsafe impl Send for Shared {}
// SAFETY: as above; every reader sees immutable bytes only.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped in `PublishedWriter::new` with this length, and unmapped nowhere else.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
        unmapped.expect("what was mapped as a whole can be unmapped as a whole");
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
    /// Maps `len` zero bytes aligned to `align`; memory is used only where it is touched.
    ///
    /// # Panics
    /// When `len` is zero, or `align` is not a power of two up to 4096.
    pub fn new(len: usize, align: usize) -> Self {
        assert!(len > 0, "a published buffer holds at least one byte");
        assert!(align.is_power_of_two() && align <= PAGE_BYTES, "pages align to 4096, not {align}");
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place of the kernel's choice replaces no other.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, flags) };
        let start = mapped.ok().and_then(|start| NonNull::new(start.cast::<u8>()));
        let Some(start) = start else {
            handle_alloc_error(Layout::from_size_align(len, align).expect("checked above"))
        };
        let shared = Shared {
            start,
            len,
            published: AtomicUsize::new(0),
            #[cfg(loom)]
            touched: Touched::new(len, align),
        };
        Self { shared: Arc::new(shared), published: 0 }
    }

    /// Bytes published so far.
    pub fn published(&self) -> usize {
        self.published
    }

    /// Bytes in all.
    pub fn capacity(&self) -> usize {
        self.shared.len
    }

    /// Gives everything that is not published, to be written.
    pub fn unpublished(&mut self) -> &mut [u8] {
        #[cfg(loom)]
        self.shared.touched.write(self.published);
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
        // Release: a reader that sees the new length sees the bytes.
        self.publish_as(len, Ordering::Release);
    }

    fn publish_as(&mut self, len: usize, ordering: Ordering) {
        assert!(len <= self.capacity() - self.published, "publishing more than there is");
        self.published += len;
        self.shared.published.store(self.published, ordering);
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

    /// Bytes in all, published or not.
    pub fn capacity(&self) -> usize {
        self.shared.len
    }

    /// Has the kernel give memory to pages that were not touched yet, so that whoever writes them
    /// does not wait for it; their content stays. Gives false where the kernel cannot.
    ///
    /// # Errors
    /// The kernel's answer, that there is no memory perhaps.
    ///
    /// # Panics
    /// When the range does not begin on a page, or lies beyond the buffer.
    pub fn populate(&self, range: Range<usize>) -> Result<bool, Errno> {
        assert!(range.start.is_multiple_of(PAGE_BYTES) && range.start <= range.end);
        assert!(range.end <= self.shared.len, "populating more than there is");
        // SAFETY: the range is in the mapping, asserted above.
        let start = unsafe { self.shared.start.as_ptr().add(range.start) };
        let advice = Advice::LinuxPopulateWrite;
        // SAFETY: the pages are this mapping's, and populating them changes no byte.
        match unsafe { madvise(start.cast::<c_void>(), range.len(), advice) } {
            Err(Errno::INVAL) => Ok(false),
            answer => answer.map(|()| true),
        }
    }

    /// Gives the bytes published so far.
    pub fn bytes(&self) -> &[u8] {
        let len = self.shared.published.load(Ordering::Acquire);
        #[cfg(loom)]
        self.shared.touched.read(len);
        // SAFETY: these bytes are initialised, were released by the writer, and never change again;
        // the allocation lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.shared.start.as_ptr(), len) }
    }
}

/// Tells loom who touches which bytes, as many as the memory is aligned to at a time: it fails
/// where a read does not come after the write, whatever the bytes are.
#[cfg(loom)]
struct Touched {
    unit: usize,
    cells: Vec<loom::cell::UnsafeCell<()>>,
}

#[cfg(loom)]
impl Touched {
    fn new(len: usize, unit: usize) -> Self {
        let cells = (0..len.div_ceil(unit)).map(|_| loom::cell::UnsafeCell::new(()));
        Self { unit, cells: cells.collect() }
    }

    /// Everything from a position on may be written.
    fn write(&self, from: usize) {
        let cells = self.cells.get(from / self.unit..).unwrap_or_default();
        cells.iter().for_each(|cell| cell.with_mut(|_| ()));
    }

    /// Everything before a position may be read.
    fn read(&self, to: usize) {
        let cells = &self.cells[..to.div_ceil(self.unit)];
        cells.iter().for_each(|cell| cell.with(|_| ()));
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

#[cfg(all(test, loom))]
mod models {
    use super::*;

    /// A reader that looks twice while the writer publishes two parts with this ordering.
    fn read_while_written(ordering: Ordering) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let mut writer = PublishedWriter::new(4, 1);
            let reader = writer.reader();
            let looks = loom::thread::spawn(move || {
                let first = reader.bytes().len();
                let bytes = reader.bytes();
                assert_eq!(bytes, &[1, 1, 2, 2][..bytes.len()]);
                assert!(bytes.len() >= first);
            });
            for part in 1..=2 {
                writer.unpublished()[..2].fill(part);
                writer.publish_as(2, ordering);
            }
            looks.join().unwrap();
        });
    }

    #[test]
    fn loom_a_reader_reads_only_what_was_written_before() {
        read_while_written(Ordering::Release);
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn loom_a_length_that_does_not_release_the_bytes_is_caught() {
        read_while_written(Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
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
    fn memory_is_aligned_and_zero_and_writable_to_its_end() {
        for len in [1, 4095, 4097, 3 << 20] {
            let mut writer = PublishedWriter::new(len, 4096);
            assert_eq!(writer.unpublished().as_ptr().addr() % 4096, 0);
            assert!(writer.unpublished().iter().all(|byte| *byte == 0));
            writer.unpublished().fill(7);
            writer.publish(len);
            assert_eq!(writer.reader().bytes(), vec![7; len]);
        }
    }

    /// KiB in memory of the mapping that has an address.
    fn resident_kib(address: usize) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel lists mappings");
        let mut is_here = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|word| word.split_once('-'));
            let parse = |hex: &str| usize::from_str_radix(hex, 16).ok();
            if let Some((Some(from), Some(to))) = range.map(|(a, b)| (parse(a), parse(b))) {
                is_here = (from..to).contains(&address);
            }
            if let Some(size) = line.strip_prefix("Rss:").filter(|_| is_here) {
                return size.trim().trim_end_matches(" kB").parse().expect("a size is a number");
            }
        }
        panic!("no mapping has {address:x}");
    }

    #[test]
    fn memory_is_used_where_it_is_touched_or_populated_and_populating_changes_no_byte() {
        const LEN: usize = 256 << 20;
        let mut writer = PublishedWriter::new(LEN, 4096);
        let reader = writer.reader();
        writer.unpublished()[..4096].fill(7);
        let address = writer.unpublished().as_ptr().addr();
        let before = resident_kib(address);
        assert!(before < 128 << 10, "{before} KiB of 256 MiB that nobody has touched");
        if !reader.populate(0..192 << 20).unwrap() {
            println!("skipped: this kernel does not populate mappings");
            return;
        }
        assert!(resident_kib(address) >= 192 << 10);
        writer.publish(8192);
        assert_eq!((reader.bytes()[4095], reader.bytes()[4096]), (7, 0));
    }

    #[test]
    #[should_panic(expected = "pages align to 4096")]
    fn an_alignment_that_pages_do_not_have_is_refused() {
        PublishedWriter::new(16, 8192);
    }

    #[test]
    #[should_panic(expected = "more than there is")]
    fn publishing_beyond_the_end_is_a_broken_invariant() {
        PublishedWriter::new(16, 16).publish(17);
    }
}
