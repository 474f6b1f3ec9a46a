//! What a failed task's error says, in all its forms.

use super::side::{JoinError, spawn};
use crate::scene::{LONG, Log, Transcript, caught, text_of};
use std::error::Error;
use std::panic::panic_any;

async fn cancelled() -> JoinError {
    let handle = spawn(tokio::time::sleep(LONG));
    handle.abort();
    handle.await.unwrap_err()
}

async fn panicked(panic: fn()) -> JoinError {
    spawn(async move { panic() }).await.unwrap_err()
}

fn all_forms(log: &Log, error: &JoinError) {
    log.say(format!("{error}"));
    log.say(format!("{error:?}"));
    log.say(format!("{error:#?}"));
    log.say(format!("cancelled {}", error.is_cancelled()));
    log.say(format!("panic {}", error.is_panic()));
    log.say(format!(
        "source {:?}",
        error.source().map(ToString::to_string)
    ));
}

pub async fn of_a_cancelled_task() -> Transcript {
    let log = Log::new();
    all_forms(&log, &cancelled().await);
    log.end()
}

pub async fn of_a_panic_with_a_literal() -> Transcript {
    let log = Log::new();
    all_forms(
        &log,
        &panicked(|| panic!("planned \"quoted\"\n\tand escaped")).await,
    );
    log.end()
}

pub async fn of_a_panic_with_a_string() -> Transcript {
    let log = Log::new();
    let nine = 9;
    let error = spawn(async move { assert!(nine == 0, "planned: formatted {nine}") })
        .await
        .unwrap_err();
    all_forms(&log, &error);
    all_forms(
        &log,
        &panicked(|| panic_any(String::from("planned: owned"))).await,
    );
    log.end()
}

pub async fn of_a_panic_with_another_payload() -> Transcript {
    let log = Log::new();
    all_forms(&log, &panicked(|| panic_any(42_i32)).await);
    log.end()
}

pub async fn a_payload_comes_back_whole() -> Transcript {
    let log = Log::new();
    let payload = panicked(|| panic_any(42_i32)).await.into_panic();
    log.exactly(format!("{:?}", payload.downcast_ref::<i32>()));
    let payload = panicked(|| panic!("planned")).await.try_into_panic();
    log.say(text_of(&*payload.unwrap()));
    log.end()
}

pub async fn a_cancelled_task_has_no_payload() -> Transcript {
    let log = Log::new();
    match cancelled().await.try_into_panic() {
        Ok(_) => log.say("a payload"),
        Err(error) => log.say(format!("given back: {error}")),
    }
    let error = cancelled().await;
    log.say(caught(move || drop(error.into_panic())));
    log.end()
}

pub async fn carry_the_id_of_their_task() -> Transcript {
    let log = Log::new();
    let handle = spawn(tokio::time::sleep(LONG));
    let id = handle.id();
    handle.abort();
    let error = handle.await.unwrap_err();
    log.say(format!("same id {}", error.id() == id));
    log.say(format!(
        "named {}",
        error.to_string().contains(&id.to_string())
    ));
    log.end()
}

pub async fn become_io_errors() -> Transcript {
    let log = Log::new();
    for error in [cancelled().await, panicked(|| panic!("planned")).await] {
        let error = std::io::Error::from(error);
        log.say(format!("{error} / {error:?} / {:?}", error.kind()));
    }
    let boxed: Box<dyn Error + Send + Sync + 'static> = Box::new(cancelled().await);
    log.say(format!("{boxed}"));
    log.end()
}
