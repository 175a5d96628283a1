//! A scripted model on the loopback interface, for real agents.
//!
//! It speaks the chat completions API. A further API is a module beside `chat` and a path in `answer`.

mod chat;
mod http;
mod script;

use std::io::{self, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};

use http::RawRequest;
pub use script::{After, Http, Moment, Reply, Script, Stall, Tokens, ToolCall};

/// What asks without offering tools, such as for a title, is answered with this and uses up no reply.
const AUXILIARY: &str = "A title";

/// A request that was made of a model.
#[derive(Debug, Clone)]
pub struct Request {
    /// The path that was asked for.
    pub path: String,
    /// Its headers, with names in small letters.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Value,
}

impl Request {
    /// The texts of its messages, with their roles.
    pub fn messages(&self) -> Vec<(String, String)> {
        chat::messages(&self.body)
    }

    /// All its texts together.
    pub fn text(&self) -> String {
        let texts: Vec<String> = self.messages().into_iter().map(|(_, text)| text).collect();
        texts.join("\n")
    }

    /// The names of the tools that it offers.
    pub fn tools(&self) -> Vec<String> {
        chat::tool_names(&self.body)
    }
}

#[derive(Debug)]
struct State {
    script: Script,
    requests: Vec<Request>,
    /// Numbers of requests whose asker has gone away while it waited for an answer.
    hung_up: Vec<usize>,
    stopping: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long, or until the model stops.
    fn delay(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state();
        while !state.stopping {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A model that answers as its script says, until it is dropped.
#[derive(Debug)]
pub struct Model {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Model {
    /// Starts one at a port of its own.
    pub fn start(script: Script) -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the loopback interface has a port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                script,
                requests: Vec::new(),
                hung_up: Vec::new(),
                stopping: false,
            }),
            changed: Condvar::new(),
        });
        let ours = Arc::clone(&shared);
        let acceptor = thread::spawn(move || accept(&listener, &ours));
        Self {
            port,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The base address that a CLI is configured with.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Replaces what comes next: the first of these replies answers the next request.
    pub fn then(&self, replies: impl IntoIterator<Item = Reply>) {
        let mut state = self.shared.state();
        let answered = state.requests.len();
        state
            .script
            .replies
            .resize_with(answered, || Reply::text("answered already"));
        state.script.replies.extend(replies);
    }

    /// The requests that offered tools, so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// Waits until request `n` (the first is 1) has arrived, and returns it.
    #[track_caller]
    pub fn wait_for_request(&self, n: usize, deadline: Duration) -> Request {
        self.wait(&format!("request {n}"), deadline, |state| {
            state.requests.get(n - 1).cloned()
        })
    }

    /// Waits until whoever made request `n`, to which no answer comes, has gone away.
    #[track_caller]
    pub fn wait_for_hang_up(&self, n: usize, deadline: Duration) {
        self.wait(&format!("the end of request {n}"), deadline, |state| {
            state.hung_up.contains(&n).then_some(())
        });
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, deadline: Duration, probe: impl Fn(&State) -> Option<T>) -> T {
        let until = Instant::now() + deadline;
        let mut state = self.shared.state();
        loop {
            if let Some(found) = probe(&state) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            let seen = state.requests.len();
            assert!(
                !left.is_zero(),
                "gave up after {deadline:?}, waiting for {what}; requests so far: {seen}"
            );
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.changed.notify_all();
        // The acceptor looks at the flag when somebody connects.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.state().stopping {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        // An agent that goes away in the middle is no error of the model.
        thread::spawn(move || serve(stream, &shared).ok());
    }
}

/// How one answer ended.
enum Ended {
    Whole,
    HungUp,
    Reset,
}

fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = http::read_request(&mut reader)? {
        match answer(&mut stream, shared, request)? {
            Ended::Whole => {}
            Ended::HungUp => return Ok(()),
            Ended::Reset => {
                let at_once = linger {
                    l_onoff: 1,
                    l_linger: 0,
                };
                setsockopt(&stream, sockopt::Linger, &at_once)?;
                return Ok(());
            }
        }
    }
    Ok(())
}

fn answer(stream: &mut TcpStream, shared: &Shared, request: RawRequest) -> io::Result<Ended> {
    let plain = Reply::text("");
    let path = request.path.split('?').next().unwrap_or_default().to_owned();
    if request.method == "GET" && path.ends_with("/models") {
        let list = json!({"object": "list", "data": [{"id": "mock-model", "object": "model"}]});
        http::write_whole(stream, 200, &plain, &list.to_string())?;
        return Ok(Ended::Whole);
    }
    if !path.ends_with("/chat/completions") {
        http::write_whole(stream, 404, &plain, r#"{"error":{"message":"not found"}}"#)?;
        return Ok(Ended::Whole);
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    if chat::tool_names(&body).is_empty() {
        return complete(stream, shared, &Reply::text(AUXILIARY), &body, 0);
    }
    let (reply, n) = {
        let mut state = shared.state();
        let reply = state.script.reply(state.requests.len());
        state.requests.push(Request {
            path: request.path,
            headers: request.headers,
            body: body.clone(),
        });
        (reply, state.requests.len())
    };
    shared.changed.notify_all();
    let ended = complete(stream, shared, &reply, &body, n);
    if !matches!(ended, Ok(Ended::Whole | Ended::Reset)) {
        shared.state().hung_up.push(n);
        shared.changed.notify_all();
    }
    ended
}

fn complete(
    stream: &mut TcpStream,
    shared: &Shared,
    reply: &Reply,
    body: &Value,
    n: usize,
) -> io::Result<Ended> {
    shared.delay(reply.delay);
    if stalls(reply, Moment::Before) {
        return stall(stream, shared, reply);
    }
    if let Some(http) = &reply.http {
        http::write_whole(stream, http.status, reply, &http.body)?;
        return Ok(Ended::Whole);
    }
    let model = body["model"].as_str().unwrap_or("mock-model");
    let calls = chat::resolve(reply, body);
    if body["stream"] != true {
        http::write_whole(stream, 200, reply, &chat::whole(model, reply, &calls))?;
        return Ok(Ended::Whole);
    }
    http::write_stream_head(stream, reply)?;
    if stalls(reply, Moment::Headers) {
        return stall(stream, shared, reply);
    }
    let (events, middle) = chat::stream(model, reply, &calls, n);
    for (at, event) in events.iter().enumerate() {
        if at == middle && stalls(reply, Moment::Mid) {
            return stall(stream, shared, reply);
        }
        http::write_chunk(stream, event)?;
        shared.delay(reply.piece_delay);
    }
    http::write_chunk(stream, "")?;
    Ok(Ended::Whole)
}

fn stalls(reply: &Reply, moment: Moment) -> bool {
    reply.stall.is_some_and(|stall| stall.moment() == moment)
}

/// Does what the reply says instead of ending. A hanging answer lasts until the asker or the model goes.
fn stall(stream: &mut TcpStream, shared: &Shared, reply: &Reply) -> io::Result<Ended> {
    if matches!(reply.stall, Some(Stall::Drop(_))) {
        return Ok(Ended::Reset);
    }
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut byte = [0];
    while !shared.state().stopping {
        match stream.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    Ok(Ended::HungUp)
}
