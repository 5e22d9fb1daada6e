//! Settings of a log: each a limit with its default. What cannot be meant is refused, not repaired.

use std::time::Duration;

use crate::error::OpenError;
use crate::format::extension::{MAX_METADATA_LEN, MAX_NAME_LEN};
pub use crate::home::files::FileBarrier;
use crate::lane::segment::to_u64;
pub use crate::write_path::{WriteBarrier, WritePath, WritePathChoice};

/// When an append is acknowledged, named by what that guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After the barrier: survives a power cut.
    Wal,
    /// On staging; a barrier at least this often: a power cut takes at most so much time.
    Relaxed {
        /// Longest time until the barrier.
        within: Duration,
    },
    /// After a write without a barrier: survives a killed process, not a power cut.
    Memory,
}

/// Settings of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Independent logs; fixed when the log is made. Default 1.
    pub lanes: u16,
    /// Directories over which the home spreads its files, `streams/0` and on; fixed when the log is
    /// made. Each may be a link to a directory on a device of its own. Default 1.
    pub stream_lanes: u16,
    /// Bytes of a segment; fixed when the log is made. Default 64 MiB.
    pub segment_bytes: u64,
    /// Largest payload of one append. Default 8 MiB.
    pub max_payload_bytes: u64,
    /// Records are gathered into frames of about this size. Default 1 MiB.
    pub frame_bytes: u64,
    /// Staged bytes beyond which appends are refused until the disk has caught up. Beyond half of
    /// it, acknowledgements that run ahead of their barrier wait for it. Default 128 MiB.
    pub max_staged_bytes: u64,
    /// Bytes of a lane's segments, kept for bytes that are not in their home, beyond which a
    /// checkpoint begins; somewhat less for each further lane, so that they take turns. Default
    /// 256 MiB.
    pub checkpoint_wal_bytes: u64,
    /// The most that a lane's segments take. The last segment is for deletes: one segment before
    /// this everything else is refused until a checkpoint has freed some. Well before, from
    /// [`Options::delay_wal_bytes`] on, acknowledgements wait for the checkpoint. Default 1 GiB.
    pub max_wal_bytes: u64,
    /// Bytes of segments in memory, over all lanes, those included that readers hold on to: beyond
    /// half of it checkpoints begin, and at it appends are refused. Deletes may take a segment per
    /// lane more. Default 2 GiB.
    pub max_image_bytes: u64,
    /// Longest time between checkpoints of a lane that has something to move; lanes begin at
    /// different moments of it. Default 60 s.
    pub checkpoint_interval: Duration,
    /// Streams at most, over all lanes. Default 4 million.
    pub max_streams: u64,
    /// Bytes of one stream at most, what it inherits included: appends that would lead beyond are
    /// refused. By default no limit.
    pub max_stream_bytes: u64,
    /// Bytes that all streams hold together, each its own: what would lead beyond is refused, until
    /// deletes have made room. A deleted source counts as long as forks read it. By default no
    /// limit.
    pub max_total_bytes: u64,
    /// How the names of streams begin that are not refused for their bytes, nor for those of all:
    /// those in which whoever has the log keeps books of its own. They count. By default none.
    pub unbounded_prefix: Option<&'static str>,
    /// Longest name of a stream, bytes. 4096 at most, and by default.
    pub max_name_bytes: u32,
    /// Most metadata of a stream, bytes. 16 KiB at most, and by default. A content type has 256 at
    /// most, a producer's id 256, a sequence 1024.
    pub max_metadata_bytes: u32,
    /// Memory that streams take, over all lanes, about: slots, names, configurations (each once),
    /// producers and sequences. Each lane has its share. At it, creates and producers that are new
    /// to their stream are refused, whatever else goes on; deletes make room. Default 2 GiB.
    pub max_table_bytes: u64,
    /// Producers remembered per stream, 1024 at most; the one unused for longest is forgotten. All
    /// of them are written whenever a checkpoint finds the stream changed. Default 128.
    pub max_producers: u32,
    /// Streams whose entries a checkpoint gathers at a time, holding the lane's lock. Default 2048.
    pub partition_streams: u32,
    /// Files of streams that are open at once; a quarter of them may be lent to readers who send
    /// from them. Default 256.
    pub max_open_files: u32,
    /// How long bytes at home count as checked once they were, when they are sent without a copy:
    /// the kernel may drop them and read them from the device again meanwhile. Zero checks each
    /// time, which costs what a copy does. Default 10 s.
    pub recheck_after: Duration,
    /// How the home makes files durable. Default `syncfs`.
    pub file_barrier: FileBarrier,
    /// When an append is acknowledged.
    pub durability: Durability,
    /// Quiet time after which a lane puts a witness behind its last commit: one block that vouches
    /// for it, so that damage to it is told from a torn end. Until then, damage to the last commit
    /// is taken for one. At least 1 ms. Default 1 s.
    pub witness_after: Duration,
    /// How frames are written and made durable. Default direct access and `fdatasync`.
    pub write_path: WritePathChoice,
    /// A bug on request.
    #[cfg(feature = "planted")]
    pub planted: Option<crate::planted::Planted>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lanes: 1,
            stream_lanes: 1,
            segment_bytes: 64 << 20,
            max_payload_bytes: 8 << 20,
            frame_bytes: 1 << 20,
            max_staged_bytes: 128 << 20,
            checkpoint_wal_bytes: 256 << 20,
            max_wal_bytes: 1 << 30,
            max_image_bytes: 2 << 30,
            checkpoint_interval: Duration::from_secs(60),
            max_streams: 4_000_000,
            max_stream_bytes: u64::MAX,
            max_total_bytes: u64::MAX,
            unbounded_prefix: None,
            max_name_bytes: 4096,
            max_metadata_bytes: 16 << 10,
            max_table_bytes: 2 << 30,
            max_producers: 128,
            partition_streams: crate::table::PARTITION_STREAMS,
            max_open_files: 256,
            recheck_after: Duration::from_secs(10),
            file_barrier: FileBarrier::Syncfs,
            durability: Durability::Wal,
            witness_after: Duration::from_secs(1),
            write_path: WritePathChoice::Fixed(WritePath::DEFAULT),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}

impl Options {
    /// Smallest segment: a header and a frame or two.
    pub const LEAST_SEGMENT_BYTES: u64 = 64 << 10;
    /// Least memory for the streams of a lane.
    pub const LEAST_TABLE_BYTES: u64 = 64 << 10;
    /// Room for headers and extensions beside the payload of one record in a frame.
    pub const RECORD_ROOM: u64 = 48 << 10;

    /// Bytes of a lane's segments beyond which acknowledgements wait for the next checkpoint: three
    /// quarters of the way from where checkpoints begin to where appends are refused.
    pub fn delay_wal_bytes(&self) -> u64 {
        let growth = self.max_wal_bytes - self.segment_bytes;
        growth - (growth - self.trigger_wal_bytes()) / 4
    }

    /// Bytes of a lane's segments beyond which a checkpoint begins: before the log is full.
    pub(crate) fn trigger_wal_bytes(&self) -> u64 {
        self.checkpoint_wal_bytes.min(self.max_wal_bytes - 2 * self.segment_bytes)
    }

    /// What of [`Options::max_table_bytes`] is a lane's.
    pub(crate) fn lane_table_bytes(&self) -> u64 {
        self.max_table_bytes / u64::from(self.lanes)
    }

    /// Files that a log with these settings has open at most, readers of the home not counted,
    /// which have one each while they read: segments of each lane, with the one in reserve and one
    /// being made, its directory and its lock; files of streams; the directories that barriers of
    /// the home go to, with their locks; and what a checkpoint writes, the lock, and the root.
    pub fn open_files(&self) -> u64 {
        let segments = self.max_wal_bytes.div_ceil(self.segment_bytes.max(1));
        let lanes = u64::from(self.lanes) * segments.saturating_add(5);
        lanes + u64::from(self.max_open_files) + 2 * u64::from(self.stream_lanes) + 8
    }

    /// Staged bytes beyond which no acknowledgement runs ahead of its barrier.
    pub(crate) fn delay_staged_bytes(&self) -> u64 {
        self.max_staged_bytes / 2
    }

    /// Checks that the settings can be meant.
    ///
    /// # Errors
    /// [`OpenError::Settings`] that names the setting and its range.
    pub fn check(&self) -> Result<(), OpenError> {
        let refuse = |text: String| Err(OpenError::Settings(text));
        if self.lanes == 0 || self.lanes > 256 {
            return refuse(format!("lanes: 1 to 256, not {}", self.lanes));
        }
        if self.stream_lanes == 0 || self.stream_lanes > 256 {
            return refuse(format!("stream_lanes: 1 to 256, not {}", self.stream_lanes));
        }
        let segment = self.segment_bytes;
        if !(Self::LEAST_SEGMENT_BYTES..=1 << 32).contains(&segment)
            || !segment.is_multiple_of(4096)
        {
            return refuse(format!(
                "segment_bytes: 64 KiB to 4 GiB in steps of 4 KiB, not {segment}"
            ));
        }
        let largest = segment.saturating_sub(4096 + Self::RECORD_ROOM);
        if self.max_payload_bytes == 0 || self.max_payload_bytes > largest {
            return refuse(format!(
                "max_payload_bytes: 1 to {largest} with segments of {segment}, not {}",
                self.max_payload_bytes
            ));
        }
        if self.frame_bytes < 4096 || self.frame_bytes > segment - 4096 {
            return refuse(format!("frame_bytes: 4 KiB to a segment, not {}", self.frame_bytes));
        }
        if self.max_staged_bytes < self.max_payload_bytes.saturating_mul(2) {
            return refuse("max_staged_bytes: at least twice max_payload_bytes".to_owned());
        }
        if self.max_wal_bytes < segment.saturating_mul(3) {
            return refuse(format!("max_wal_bytes: at least three segments of {segment}"));
        }
        let least = segment.saturating_mul(2 * u64::from(self.lanes));
        if self.max_image_bytes < least {
            return refuse(format!(
                "max_image_bytes: at least {least}, two segments of {segment} for each of {} lanes",
                self.lanes
            ));
        }
        if self.checkpoint_wal_bytes == 0 || self.checkpoint_wal_bytes > self.max_wal_bytes {
            return refuse("checkpoint_wal_bytes: 1 to max_wal_bytes".to_owned());
        }
        if self.max_streams == 0 || self.max_streams > u64::from(u32::MAX) {
            return refuse("max_streams: 1 to 2^32 - 1".to_owned());
        }
        self.check_streams()?;
        if self.max_producers == 0 || self.max_producers > 1024 {
            return refuse(format!("max_producers: 1 to 1024, not {}", self.max_producers));
        }
        if self.partition_streams < 2 || self.partition_streams > 1 << 16 {
            return refuse(format!(
                "partition_streams: 2 to 65536, not {}",
                self.partition_streams
            ));
        }
        if self.witness_after < Duration::from_millis(1) {
            return refuse(format!("witness_after: at least 1 ms, not {:?}", self.witness_after));
        }
        if self.max_open_files == 0 {
            return refuse("max_open_files: at least 1".to_owned());
        }
        Ok(())
    }

    fn check_streams(&self) -> Result<(), OpenError> {
        let refuse = |text: String| Err(OpenError::Settings(text));
        let (name, metadata) = (to_u64(MAX_NAME_LEN), to_u64(MAX_METADATA_LEN));
        if self.max_name_bytes == 0 || u64::from(self.max_name_bytes) > name {
            return refuse(format!("max_name_bytes: 1 to {name}, not {}", self.max_name_bytes));
        }
        if u64::from(self.max_metadata_bytes) > metadata {
            let asked = self.max_metadata_bytes;
            return refuse(format!("max_metadata_bytes: 0 to {metadata}, not {asked}"));
        }
        if self.lane_table_bytes() < Self::LEAST_TABLE_BYTES {
            let least = Self::LEAST_TABLE_BYTES;
            return refuse(format!("max_table_bytes: at least {least} for each lane"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_can_be_meant_and_nonsense_is_refused_by_name() {
        assert_eq!(Options::default().check(), Ok(()));
        let refused = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert!(refused(|o| o.lanes = 0).contains("lanes"));
        assert!(refused(|o| o.stream_lanes = 0).contains("stream_lanes"));
        assert!(refused(|o| o.segment_bytes = 5000).contains("segment_bytes"));
        assert!(refused(|o| o.max_payload_bytes = o.segment_bytes).contains("max_payload_bytes"));
        assert!(refused(|o| o.frame_bytes = 1).contains("frame_bytes"));
        assert!(refused(|o| o.max_staged_bytes = 1).contains("max_staged_bytes"));
        assert!(refused(|o| o.lanes = 256).contains("max_image_bytes"));
        assert!(refused(|o| o.max_streams = 0).contains("max_streams"));
        assert!(refused(|o| o.max_producers = 0).contains("max_producers"));
        assert!(refused(|o| o.max_name_bytes = 5000).contains("max_name_bytes"));
        assert!(refused(|o| o.max_metadata_bytes = 20_000).contains("max_metadata_bytes"));
        assert!(refused(|o| o.max_table_bytes = 1).contains("max_table_bytes"));
        assert!(refused(|o| o.witness_after = Duration::ZERO).contains("witness_after"));
        assert!(refused(|o| o.partition_streams = 1).contains("partition_streams"));
    }
}
