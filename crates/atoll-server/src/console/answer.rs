//! What the console answers with: JSON, and refusals as JSON.

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire::out::Report;

/// A value as JSON.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => {
                let mut response = Response::new(Body::from(bytes));
                let kind = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            // Maps have texts as keys, and nothing else fails.
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

/// What the body of a request says.
///
/// # Errors
/// It is not what the request takes.
pub(super) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))
}

/// Why a statement has failed.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    state: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The character of what was sent, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
}

impl From<Report> for Problem {
    fn from(report: Report) -> Self {
        let Report { state, message, detail, hint, position, .. } = report;
        Self { state, message, detail, hint, position }
    }
}

/// A request that is not carried out.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Shown<'r> {
            message: &'r str,
        }
        let mut response = Json(Shown { message: &self.message }).into_response();
        *response.status_mut() = self.status;
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
