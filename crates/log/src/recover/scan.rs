//! Reads a segment's frames in order, and judges what stands where none can be read.

use highwater_disk::{File, PublishedWriter};

use crate::error::OpenError;
use crate::format::{BLOCK_BYTES, FrameContext, FrameHeader};
use crate::ids::{LaneId, Lsn};
use crate::lane::segment::{to_u64, to_usize};

/// Bytes of the unit in which a write may go astray.
const SECTOR: usize = 512;
const _: () = assert!(SECTOR as u64 == highwater_disk::SECTOR_BYTES);

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a segment that are read first: what is read takes memory, and a log that is opened may
/// have ended right behind its beginning.
const FIRST_BYTES: usize = 64 << 10;

/// A segment being read into its image: what is published are good frames.
pub(crate) struct Reading<'a> {
    file: &'a dyn File,
    pub image: PublishedWriter,
    /// Bytes of the segment read so far.
    loaded: usize,
}

/// Why no frame could be read at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoFrame(pub String);

impl<'a> Reading<'a> {
    /// Begins behind the header of a segment.
    pub fn new(file: &'a dyn File, image: PublishedWriter) -> Self {
        let loaded = image.published();
        Self { file, image, loaded }
    }

    /// Whether the segment has room for another frame.
    pub fn is_at_end(&self) -> bool {
        self.image.published() + BLOCK_BYTES > self.image.capacity()
    }

    /// Reads the next frame; its bytes are published when it is good.
    ///
    /// # Errors
    /// Only the disk's: a frame that is not good is an answer.
    pub fn next(
        &mut self,
        context: &FrameContext,
    ) -> Result<Result<FrameHeader, NoFrame>, OpenError> {
        let start = self.image.published();
        self.load(start + BLOCK_BYTES)?;
        let no_frame = |why: String| Ok(Err(NoFrame(why)));
        let header = match FrameHeader::decode(&self.image.unpublished()[..BLOCK_BYTES]) {
            Err(error) => return no_frame(error.to_string()),
            Ok(header) => header,
        };
        if let Err(rejection) = context.judge(&header) {
            return no_frame(rejection.to_string());
        }
        let end = to_u64(start).saturating_add(header.frame_len());
        if end > to_u64(self.image.capacity()) {
            return no_frame("the frame crosses its segment's end".to_owned());
        }
        self.load(to_usize(end))?;
        let rest = &self.image.unpublished()[FrameHeader::LEN..];
        if let Err(error) = header.check_body(rest) {
            return no_frame(error.to_string());
        }
        self.image.publish(to_usize(header.frame_len()));
        Ok(Ok(header))
    }

    /// Reads the file up to a place.
    fn load(&mut self, end: usize) -> Result<(), OpenError> {
        while self.loaded < end {
            // As much as there is already, so that large ones are soon read in large chunks.
            let len = self.loaded.clamp(FIRST_BYTES, CHUNK_BYTES);
            let len = len.min(self.image.capacity() - self.loaded);
            let at = self.loaded - self.image.published();
            let target = &mut self.image.unpublished()[at..at + len];
            self.file.read_at(target, to_u64(self.loaded))?;
            self.loaded += len;
        }
        Ok(())
    }

    /// Gives the image to go on in: what was read behind the last good frame is zeroed.
    pub fn into_image(mut self) -> PublishedWriter {
        let beyond = self.loaded - self.image.published();
        self.image.unpublished()[..beyond].fill(0);
        self.image
    }
}

/// Looks behind a place where no frame could be read for proof that acknowledged bytes stood there:
/// a frame that says the log was durable beyond it. That stays true wherever the frame stands: one
/// that was written to a wrong place proves it as well.
///
/// # Errors
/// [`OpenError::Damaged`] when there is one (I6), and the disk's.
pub(super) fn judge(stretch: &Stretch<'_>, bad: &Bad<'_>) -> Result<(), OpenError> {
    headers(stretch, |header, _| {
        let is_ours = header.lane == bad.lane && header.store_tag == bad.store_tag;
        if is_ours && header.durable_lsn > bad.at {
            return Err(OpenError::Damaged {
                lane: bad.lane,
                from: bad.at,
                durable: header.durable_lsn,
                why: bad.why.to_owned(),
            });
        }
        Ok(())
    })
}

/// A segment's file from a place on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch<'a> {
    pub file: &'a dyn File,
    /// The segment's first position; absent where its header is lost.
    pub start: Option<Lsn>,
    pub segment_bytes: u64,
    /// The place; before the segment for all of it.
    pub from: Lsn,
}

/// Where a header stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stands {
    /// At its own position.
    AtHome,
    /// At another one.
    Astray,
}

/// Hands on every good header, whatever stands between them.
///
/// # Errors
/// What `visit` gives, and the disk's.
pub(crate) fn headers(
    stretch: &Stretch<'_>,
    mut visit: impl FnMut(FrameHeader, Stands) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let Stretch { file, start, segment_bytes, from } = *stretch;
    let mut chunk = crate::lane::segment::zeroed(to_u64(CHUNK_BYTES).min(segment_bytes));
    let first = start.map_or(0, |start| from.0.saturating_sub(start.0));
    let mut at = first.max(to_u64(BLOCK_BYTES));
    while at < segment_bytes {
        let len = to_u64(chunk.len()).min(segment_bytes - at);
        let bytes = &mut chunk[..to_usize(len)];
        file.read_at(bytes, at)?;
        for (sector, offset) in bytes.chunks_exact(SECTOR).zip((at..).step_by(SECTOR)) {
            let Ok(header) = FrameHeader::decode(sector) else { continue };
            let is_at_home = match start {
                Some(start) => header.lsn.0 == start.0 + offset,
                None => header.lsn.0 % segment_bytes == offset,
            };
            visit(header, if is_at_home { Stands::AtHome } else { Stands::Astray })?;
        }
        at += len;
    }
    Ok(())
}

/// A place where no frame could be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bad<'a> {
    pub lane: LaneId,
    pub store_tag: u64,
    pub at: Lsn,
    pub why: &'a str,
}
