//! The chat completions API of OpenAI, which many providers speak.

use serde_json::{Value, json};

use super::api::{Answer, Api, Asked, Form, Stops, Stream, items, string, text_of};
use super::script::{Refusal, Reply, Tokens};
use super::tools::{Call, Tool};

const STOPS: Stops = Stops {
    done: "stop",
    called: "tool_calls",
    length: "length",
};

/// The chat completions API.
#[derive(Debug)]
pub(super) struct Chat;

impl Api for Chat {
    fn asked(&self, path: &str) -> Option<Asked> {
        let ours = path.ends_with("/chat/completions");
        ours.then_some(Asked::Answer(Form::AsTheBodySays))
    }

    fn tools(&self, body: &Value) -> Vec<Tool> {
        let functions = items(&body["tools"]).iter().map(|tool| &tool["function"]);
        functions
            .filter_map(|function| Tool::new(&function["name"], &function["parameters"]))
            .collect()
    }

    fn messages(&self, body: &Value) -> Vec<(String, String)> {
        let messages = items(&body["messages"]).iter();
        messages
            .map(|message| (string(&message["role"]), text_of(&message["content"])))
            .collect()
    }

    fn whole(&self, answer: &Answer<'_>) -> Value {
        let mut message = json!({"role": "assistant", "content": answer.reply.text});
        if !answer.calls.is_empty() {
            let calls = (0..).zip(answer.calls);
            message["tool_calls"] = calls.map(|(at, call)| called(answer.seq, at, call)).collect();
        }
        json!({
            "id": format!("chatcmpl-{}", answer.seq), "object": "chat.completion", "created": 1,
            "model": answer.model,
            "choices": [{"index": 0, "message": message, "finish_reason": answer.stop(&STOPS)}],
            "usage": usage(answer.reply.tokens),
        })
    }

    fn stream(&self, answer: &Answer<'_>) -> Stream {
        let chunk = |choices: Value| {
            json!({
                "id": format!("chatcmpl-{}", answer.seq), "object": "chat.completion.chunk", "created": 1,
                "model": answer.model, "choices": choices,
            })
        };
        let delta = |delta: Value, stop: Option<&str>| {
            chunk(json!([{"index": 0, "delta": delta, "finish_reason": stop}]))
        };
        let mut stream = Stream::default();
        stream.push(&delta(json!({"role": "assistant", "content": ""}), None));
        for piece in answer.pieces() {
            stream.push(&delta(json!({"content": piece}), None));
            stream.mark_middle();
        }
        stream.mark_middle();
        for (at, call) in answer.calls.iter().enumerate() {
            stream.push(&delta(
                json!({"tool_calls": [called(answer.seq, at, call)]}),
                None,
            ));
        }
        stream.push(&delta(json!({}), Some(answer.stop(&STOPS))));
        let mut last = chunk(json!([]));
        last["usage"] = usage(answer.reply.tokens);
        stream.push(&last);
        stream.events.push("data: [DONE]\n\n".to_owned());
        stream
    }

    fn refusal(&self, refusal: &Refusal, model: &str) -> Reply {
        refused(
            refusal,
            model,
            "This model's maximum context length is 200000 tokens. However, your messages resulted in 250000 \
             tokens. Please reduce the length of the messages.",
        )
    }
}

fn called(seq: usize, at: usize, call: &Call) -> Value {
    json!({
        "index": at, "id": format!("call_{seq}_{at}"), "type": "function",
        "function": {"name": call.name, "arguments": call.args.to_string()},
    })
}

fn usage(tokens: Tokens) -> Value {
    json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    })
}

/// The errors of OpenAI, whose APIs differ only in how they say that a conversation is too long.
pub(super) fn refused(refusal: &Refusal, model: &str, too_long: &str) -> Reply {
    let error = |status: u16, message: &str, kind: &str, code: Option<&str>| {
        Reply::http(
            status,
            &json!({"error": {"message": message, "type": kind, "param": null, "code": code}}),
        )
    };
    match refusal {
        Refusal::Unauthorized => error(
            401,
            "Incorrect API key provided: dummy. You can find your API key at \
             https://platform.openai.com/account/api-keys.",
            "invalid_request_error",
            Some("invalid_api_key"),
        ),
        Refusal::RateLimited { retry_after, message } => {
            let again = retry_after.map(|seconds| format!(" Please try again in {seconds}s."));
            let usual = format!(
                "Rate limit reached for {model} in organization org-scripted on requests per min (RPM): \
                 Limit 3, Used 3, Requested 1.{}",
                again.unwrap_or_default()
            );
            let message = message.as_deref().unwrap_or(&usual);
            error(429, message, "requests", Some("rate_limit_exceeded")).retry_after(*retry_after)
        }
        Refusal::Overloaded => error(
            503,
            "The server is currently overloaded with other requests. Sorry about that! You can retry your \
             request, or contact us through our help center at help.openai.com if the error persists.",
            "server_error",
            None,
        ),
        Refusal::ContextTooLong => error(
            400,
            too_long,
            "invalid_request_error",
            Some("context_length_exceeded"),
        ),
        Refusal::NoCredit => error(
            429,
            "You exceeded your current quota, please check your plan and billing details. For more \
             information on this error, read the docs: \
             https://platform.openai.com/docs/guides/error-codes/api-errors.",
            "insufficient_quota",
            Some("insufficient_quota"),
        ),
        Refusal::UnknownModel => error(
            404,
            &format!("The model `{model}` does not exist or you do not have access to it."),
            "invalid_request_error",
            Some("model_not_found"),
        ),
    }
}
