//! The server: it answers requests that have the token, and sends events to viewers.

use super::body::Content;
use super::deadline::Deadline;
use super::guard::{Guard, Refused};
use super::hub::{Hub, VIEWERS_MAX};
use super::page;
use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections at a time: browsers keep some beside that of the events.
const CONNECTIONS_MAX: usize = 8 * VIEWERS_MAX;
/// How long a request's head may take, and a connection be idle.
const HEAD: Duration = Duration::from_secs(15);
/// How long a viewer may take nothing.
const READ: Duration = Duration::from_secs(20);
/// Bytes of a request's head, and of the events that are being written.
const BUFFER: usize = 16 * 1024;
/// What the page may load: its own files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What all connections have in common.
#[derive(Debug)]
pub struct Server {
    guard: Guard,
    hub: Arc<Hub>,
    /// Age of a snapshot that a new viewer still gets.
    fresh: Duration,
}

impl Server {
    /// A server of these viewers.
    pub fn new(guard: Guard, hub: Arc<Hub>, fresh: Duration) -> Self {
        Self { guard, hub, fresh }
    }

    /// Serves connections until it is dropped.
    pub async fn run(self: Arc<Self>, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            // Without a free place connections wait in the kernel's queue.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // There are no descriptors left, for instance.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (server, tls) = (Arc::clone(&self), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => server.connection(stream).await,
                    Some(tls) => {
                        if let Ok(Ok(stream)) = timeout(HEAD, tls.accept(stream)).await {
                            server.connection(stream).await;
                        }
                    }
                }
                drop(place);
            });
        }
    }

    async fn connection(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let answer = service_fn(|request| async move { Ok::<_, Infallible>(self.answer(&request)) });
        let stream = TokioIo::new(Deadline::new(stream, READ));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER);
        // An invalid request or a closed connection affects this connection only.
        let _ = http.serve_connection(stream, answer).await;
    }

    /// The answer to a request; its body, which no request here has, is not read.
    fn answer<B>(&self, request: &Request<B>) -> Response<Content> {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let path = match self.guard.check(host, request.uri().path()) {
            Ok(path) => path,
            Err(Refused::Token) => return plain(StatusCode::UNAUTHORIZED, NO_TOKEN),
            Err(Refused::Host) => return plain(StatusCode::FORBIDDEN, OTHER_HOST),
        };
        if request.method() != Method::GET {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET is answered.\n");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            return answer;
        }
        match path {
            // The page's relative addresses need the slash.
            "" => self.redirect(),
            "/events" => self.events(request.uri().query() == Some("trace")),
            path => match page::file(path) {
                Some((kind, text)) => response(StatusCode::OK, kind, whole(text)),
                None => plain(StatusCode::NOT_FOUND, "There is no such page.\n"),
            },
        }
    }

    fn redirect(&self) -> Response<Content> {
        let mut answer = plain(StatusCode::PERMANENT_REDIRECT, "");
        if let Ok(place) = HeaderValue::from_str(&format!("/{}/", self.guard.token())) {
            answer.headers_mut().insert(header::LOCATION, place);
        }
        answer
    }

    fn events(&self, is_tracing: bool) -> Response<Content> {
        match self.hub.join(is_tracing, self.fresh) {
            Some(events) => response(StatusCode::OK, "text/event-stream", Content::Events(events)),
            None => plain(StatusCode::SERVICE_UNAVAILABLE, "There are 32 viewers already.\n"),
        }
    }
}

const NO_TOKEN: &str = "401: this address has no valid token.\n\
                        Open the address that \"pvm web\" has printed; each start of \"pvm web\" makes a new one.\n";
const OTHER_HOST: &str = "403: this server is reached under another name than that of the loopback interface.\n\
                          Open the address that \"pvm web\" has printed.\n";

fn whole(text: &'static str) -> Content {
    Content::Whole(Bytes::from_static(text.as_bytes()))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Content> {
    response(status, "text/plain; charset=utf-8", whole(text))
}

fn response(status: StatusCode, kind: &'static str, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // The address has the token.
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server::new(Guard::new(true).unwrap(), Arc::default(), Duration::from_secs(1))
    }

    fn ask(server: &Server, method: Method, path: &str, host: &str) -> Response<Content> {
        let request = Request::builder().method(method).uri(path).header(header::HOST, host);
        server.answer(&request.body(()).unwrap())
    }

    #[test]
    fn requests_are_answered_by_their_addresses() {
        let server = server();
        let token = server.guard.token().to_owned();
        let status = |method: Method, path: &str| ask(&server, method, path, "127.0.0.1:1").status().as_u16();
        assert_eq!(status(Method::GET, &format!("/{token}/")), 200);
        assert_eq!(status(Method::GET, &format!("/{token}/app.js")), 200);
        assert_eq!(status(Method::GET, &format!("/{token}/../etc/passwd")), 404);
        assert_eq!(status(Method::POST, &format!("/{token}/")), 405);
        assert_eq!(status(Method::GET, "/"), 401);
        assert_eq!(status(Method::GET, "/app.js"), 401);
        assert_eq!(status(Method::GET, "/events"), 401);
        assert_eq!(status(Method::POST, &format!("/{}/", "0".repeat(40))), 401);
        assert_eq!(ask(&server, Method::GET, &format!("/{token}/"), "evil.example").status(), 403);
        let redirect = ask(&server, Method::GET, &format!("/{token}"), "localhost");
        assert_eq!(redirect.headers()[header::LOCATION], format!("/{token}/"));
    }

    #[test]
    fn every_answer_says_what_the_page_may_load() {
        let server = server();
        for path in [
            "/".to_owned(),
            format!("/{}/", server.guard.token()),
            format!("/{}/events", server.guard.token()),
        ] {
            let answer = ask(&server, Method::GET, &path, "localhost");
            assert_eq!(answer.headers()[header::CONTENT_SECURITY_POLICY], POLICY);
            assert_eq!(answer.headers()[header::REFERRER_POLICY], "no-referrer");
        }
    }
}
