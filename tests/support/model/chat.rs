//! The chat completions API of OpenAI, which many providers speak.

use serde_json::{Value, json};

use super::script::{Reply, ToolCall};

/// Names under which agents offer a shell, and a way to write files.
const SHELL: [&str; 4] = ["bash", "Bash", "run_shell_command", "shell"];
const WRITE: [&str; 4] = ["write", "Write", "write_file", "create_file"];

/// A tool call in this API's words.
#[derive(Debug)]
pub(super) struct Call {
    name: String,
    args: Value,
}

/// The names and parameters of the tools that a request offers.
fn tools(body: &Value) -> Vec<(&str, &Value)> {
    let offered = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let functions = offered.iter().map(|tool| &tool["function"]);
    functions
        .filter_map(|function| Some((function["name"].as_str()?, &function["parameters"])))
        .collect()
}

/// The names of the tools that a request offers.
pub(super) fn tool_names(body: &Value) -> Vec<String> {
    tools(body).into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// The texts of a request's messages, with their roles.
pub(super) fn messages(body: &Value) -> Vec<(String, String)> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages
        .iter()
        .map(|message| {
            let role = message["role"].as_str().unwrap_or_default();
            (role.to_owned(), text_of(&message["content"]))
        })
        .collect()
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

type Offered<'a> = [(&'a str, &'a Value)];

/// The first of these tools that is offered, or the first of all.
fn pick<'a>(offered: &Offered<'a>, known: &[&'static str]) -> (&'a str, Option<&'a Value>) {
    let found = known
        .iter()
        .find_map(|name| offered.iter().find(|(one, _)| one == name));
    found.map_or((known[0], None), |(name, parameters)| (*name, Some(*parameters)))
}

fn takes(parameters: Option<&Value>, key: &str) -> bool {
    parameters.is_some_and(|parameters| parameters["properties"][key].is_object())
}

/// Puts a reply's tool calls into the words of the agent that asked.
pub(super) fn resolve(reply: &Reply, body: &Value) -> Vec<Call> {
    let offered = tools(body);
    reply
        .calls
        .iter()
        .map(|call| resolve_one(call, &offered))
        .collect()
}

fn resolve_one(call: &ToolCall, offered: &Offered<'_>) -> Call {
    match call {
        ToolCall::Bash(command) => {
            let (name, parameters) = pick(offered, &SHELL);
            let mut args = json!({"command": command});
            if takes(parameters, "description") {
                args["description"] = "scripted".into();
            }
            Call {
                name: name.to_owned(),
                args,
            }
        }
        ToolCall::Write { path, content } => {
            let (name, parameters) = pick(offered, &WRITE);
            let keys = ["file_path", "filePath", "path"];
            let key = keys.iter().find(|key| takes(parameters, key));
            Call {
                name: name.to_owned(),
                args: json!({*key.unwrap_or(&"path"): path, "content": content}),
            }
        }
        ToolCall::Named { suffix, args } => {
            let found = offered.iter().find(|(name, _)| name.ends_with(suffix.as_str()));
            Call {
                name: found.map_or(suffix.as_str(), |(name, _)| *name).to_owned(),
                args: args.clone(),
            }
        }
    }
}

fn stop_reason(reply: &Reply, calls: &[Call]) -> String {
    let natural = if calls.is_empty() { "stop" } else { "tool_calls" };
    reply.stop.clone().unwrap_or_else(|| natural.to_owned())
}

fn usage(reply: &Reply) -> Value {
    let tokens = reply.tokens;
    json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    })
}

/// An answer in one piece.
pub(super) fn whole(model: &str, reply: &Reply, calls: &[Call]) -> String {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !calls.is_empty() {
        let called: Vec<Value> = (0..).zip(calls).map(|(at, call)| called(0, at, call)).collect();
        message["tool_calls"] = called.into();
    }
    json!({
        "id": "chatcmpl-0", "object": "chat.completion", "created": 1, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": stop_reason(reply, calls)}],
        "usage": usage(reply),
    })
    .to_string()
}

fn called(seq: usize, at: usize, call: &Call) -> Value {
    json!({
        "index": at, "id": format!("call_{seq}_{at}"), "type": "function",
        "function": {"name": call.name, "arguments": call.args.to_string()},
    })
}

/// An answer as a stream of events, and how many of them have gone out when its middle is reached.
pub(super) fn stream(model: &str, reply: &Reply, calls: &[Call], seq: usize) -> (Vec<String>, usize) {
    let chunk = |choices: Value| {
        json!({
            "id": format!("chatcmpl-{seq}"), "object": "chat.completion.chunk", "created": 1,
            "model": model, "choices": choices,
        })
    };
    let delta = |delta: Value, stop: Option<String>| {
        event(&chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": stop}]),
        ))
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}), None)];
    events.extend(pieces(&reply.text, reply.pieces).map(|piece| delta(json!({"content": piece}), None)));
    let middle = events.len().min(2);
    for (at, call) in calls.iter().enumerate() {
        events.push(delta(json!({"tool_calls": [called(seq, at, call)]}), None));
    }
    events.push(delta(json!({}), Some(stop_reason(reply, calls))));
    let mut last = chunk(json!([]));
    last["usage"] = usage(reply);
    events.push(event(&last));
    events.push("data: [DONE]\n\n".to_owned());
    (events, middle)
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn pieces(text: &str, count: usize) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    let size = letters.len().div_ceil(count.max(1)).max(1);
    let cut: Vec<String> = letters.chunks(size).map(|piece| piece.iter().collect()).collect();
    cut.into_iter()
}
