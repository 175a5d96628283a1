//! What the APIs of models have in common.

use std::fmt::Debug;

use serde_json::{Value, json};

use super::chat::Chat;
use super::gemini::Gemini;
use super::messages::Messages;
use super::responses::Responses;
use super::script::{Refusal, Reply};
use super::tools::{Call, Tool};

/// All that a model speaks.
const ALL: [&dyn Api; 4] = [&Chat, &Messages, &Responses, &Gemini];

/// The API that a path belongs to, and what it asks for.
pub(super) fn of_path(path: &str) -> Option<(&'static dyn Api, Asked)> {
    let path = path.split('?').next().unwrap_or_default();
    ALL.into_iter().find_map(|api| Some((api, api.asked(path)?)))
}

/// What a request asks for.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    /// An answer, and in how many pieces.
    Answer(Form),
    /// The number of tokens, which this says.
    Count(Value),
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A stream if the body says so.
    AsTheBodySays,
    /// A stream of events.
    Stream,
    /// In one piece.
    Whole,
}

/// An API of models.
pub(super) trait Api: Debug + Sync {
    /// What a path, without its query, asks of this API.
    fn asked(&self, path: &str) -> Option<Asked>;

    /// The tools that a request offers.
    fn tools(&self, body: &Value) -> Vec<Tool>;

    /// The texts of a request's messages, with their roles.
    fn messages(&self, body: &Value) -> Vec<(String, String)>;

    /// An answer in one piece.
    fn whole(&self, answer: &Answer<'_>) -> Value;

    /// An answer as a stream of events.
    fn stream(&self, answer: &Answer<'_>) -> Stream;

    /// An error.
    fn refusal(&self, refusal: &Refusal, model: &str) -> Reply;

    /// The name under which a tool that was not offered can be called by the end of its name.
    fn unlisted(&self, suffix: &str) -> String {
        suffix.to_owned()
    }

    /// Whether a request wants JSON for its answer.
    fn wants_json(&self, _body: &Value) -> bool {
        false
    }
}

/// An answer in no API's words yet.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) model: &'a str,
    pub(super) reply: &'a Reply,
    pub(super) calls: &'a [Call],
    /// The number of the request, for identifiers.
    pub(super) seq: usize,
}

/// Why answers stop, in an API's words.
#[derive(Debug)]
pub(super) struct Stops {
    pub(super) done: &'static str,
    pub(super) called: &'static str,
    pub(super) length: &'static str,
}

impl Answer<'_> {
    /// Why it says it stopped.
    pub(super) fn stop<'s>(&'s self, words: &Stops) -> &'s str {
        match self.reply.stop.as_deref() {
            Some("length") => words.length,
            Some(other) => other,
            None if self.calls.is_empty() => words.done,
            None => words.called,
        }
    }

    /// The pieces of its text.
    pub(super) fn pieces(&self) -> Vec<String> {
        let letters: Vec<char> = self.reply.text.chars().collect();
        let size = letters.len().div_ceil(self.reply.pieces.max(1)).max(1);
        letters.chunks(size).map(|piece| piece.iter().collect()).collect()
    }
}

/// The events of an answer.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) events: Vec<String>,
    /// How many of them have gone out when the answer's middle is reached: behind the first piece of its text,
    /// or in front of what calls tools.
    pub(super) middle: usize,
}

impl Stream {
    /// Adds an event that has no name.
    pub(super) fn push(&mut self, data: &Value) {
        self.events.push(format!("data: {data}\n\n"));
    }

    /// Adds an event whose name is the type that its data says.
    pub(super) fn push_typed(&mut self, data: &Value) {
        let name = data["type"].as_str().unwrap_or_default();
        self.events.push(format!("event: {name}\ndata: {data}\n\n"));
    }

    /// Says that the answer's middle is here, unless it was earlier.
    pub(super) fn mark_middle(&mut self) {
        if self.middle == 0 {
            self.middle = self.events.len();
        }
    }
}

/// What a request without tools is answered with: it asks for a title, for a judgement of what was said, or
/// the like, and uses up no reply.
pub(super) fn auxiliary(api: &dyn Api, body: &Value) -> Reply {
    let mut reply = Reply::text("A title");
    if api.wants_json(body) {
        // Each CLI takes from this what it asked for: how hard the task is, whose turn it is, whether it loops.
        let all = json!({
            "complexity_reasoning": "short", "complexity_score": 1,
            "reasoning": "short", "model_choice": "flash", "next_speaker": "user",
            "unproductive_state_analysis": "none", "unproductive_state_confidence": 0,
        });
        reply.text = all.to_string();
    }
    reply.pieces = 1;
    reply
}

/// The items of an array, none where it is no array.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The text of a content that is a string or a list of parts with texts.
pub(super) fn text_of(content: &Value) -> String {
    match content.as_str() {
        Some(text) => text.to_owned(),
        None => items(content)
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
    }
}

/// A string of a JSON value, empty where it is none.
pub(super) fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
