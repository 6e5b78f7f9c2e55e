//! What the console answers: the files of the page, and the requests of its programs.

use std::sync::Arc;

use atoll_sql::SqlSession;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Json, Refusal, read};
use super::guard::guard;
use super::logins::{Login, Refused};
use super::{Peer, Site, overview, query};
use crate::log;
use crate::metrics::add;

/// The files of the page: where they are, what they are, and what is in them.
const FILES: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("assets/index.html")),
    ("/console.css", "text/css; charset=utf-8", include_str!("assets/console.css")),
    ("/console.js", "text/javascript; charset=utf-8", include_str!("assets/console.js")),
    ("/charts.js", "text/javascript; charset=utf-8", include_str!("assets/charts.js")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("assets/page.js")),
    ("/query.js", "text/javascript; charset=utf-8", include_str!("assets/query.js")),
];

type Site_ = State<Arc<Site>>;

/// All that the console answers.
pub(super) fn router(site: &Arc<Site>) -> Router {
    let mut router = Router::new();
    for (path, kind, text) in FILES {
        router = router.route(path, get(move || async move { file(kind, text) }));
    }
    router
        .route("/api/login", post(enter))
        .route("/api/logout", post(leave))
        .route("/api/me", get(me))
        .route("/api/overview", get(often))
        .route("/api/details", get(seldom))
        .route("/api/table/{oid}", get(table))
        .route("/api/query", post(run))
        .route("/api/cancel", post(cancel))
        .route("/api/end", post(end))
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "there is no such page"))
        .layer(from_fn_with_state(Arc::clone(site), guard))
        .with_state(Arc::clone(site))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The token in the cookie of a request.
fn token<'h>(site: &Site, headers: &'h HeaderMap) -> Option<&'h str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|value| value.split(';')).filter_map(|one| one.split_once('='));
    pairs.find(|(name, _)| name.trim() == site.cookie).map(|(_, token)| token.trim())
}

/// A cookie that a response sets.
fn cookie(site: &Site, token: &str, rest: &str) -> Result<HeaderValue, Refusal> {
    let secure = if site.tls.is_some() { "; Secure" } else { "" };
    let name = &site.cookie;
    HeaderValue::try_from(format!(
        "{name}={token}; Path=/; HttpOnly; SameSite=Strict{secure}{rest}"
    ))
    .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// The login of a request, and its connection.
struct Entered {
    login: Arc<Login>,
    peer: Peer,
}

fn peer_of(parts: &Parts) -> Result<Peer, Refusal> {
    let none = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the request has no connection");
    parts.extensions.get::<Peer>().cloned().ok_or_else(none)
}

impl FromRequestParts<Arc<Site>> for Entered {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Refusal> {
        let login = token(site, &parts.headers)
            .and_then(|token| site.logins.find(token, &site.shared.roles))
            .ok_or_else(|| Refusal::new(StatusCode::UNAUTHORIZED, "log in first"))?;
        Ok(Self { login, peer: peer_of(parts)? })
    }
}

impl Entered {
    fn looking(&self, site: &Site) -> Result<SqlSession, Refusal> {
        overview::looking(site, &self.login, &self.peer)
    }
}

impl FromRequestParts<Arc<Site>> for Peer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Site>) -> Result<Self, Refusal> {
        peer_of(parts)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    role: String,
    password: String,
}

async fn enter(State(site): Site_, peer: Peer, body: Bytes) -> Result<Response, Refusal> {
    let Credentials { role, password } = read(&body)?;
    let pair = (role.as_str(), password.as_str());
    let entered = site.logins.enter(&site.shared.roles, pair, peer.address.ip());
    let token = entered.map_err(|refused| {
        add(&site.shared.metrics.refused);
        log::console_refused(&role, &peer.address, refused == Refused::TooMany);
        match refused {
            Refused::Wrong => {
                Refusal::new(StatusCode::UNAUTHORIZED, "the role or the password is wrong")
            }
            Refused::TooMany => Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too many attempts: wait some seconds, and try again",
            ),
            Refused::NoRandomness => {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the system has no randomness")
            }
        }
    })?;
    log::console_entered(&role, &peer.address);
    let mut response = Json(who(&site, &role)).into_response();
    response.headers_mut().insert(SET_COOKIE, cookie(&site, &token, "")?);
    Ok(response)
}

async fn leave(State(site): Site_, headers: HeaderMap) -> Result<Response, Refusal> {
    if let Some(token) = token(&site, &headers) {
        site.logins.leave(token);
    }
    let mut response = Json(json!({})).into_response();
    response.headers_mut().insert(SET_COOKIE, cookie(&site, "", "; Max-Age=0")?);
    Ok(response)
}

/// What a page knows of the login and the server.
fn who(site: &Site, role: &str) -> Value {
    let is_superuser = site.shared.roles.get(role).is_some_and(|role| role.is_superuser);
    json!({
        "role": role,
        "is_superuser": is_superuser,
        "database": site.shared.name,
        "version": env!("CARGO_PKG_VERSION"),
        "scheme": site.shared.db.scheme().to_string(),
    })
}

async fn me(State(site): Site_, entered: Entered) -> Json<Value> {
    Json(who(&site, &entered.login.role))
}

async fn often(State(site): Site_, entered: Entered) -> Result<Json<Map<String, Value>>, Refusal> {
    Ok(Json(overview::often(&site, &mut entered.looking(&site)?)))
}

async fn seldom(State(site): Site_, entered: Entered) -> Result<Json<Map<String, Value>>, Refusal> {
    Ok(Json(overview::seldom(&mut entered.looking(&site)?)))
}

async fn table(
    State(site): Site_,
    entered: Entered,
    Path(oid): Path<u32>,
) -> Result<Json<Map<String, Value>>, Refusal> {
    Ok(Json(overview::table(&mut entered.looking(&site)?, oid)))
}

async fn run(
    State(site): Site_,
    entered: Entered,
    body: Bytes,
) -> Result<Json<query::Answer>, Refusal> {
    let asked: query::Asked = read(&body)?;
    Ok(Json(query::run(&site, &entered.login, &entered.peer, &asked)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancelled {
    run: u64,
}

async fn cancel(State(site): Site_, entered: Entered, body: Bytes) -> Result<Json<Value>, Refusal> {
    let Cancelled { run } = read(&body)?;
    Ok(Json(json!({ "ended": query::cancel(&site, &entered.login, run) })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ended {
    pid: i32,
    connection: bool,
}

async fn end(State(site): Site_, entered: Entered, body: Bytes) -> Result<Json<Value>, Refusal> {
    let Ended { pid, connection } = read(&body)?;
    let ended = overview::end(&mut entered.looking(&site)?, pid, connection)?;
    Ok(Json(json!({ "ended": ended })))
}
