//! The messages API of Anthropic.

use serde_json::{Value, json};

use super::api::{Answer, Api, Asked, Form, Stops, Stream, items, string, text_of};
use super::script::{Refusal, Reply, Tokens};
use super::tools::Tool;

const STOPS: Stops = Stops {
    done: "end_turn",
    called: "tool_use",
    length: "max_tokens",
};

/// The messages API.
#[derive(Debug)]
pub(super) struct Messages;

impl Api for Messages {
    fn asked(&self, path: &str) -> Option<Asked> {
        if path.ends_with("/messages/count_tokens") {
            return Some(Asked::Count(json!({"input_tokens": 100})));
        }
        let ours = path.ends_with("/messages");
        ours.then_some(Asked::Answer(Form::AsTheBodySays))
    }

    fn tools(&self, body: &Value) -> Vec<Tool> {
        let offered = items(&body["tools"]).iter();
        offered
            .filter_map(|tool| Tool::new(&tool["name"], &tool["input_schema"]))
            .collect()
    }

    fn messages(&self, body: &Value) -> Vec<(String, String)> {
        let mut texts = vec![("system".to_owned(), text_of(&body["system"]))];
        for message in items(&body["messages"]) {
            let role = string(&message["role"]);
            texts.push((role.clone(), text_of(&message["content"])));
            let results = items(&message["content"])
                .iter()
                .filter(|block| block["type"] == "tool_result");
            texts.extend(results.map(|result| (role.clone(), text_of(&result["content"]))));
        }
        texts
    }

    fn whole(&self, answer: &Answer<'_>) -> Value {
        let mut content = vec![json!({"type": "text", "text": answer.reply.text})];
        content.extend((0..answer.calls.len()).map(|at| tool_use(answer, at, &answer.calls[at].args)));
        let mut message = message(answer);
        message["content"] = content.into();
        message["stop_reason"] = answer.stop(&STOPS).into();
        message["usage"] = usage(answer.reply.tokens, answer.reply.tokens.output);
        message
    }

    fn stream(&self, answer: &Answer<'_>) -> Stream {
        let mut stream = Stream::default();
        stream.push_typed(&json!({"type": "message_start", "message": message(answer)}));
        let pieces = answer.pieces();
        let mut index = 0;
        if !pieces.is_empty() {
            begin(&mut stream, index, &json!({"type": "text", "text": ""}));
            for piece in pieces {
                push_delta(&mut stream, index, &json!({"type": "text_delta", "text": piece}));
                stream.mark_middle();
            }
            end(&mut stream, index);
            index += 1;
        }
        stream.mark_middle();
        for at in 0..answer.calls.len() {
            let args = answer.calls[at].args.to_string();
            begin(&mut stream, index, &tool_use(answer, at, &json!({})));
            push_delta(
                &mut stream,
                index,
                &json!({"type": "input_json_delta", "partial_json": args}),
            );
            end(&mut stream, index);
            index += 1;
        }
        stream.push_typed(&json!({
            "type": "message_delta",
            "delta": {"stop_reason": answer.stop(&STOPS), "stop_sequence": null},
            "usage": usage(answer.reply.tokens, answer.reply.tokens.output),
        }));
        stream.push_typed(&json!({"type": "message_stop"}));
        stream
    }

    fn refusal(&self, refusal: &Refusal, model: &str) -> Reply {
        let error = |status: u16, kind: &str, message: &str| {
            let error = json!({"type": kind, "message": message});
            Reply::http(
                status,
                &json!({"type": "error", "error": error, "request_id": "req_scripted"}),
            )
        };
        match refusal {
            Refusal::Unauthorized => error(401, "authentication_error", "invalid x-api-key"),
            Refusal::RateLimited { retry_after, message } => {
                let usual = "This request would exceed the rate limit for your organization of 50 requests per \
                             minute. For details, refer to: https://docs.claude.com/en/api/rate-limits.";
                let message = message.as_deref().unwrap_or(usual);
                error(429, "rate_limit_error", message).retry_after(*retry_after)
            }
            Refusal::Overloaded => error(529, "overloaded_error", "Overloaded"),
            Refusal::ContextTooLong => error(
                400,
                "invalid_request_error",
                "prompt is too long: 250000 tokens > 200000 maximum",
            ),
            Refusal::NoCredit => error(
                400,
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to \
                 upgrade or purchase credits.",
            ),
            Refusal::UnknownModel => error(404, "not_found_error", &format!("model: {model}")),
        }
    }

    /// Claude does not offer all the tools of its servers, but takes calls of all of them.
    fn unlisted(&self, suffix: &str) -> String {
        format!("mcp__pod__{suffix}")
    }
}

/// A message that has only begun.
fn message(answer: &Answer<'_>) -> Value {
    json!({
        "id": format!("msg_{}", answer.seq), "type": "message", "role": "assistant",
        "model": answer.model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": usage(answer.reply.tokens, 1),
    })
}

fn tool_use(answer: &Answer<'_>, at: usize, input: &Value) -> Value {
    json!({
        "type": "tool_use", "id": format!("toolu_{}_{at}", answer.seq), "name": answer.calls[at].name,
        "input": input,
    })
}

/// Here, input tokens are those that did not come from the cache.
fn usage(tokens: Tokens, output: u64) -> Value {
    json!({
        "input_tokens": tokens.input.saturating_sub(tokens.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": output,
    })
}

fn begin(stream: &mut Stream, index: usize, block: &Value) {
    stream.push_typed(&json!({"type": "content_block_start", "index": index, "content_block": block}));
}

fn push_delta(stream: &mut Stream, index: usize, delta: &Value) {
    stream.push_typed(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
}

fn end(stream: &mut Stream, index: usize) {
    stream.push_typed(&json!({"type": "content_block_stop", "index": index}));
}
