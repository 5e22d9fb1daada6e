//! Sends a file that is in the page cache over a TCP connection, in several ways, and says what a
//! byte costs: with a copy, with a copy that is checked, and without a copy.
//!
//! `cargo run --release -p highwater-sys --example send -- DIR [MIB] [ROUNDS]`. The other end only
//! throws away what it gets. CPU time of the sending thread is what to compare: on a busy machine
//! the rate is anything.
#![expect(clippy::print_stdout, reason = "an example that measures prints what it found")]

use std::cell::RefCell;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use highwater_sys::file::{Cache, File, NewFile, WriteSync};
use rustix::time::{ClockId, clock_gettime};

/// What one checksum covers, as in a home's file.
const REGION: usize = 64 << 10;
/// What a reader asks for at a time.
const CHUNK: usize = 1 << 20;

/// A way to send.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Regions through one buffer that is used again.
    Copied,
    /// The same, each checked.
    Checked,
    /// A new buffer for a chunk, each region read into one of its own, checked, and appended.
    CheckedIntoNew,
    /// Chunks without a copy.
    Sendfile,
    /// Chunks without a copy, each region read and checked right before.
    CheckedThenSendfile,
}

const WAYS: [Way; 5] =
    [Way::Copied, Way::Checked, Way::CheckedIntoNew, Way::Sendfile, Way::CheckedThenSendfile];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("name a directory on the disk to be read")?);
    let number = |text: Option<String>, default: usize| text.map_or(Ok(default), |it| it.parse());
    let (mib, rounds) = (number(args.next(), 256)?, number(args.next(), 9)?);
    let path = dir.join(format!("send-{}", std::process::id()));
    let options = NewFile { cache: Cache::Buffered, write_sync: WriteSync::None };
    let file = File::create_new(&path, options)?;
    std::fs::remove_file(&path)?;
    let chunk: Vec<u8> = (0..=250_u8).cycle().take(CHUNK).collect();
    for at in 0..mib {
        file.write_whole_at(&chunk, u64::try_from(at * CHUNK)?)?;
    }
    file.fdatasync()?;
    let mut socket = receiver()?;
    let mut spent = vec![Vec::new(); WAYS.len()];
    for round in 0..=rounds {
        for turn in 0..WAYS.len() {
            let which = (round + turn) % WAYS.len();
            let (begun, cpu) = (Instant::now(), thread_cpu()?);
            for at in 0..mib {
                send(WAYS[which], &file, at * CHUNK, &mut socket)?;
            }
            // The first round is a warm-up.
            if round > 0 {
                spent[which].push((thread_cpu()?.saturating_sub(cpu), begun.elapsed()));
            }
        }
    }
    println!("{mib} MiB, {rounds} rounds; median (least, most)");
    for (way, spent) in WAYS.iter().zip(spent) {
        let gib = mib as f64 / 1024.0;
        let cpu = spread(spent.iter().map(|(cpu, _)| cpu.as_secs_f64() * 1e3 / gib).collect());
        let rate = spread(spent.iter().map(|(_, took)| gib / took.as_secs_f64()).collect());
        let name = format!("{way:?}");
        println!("{name:20} CPU of the sender, ms per GiB: {cpu}   GiB/s: {rate}");
    }
    Ok(())
}

/// A connection whose other end throws away what it gets.
fn receiver() -> Result<TcpStream, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    let (mut other, _) = listener.accept()?;
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        while other.read(&mut buffer).is_ok_and(|len| len > 0) {}
    });
    Ok(socket)
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; REGION]);
}

fn send(way: Way, file: &File, at: usize, socket: &mut TcpStream) -> Result<(), Box<dyn Error>> {
    let regions = (at..at + CHUNK).step_by(REGION);
    BUFFER.with_borrow_mut(|buffer| {
        match way {
            Way::Copied => {
                for region in regions {
                    file.read_at(buffer, u64::try_from(region)?)?;
                    socket.write_all(buffer)?;
                }
            }
            Way::Checked => {
                for region in regions {
                    check(file, region, buffer)?;
                    socket.write_all(buffer)?;
                }
            }
            Way::CheckedIntoNew => {
                let mut whole = Vec::with_capacity(CHUNK);
                for region in regions {
                    let mut bytes = vec![0; REGION];
                    check(file, region, &mut bytes)?;
                    whole.extend_from_slice(&bytes);
                }
                socket.write_all(&std::sync::Arc::<[u8]>::from(whole))?;
            }
            Way::Sendfile => send_range(file, at, socket)?,
            Way::CheckedThenSendfile => {
                for region in regions {
                    check(file, region, buffer)?;
                }
                send_range(file, at, socket)?;
            }
        }
        Ok(())
    })
}

fn check(file: &File, at: usize, buffer: &mut [u8]) -> Result<(), Box<dyn Error>> {
    file.read_at(buffer, u64::try_from(at)?)?;
    // The sum is not known here, but it has to be computed.
    if crc32c::crc32c(buffer) == 1 { Err("a checksum is wrong".into()) } else { Ok(()) }
}

fn send_range(file: &File, at: usize, socket: &TcpStream) -> Result<(), Box<dyn Error>> {
    let (mut offset, end) = (u64::try_from(at)?, u64::try_from(at + CHUNK)?);
    while offset < end {
        let left = usize::try_from(end - offset)?;
        if rustix::fs::sendfile(socket, file, Some(&mut offset), left)? == 0 {
            return Err("the file ends".into());
        }
    }
    Ok(())
}

fn thread_cpu() -> Result<Duration, Box<dyn Error>> {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    format!("{:.1} ({least:.1}, {most:.1})", values[values.len() / 2])
}
