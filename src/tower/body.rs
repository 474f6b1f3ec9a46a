//! A response's body: made by a task of the query, taken by the connection.
//!
//! Mechanism; the making on workers, the taking on whichever task polls the connection. A body that is ready to its
//! end when its handler returns, as most are, comes along with the head and costs no task. Another one gets a task of
//! the same query: whatever computes a row of an answer is in its group's share, can be killed, and ends when the client
//! has gone. It runs ahead of the connection by [`WINDOW`] at most: with less, each frame would wait for a turn of the
//! connection, and streams would have turns instead of shares.

use super::answer::Answer;
use super::future::origin;
use crate::exec::abort_on_drop::AbortOnDropHandle;
use crate::exec::join::JoinError;
use crate::exec::stats::Direction;
use crate::exec::task;
use crate::io::Metered;
use bytes::Buf;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{Location, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::{Semaphore, mpsc};

/// Frames that come along with the head: the data of a whole answer, and its trailers.
const AHEAD: usize = 2;

/// Bytes that are made before the connection has taken them; one frame more may be ready.
const WINDOW: usize = 64 << 10;

/// What a frame counts for at least, so that small ones are bounded too.
const LEAST: usize = 1 << 10;

type Item<D> = Result<Frame<D>, BodyError>;

/// Why a response ended before its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum BodyError {
    /// The inner body failed.
    Inner(Box<dyn Error + Send + Sync>),
    /// The query was ended; [`JoinError::reason`] says why.
    Ended(JoinError),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::Inner(error) => error.fmt(f),
            BodyError::Ended(error) => error.fmt(f),
        }
    }
}

impl Error for BodyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BodyError::Inner(error) => error.source(),
            BodyError::Ended(error) => error.source(),
        }
    }
}

/// The body of a response of [`ResourceGroup`](super::ResourceGroup). Dropping it ends what makes it.
#[pin_project::pin_project]
pub struct ResponseBody<B: Body> {
    #[pin]
    kind: Kind<B>,
}

#[pin_project::pin_project(project = Of)]
enum Kind<B: Body> {
    /// Nothing, or what a hook answered in place of the handler.
    Plain(#[pin] Option<B>),
    Made(Made<B::Data>),
}

/// What a task of the query has made, and goes on making.
struct Made<D> {
    ahead: [Option<Item<D>>; AHEAD],
    rest: Option<Rest<D>>,
    /// What is left to take.
    hint: SizeHint,
}

struct Rest<D> {
    frames: mpsc::UnboundedReceiver<Item<D>>,
    room: Arc<Semaphore>,
    /// Until its end was told.
    maker: Option<AbortOnDropHandle<()>>,
    is_grpc: bool,
}

/// How a body is made.
#[derive(Clone, Copy)]
pub(super) struct Making {
    /// The line that made the layer.
    pub(super) place: &'static Location<'static>,
    pub(super) is_grpc: bool,
    /// Whether its bytes are IO of the query.
    pub(super) is_metered: bool,
}

/// Takes what is ready of a body and leaves the rest to a task. Called in a task of the query.
pub(super) async fn begin<B>(body: B, making: Making) -> ResponseBody<B>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let hint = body.size_hint();
    // To be moved between two polls it has to be pinned elsewhere; most bodies are a box themselves and as small.
    let mut body = Box::pin(body);
    let mut meter = making.is_metered.then(|| Metered::new(()));
    let mut ahead = [None, None];
    let mut is_over = body.is_end_stream();
    for place in &mut ahead {
        if is_over {
            break;
        }
        match poll_fn(|cx| Poll::Ready(next(body.as_mut(), cx))).await {
            Poll::Pending => break,
            Poll::Ready(None) => is_over = true,
            Poll::Ready(Some(item)) => {
                let item = passed(&mut meter, item).await;
                is_over = item.is_err() || body.is_end_stream();
                *place = Some(item);
            }
        }
    }
    let rest = if is_over {
        None
    } else {
        stream(body, meter, making)
    };
    ResponseBody {
        kind: Kind::Made(Made { ahead, rest, hint }),
    }
}

fn stream<B>(body: Pin<Box<B>>, meter: Option<Metered<()>>, making: Making) -> Option<Rest<B::Data>>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (hand, frames) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(WINDOW));
    // It is called in a task, so that there is one to be beside.
    let work = make(body, meter, hand, room.clone());
    let maker = task::spawn_beside(origin(making.place), work).ok()?;
    Some(Rest {
        frames,
        room,
        maker: Some(AbortOnDropHandle::new(maker)),
        is_grpc: making.is_grpc,
    })
}

async fn make<B>(
    mut body: Pin<Box<B>>,
    mut meter: Option<Metered<()>>,
    hand: mpsc::UnboundedSender<Item<B::Data>>,
    room: Arc<Semaphore>,
) where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    while !body.is_end_stream() {
        let Some(item) = poll_fn(|cx| next(body.as_mut(), cx)).await else {
            return;
        };
        let item = passed(&mut meter, item).await;
        let is_last = item.is_err();
        // It is never closed.
        if let Ok(taken) = room.acquire_many(counts_for(&item)).await {
            taken.forget();
        }
        if hand.send(item).is_err() || is_last {
            return;
        }
    }
}

fn next<B>(body: Pin<&mut B>, cx: &mut Context<'_>) -> Poll<Option<Item<B::Data>>>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let polled = body.poll_frame(cx);
    polled.map_err(|error| BodyError::Inner(error.into()))
}

/// The item, once its bytes may pass.
async fn passed<D: Buf>(meter: &mut Option<Metered<()>>, item: Item<D>) -> Item<D> {
    let mut left = bytes(&item) as u64;
    while let (Some(meter), 1..) = (meter.as_mut(), left) {
        let passed = poll_fn(|cx| meter.poll_pass(Direction::Write, left, cx)).await;
        left = left.saturating_sub(passed.map_err(|error| BodyError::Inner(error.into()))?);
    }
    item
}

fn bytes<D: Buf>(item: &Item<D>) -> usize {
    match item {
        Ok(frame) => frame.data_ref().map_or(0, Buf::remaining),
        Err(_) => 0,
    }
}

fn counts_for<D: Buf>(item: &Item<D>) -> u32 {
    bytes(item).clamp(LEAST, WINDOW) as u32
}

impl<B: Body> ResponseBody<B> {
    pub(super) fn empty() -> ResponseBody<B> {
        ResponseBody {
            kind: Kind::Plain(None),
        }
    }

    pub(super) fn plain(body: B) -> ResponseBody<B> {
        ResponseBody {
            kind: Kind::Plain(Some(body)),
        }
    }
}

impl<D: Buf> Made<D> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Item<D>>> {
        let item = match self.ahead.iter_mut().find_map(Option::take) {
            Some(item) => Some(item),
            None => match &mut self.rest {
                Some(rest) => ready!(rest.poll_frame(cx)),
                None => None,
            },
        };
        match &item {
            Some(item @ Ok(_)) => self.taken(bytes(item)),
            Some(Err(_)) | None => self.rest = None,
        }
        Poll::Ready(item)
    }

    fn taken(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        let mut hint = SizeHint::new();
        if let Some(upper) = self.hint.upper() {
            hint.set_upper(upper.saturating_sub(bytes));
        }
        hint.set_lower(self.hint.lower().saturating_sub(bytes));
        self.hint = hint;
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.ahead.iter().all(Option::is_none)
    }
}

impl<D: Buf> Rest<D> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Item<D>>> {
        if let Some(item) = ready!(self.frames.poll_recv(cx)) {
            self.room.add_permits(counts_for(&item) as usize);
            return Poll::Ready(Some(item));
        }
        // Trailers are no end to everybody: some look for it behind them.
        let Some(maker) = &mut self.maker else {
            return Poll::Ready(None);
        };
        let made = ready!(Pin::new(maker).poll(cx));
        self.maker = None;
        let error = match made {
            Ok(()) => return Poll::Ready(None),
            Err(error) => error,
        };
        let error = match error.try_into_panic() {
            Ok(payload) => resume_unwind(payload),
            Err(error) => error,
        };
        Poll::Ready(Some(if self.is_grpc {
            let mut trailers = HeaderMap::new();
            Answer::to_end(error.reason()).write_grpc(&mut trailers);
            Ok(Frame::trailers(trailers))
        } else {
            Err(BodyError::Ended(error))
        }))
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = B::Data;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<B::Data>>> {
        match self.project().kind.project() {
            Of::Made(made) => made.poll_frame(cx),
            Of::Plain(body) => match body.as_pin_mut() {
                Some(body) => next(body, cx),
                None => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Made(made) => made.is_end_stream(),
            Kind::Plain(body) => body.as_ref().is_none_or(Body::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Made(made) => made.hint,
            Kind::Plain(None) => SizeHint::with_exact(0),
            Kind::Plain(Some(body)) => body.size_hint(),
        }
    }
}

impl<B: Body> fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
