//! One way to connect, whatever it is encrypted by.
//!
//! Mechanism; the thread of the link.

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Error, Socket};

/// What the server says unasked, until the connection ends.
pub(super) type Messages = BoxStream<'static, Result<AsyncMessage, Error>>;

/// Connects.
pub(super) type Connect =
    Arc<dyn Fn(Config) -> BoxFuture<'static, Result<(Client, Messages), Error>> + Send + Sync>;

/// Connects by `tls`.
pub(super) fn by<T>(tls: T) -> Connect
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::TlsConnect: Send,
    T::Stream: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    Arc::new(move |config| {
        let tls = tls.clone();
        Box::pin(async move {
            let (client, mut connection) = config.connect(tls).await?;
            let messages = stream::poll_fn(move |cx| connection.poll_message(cx)).boxed();
            Ok((client, messages))
        })
    })
}
