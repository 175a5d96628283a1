//! What the fake agent prints.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::script::{Failure, bad, number, size};

const BLOCK: usize = 64 * 1024;

/// Its stdout, unbuffered.
pub(crate) struct Output {
    stdout: Option<File>,
    usage: (u64, u64),
}

impl Output {
    pub(crate) fn open() -> Result<Self, Failure> {
        let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Self {
            stdout: Some(stdout),
            usage: (10, 5),
        })
    }

    /// Carries a command out; `false` where it is none of output.
    pub(crate) fn command(&mut self, word: &str, rest: &str) -> Result<bool, Failure> {
        match word {
            "line" => self.put(format!("{rest}\n").as_bytes())?,
            "torn" => self.put(rest.as_bytes())?,
            "stderr" => io::stderr().write_all(format!("{rest}\n").as_bytes())?,
            "lines" => {
                let (count, text) = rest
                    .split_once(' ')
                    .ok_or_else(|| bad("`lines` takes a count and a text"))?;
                self.lines(number(count)?, text, Duration::ZERO)?;
            }
            "every" => {
                let mut words = rest.splitn(3, ' ');
                let (Some(millis), Some(count), Some(text)) = (words.next(), words.next(), words.next())
                else {
                    return Err(bad("`every` takes milliseconds, a count and a text"));
                };
                self.lines(number(count)?, text, Duration::from_millis(number(millis)?))?;
            }
            "hex" => self.put(&from_hex(rest)?)?,
            "fill" => self.fill(size(rest)?)?,
            "pi" => self.pi(rest)?,
            "flood" => self.flood(size(rest)?)?,
            "close-stdout" => {
                self.stdout = None;
                let null = File::options().write(true).open("/dev/null")?;
                nix::unistd::dup2_stdout(null)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let stdout = self.stdout.as_mut().ok_or_else(|| bad("stdout is closed"))?;
        Ok(stdout.write_all(bytes)?)
    }

    fn lines(&mut self, count: u64, text: &str, interval: Duration) -> Result<(), Failure> {
        for i in 1..=count {
            self.put(format!("{}\n", text.replace("{i}", &i.to_string())).as_bytes())?;
            thread::sleep(interval);
        }
        Ok(())
    }

    fn fill(&mut self, mut left: u64) -> Result<(), Failure> {
        let block = [b'x'; BLOCK];
        while left > 0 {
            let now = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            self.put(&block[..now])?;
            left -= now as u64;
        }
        Ok(())
    }

    /// Writes at full speed, some records at a time.
    fn flood(&mut self, total: u64) -> Result<(), Failure> {
        let (mut written, mut i) = (0, 0_u64);
        let mut block = Vec::with_capacity(BLOCK + 256);
        while written < total {
            block.clear();
            while block.len() < BLOCK {
                i += 1;
                writeln!(
                    block,
                    r#"{{"type":"message_update","i":{i},"assistantMessageEvent":{{"type":"text_delta","contentIndex":0,"delta":"a small piece of text "}}}}"#
                )?;
            }
            self.put(&block)?;
            written += block.len() as u64;
        }
        Ok(())
    }

    fn record(&mut self, record: &Value) -> Result<(), Failure> {
        self.put(format!("{record}\n").as_bytes())
    }

    fn pi(&mut self, rest: &str) -> Result<(), Failure> {
        let (kind, text) = rest.split_once(' ').unwrap_or((rest, ""));
        match kind {
            "header" => self.header(),
            "text" => self.message("stop", &json!([{"type": "text", "text": text}]), None),
            "stop" => {
                let (reason, text) = text.split_once(' ').unwrap_or((text, ""));
                self.message(reason, &json!([{"type": "text", "text": text}]), None)
            }
            "error" => self.message("error", &json!([]), Some(text)),
            "delta" => self.record(&json!({
                "type": "message_update",
                "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": text},
            })),
            "tool" => {
                let call = json!([{"type": "toolCall", "id": "call_1", "name": text, "arguments": {}}]);
                self.message("toolUse", &call, None)?;
                self.record(&json!({
                    "type": "tool_execution_start", "toolCallId": "call_1", "toolName": text, "args": {},
                }))
            }
            "result" => self.record(&json!({
                "type": "tool_execution_end", "toolCallId": "call_1", "toolName": "bash",
                "result": {"content": [{"type": "text", "text": text}]}, "isError": false,
            })),
            "usage" => {
                let (input, output) = text
                    .split_once(' ')
                    .ok_or_else(|| bad("`pi usage` takes two numbers"))?;
                self.usage = (number(input)?, number(output)?);
                Ok(())
            }
            "big" => self.big(size(text)?),
            "end" => {
                self.record(&json!({"type": "turn_end"}))?;
                self.record(&json!({"type": "agent_end", "messages": []}))
            }
            "settled" => self.record(&json!({"type": "agent_settled", "aborted": false})),
            "aborted" => self.record(&json!({"type": "agent_settled", "aborted": true})),
            "run" => ["header", &format!("text {text}"), "end", "settled"]
                .iter()
                .try_for_each(|one| self.pi(one)),
            _ => Err(bad(format!("pi prints no `{kind}`"))),
        }
    }

    fn header(&mut self) -> Result<(), Failure> {
        self.record(&json!({
            "type": "session", "version": 3, "id": "01a20000-0000-7000-8000-000000000001",
            "timestamp": "2026-11-30T20:00:00.000Z", "cwd": std::env::current_dir()?,
        }))?;
        self.record(&json!({"type": "agent_start"}))?;
        self.record(&json!({"type": "turn_start"}))
    }

    fn message(&mut self, stop: &str, content: &Value, error: Option<&str>) -> Result<(), Failure> {
        let record = self.message_record(stop, content, error);
        self.record(&record)
    }

    fn message_record(&self, stop: &str, content: &Value, error: Option<&str>) -> Value {
        let (input, output) = self.usage;
        let mut message = json!({
            "role": "assistant", "content": content, "api": "openai-completions", "provider": "mock",
            "model": "mock-model", "stopReason": stop, "timestamp": 1_796_000_000_000_u64,
            "usage": {
                "input": input, "output": output, "cacheRead": 0, "cacheWrite": 0,
                "totalTokens": input + output, "cost": {"total": 0.001},
            },
        });
        if let Some(error) = error {
            message["errorMessage"] = error.into();
        }
        json!({"type": "message_end", "message": message})
    }

    /// A message with so many letters, which is never held in memory as a whole.
    fn big(&mut self, letters: u64) -> Result<(), Failure> {
        let marked = self
            .message_record("stop", &json!([{"type": "text", "text": "@@"}]), None)
            .to_string();
        let (head, tail) = marked.split_once("@@").ok_or_else(|| bad("no mark"))?;
        self.put(head.as_bytes())?;
        self.fill(letters)?;
        self.put(format!("{tail}\n").as_bytes())
    }
}

fn from_hex(text: &str) -> Result<Vec<u8>, Failure> {
    let digits: String = text.split_whitespace().collect();
    let pairs = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).map_err(|_| bad(format!("`{pair}` is no byte"))))
        .collect()
}
