//! What a scripted model answers.

use std::time::Duration;

use serde_json::{Value, json};

/// What a model answers, request by request.
#[derive(Debug, Clone)]
pub struct Script {
    /// One for each request that offers tools, in their order.
    pub replies: Vec<Reply>,
    /// What follows when they are used up.
    pub after: After,
}

impl Script {
    /// These replies, behind which a further request is an error of the test: it is answered by status 400,
    /// which no CLI tries again.
    pub fn of(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: replies.into_iter().collect(),
            after: After::Refuse,
        }
    }

    /// One reply for every request.
    pub fn always(reply: Reply) -> Self {
        Self {
            replies: Vec::new(),
            after: After::Repeat(Box::new(reply)),
        }
    }

    pub(super) fn reply(&self, n: usize) -> Reply {
        match (self.replies.get(n), &self.after) {
            (Some(reply), _) => reply.clone(),
            (None, After::Repeat(reply)) => (**reply).clone(),
            (None, After::Refuse) => {
                let message = format!("the script has no reply for request {}", n + 1);
                Reply::http(
                    400,
                    &json!({"error": {"message": message, "type": "script_exhausted"}}),
                )
            }
        }
    }
}

/// What follows the last reply of a script.
#[derive(Debug, Clone)]
pub enum After {
    /// This one, again and again.
    Repeat(Box<Reply>),
    /// Status 400.
    Refuse,
}

/// A tool call, by what it does or by its name.
#[derive(Debug, Clone)]
pub enum ToolCall {
    /// Runs a command, by whatever tool the agent offers for that.
    Bash(String),
    /// Writes a file, by whatever tool the agent offers for that.
    Write {
        /// Its path.
        path: String,
        /// Its content.
        content: String,
    },
    /// Calls the tool whose name ends with this.
    Named {
        /// The end of its name.
        suffix: String,
        /// Its arguments.
        args: Value,
    },
}

/// Where in an answer something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before its first byte.
    Before,
    /// Behind the status line and the headers.
    Headers,
    /// Behind the first piece of its text.
    Mid,
}

/// How an answer does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// It stops there, and the connection stays open.
    Hang(Moment),
    /// The connection is reset there.
    Drop(Moment),
}

impl Stall {
    pub(super) fn moment(self) -> Moment {
        match self {
            Self::Hang(moment) | Self::Drop(moment) => moment,
        }
    }
}

/// An answer that is no completion.
#[derive(Debug, Clone)]
pub struct Http {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: String,
}

/// An error that a provider reports, in whose words the API says.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// The key is wrong.
    Unauthorized,
    /// Too much was asked in too short a time.
    RateLimited {
        /// After how many seconds asking again makes sense, if it says so.
        retry_after: Option<u64>,
        /// What it says instead of the usual.
        message: Option<String>,
    },
    /// Too many others ask.
    Overloaded,
    /// The conversation is longer than the model can take.
    ContextTooLong,
    /// Nothing is left to pay with.
    NoCredit,
    /// There is no such model.
    UnknownModel,
}

impl Refusal {
    /// A rate limit in the usual words.
    pub fn rate_limited(retry_after: Option<u64>) -> Self {
        Self::RateLimited {
            retry_after,
            message: None,
        }
    }
}

/// What an answer says it cost.
#[derive(Debug, Clone, Copy)]
pub struct Tokens {
    /// Input tokens, those from the cache included.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens from the cache.
    pub cached: u64,
}

/// One answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its text.
    pub text: String,
    /// Into how many pieces its text is cut.
    pub pieces: usize,
    /// What it calls.
    pub calls: Vec<ToolCall>,
    /// How long nothing comes.
    pub delay: Duration,
    /// How long nothing comes between two pieces.
    pub piece_delay: Duration,
    /// What it says it cost.
    pub tokens: Tokens,
    /// Why it says it stopped, if not for the natural reason. `length` is put into the API's word for it; what
    /// else there is goes out as it is.
    pub stop: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// An answer that is no completion; all of the above but the delay and the headers is ignored then.
    pub http: Option<Http>,
    /// An error in the API's own shape, to which the same applies.
    pub refusal: Option<Refusal>,
    /// How it does not end.
    pub stall: Option<Stall>,
}

impl Reply {
    /// Says a text.
    pub fn text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            pieces: 2,
            calls: Vec::new(),
            delay: Duration::ZERO,
            piece_delay: Duration::ZERO,
            tokens: Tokens {
                input: 100,
                output: 20,
                cached: 0,
            },
            stop: None,
            headers: Vec::new(),
            http: None,
            refusal: None,
            stall: None,
        }
    }

    /// Answers with a status and a body.
    pub fn http(status: u16, body: &Value) -> Self {
        let http = Http {
            status,
            body: body.to_string(),
        };
        Self {
            http: Some(http),
            ..Self::text("")
        }
    }

    /// Answers with an error, as the provider of the API that is asked does.
    ///
    /// Who tries again for a minute can be told to be quick by the header `retry-after-ms`, which opencode and
    /// the libraries of OpenAI and Anthropic heed.
    pub fn refused(refusal: Refusal) -> Self {
        Self {
            refusal: Some(refusal),
            ..Self::text("")
        }
    }

    /// Does not end.
    pub fn stall(stall: Stall) -> Self {
        Self {
            stall: Some(stall),
            ..Self::text("I begin, and then")
        }
    }

    /// Calls a tool, too.
    #[must_use]
    pub fn call(mut self, call: ToolCall) -> Self {
        self.calls.push(call);
        self
    }

    /// Runs a command, too.
    #[must_use]
    pub fn bash(self, command: &str) -> Self {
        self.call(ToolCall::Bash(command.to_owned()))
    }

    /// Writes a file, too.
    #[must_use]
    pub fn write(self, path: &str, content: &str) -> Self {
        self.call(ToolCall::Write {
            path: path.to_owned(),
            content: content.to_owned(),
        })
    }

    /// A call of a tool whose name ends so, which each CLI gives a prefix of its own.
    #[must_use]
    pub fn tool(self, suffix: &str, args: &Value) -> Self {
        self.call(ToolCall::Named {
            suffix: suffix.to_owned(),
            args: args.clone(),
        })
    }

    /// Hands over, by the tool that agents-pod gives to agents.
    #[must_use]
    pub fn handoff(self, status: &str, summary: &str) -> Self {
        self.call(ToolCall::Named {
            suffix: "pod_handoff".to_owned(),
            args: json!({"status": status, "summary": summary}),
        })
    }

    /// Adds the header that says after how many seconds to ask again, if somebody knows.
    pub(super) fn retry_after(self, seconds: Option<u64>) -> Self {
        match seconds {
            Some(seconds) => self.header("retry-after", &seconds.to_string()),
            None => self,
        }
    }

    pub(super) fn with_headers_of(mut self, other: &Self) -> Self {
        self.headers.extend(other.headers.iter().cloned());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}
