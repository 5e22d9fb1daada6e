//! How the kernel is to map memory.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::{fs, io, ptr};

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

/// Takes out of this process's memory what it has read of its program and libraries, code and
/// constants; gives how many bytes that were.
///
/// What is used again is mapped again from the system's cache, in pieces of some 64 KiB, so what
/// stays out is what only the start needed. Mappings with pages that differ from their file, such
/// as those with addresses in them or with a debugger's marks, are left alone.
///
/// # Errors
/// What the kernel answers when it is asked which mappings there are, or to take one out.
pub fn unmap_program() -> io::Result<u64> {
    let mappings = fs::read_to_string("/proc/self/smaps")?;
    let mut bytes = 0;
    for mapping in program_mappings(&mappings) {
        let start = ptr::without_provenance_mut(mapping.range.start);
        // SAFETY: nobody can have written to these pages, none differs from its file, and no
        // library is ever unloaded: whoever reads them again reads the same bytes.
        unsafe { madvise(start, mapping.range.len(), Advice::LinuxDontNeed) }?;
        bytes += mapping.resident;
    }
    Ok(bytes)
}

/// Part of a file that is mapped, cannot be written to, and is as the file is.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mapping {
    range: Range<usize>,
    resident: u64,
}

/// Finds these among the mappings of a process.
fn program_mappings(smaps: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    let mut is_one = false;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(first), Some(second)) = (words.next(), words.next()) else { continue };
        if !first.ends_with(':') {
            let range = address_range(first);
            let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
            is_one = is_file && matches!(second, "r-xp" | "r--p") && range.is_some();
            found.extend(
                range.filter(|_| is_one).map(|range| Mapping { range, ..Mapping::default() }),
            );
            continue;
        }
        let Some(mapping) = found.last_mut().filter(|_| is_one) else { continue };
        match (first, second.parse::<u64>()) {
            ("Rss:", Ok(kib)) => mapping.resident = kib * 1024,
            ("Anonymous:", Ok(0)) => {}
            ("Anonymous:", _) => {
                found.pop();
                is_one = false;
            }
            _ => {}
        }
    }
    found
}

/// Reads `start-end`, hexadecimal.
fn address_range(text: &str) -> Option<Range<usize>> {
    let (start, end) = text.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are resident of this program's own file.
    fn resident() -> u64 {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        program_mappings(&smaps).iter().map(|mapping| mapping.resident).sum()
    }

    #[test]
    fn a_program_goes_on_when_its_pages_are_taken_out_and_only_what_it_uses_comes_back() {
        for mapping in program_mappings(&fs::read_to_string("/proc/self/smaps").unwrap()) {
            let start = ptr::without_provenance_mut(mapping.range.start);
            // SAFETY: as in `unmap_program`; this only reads them.
            unsafe { madvise(start, mapping.range.len(), Advice::LinuxPopulateRead) }.unwrap();
        }
        let before = resident();
        let taken_out = unmap_program().unwrap();
        let after = resident();
        assert!(taken_out >= before / 2, "{taken_out} of {before}");
        assert!(after < before / 2, "{after} of {before} came back at once");
        // Constants and code are what they were.
        assert_eq!(format!("{:?}", address_range("10-2f")), "Some(16..47)");
    }

    #[test]
    fn only_what_nobody_has_changed_of_files_is_taken_out() {
        let one = |head: &str, anonymous: u64| {
            format!("{head}\nSize: 8 kB\nRss: 8 kB\nAnonymous: {anonymous} kB\nVmFlags: rd\n")
        };
        let smaps = [
            one("1000-3000 r--p 00000000 fe:00 12 /bin/a program", 0),
            one("3000-5000 r-xp 00002000 fe:00 12 /bin/a program", 0),
            one("5000-7000 r-xp 00004000 fe:00 12 /bin/a program", 4),
            one("7000-9000 r--p 00006000 fe:00 12 /bin/a program", 8),
            one("9000-b000 rw-p 00008000 fe:00 12 /bin/a program", 0),
            one("b000-d000 r--s 00000000 fe:00 13 /tmp/shared", 0),
            one("d000-f000 r-xp 00000000 00:00 0 [vdso]", 0),
            one("f000-11000 r--p 00000000 00:00 0", 0),
        ];
        let resident = 8192;
        let expected = [0x1000..0x3000, 0x3000..0x5000].map(|range| Mapping { range, resident });
        assert_eq!(program_mappings(&smaps.concat()), expected);
    }

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
