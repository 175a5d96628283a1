//! The generative language API of Google.

use serde_json::{Value, json};

use super::api::{Answer, Api, Asked, Form, Stops, Stream, items, string, text_of};
use super::script::{Refusal, Reply};
use super::tools::{Call, Tool};

const STOPS: Stops = Stops {
    done: "STOP",
    called: "STOP",
    length: "MAX_TOKENS",
};

/// The generative language API.
#[derive(Debug)]
pub(super) struct Gemini;

impl Api for Gemini {
    fn asked(&self, path: &str) -> Option<Asked> {
        match path.rsplit_once(':')?.1 {
            "generateContent" => Some(Asked::Answer(Form::Whole)),
            "streamGenerateContent" => Some(Asked::Answer(Form::Stream)),
            "countTokens" => Some(Asked::Count(json!({"totalTokens": 100}))),
            _ => None,
        }
    }

    fn tools(&self, body: &Value) -> Vec<Tool> {
        let declared = items(&body["tools"])
            .iter()
            .flat_map(|tool| items(&tool["functionDeclarations"]));
        declared
            .filter_map(|function| {
                let parameters = ["parametersJsonSchema", "parameters"].map(|key| &function[key]);
                let given = parameters.into_iter().find(|parameters| parameters.is_object());
                Tool::new(&function["name"], given.unwrap_or(&Value::Null))
            })
            .collect()
    }

    fn messages(&self, body: &Value) -> Vec<(String, String)> {
        let mut texts = vec![("system".to_owned(), text_of(&body["systemInstruction"]["parts"]))];
        for content in items(&body["contents"]) {
            let role = string(&content["role"]);
            texts.push((role.clone(), text_of(&content["parts"])));
            for part in items(&content["parts"]) {
                let result = &part["functionResponse"]["response"];
                for text in ["output", "error"].iter().filter_map(|key| result[*key].as_str()) {
                    texts.push((role.clone(), text.to_owned()));
                }
            }
        }
        texts
    }

    fn whole(&self, answer: &Answer<'_>) -> Value {
        let mut parts = vec![json!({"text": answer.reply.text})];
        parts.extend(answer.calls.iter().map(called));
        piece(answer, &parts.into(), Some(answer.stop(&STOPS)))
    }

    fn stream(&self, answer: &Answer<'_>) -> Stream {
        let mut stream = Stream::default();
        for text in answer.pieces() {
            stream.push(&piece(answer, &json!([{"text": text}]), None));
            stream.mark_middle();
        }
        stream.mark_middle();
        for call in answer.calls {
            stream.push(&piece(answer, &json!([called(call)]), None));
        }
        stream.push(&piece(answer, &json!([{"text": ""}]), Some(answer.stop(&STOPS))));
        stream
    }

    fn refusal(&self, refusal: &Refusal, model: &str) -> Reply {
        let error = |status: u16, word: &str, message: &str, details: Value| {
            let error = json!({"code": status, "message": message, "status": word, "details": details});
            Reply::http(status, &json!({"error": error}))
        };
        match refusal {
            Refusal::Unauthorized => error(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
                json!([{
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID", "domain": "googleapis.com",
                }]),
            ),
            Refusal::RateLimited { retry_after, message } => {
                let (usual, details) = rate_limit(*retry_after);
                error(
                    429,
                    "RESOURCE_EXHAUSTED",
                    message.as_deref().unwrap_or(&usual),
                    details,
                )
            }
            Refusal::Overloaded => error(
                503,
                "UNAVAILABLE",
                "The model is overloaded. Please try again later.",
                json!([]),
            ),
            Refusal::ContextTooLong => error(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).",
                json!([]),
            ),
            Refusal::NoCredit => error(
                429,
                "RESOURCE_EXHAUSTED",
                "Your prepayment credits are depleted. Please go to AI Studio at \
                 https://ai.studio/projects to manage your project and billing.",
                json!([]),
            ),
            Refusal::UnknownModel => error(
                404,
                "NOT_FOUND",
                &format!(
                    "models/{model} is not found for API version v1beta, or is not supported for \
                     generateContent. Call ListModels to see the list of available models and their \
                     supported methods."
                ),
                json!([]),
            ),
        }
    }

    fn wants_json(&self, body: &Value) -> bool {
        body["generationConfig"]["responseMimeType"] == "application/json"
    }
}

fn called(call: &Call) -> Value {
    json!({"functionCall": {"name": call.name, "args": call.args}})
}

fn piece(answer: &Answer<'_>, parts: &Value, stop: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(stop) = stop {
        candidate["finishReason"] = stop.into();
    }
    let tokens = answer.reply.tokens;
    json!({
        "candidates": [candidate], "modelVersion": answer.model,
        "responseId": format!("response-{}", answer.seq),
        "usageMetadata": {
            "promptTokenCount": tokens.input, "candidatesTokenCount": tokens.output,
            "cachedContentTokenCount": tokens.cached, "totalTokenCount": tokens.input + tokens.output,
        },
    })
}

const METRIC: &str = "generativelanguage.googleapis.com/generate_content_free_tier_requests";

/// A rate limit's words and details: Google says in them, and in no header, when to ask again.
fn rate_limit(retry_after: Option<u64>) -> (String, Value) {
    let Some(seconds) = retry_after else {
        return (
            "Resource has been exhausted (e.g. check quota).".to_owned(),
            json!([]),
        );
    };
    let message = format!(
        "You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for \
         metric: {METRIC}, limit: 5\nPlease retry in {seconds}s."
    );
    let details = json!([
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{
                "quotaMetric": METRIC, "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
                "quotaValue": "5",
            }],
        },
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")},
    ]);
    (message, details)
}
