//! A handle of tokio's for a task of ours.
//!
//! Mechanism; any thread.

use crate::exec::abort_on_drop::AbortOnDropHandle;
use crate::exec::join::JoinHandle;
use std::future::pending;
use std::panic::resume_unwind;
use tokio::sync::oneshot;

/// A handle of tokio's that stands for a task of ours, for interfaces that ask for that type: a tokio task that awaits
/// ours and does nothing else.
///
/// Its output, its panic and its cancellation are the task's; aborting the handle aborts the task; dropping it
/// detaches both. Why a task was killed is lost on the way.
///
/// # Panics
///
/// Outside of a tokio runtime, as `tokio::spawn`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let governor = quotient::Governor::builder().build()?;
/// let ours = governor.spawn_in("default_wg", async { 6 * 7 })?;
/// let theirs: tokio::task::JoinHandle<i32> = quotient::hyper::into_tokio(ours);
/// assert_eq!(theirs.await?, 42);
/// # Ok(()) }
/// ```
#[track_caller]
pub fn into_tokio<T: Send + 'static>(handle: JoinHandle<T>) -> tokio::task::JoinHandle<T> {
    let ours = AbortOnDropHandle::new(handle);
    let (tell, told) = oneshot::channel::<tokio::task::AbortHandle>();
    let theirs = tokio::spawn(async move {
        let error = match ours.await {
            Ok(output) => return output,
            Err(error) => error,
        };
        match error.try_into_panic() {
            Ok(payload) => resume_unwind(payload),
            Err(_) => {
                // Only an abort makes a cancelled task.
                if let Ok(own) = told.await {
                    own.abort();
                }
                pending().await
            }
        }
    });
    // Received, or nobody asks any more.
    let _ = tell.send(theirs.abort_handle());
    theirs
}
