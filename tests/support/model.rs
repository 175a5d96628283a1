//! A scripted model on the loopback interface, for real agents.
//!
//! It speaks the APIs of OpenAI, Anthropic and Google; which of them, a request's path says. A further one is
//! a module beside `chat` and a row in `api::ALL`.

mod api;
mod chat;
mod gemini;
mod http;
mod messages;
mod responses;
mod script;
mod serve;
mod tools;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use api::Api;
pub use script::{After, Http, Moment, Refusal, Reply, Script, Stall, Tokens, ToolCall};

/// A request that was made of a model.
#[derive(Debug, Clone)]
pub struct Request {
    /// The path that was asked for.
    pub path: String,
    /// Its headers, with names in small letters.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Value,
    api: &'static dyn Api,
}

impl Request {
    /// The texts of its messages, with their roles: those of the system and results of tools included.
    pub fn messages(&self) -> Vec<(String, String)> {
        self.api.messages(&self.body)
    }

    /// All its texts together.
    pub fn text(&self) -> String {
        let texts: Vec<String> = self.messages().into_iter().map(|(_, text)| text).collect();
        texts.join("\n")
    }

    /// The names of the tools that it offers.
    pub fn tools(&self) -> Vec<String> {
        let offered = self.api.tools(&self.body);
        offered.iter().map(tools::Tool::full_name).collect()
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
        let acceptor = thread::spawn(move || serve::accept(&listener, &ours));
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

    /// The base address of Anthropic's and Google's APIs.
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The base address of OpenAI's APIs.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
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
