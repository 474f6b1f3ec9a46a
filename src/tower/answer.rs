//! What a client is told that was refused or whose query was ended: status and when to come again. Pure.

use super::ResponseBody;
use crate::admission::AdmissionError;
use crate::admission::error::WaitReason;
use crate::query::KillReason;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::Body;
use std::time::Duration;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Where nothing is known: soon, but not at once.
const SOON: Duration = Duration::from_secs(1);

/// Makes the response to a request that was refused.
///
/// Closures `Fn(&AdmissionError, &Parts) -> Response<B>` do, where `B` is the body of the inner service's responses.
pub trait OnReject<B: Body> {
    /// The response to the request of these parts.
    fn reject(&self, why: &AdmissionError, parts: &Parts) -> Response<ResponseBody<B>>;
}

/// The answers of the table in [`tower`](crate::tower).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Answers;

impl<B: Body> OnReject<B> for Answers {
    fn reject(&self, why: &AdmissionError, parts: &Parts) -> Response<ResponseBody<B>> {
        let mut response = Answer::to_refusal(why).response(is_grpc(&parts.headers));
        response.extensions_mut().insert(why.clone());
        response
    }
}

impl<F, B> OnReject<B> for F
where
    F: Fn(&AdmissionError, &Parts) -> Response<B>,
    B: Body,
{
    fn reject(&self, why: &AdmissionError, parts: &Parts) -> Response<ResponseBody<B>> {
        self(why, parts).map(ResponseBody::plain)
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    status: StatusCode,
    grpc: Grpc,
    retry: Retry,
}

/// gRPC's name for it, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grpc {
    code: u8,
    message: &'static str,
}

const fn grpc(code: u8, message: &'static str) -> Grpc {
    Grpc { code, message }
}

const NOT_FOUND: Grpc = grpc(5, "no such resource group");
const PERMISSION_DENIED: Grpc = grpc(7, "the resource group may not be chosen");
const RESOURCE_EXHAUSTED: Grpc = grpc(8, "too many requests");
const ABORTED: Grpc = grpc(10, "ended by the resource governor");
const UNAVAILABLE: Grpc = grpc(14, "temporarily unavailable");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    In(Duration),
    /// It would end the same way.
    Never,
    Unsaid,
}

impl Answer {
    pub(super) fn to_refusal(why: &AdmissionError) -> Answer {
        let soon = Retry::In(why.retry_after().unwrap_or(SOON));
        let own = |reason| match reason {
            WaitReason::GroupLimit => (StatusCode::TOO_MANY_REQUESTS, RESOURCE_EXHAUSTED),
            WaitReason::GovernorLimit | WaitReason::MemoryThrottle => {
                (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE)
            }
        };
        let ((status, grpc), retry) = match why {
            AdmissionError::QueueFull { .. } | AdmissionError::Watched { .. } => {
                (own(WaitReason::GroupLimit), soon)
            }
            AdmissionError::Timeout { reason, .. } | AdmissionError::Rejected { reason, .. } => {
                (own(*reason), soon)
            }
            AdmissionError::MemoryThrottled { .. } => (own(WaitReason::MemoryThrottle), soon),
            AdmissionError::UnknownGroup { .. } => {
                ((StatusCode::NOT_FOUND, NOT_FOUND), Retry::Never)
            }
            AdmissionError::OverrideRefused { .. } => {
                ((StatusCode::FORBIDDEN, PERMISSION_DENIED), Retry::Never)
            }
            AdmissionError::Killed { .. } => {
                ((StatusCode::SERVICE_UNAVAILABLE, ABORTED), Retry::Never)
            }
            AdmissionError::Frozen { .. } => (
                (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE),
                Retry::Unsaid,
            ),
            AdmissionError::ShuttingDown => ((StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE), soon),
        };
        Answer {
            status,
            grpc,
            retry,
        }
    }

    /// None: the task was ended by nobody of the governor's, or the runtime went away under it.
    pub(super) fn to_end(why: Option<&KillReason>) -> Answer {
        let (grpc, retry) = match why {
            Some(KillReason::NotAdmitted(refusal)) => return Answer::to_refusal(refusal),
            Some(KillReason::Shutdown) | None => (UNAVAILABLE, Retry::In(SOON)),
            Some(_) => (ABORTED, Retry::Never),
        };
        Answer {
            status: StatusCode::SERVICE_UNAVAILABLE,
            grpc,
            retry,
        }
    }

    pub(super) fn response<B: Body>(self, is_grpc: bool) -> Response<ResponseBody<B>> {
        let mut response = Response::new(ResponseBody::empty());
        let headers = response.headers_mut();
        if is_grpc {
            self.write_grpc(headers);
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            return response;
        }
        if let Retry::In(wait) = self.retry {
            let part = u64::from(wait.subsec_nanos() > 0);
            let seconds = wait.as_secs().saturating_add(part);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        *response.status_mut() = self.status;
        response
    }

    /// The status as trailers have it, or a head that is all there is.
    pub(super) fn write_grpc(self, headers: &mut HeaderMap) {
        headers.insert(GRPC_STATUS, HeaderValue::from(u16::from(self.grpc.code)));
        headers.insert(GRPC_MESSAGE, HeaderValue::from_static(self.grpc.message));
        let pushback = match self.retry {
            Retry::In(wait) => {
                let part = wait.subsec_nanos() % 1_000_000 > 0;
                Some(HeaderValue::from(
                    (u64::try_from(wait.as_millis())
                        .unwrap_or(u64::MAX)
                        .saturating_add(part.into()))
                    .max(1),
                ))
            }
            // Below zero means: do not.
            Retry::Never => Some(HeaderValue::from_static("-1")),
            Retry::Unsaid => None,
        };
        if let Some(pushback) = pushback {
            headers.insert(GRPC_PUSHBACK, pushback);
        }
    }
}

/// Whether a request is gRPC, or gRPC-Web, whose clients read the same head.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    type Nothing = http_body_util::Empty<bytes::Bytes>;

    fn headers(answer: Answer, is_grpc: bool) -> (u16, HeaderMap) {
        let response = answer.response::<Nothing>(is_grpc);
        (response.status().as_u16(), response.headers().clone())
    }

    fn rejected(reason: WaitReason, retry_after: Option<Duration>) -> Answer {
        Answer::to_refusal(&AdmissionError::Rejected {
            group: "g".into(),
            limit: 1,
            running: 1,
            reason,
            retry_after,
        })
    }

    #[test]
    fn seconds_and_milliseconds_are_rounded_up_and_never_zero() {
        let cases = [
            (None, "1", "1000"),
            (Some(Duration::ZERO), "1", "1"),
            (Some(Duration::from_micros(10)), "1", "1"),
            (Some(Duration::from_millis(1_000)), "1", "1000"),
            (Some(Duration::from_micros(1_000_001)), "2", "1001"),
            (
                Some(Duration::MAX),
                "18446744073709551615",
                "18446744073709551615",
            ),
        ];
        for (wait, seconds, millis) in cases {
            let answer = rejected(WaitReason::GroupLimit, wait);
            assert_eq!(headers(answer, false).1["retry-after"], seconds, "{wait:?}");
            let grpc = headers(answer, true).1;
            assert_eq!(grpc["grpc-retry-pushback-ms"], millis, "{wait:?}");
        }
    }

    #[test]
    fn each_refusal_has_its_line() {
        let group: Arc<str> = "g".into();
        let cases = [
            (rejected(WaitReason::GroupLimit, None), 429, "8"),
            (rejected(WaitReason::GovernorLimit, None), 503, "14"),
            (rejected(WaitReason::MemoryThrottle, None), 503, "14"),
            (
                Answer::to_refusal(&AdmissionError::UnknownGroup {
                    group: group.clone(),
                }),
                404,
                "5",
            ),
            (
                Answer::to_refusal(&AdmissionError::OverrideRefused {
                    group: group.clone(),
                }),
                403,
                "7",
            ),
            (
                Answer::to_refusal(&AdmissionError::Frozen { group }),
                503,
                "14",
            ),
            (Answer::to_refusal(&AdmissionError::ShuttingDown), 503, "14"),
            (Answer::to_end(Some(&KillReason::Shutdown)), 503, "14"),
            (Answer::to_end(None), 503, "14"),
            (
                Answer::to_end(Some(&KillReason::Killed {
                    why: "w".into(),
                    by: "b".into(),
                })),
                503,
                "10",
            ),
        ];
        for (answer, status, code) in cases {
            assert_eq!(headers(answer, false).0, status, "{answer:?}");
            let (status, grpc) = headers(answer, true);
            assert_eq!(
                (status, &grpc["grpc-status"]),
                (200, &HeaderValue::from_static(code))
            );
        }
    }

    #[test]
    fn what_would_be_killed_again_is_not_to_be_retried() {
        let answer = Answer::to_refusal(&AdmissionError::Killed { why: "w".into() });
        assert_eq!(headers(answer, true).1["grpc-retry-pushback-ms"], "-1");
        assert!(headers(answer, false).1.get("retry-after").is_none());
    }
}
