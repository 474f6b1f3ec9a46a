//! The picture of now, taken once a second at most, for everybody who looks.
//!
//! Mechanism; the threads that serve the connections. Nobody looks: nothing is taken. All streams sleep until the
//! picture in hand is a second old; the first to wake takes the next one, and the others find it.

use super::picture;
use crate::governor::{Governor, WeakGovernor};
use axum::response::sse::Event;
use futures::stream::{self, Stream, StreamExt};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// Between two pictures.
const PERIOD: Duration = Duration::from_secs(1);

/// How long one stream lasts: whoever shuts the service down gracefully waits for it.
const LONGEST: Duration = Duration::from_secs(15);

/// How soon a browser comes back when a stream has ended.
const RETRY: Duration = Duration::from_millis(500);

/// Streams at once.
const CLIENTS: usize = 64;

/// Where pictures come from.
pub(super) struct Feed {
    governor: WeakGovernor,
    last: Mutex<Option<Picture>>,
    places: Arc<Semaphore>,
}

/// The figures of one moment.
#[derive(Clone)]
struct Picture {
    json: Arc<str>,
    taken: Instant,
}

impl Picture {
    fn next(&self) -> Instant {
        self.taken + PERIOD
    }
}

/// One client's stream.
struct Client {
    feed: Arc<Feed>,
    since: Instant,
    /// What it was shown last.
    seen: Option<Picture>,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    pub(super) fn of(governor: &Governor) -> Feed {
        Feed {
            governor: governor.downgrade(),
            last: Mutex::new(None),
            places: Arc::new(Semaphore::new(CLIENTS)),
        }
    }

    /// The pictures from now on, for [`LONGEST`] or until the governor is shut down; none while too many look.
    pub(super) fn stream(
        self: &Arc<Feed>,
    ) -> Option<impl Stream<Item = Result<Event, Infallible>> + Send + 'static> {
        let client = Client {
            feed: self.clone(),
            since: Instant::now(),
            seen: None,
            _place: self.places.clone().try_acquire_owned().ok()?,
        };
        let closing = self.governor.upgrade()?.closing();
        Some(stream::unfold(client, Client::step).take_until(closing))
    }

    /// The picture of now; none when the governor is gone.
    async fn now(&self) -> Option<Picture> {
        let mut last = self.last.lock().await;
        if let Some(picture) = last.take_if(|picture| picture.next() > Instant::now()) {
            return Some(last.insert(picture).clone());
        }
        let governor = self.governor.upgrade()?;
        let picture = Picture {
            json: picture::take(&governor).await.to_string().into(),
            taken: Instant::now(),
        };
        Some(last.insert(picture).clone())
    }
}

impl Client {
    async fn step(mut self) -> Option<(Result<Event, Infallible>, Client)> {
        if let Some(seen) = &self.seen {
            if seen.next().duration_since(self.since) > LONGEST {
                return None;
            }
            sleep_until(seen.next()).await;
        }
        let picture = self.feed.now().await?;
        let event = Event::default().retry(RETRY).data(&picture.json);
        self.seen = Some(picture);
        Some((Ok(event), self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_who_look_share_one_picture_a_second_and_it_is_never_an_old_one() {
        let governor = Governor::builder().build().unwrap();
        let feed = Arc::new(Feed::of(&governor));
        let mut streams: Vec<_> = Vec::new();
        for client in 0..5 {
            let stream = feed.stream().unwrap();
            streams.push(Box::pin(stream));
            assert!(streams[client].next().await.is_some());
            tokio::time::advance(Duration::from_millis(150)).await;
        }
        let start = feed.now().await.unwrap();
        for second in 1..4 {
            for stream in &mut streams {
                assert!(stream.next().await.is_some());
            }
            let shared = feed.now().await.unwrap();
            assert_eq!(shared.taken, start.taken + second * PERIOD);
            assert_eq!(shared.taken, Instant::now());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_in_time_gives_its_place_back_and_outlives_no_governor() {
        let governor = Governor::builder().build().unwrap();
        let feed = Arc::new(Feed::of(&governor));
        let begun = Instant::now();
        let mut streams: Vec<_> = (0..CLIENTS)
            .map(|_| Box::pin(feed.stream().unwrap()))
            .collect();
        assert!(feed.stream().is_none());
        let pictures = streams.pop().unwrap().count().await;
        assert_eq!(pictures, 16);
        assert_eq!(begun.elapsed(), LONGEST);
        let mut last = Box::pin(feed.stream().unwrap());
        assert!(last.next().await.is_some());
        governor.shutdown(Duration::ZERO).await;
        assert!(last.next().await.is_none());
        drop(governor);
        assert!(feed.stream().is_none());
    }
}
