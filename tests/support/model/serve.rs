//! Takes requests and answers them.

use std::io::{self, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};

use super::api::{self, Answer, Api, Asked, Form};
use super::http::{self, RawRequest};
use super::script::{Moment, Reply, Stall};
use super::{Request, Shared, tools};

/// Serves whoever connects, until the model stops.
pub(super) fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
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
    let (api, form) = match api::of_path(&request.path) {
        Some((api, Asked::Answer(form))) if request.method == "POST" => (api, form),
        Some((_, Asked::Count(count))) => return whole(stream, 200, &count),
        _ => return aside(stream, &request),
    };
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let question = Question {
        api,
        streams: match form {
            Form::AsTheBodySays => body["stream"] == true,
            Form::Stream => true,
            Form::Whole => false,
        },
        model: model_of(&request.path, &body),
        body,
    };
    if api.tools(&question.body).is_empty() {
        let reply = api::auxiliary(api, &question.body);
        return complete(stream, shared, &reply, &question, 0);
    }
    let (reply, n) = {
        let mut state = shared.state();
        let reply = state.script.reply(state.requests.len());
        state.requests.push(Request {
            path: request.path,
            headers: request.headers,
            body: question.body.clone(),
            api,
        });
        (reply, state.requests.len())
    };
    shared.changed.notify_all();
    let ended = complete(stream, shared, &reply, &question, n);
    if !matches!(ended, Ok(Ended::Whole | Ended::Reset)) {
        shared.state().hung_up.push(n);
        shared.changed.notify_all();
    }
    ended
}

/// Answers what is no business of a model: whether somebody is there, and which models there are.
fn aside(stream: &mut TcpStream, request: &RawRequest) -> io::Result<Ended> {
    let path = request.path.split('?').next().unwrap_or_default();
    if request.method == "HEAD" {
        http::write_empty(stream)?;
        return Ok(Ended::Whole);
    }
    if request.method == "GET" && path.ends_with("/models") {
        let list = json!({"object": "list", "data": [{"id": "mock-model", "object": "model"}]});
        return whole(stream, 200, &list);
    }
    whole(stream, 404, &json!({"error": {"message": "not found"}}))
}

fn whole(stream: &mut TcpStream, status: u16, body: &Value) -> io::Result<Ended> {
    http::write_whole(stream, status, &Reply::text(""), &body.to_string())?;
    Ok(Ended::Whole)
}

/// The model that a request is for: its body says it, or the last word of its path.
fn model_of(path: &str, body: &Value) -> String {
    let in_path = || {
        let last = path.rsplit('/').next()?;
        Some(last.split_once(':')?.0)
    };
    body["model"]
        .as_str()
        .or_else(in_path)
        .unwrap_or("mock-model")
        .to_owned()
}

/// A request for an answer.
struct Question {
    api: &'static dyn Api,
    streams: bool,
    model: String,
    body: Value,
}

fn complete(
    stream: &mut TcpStream,
    shared: &Shared,
    reply: &Reply,
    question: &Question,
    seq: usize,
) -> io::Result<Ended> {
    shared.delay(reply.delay);
    if stalls(reply, Moment::Before) {
        return stall(stream, shared, reply);
    }
    let refused = reply.refusal.as_ref();
    let refused = refused.map(|refusal| question.api.refusal(refusal, &question.model));
    if let Some(refused) = refused {
        return error(stream, &refused.with_headers_of(reply));
    }
    if reply.http.is_some() {
        return error(stream, reply);
    }
    let calls = tools::resolve(&reply.calls, question.api, &question.body);
    let answer = Answer {
        model: &question.model,
        reply,
        calls: &calls,
        seq,
    };
    if !question.streams {
        let whole = question.api.whole(&answer).to_string();
        http::write_whole(stream, 200, reply, &whole)?;
        return Ok(Ended::Whole);
    }
    http::write_stream_head(stream, reply)?;
    if stalls(reply, Moment::Headers) {
        return stall(stream, shared, reply);
    }
    let told = question.api.stream(&answer);
    for (at, event) in told.events.iter().enumerate() {
        if at == told.middle && stalls(reply, Moment::Mid) {
            return stall(stream, shared, reply);
        }
        http::write_chunk(stream, event)?;
        shared.delay(reply.piece_delay);
    }
    http::write_chunk(stream, "")?;
    Ok(Ended::Whole)
}

fn error(stream: &mut TcpStream, reply: &Reply) -> io::Result<Ended> {
    if let Some(http) = &reply.http {
        http::write_whole(stream, http.status, reply, &http.body)?;
    }
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
