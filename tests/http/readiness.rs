//! Readiness, places and lines, by services that are called by hand: what other layers got wrong once.

use crate::scene::{Door, Held, by_user, governor, layer, running, until_running};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use quotient::tower::{BodyError, QueryError, QueryLayer};
use quotient::{AdmissionError, Attributes, KillReason, QueryId};
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer as _, Service, ServiceExt, service_fn};

const ONE_AT_A_TIME: &str = "
    CREATE RESOURCE GROUP one TO (user='one') WITH ('concurrency_limit'='1');
    CREATE RESOURCE GROUP line TO (user='line') WITH ('concurrency_limit'='1', 'max_queued_queries'='1');
    CREATE RESOURCE GROUP free TO (user='free') WITH ('cpu_core_limit'='1')";

fn ask(user: &str) -> Request<Empty<Bytes>> {
    Request::get("/")
        .header("x-user", user)
        .body(Empty::new())
        .unwrap()
}

async fn fine(_: Request<Empty<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("fine")))
}

type Fine = Result<Response<Full<Bytes>>, Infallible>;

/// The same answer, once the door is open.
fn fine_behind(
    door: &Door,
) -> impl Fn(Request<Empty<Bytes>>) -> BoxFuture<'static, Fine> + Clone + Send + 'static {
    let door = door.clone();
    move |request| {
        let door = door.clone();
        Box::pin(async move {
            door.pass().await;
            fine(request).await
        })
    }
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_does_not_grow() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let door = Door::closed();
    let service = layer(&governor).layer(service_fn(fine_behind(&door)));
    let first = tokio::spawn(service.clone().oneshot(ask("line")));
    until_running(&governor, 1).await;
    let mut second = tokio_test_poll(service.clone().oneshot(ask("line")));
    assert!(second.poll_once().await.is_none(), "it waits");
    for _ in 0..1_000 {
        let refused = service.clone().oneshot(ask("line")).await.unwrap();
        assert_eq!(refused.status(), 429);
        assert!(refused.headers().contains_key("retry-after"));
        let why = refused.extensions().get::<AdmissionError>().unwrap();
        assert!(
            matches!(why, AdmissionError::QueueFull { queued: 1, .. }),
            "{why}"
        );
    }
    door.let_pass(2);
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    assert_eq!(second.finish().await.unwrap().status(), 200);
}

/// A future that is polled step by step.
struct Steps<F>(std::pin::Pin<Box<F>>);

fn tokio_test_poll<F: Future>(future: F) -> Steps<F> {
    Steps(Box::pin(future))
}

impl<F: Future> Steps<F> {
    async fn poll_once(&mut self) -> Option<F::Output> {
        std::future::poll_fn(|cx| match self.0.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    async fn finish(self) -> F::Output {
        self.0.await
    }
}

#[tokio::test]
async fn an_exhausted_budget_of_the_caller_is_not_taken_for_overload() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let service = layer(&governor).layer(service_fn(fine));
    let answer = tokio::spawn(async move {
        // From here on everything of tokio's says "pending" until this task has given way.
        while tokio::task::coop::has_budget_remaining() {
            tokio::task::consume_budget().await;
        }
        let mut answer = tokio_test_poll(service.oneshot(ask("one")));
        assert!(answer.poll_once().await.is_none());
        answer.finish().await.unwrap()
    });
    assert_eq!(answer.await.unwrap().status(), 200);
}

#[tokio::test]
async fn callers_that_are_ready_and_never_call_starve_nobody() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let service = layer(&governor).layer(service_fn(fine));
    let mut idle: Vec<_> = (0..100).map(|_| service.clone()).collect();
    for service in &mut idle {
        service.ready().await.unwrap();
    }
    assert_eq!(running(&governor).await, 0);
    assert_eq!(service.oneshot(ask("one")).await.unwrap().status(), 200);
    drop(idle);
}

/// It must be ready before it is called, and a clone is not; as tower's `ConcurrencyLimit` and `Buffer`.
struct Strict {
    places: Arc<tokio::sync::Semaphore>,
    place: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl Strict {
    fn new(places: usize) -> Strict {
        Strict {
            places: Arc::new(tokio::sync::Semaphore::new(places)),
            place: None,
        }
    }
}

impl Clone for Strict {
    fn clone(&self) -> Strict {
        Strict {
            places: self.places.clone(),
            place: None,
        }
    }
}

impl Service<Request<Empty<Bytes>>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.place.is_none() {
            match self.places.clone().try_acquire_owned() {
                Ok(place) => self.place = Some(place),
                Err(_) => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Empty<Bytes>>) -> Self::Future {
        drop(self.place.take().expect("called without being ready"));
        ready(Ok(Response::new(Full::from("strict"))))
    }
}

#[tokio::test]
async fn the_inner_service_that_is_called_is_the_one_that_was_ready() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let strict = Strict::new(1);
    let mut service = layer(&governor).layer(strict.clone());
    for _ in 0..3 {
        // There is one readiness: a clone that had to become ready itself would wait for ever.
        service.ready().await.unwrap();
        assert_eq!(strict.places.available_permits(), 0);
        assert_eq!(service.call(ask("free")).await.unwrap().status(), 200);
        assert_eq!(strict.places.available_permits(), 1);
    }
}

#[tokio::test]
async fn a_request_in_line_holds_up_none_that_needs_the_inner_service() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let strict = Strict::new(1);
    let mut service = layer(&governor).layer(strict.clone());
    let taken = governor.try_admit(&Attributes::new().user("line")).unwrap();

    service.ready().await.unwrap();
    let mut waits = tokio_test_poll(service.call(ask("line")));
    assert!(waits.poll_once().await.is_none());
    assert_eq!(strict.places.available_permits(), 1, "given back");
    service.ready().await.unwrap();
    assert_eq!(service.call(ask("free")).await.unwrap().status(), 200);

    drop(taken);
    assert_eq!(waits.finish().await.unwrap().status(), 200);
    assert_eq!(strict.places.available_permits(), 1);
}

#[tokio::test]
async fn the_place_is_free_when_the_answer_is_there_though_future_and_body_are_kept() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let mut service = layer(&governor).layer(service_fn(fine));
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut future = Box::pin(service.ready().await.unwrap().call(ask("one")));
        let response = future.as_mut().await.unwrap();
        assert_eq!(response.status(), 200);
        kept.push((future, response));
        assert_eq!(running(&governor).await, 0);
    }
}

#[tokio::test]
async fn a_waiting_request_that_is_dropped_leaves_the_line_to_the_next() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let service = layer(&governor).layer(service_fn(fine));
    let taken = governor.try_admit(&Attributes::new().user("line")).unwrap();
    for _ in 0..3 {
        let mut waits = tokio_test_poll(service.clone().oneshot(ask("line")));
        assert!(waits.poll_once().await.is_none());
        drop(waits);
    }
    let waits = tokio::spawn(service.clone().oneshot(ask("line")));
    tokio::task::yield_now().await;
    drop(taken);
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_after_the_queue_timeout_and_says_so() {
    let (governor, _watch) = governor(
        "CREATE RESOURCE GROUP line TO (user='line')
         WITH ('concurrency_limit'='1', 'max_queued_queries'='1', 'queue_timeout'='5s')",
    );
    let service = layer(&governor).layer(service_fn(fine));
    let taken = governor.try_admit(&Attributes::new().user("line")).unwrap();
    let began = tokio::time::Instant::now();
    let refused = service.oneshot(ask("line")).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(began.elapsed().as_secs(), 5);
    drop(taken);
}

#[tokio::test]
async fn a_panic_of_the_handler_goes_on_in_the_caller_and_frees_the_place() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let service = layer(&governor).layer(service_fn(|request: Request<Empty<Bytes>>| async {
        if request.uri().path() == "/" {
            panic!("in the handler");
        }
        fine(request).await
    }));
    for _ in 0..2 {
        let payload = tokio::spawn(service.clone().oneshot(ask("one")))
            .await
            .unwrap_err();
        assert_eq!(payload.into_panic().downcast_ref(), Some(&"in the handler"));
        assert_eq!(running(&governor).await, 0);
    }
}

#[tokio::test]
async fn an_error_of_the_inner_service_is_the_callers() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let service = layer(&governor).layer(service_fn(|_: Request<Empty<Bytes>>| async {
        Err::<Response<Full<Bytes>>, _>("no".to_owned())
    }));
    assert_eq!(service.oneshot(ask("one")).await.unwrap_err(), "no");
    assert_eq!(running(&governor).await, 0);
}

#[tokio::test]
async fn a_body_that_streams_is_made_in_the_query_and_one_that_is_dropped_ends_it() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let held = Held::default();
    let service = layer(&governor).layer(service_fn({
        let held = held.clone();
        move |_: Request<Empty<Bytes>>| {
            let holding = held.hold();
            async move {
                let rows = futures::stream::unfold((0, holding), |(row, holding)| async move {
                    quotient::task::yield_now().await;
                    let text = format!("{row} {}\n", crate::scene::here());
                    let frame = http_body::Frame::data(Bytes::from(text));
                    Some((Ok::<_, Infallible>(frame), (row + 1, holding)))
                });
                Ok::<_, Infallible>(Response::new(http_body_util::StreamBody::new(Box::pin(
                    rows,
                ))))
            }
        }
    }));
    let mut body = service.oneshot(ask("one")).await.unwrap().into_body();
    for row in 0..100 {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame, format!("{row} one true\n"));
    }
    assert_eq!((running(&governor).await, held.count()), (1, 1));
    drop(body);
    until_running(&governor, 0).await;
    assert_eq!(held.count(), 0);
}

#[tokio::test]
async fn a_query_that_is_killed_in_the_middle_of_its_body_ends_it_with_the_reason() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let service = layer(&governor).layer(service_fn(|_: Request<Empty<Bytes>>| async {
        let first = futures::stream::once(ready(Ok::<_, Infallible>(http_body::Frame::data(
            Bytes::from_static(b"first"),
        ))));
        let never = futures::stream::pending();
        let rows = futures::StreamExt::chain(first, never);
        Ok::<_, Infallible>(Response::new(http_body_util::StreamBody::new(rows)))
    }));
    let mut body = service.oneshot(ask("one")).await.unwrap().into_body();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "first"
    );
    assert!(kill_all(&governor, "enough").await);
    match body.frame().await {
        Some(Err(BodyError::Ended(error))) => {
            assert!(
                matches!(error.reason(), Some(KillReason::Killed { why, .. }) if &**why == "enough")
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn bodies_count_as_io_of_their_group_and_keep_to_its_rate_where_that_is_wanted() {
    let (governor, _watch) = governor(
        "CREATE RESOURCE GROUP slow TO (user='slow') WITH ('max_io_bytes_per_second'='1MB');
         CREATE RESOURCE GROUP free TO (user='free') WITH ('cpu_core_limit'='1')",
    );
    // Half in one frame, half in a stream.
    let halves = |_: Request<Empty<Bytes>>| async {
        let frame = || http_body::Frame::data(Bytes::from(vec![0; 1_000_000]));
        let frames = futures::stream::unfold(0, move |n| async move {
            tokio::task::yield_now().await;
            (n < 2).then(|| (Ok::<_, Infallible>(frame()), n + 1))
        });
        Ok::<_, Infallible>(Response::new(http_body_util::StreamBody::new(Box::pin(
            frames,
        ))))
    };
    let written = |user: &str| {
        let group = governor.classify(&Attributes::new().user(user)).unwrap();
        group.usage().io_written_bytes
    };
    for (is_metered, user, least, most) in [
        (false, "slow", 0, 0),
        (true, "free", 0, 0),
        (true, "slow", 1_900, 2_100),
    ] {
        let layer = layer(&governor);
        let layer = if is_metered {
            layer.meter_bodies()
        } else {
            layer
        };
        let before = written(user);
        let began = tokio::time::Instant::now();
        let response = layer
            .layer(service_fn(halves))
            .oneshot(ask(user))
            .await
            .unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), 2_000_000);
        let took = began.elapsed().as_millis();
        assert!((least..=most).contains(&took), "{user}: {took} ms");
        let expected = if is_metered { 2_000_000 } else { 0 };
        assert_eq!(written(user) - before, expected, "{user}");
    }
}

async fn kill_all(governor: &quotient::Governor, why: &str) -> bool {
    let running = governor.execute("SHOW RUNNING QUERIES").await.unwrap();
    let ids = running[0]
        .rows()
        .iter()
        .map(|row| row[0].to_string().parse().unwrap());
    let queries: Vec<_> = ids.filter_map(|id| governor.query(QueryId(id))).collect();
    !queries.is_empty() && queries.iter().all(|query| query.kill(why))
}

#[tokio::test]
async fn a_query_that_is_killed_before_it_answers_is_503_with_the_reason() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let service = layer(&governor).layer(service_fn(|_: Request<Empty<Bytes>>| async {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>().await
    }));
    let answer = tokio::spawn(service.oneshot(ask("one")));
    until_running(&governor, 1).await;
    assert!(kill_all(&governor, "enough").await);
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.status(), 503);
    assert!(!answer.headers().contains_key("retry-after"));
    let why = answer.extensions().get::<KillReason>();
    assert!(matches!(why, Some(KillReason::Killed { .. })), "{why:?}");
}

#[tokio::test]
async fn after_a_shutdown_began_requests_are_503_and_running_ones_finish() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let door = Door::closed();
    let service = layer(&governor).layer(service_fn(fine_behind(&door)));
    let runs = tokio::spawn(service.clone().oneshot(ask("free")));
    until_running(&governor, 1).await;
    let closing = governor.closing();
    let shutdown = tokio::spawn({
        let governor = governor.clone();
        async move { governor.shutdown(Duration::MAX).await }
    });
    closing.await;
    let refused = service.oneshot(ask("free")).await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    door.let_pass(1);
    assert_eq!(runs.await.unwrap().unwrap().status(), 200);
    shutdown.await.unwrap();
}

#[tokio::test]
async fn a_service_of_anything_has_errors_that_say_which() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let layer = QueryLayer::new(&governor, |user: &&'static str| {
        Attributes::new().user(*user)
    });
    let service = layer.layer(service_fn(|user: &'static str| async move {
        match user {
            "line" => std::future::pending().await,
            "free" => Err("wrong"),
            _ => Ok(crate::scene::here()),
        }
    }));
    assert_eq!(service.clone().oneshot("one").await.unwrap(), "one true");
    assert!(matches!(
        service.clone().oneshot("free").await,
        Err(QueryError::Service("wrong"))
    ));

    let pending = tokio::spawn(service.clone().oneshot("line"));
    until_running(&governor, 1).await;
    assert!(kill_all(&governor, "enough").await);
    match pending.await.unwrap() {
        Err(QueryError::Ended(error)) => assert!(error.reason().is_some()),
        other => panic!("{other:?}"),
    }

    let taken = governor.try_admit(&Attributes::new().user("one")).unwrap();
    let refused = service.oneshot("one").await;
    assert!(matches!(
        refused,
        Err(QueryError::NotAdmitted(AdmissionError::Rejected { .. }))
    ));
    drop(taken);
}

#[tokio::test]
async fn a_service_inside_a_query_of_the_group_shares_its_place() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let service = layer(&governor).layer(service_fn(fine));
    let outer = governor
        .try_admit(&by_user(&ask("one").into_parts().0))
        .unwrap();
    let status = outer.run(async move { service.oneshot(ask("one")).await.unwrap().status() });
    assert_eq!(status.await.unwrap(), 200);
}

#[tokio::test]
async fn behind_the_trailers_of_a_stream_that_was_ended_there_is_nothing() {
    let (governor, _watch) = governor(ONE_AT_A_TIME);
    let mut service = layer(&governor).layer(service_fn(async |_: Request<Empty<Bytes>>| {
        let endless = futures::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>();
        Ok::<_, Infallible>(Response::new(http_body_util::StreamBody::new(endless)))
    }));
    let mut asked = ask("free");
    let kind = http::HeaderValue::from_static("application/grpc");
    asked.headers_mut().insert("content-type", kind);
    let mut body = service
        .ready()
        .await
        .unwrap()
        .call(asked)
        .await
        .unwrap()
        .into_body();
    let running = governor.execute("SHOW RUNNING QUERIES").await.unwrap();
    let id = running[0].rows()[0][0].to_string().parse().unwrap();
    assert!(governor.query(QueryId(id)).unwrap().kill("enough"));
    let trailers = body
        .frame()
        .await
        .unwrap()
        .unwrap()
        .into_trailers()
        .unwrap();
    assert_eq!(trailers["grpc-status"], "10");
    for _ in 0..2 {
        assert!(body.frame().await.is_none());
    }
}
