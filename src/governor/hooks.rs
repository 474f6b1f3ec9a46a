//! Who is told of each task's life: the hooks of tokio's runtime builder, on the governor's.
//!
//! Wiring; the thread that builds.

use super::builder::Builder;
use crate::exec::hooks::TaskMeta;

impl Builder {
    /// Called when a task is spawned, before it is queued, on the thread that spawns it; as tokio's runtime builder.
    /// A later hook replaces an earlier one. What a hook panics with is dropped.
    pub fn on_task_spawn(
        mut self,
        hook: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.hooks.spawn = Some(Box::new(hook));
        self
    }

    /// Called right before each poll of a task, by the worker that polls it.
    pub fn on_before_task_poll(
        mut self,
        hook: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.hooks.before_poll = Some(Box::new(hook));
        self
    }

    /// Called right after each poll of a task, the last one included.
    pub fn on_after_task_poll(
        mut self,
        hook: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.hooks.after_poll = Some(Box::new(hook));
        self
    }

    /// Called when a task has ended, however it did: its future is dropped and its handle is ready.
    pub fn on_task_terminate(
        mut self,
        hook: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.hooks.terminate = Some(Box::new(hook));
        self
    }
}
