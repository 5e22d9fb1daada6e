//! A client's byte stream, plain or TLS, that tells its [`Watch`] what moves, and of which a few
//! bytes can be read ahead.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::watch::Watch;

/// Most that is read of a client that is not listened to, bytes.
const READ_AHEAD: usize = 512;

/// The bytes.
#[derive(Debug)]
pub(crate) enum Transport {
    /// As they are.
    Plain(TcpStream),
    /// Behind TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A watched stream.
#[derive(Debug)]
pub(crate) struct Stream {
    transport: Transport,
    /// What was read before, and comes first.
    before: Bytes,
    watch: Arc<Watch>,
}

impl Stream {
    /// Watches a stream.
    pub fn new(transport: Transport, watch: Arc<Watch>) -> Self {
        Self { transport, before: Bytes::new(), watch }
    }

    /// Has bytes that were read, all of them, read again.
    pub fn put_back(&mut self, bytes: Bytes) {
        if self.before.is_empty() {
            self.before = bytes;
        } else {
            // Whoever read them left some of what was before.
            self.before = [bytes, std::mem::take(&mut self.before)].concat().into();
        }
    }

    /// Is done when the client has ended its side. What it sends instead is kept for who reads
    /// next; behind that, nothing is looked at: the client has to wait.
    pub fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.before.is_empty() {
            return Poll::Pending;
        }
        let mut space = [0; READ_AHEAD];
        let mut buffer = ReadBuf::new(&mut space);
        ready!(Pin::new(&mut *self).poll_read(context, &mut buffer))?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.before = Bytes::copy_from_slice(buffer.filled());
        Poll::Pending
    }

    /// Reads what comes, to be dropped, beneath TLS where there is such; gives how much. What was
    /// put back stays.
    pub fn poll_drop(
        &mut self,
        context: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let stream = match &mut self.transport {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => stream.get_mut().0,
        };
        let mut buffer = ReadBuf::new(space);
        ready!(Pin::new(stream).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn note<T>(&self, written: &Poll<io::Result<T>>) {
        match written {
            Poll::Pending => self.watch.is_stalled(),
            Poll::Ready(_) => self.watch.has_written(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        if !this.before.is_empty() {
            let len = this.before.len().min(buffer.remaining());
            buffer.put_slice(&this.before.split_to(len));
            this.watch.has_read();
            return Poll::Ready(Ok(()));
        }
        ready!(match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        })?;
        if buffer.filled().len() > before {
            this.watch.has_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        this.note(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
        };
        this.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        };
        this.note(&flushed);
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = match &mut this.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        };
        // TLS has something to say, which a client may not take either.
        this.note(&shut);
        shut
    }
}
