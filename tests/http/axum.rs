//! An axum router under the layer, over real sockets.

use crate::scene::{
    Ask, Door, Held, get, governor, here, http1, http2, layer, request, running, under_axum, until,
    until_running, whole,
};
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::{get as route, post};
use http::StatusCode;
use http::request::Parts;
use quotient::AdmissionError;
use quotient::tower::ResourceGroupLayer;
use std::convert::Infallible;
use std::net::SocketAddr;

const GROUPS: &str = "
    CREATE RESOURCE GROUP bi TO (user='bi') WITH ('concurrency_limit'='1');
    CREATE RESOURCE GROUP line TO (user='line') WITH ('concurrency_limit'='1', 'max_queued_queries'='2');
    CREATE RESOURCE GROUP free TO (user='free') WITH ('cpu_core_limit'='1')";

/// Waits at a door, or for ever in the middle of an answer, and holds something meanwhile.
fn waiting(door: &Door, held: &Held) -> Router {
    let (door, held) = (door.clone(), held.clone());
    let at_the_door = {
        let (door, held) = (door.clone(), held.clone());
        move || async move {
            let _holding = held.hold();
            door.pass().await;
            here()
        }
    };
    let in_the_middle = move || async move {
        let rows = futures::stream::unfold(Some(held.hold()), move |state| {
            let door = door.clone();
            async move {
                let holding = state?;
                door.pass().await;
                Some((Ok::<_, Infallible>("row\n"), Some(holding)))
            }
        });
        Body::from_stream(rows)
    };
    Router::new()
        .route("/", route(at_the_door))
        .route("/rows", route(in_the_middle))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_and_its_body_are_in_the_group_over_http_1_and_2() {
    let (governor, _watch) = governor(GROUPS);
    let rows = || async {
        let rows = futures::stream::iter(0..10);
        Body::from_stream(futures::StreamExt::then(rows, |_| async {
            quotient::task::yield_now().await;
            Ok::<_, Infallible>(here() + ";")
        }))
    };
    let echo = |body: String| async move { format!("{} {body}", here()) };
    let app = Router::new()
        .route("/", route(|| async { here() }))
        .route("/rows", route(rows))
        .route("/echo", post(echo))
        .layer(layer(&governor));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // axum's own loop for HTTP/1, ours for both.
    let ours = tokio::spawn(std::future::IntoFuture::into_future(
        quotient::hyper::serve(&governor, listener, app.clone()),
    ));
    let theirs = under_axum(app).await;

    for address in [address, theirs] {
        let mut client = http1(address).await;
        for _ in 0..2 {
            let answer = client.ask(request("bi", "/")).await;
            assert_eq!((answer.status, answer.text()), (200, "bi true"));
            assert_eq!(answer.headers["content-length"], "7");
            let answer = client.ask(request("bi", "/rows")).await;
            assert_eq!(answer.text(), "bi true;".repeat(10));
            assert_eq!(answer.headers["transfer-encoding"], "chunked");
            let mut echo = request("free", "/echo");
            *echo.method_mut() = http::Method::POST;
            *echo.body_mut() = Body::from("hello");
            let answer = client.ask(echo).await;
            assert_eq!(answer.text(), "free true hello");
        }
    }
    let mut client = http2(address).await;
    let answers = (0..20).map(|_| client.send_request(request("free", "/rows")));
    for answer in futures::future::join_all(answers).await {
        assert_eq!(whole(answer.unwrap()).await.text(), "free true;".repeat(10));
    }
    until_running(&governor, 0).await;
    ours.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_is_answered_with_429_in_the_order_of_arrival() {
    let (governor, _watch) = governor(GROUPS);
    let door = Door::closed();
    let address = under_axum(waiting(&door, &Held::default()).layer(layer(&governor))).await;

    let mut waits = Vec::new();
    for already in 0..3 {
        waits.push(tokio::spawn(get(address, "line", "/")));
        until_queued(&governor, already + 1).await;
    }
    for _ in 0..5 {
        let refused = get(address, "line", "/").await;
        assert_eq!(refused.status, 429);
        let seconds: u64 = refused.headers["retry-after"]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!(seconds >= 1);
        assert_eq!(refused.text(), "");
    }
    // Others are served meanwhile.
    let free = tokio::spawn(get(address, "free", "/"));
    until_queued(&governor, 4).await;
    for (place, wait) in waits.into_iter().enumerate() {
        assert!(!wait.is_finished());
        // At the door: the first of the line, and the one of the other group. Whoever passes, those behind it wait.
        door.let_pass(if place == 0 { 2 } else { 1 });
        assert_eq!(wait.await.unwrap().status, 200);
    }
    assert_eq!(free.await.unwrap().text(), "free true");
    until_running(&governor, 0).await;
}

async fn until_queued(governor: &quotient::Governor, queries: usize) {
    loop {
        let answer = governor.execute("SHOW QUERIES").await.unwrap();
        if answer[0].rows().len() == queries {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_keep_alive_connections_hold_no_place() {
    let (governor, _watch) = governor(GROUPS);
    let app = Router::new()
        .route("/", route(|| async { here() }))
        .layer(layer(&governor));
    let address = under_axum(app).await;
    let mut connections = Vec::new();
    for _ in 0..20 {
        let mut client = http1(address).await;
        let answer = client.ask(request("bi", "/")).await;
        assert_eq!(
            answer.status, 200,
            "the place is free though others are connected"
        );
        connections.push(client);
    }
    assert_eq!(running(&governor).await, 0);
    for client in &mut connections {
        client.ready().await.unwrap();
    }
}

async fn gone_in_the_middle(address: SocketAddr, path: &str, held: &Held, is_2: bool) {
    let request = request("bi", path);
    if is_2 {
        let mut client = http2(address).await;
        let answer = tokio::spawn(async move { client.send_request(request).await });
        until(|| held.count() == 1).await;
        answer.abort();
    } else {
        let mut client = http1(address).await;
        let answer = tokio::spawn(async move { client.send_request(request).await });
        until(|| held.count() == 1).await;
        answer.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_ends_the_handler_and_frees_the_place() {
    let (governor, _watch) = governor(GROUPS);
    let (door, held) = (Door::closed(), Held::default());
    let app = waiting(&door, &held).layer(layer(&governor));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ours = tokio::spawn(std::future::IntoFuture::into_future(
        quotient::hyper::serve(&governor, listener, app),
    ));
    for is_2 in [false, true] {
        for path in ["/", "/rows"] {
            // The place is one: a second client gets it only because the first one's is free.
            gone_in_the_middle(address, path, &held, is_2).await;
            until(|| held.count() == 0).await;
            until_running(&governor, 0).await;
        }
    }
    ours.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_after_some_rows_ends_the_rest() {
    let (governor, _watch) = governor(GROUPS);
    let (door, held) = (Door::closed(), Held::default());
    let address = under_axum(waiting(&door, &held).layer(layer(&governor))).await;
    let mut client = http1(address).await;
    let mut response = client.send_request(request("bi", "/rows")).await.unwrap();
    door.let_pass(1);
    let frame = http_body_util::BodyExt::frame(response.body_mut())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(frame.into_data().unwrap(), "row\n");
    assert_eq!((held.count(), running(&governor).await), (1, 1));
    drop((response, client));
    until(|| held.count() == 0).await;
    until_running(&governor, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_breaks_its_connection_as_ever_and_a_layer_outside_can_answer() {
    let (governor, _watch) = governor(GROUPS);
    let panics = || async {
        if here() == "bi true" {
            panic!("in the handler")
        }
    };
    let app = Router::new()
        .route("/", route(panics))
        .layer(layer(&governor));
    let address = under_axum(app.clone()).await;
    let mut client = http1(address).await;
    assert!(client.send_request(request("bi", "/")).await.is_err());
    assert_eq!(get(address, "free", "/").await.status, 200);

    let caught = app.layer(axum::middleware::from_fn(
        |request, next: axum::middleware::Next| async {
            let answer = std::panic::AssertUnwindSafe(next.run(request));
            match futures::FutureExt::catch_unwind(answer).await {
                Ok(response) => response,
                Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        },
    ));
    let address = under_axum(caught).await;
    assert_eq!(get(address, "bi", "/").await.status, 500);
    assert_eq!(running(&governor).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_answers_refusals_in_its_own_words() {
    let (governor, _watch) = governor(GROUPS);
    let hook = |why: &AdmissionError, parts: &Parts| -> Response {
        let text = format!("{} refused {}", why.group().unwrap(), parts.uri.path());
        (StatusCode::IM_A_TEAPOT, text).into_response()
    };
    let layer = ResourceGroupLayer::new(&governor, crate::scene::by_user).on_reject(hook);
    let app = Router::new()
        .route("/", route(|| async { here() }))
        .layer(layer);
    let address = under_axum(app).await;
    let taken = governor
        .try_admit(&quotient::Attributes::new().user("bi"))
        .unwrap();
    let answer = get(address, "bi", "/").await;
    assert_eq!((answer.status, answer.text()), (418, "bi refused /"));
    drop(taken);
    assert_eq!(get(address, "bi", "/").await.text(), "bi true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_runs_away_is_503_and_its_connection_lives() {
    let (governor, _watch) =
        governor("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('big_query_scan_rows_limit'='10')");
    let scans = || async {
        quotient::record_scan_rows(11);
        quotient::task::yield_now().await;
        "not reached"
    };
    let app = Router::new()
        .route("/", route(scans))
        .layer(layer(&governor));
    let address = under_axum(app).await;
    let mut client = http1(address).await;
    let answer = client.ask(request("bi", "/")).await;
    assert_eq!((answer.status, answer.text()), (503, ""));
    let answer = client.ask(request("free", "/")).await;
    assert_eq!(answer.text(), "not reached");
}
