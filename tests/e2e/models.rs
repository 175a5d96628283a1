//! The scripted model speaks the APIs of the agents' providers.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use pod_test_support::model::{Model, Refusal, Reply, Script};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages?beta=true";
const RESPONSES: &str = "/v1/responses";
const GEMINI: &str = "/v1beta/models/m:generateContent";
const GEMINI_STREAM: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

/// Sends a request and returns everything that comes back.
fn send(model: &Model, method: &str, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let mut socket = TcpStream::connect(("127.0.0.1", model.port())).expect("it listens");
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it reads");
    socket.shutdown(Shutdown::Write).ok();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("it answers");
    answer
}

/// A conversation in which a tool has already said something, in the words of the API of this path.
fn body(path: &str, stream: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"cmd": {"type": "string"}}});
    match path {
        CHAT => json!({
            "model": "m", "stream": stream,
            "tools": [{"function": {"name": "mcp__pod__hand", "parameters": schema}},
                      {"function": {"name": "bash", "parameters": {}}}],
            "messages": [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Do it."},
                         {"role": "tool", "content": [{"type": "text", "text": "It said."}]}],
        }),
        MESSAGES => json!({
            "model": "m", "stream": stream, "system": [{"type": "text", "text": "Be good."}],
            "tools": [{"name": "Bash", "input_schema": {"properties": {"description": {}}}}],
            "messages": [{"role": "user", "content": "Do it."},
                         {"role": "user", "content": [{"type": "tool_result", "content": "It said."}]}],
        }),
        RESPONSES => json!({
            "model": "m", "stream": stream, "instructions": "Be good.",
            "tools": [{"type": "namespace", "name": "mcp__pod", "tools": [{"name": "hand"}]},
                      {"type": "function", "name": "exec_command", "parameters": schema}],
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it."}]},
                      {"type": "function_call_output", "output": "It said."}],
        }),
        _ => json!({
            "systemInstruction": {"parts": [{"text": "Be good."}]},
            "tools": [{"functionDeclarations": [{"name": "mcp_pod_hand"}, {"name": "run_shell_command"}]}],
            "contents": [{"role": "user", "parts": [{"text": "Do it."}]},
                         {"role": "user", "parts": [{"functionResponse": {"response": {"output": "It said."}}}]}],
        }),
    }
}

fn reply() -> Reply {
    let hand = pod_test_support::model::ToolCall::Named {
        suffix: "hand".to_owned(),
        args: json!({"a": 1}),
    };
    let mut reply = Reply::text("Hello you.").bash("true").call(hand);
    reply.tokens.cached = 7;
    reply
}

#[test]
fn every_api_answers_in_its_own_words() {
    let cases: [(&str, &[&str], &[&str]); 5] = [
        (
            CHAT,
            &[
                r#""content":"Hello""#,
                r#""name":"mcp__pod__hand""#,
                r#""finish_reason":"tool_calls""#,
            ],
            &["Hello you.", r#""cached_tokens":7"#],
        ),
        (
            MESSAGES,
            &[
                "event: message_start\ndata: ",
                r#""text":"Hello""#,
                r#""name":"mcp__pod__hand""#,
                r#"{\"command\":\"true\",\"description\":"#,
                r#""stop_reason":"tool_use""#,
                "event: message_stop",
            ],
            &[
                "Hello you.",
                r#""cache_read_input_tokens":7"#,
                r#""input_tokens":93"#,
            ],
        ),
        (
            RESPONSES,
            &[
                "event: response.created\ndata: ",
                r#""delta":"Hello""#,
                r#""name":"hand","namespace":"mcp__pod""#,
                r#"{\"cmd\":\"true\"}"#,
                "event: response.completed",
            ],
            &["Hello you.", r#""cached_tokens":7"#, r#""status":"completed""#],
        ),
        (
            GEMINI_STREAM,
            &[
                r#"{"text":"Hello"}"#,
                r#""name":"mcp_pod_hand""#,
                r#""finishReason":"STOP""#,
            ],
            &[],
        ),
        (
            GEMINI,
            &[],
            &["Hello you.", r#""args":{"command":"true"}"#, r#"Count":7"#],
        ),
    ];
    for (path, in_stream, in_whole) in cases {
        for (stream, parts) in [(true, in_stream), (false, in_whole)] {
            let model = Model::start(Script::of([reply()]));
            let answer = send(&model, "POST", path, &body(path, stream));
            for part in parts {
                assert!(answer.contains(part), "{path}: {part} is missing: {answer}");
            }
            let asked = &model.requests()[0];
            for text in ["Be good.", "Do it.", "It said."] {
                assert!(asked.text().contains(text), "{path}: {text} is missing");
            }
        }
    }
}

#[test]
fn every_api_refuses_in_its_own_words() {
    let refusals = [
        Refusal::Unauthorized,
        Refusal::rate_limited(Some(7)),
        Refusal::Overloaded,
        Refusal::ContextTooLong,
        Refusal::NoCredit,
        Refusal::UnknownModel,
    ];
    let openai = [
        (401, "invalid_api_key"),
        (429, "try again in 7s"),
        (503, "overloaded"),
        (400, "context_length_exceeded"),
        (429, "insufficient_quota"),
        (404, "model_not_found"),
    ];
    let anthropic = [
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (529, "overloaded_error"),
        (400, "prompt is too long"),
        (400, "credit balance is too low"),
        (404, "not_found_error"),
    ];
    let google = [
        (400, "API_KEY_INVALID"),
        (429, r#""retryDelay":"7s""#),
        (503, "UNAVAILABLE"),
        (400, "exceeds the maximum number of tokens"),
        (429, "credits are depleted"),
        (404, "models/m is not found"),
    ];
    let cases = [
        (CHAT, openai),
        (RESPONSES, openai),
        (MESSAGES, anthropic),
        (GEMINI_STREAM, google),
    ];
    for (path, wanted) in cases {
        let model = Model::start(Script::of(refusals.clone().map(Reply::refused)));
        for (status, part) in wanted {
            let answer = send(&model, "POST", path, &body(path, true));
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{path}: {answer}"
            );
            assert!(answer.contains(part), "{path}: {part} is missing: {answer}");
            let header = answer.contains("retry-after: 7\r\n");
            assert_eq!(header, part != google[1].1 && part == wanted[1].1, "{path}");
        }
    }
}

#[test]
fn what_asks_without_tools_uses_up_no_reply() {
    let model = Model::start(Script::of([]));
    for path in [CHAT, MESSAGES, RESPONSES, GEMINI, GEMINI_STREAM] {
        let mut body = body(path, false);
        body["tools"] = json!([]);
        let answer = send(&model, "POST", path, &body);
        assert!(answer.contains("A title"), "{path}: {answer}");
    }
    let mut routing = body(GEMINI, false);
    routing["tools"].take();
    routing["generationConfig"] = json!({"responseMimeType": "application/json"});
    let routed = send(&model, "POST", GEMINI, &routing);
    assert!(routed.contains(r#"\"complexity_score\":1"#), "{routed}");
    for (path, part) in [
        ("/v1/messages/count_tokens", "input_tokens"),
        ("/v1beta/models/m:countTokens", "totalTokens"),
    ] {
        let counted = send(&model, "POST", path, &json!({}));
        assert!(counted.contains(part), "{counted}");
    }
    assert!(send(&model, "HEAD", "/api/hello", &json!({})).starts_with("HTTP/1.1 200 "));
    assert_eq!(model.requests().len(), 0);
}
