//! The responses API of OpenAI.

use serde_json::{Value, json};

use super::api::{Answer, Api, Asked, Form, Stream, items, string, text_of};
use super::chat;
use super::script::{Refusal, Reply, Tokens};
use super::tools::Tool;

/// The responses API.
#[derive(Debug)]
pub(super) struct Responses;

impl Api for Responses {
    fn asked(&self, path: &str) -> Option<Asked> {
        let ours = path.ends_with("/responses");
        ours.then_some(Asked::Answer(Form::AsTheBodySays))
    }

    fn tools(&self, body: &Value) -> Vec<Tool> {
        let mut offered = Vec::new();
        for tool in items(&body["tools"]) {
            if tool["type"] != "namespace" {
                offered.extend(Tool::new(&tool["name"], &tool["parameters"]));
                continue;
            }
            let inner = items(&tool["tools"]).iter();
            offered.extend(inner.filter_map(|inner| {
                let mut inner = Tool::new(&inner["name"], &inner["parameters"])?;
                inner.namespace = Some(string(&tool["name"]));
                Some(inner)
            }));
        }
        offered
    }

    fn messages(&self, body: &Value) -> Vec<(String, String)> {
        let mut texts = Vec::new();
        if let Some(text) = body["instructions"].as_str() {
            texts.push(("system".to_owned(), text.to_owned()));
        }
        if let Some(text) = body["input"].as_str() {
            texts.push(("user".to_owned(), text.to_owned()));
        }
        for item in items(&body["input"]) {
            if item["content"].is_null() {
                texts.push(("tool".to_owned(), text_of(&item["output"])));
            } else {
                texts.push((string(&item["role"]), text_of(&item["content"])));
            }
        }
        texts
    }

    fn whole(&self, answer: &Answer<'_>) -> Value {
        finished(answer)
    }

    fn stream(&self, answer: &Answer<'_>) -> Stream {
        let mut stream = Numbered::default();
        for kind in ["response.created", "response.in_progress"] {
            stream.push(
                kind,
                json!({"response": response(answer, "in_progress", &json!([]))}),
            );
        }
        if !answer.reply.text.is_empty() {
            say(&mut stream, answer);
        }
        stream.0.mark_middle();
        let first = usize::from(!answer.reply.text.is_empty());
        for at in 0..answer.calls.len() {
            call(&mut stream, answer, first + at, at);
        }
        let response = finished(answer);
        let kind = format!("response.{}", string(&response["status"]));
        stream.push(&kind, json!({"response": response}));
        stream.0
    }

    fn refusal(&self, refusal: &Refusal, model: &str) -> Reply {
        let too_long =
            "Your input exceeds the context window of this model. Please adjust your input and try again.";
        chat::refused(refusal, model, too_long)
    }
}

/// A stream whose events are numbered.
#[derive(Debug, Default)]
struct Numbered(Stream);

impl Numbered {
    fn push(&mut self, kind: &str, mut data: Value) {
        data["type"] = kind.into();
        data["sequence_number"] = self.0.events.len().into();
        self.0.push_typed(&data);
    }
}

fn say(stream: &mut Numbered, answer: &Answer<'_>) {
    let mut begun = message(answer, "in_progress");
    let part = begun["content"][0].take();
    begun["content"] = json!([]);
    let id = begun["id"].clone();
    let at = |more: Value| {
        let mut data = json!({"item_id": id, "output_index": 0, "content_index": 0});
        for (key, value) in more.as_object().into_iter().flatten() {
            data[key] = value.clone();
        }
        data
    };
    stream.push(
        "response.output_item.added",
        json!({"output_index": 0, "item": begun}),
    );
    let empty = json!({"type": "output_text", "text": "", "annotations": []});
    stream.push("response.content_part.added", at(json!({"part": empty})));
    for piece in answer.pieces() {
        stream.push("response.output_text.delta", at(json!({"delta": piece})));
        stream.0.mark_middle();
    }
    stream.push(
        "response.output_text.done",
        at(json!({"text": answer.reply.text})),
    );
    stream.push("response.content_part.done", at(json!({"part": part})));
    let done = message(answer, "completed");
    stream.push(
        "response.output_item.done",
        json!({"output_index": 0, "item": done}),
    );
}

fn call(stream: &mut Numbered, answer: &Answer<'_>, index: usize, at: usize) {
    let done = function_call(answer, at);
    let (id, args) = (done["id"].clone(), done["arguments"].clone());
    let mut begun = done.clone();
    begun["status"] = "in_progress".into();
    begun["arguments"] = "".into();
    stream.push(
        "response.output_item.added",
        json!({"output_index": index, "item": begun}),
    );
    stream.push(
        "response.function_call_arguments.delta",
        json!({"item_id": id, "output_index": index, "delta": args}),
    );
    stream.push(
        "response.function_call_arguments.done",
        json!({"item_id": id, "output_index": index, "arguments": args}),
    );
    stream.push(
        "response.output_item.done",
        json!({"output_index": index, "item": done}),
    );
}

fn message(answer: &Answer<'_>, status: &str) -> Value {
    json!({
        "type": "message", "id": format!("msg_{}", answer.seq), "role": "assistant", "status": status,
        "content": [{"type": "output_text", "text": answer.reply.text, "annotations": []}],
    })
}

fn function_call(answer: &Answer<'_>, at: usize) -> Value {
    let (seq, call) = (answer.seq, &answer.calls[at]);
    let mut item = json!({
        "type": "function_call", "id": format!("fc_{seq}_{at}"), "call_id": format!("call_{seq}_{at}"),
        "name": call.name, "arguments": call.args.to_string(), "status": "completed",
    });
    if let Some(namespace) = &call.namespace {
        item["namespace"] = namespace.as_str().into();
    }
    item
}

fn response(answer: &Answer<'_>, status: &str, output: &Value) -> Value {
    json!({
        "id": format!("resp_{}", answer.seq), "object": "response", "created_at": 1,
        "model": answer.model, "status": status, "output": output,
    })
}

/// A response that has come to its end. The only other reason to stop than the natural one is a length.
fn finished(answer: &Answer<'_>) -> Value {
    let mut output = Vec::new();
    if !answer.reply.text.is_empty() {
        output.push(message(answer, "completed"));
    }
    output.extend((0..answer.calls.len()).map(|at| function_call(answer, at)));
    let cut = answer.reply.stop.is_some();
    let status = if cut { "incomplete" } else { "completed" };
    let mut response = response(answer, status, &output.into());
    if cut {
        response["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    response["usage"] = usage(answer.reply.tokens);
    response
}

fn usage(tokens: Tokens) -> Value {
    json!({
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.input + tokens.output,
    })
}
