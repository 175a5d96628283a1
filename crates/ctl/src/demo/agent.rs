//! The built-in agent of type `demo`: a small agent that needs no model and keeps to the rules of a pod.
//!
//! What it does follows from the documents and not from the wake-up's number, as with any good agent: it
//! plans where there is no plan, works where a box is open, and hands off for good once none is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pod_disk::Durability;
use serde_json::{Value, json};

use crate::context;
use crate::fault::{Ended, Exit, Fault, Stop};
use crate::ui;

/// How long it thinks between two messages, so that a person can follow.
const PACE: Duration = Duration::from_millis(150);

/// How many tasks one wake-up takes on.
const TASKS_AT_ONCE: usize = 2;

/// The plan where there is none: what stands behind the colon is the work.
const PLAN: [&str; 3] = [
    "English: Hello, world!",
    "French: Bonjour, le monde !",
    "German: Hallo, Welt!",
];

/// Plays one wake-up.
pub(crate) fn run(pace: Option<Duration>) -> Ended {
    let place = Place::find()?;
    let mut speech = Speech::begin(pace.unwrap_or(PACE), &place)?;
    let tasks = place.read("TASKS.md")?;
    match next(&tasks) {
        Next::Plan => plan(&place, &mut speech, &tasks)?,
        Next::Work(open) => work(&place, &mut speech, &tasks, &open)?,
        Next::Finish => hand_off(&place, &mut speech, "done", "Every box was ticked already.")?,
    }
    speech.end()?;
    Ok(Exit::Done)
}

/// Where a wake-up's documents and its project are.
struct Place {
    docs: PathBuf,
    project: PathBuf,
    wake_up: String,
}

impl Place {
    fn find() -> Result<Self, Fault> {
        let outside = |name: &str| {
            Fault::new("the demo agent runs inside a wake-up alone", "run `podctl demo`")
                .caused_by(format!("{name} is not set"))
        };
        let variable = |name: &'static str| context::variable(name).ok_or_else(|| outside(name));
        let project = std::env::current_dir().map_err(|error| {
            Fault::new("there is no working directory", "run `podctl demo`").because(&error)
        })?;
        Ok(Self {
            docs: variable("AGENTS_POD_DOCS_DIR")?.into(),
            project,
            wake_up: variable("AGENTS_POD_WAKEUP_N")?.to_string_lossy().into_owned(),
        })
    }

    fn read(&self, name: &str) -> Result<String, Fault> {
        read(&self.docs, name)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Fault> {
        write(&self.docs, name, text)
    }
}

fn read(directory: &Path, name: &str) -> Result<String, Fault> {
    let bytes = pod_disk::read_below(directory, Path::new(name), 1 << 20);
    let bytes = bytes.map_err(|error| Fault::of("the demo agent cannot read", &error))?;
    Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), Fault> {
    let written = pod_disk::replace_below(directory, Path::new(name), text.as_bytes(), Durability::Atomic);
    written.map_err(|error| Fault::of("the demo agent cannot write", &error))
}

/// What the documents ask for.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Plan,
    Work(Vec<String>),
    Finish,
}

fn next(tasks: &str) -> Next {
    let box_of = |line: &str, mark: &str| {
        line.trim_start()
            .strip_prefix(mark)
            .map(|task| task.trim().to_owned())
    };
    let open: Vec<String> = tasks.lines().filter_map(|line| box_of(line, "- [ ] ")).collect();
    let ticked = tasks.lines().filter_map(|line| box_of(line, "- [x] ")).count();
    match (open.is_empty(), ticked) {
        (true, 0) => Next::Plan,
        (true, _) => Next::Finish,
        (false, _) => Next::Work(open),
    }
}

fn plan(place: &Place, speech: &mut Speech, tasks: &str) -> Result<(), Stop> {
    speech.say("There is no plan yet, so I make one and let the next session begin with it.")?;
    let boxes: String = PLAN.iter().map(|task| format!("- [ ] {task}\n")).collect();
    place.write("TASKS.md", &format!("{}\n\n{boxes}", tasks.trim_end()))?;
    speech.tool("write", json!({ "path": "TASKS.md" }), "three boxes, all open")?;
    let handoff = "status: rotating\n\nThe plan stands in TASKS.md. Begin with its first box.\n";
    place.write("HANDOFF.md", handoff)?;
    speech.tool("write", json!({ "path": "HANDOFF.md" }), "status: rotating")?;
    speech.say("The plan stands in TASKS.md. I hand off by writing HANDOFF.md.")
}

fn work(place: &Place, speech: &mut Speech, tasks: &str, open: &[String]) -> Result<(), Stop> {
    let mut tasks = tasks.to_owned();
    let now: Vec<&String> = open.iter().take(TASKS_AT_ONCE).collect();
    speech.say(&format!(
        "Open boxes in TASKS.md: {}. I take {} of them.",
        open.len(),
        now.len()
    ))?;
    for task in &now {
        let line = task.split_once(": ").map_or(task.as_str(), |(_, line)| line);
        let before = read(&place.project, "hello.txt")?;
        write(&place.project, "hello.txt", &format!("{before}{line}\n"))?;
        tasks = tasks.replacen(&format!("- [ ] {task}"), &format!("- [x] {task}"), 1);
        place.write("TASKS.md", &tasks)?;
        speech.tool("edit", json!({ "path": "hello.txt" }), line)?;
    }
    if open.len() > now.len() {
        let decisions = place.read("DECISIONS.md")?;
        let decision = format!(
            "- Wake-up {}: one line a language in hello.txt, since a line is easy to check.\n",
            place.wake_up
        );
        place.write("DECISIONS.md", &format!("{}\n\n{decision}", decisions.trim_end()))?;
        speech.say("That is enough for one session. I wrote down why hello.txt looks as it does.")?;
        hand_off(
            place,
            speech,
            "rotating",
            "Two lines are written and ticked. One box is open.",
        )
    } else {
        speech.say("No box is open any more, and hello.txt has a line for each.")?;
        hand_off(
            place,
            speech,
            "done",
            "hello.txt greets the world in every language of the plan.",
        )
    }
}

/// Hands off as agents do it in a shell.
fn hand_off(_place: &Place, speech: &mut Speech, status: &str, summary: &str) -> Result<(), Stop> {
    let cannot = "the demo agent cannot hand off";
    let podctl = std::env::current_exe()
        .map_err(|error| Fault::new(cannot, "run `podctl demo` from an installed podctl").because(&error))?;
    let done = Command::new(podctl)
        .args(["handoff", "--status", status, "--summary", summary])
        .status();
    let done = done.map_err(|error| Fault::new(cannot, "look at podctl").because(&error))?;
    if !done.success() {
        return Err(Fault::new(cannot, "see what podctl said above")
            .caused_by(done.to_string())
            .into());
    }
    let command = format!("podctl handoff --status {status} --summary …");
    speech.tool("bash", json!({ "command": command }), "")?;
    speech.say(&format!("I handed off with status {status}: {summary}"))
}

/// What it prints: records of pi's shape.
struct Speech {
    pace: Duration,
    calls: u32,
    model: &'static str,
}

impl Speech {
    fn begin(pace: Duration, place: &Place) -> Result<Self, Stop> {
        let speech = Self {
            pace,
            calls: 0,
            model: "demo",
        };
        speech.record(&json!({
            "type": "session", "version": 3, "id": format!("demo-{}", std::process::id()),
            "timestamp": context::now(), "cwd": place.project.to_string_lossy(),
        }))?;
        speech.record(&json!({ "type": "agent_start" }))?;
        Ok(speech)
    }

    fn record(&self, record: &Value) -> Result<(), Stop> {
        ui::json(record)
    }

    fn message(&self, content: &Value, stop: &str, output: usize) -> Value {
        json!({
            "role": "assistant", "content": content, "provider": "demo", "model": self.model, "stopReason": stop,
            "timestamp": context::now().as_millis(),
            "usage": {
                "input": 100, "output": output, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 100 + output,
                "cost": { "total": 0 },
            },
        })
    }

    fn assistant(&self, content: &Value, text: &str, stop: &str) -> Result<(), Stop> {
        std::thread::sleep(self.pace);
        self.record(&json!({ "type": "turn_start" }))?;
        self.record(&json!({ "type": "message_start", "message": self.message(&json!([]), "pending", 0) }))?;
        if !text.is_empty() {
            let update = json!({ "type": "text_delta", "contentIndex": 0, "delta": text });
            self.record(&json!({ "type": "message_update", "assistantMessageEvent": update }))?;
        }
        let words = text.split_whitespace().count();
        self.record(&json!({ "type": "message_end", "message": self.message(content, stop, words) }))
    }

    fn say(&mut self, text: &str) -> Result<(), Stop> {
        self.assistant(&json!([{ "type": "text", "text": text }]), text, "stop")?;
        self.record(&json!({ "type": "turn_end", "toolResults": [] }))
    }

    /// Reports a tool that was used.
    fn tool(&mut self, name: &str, args: Value, result: &str) -> Result<(), Stop> {
        self.calls += 1;
        let id = format!("call_{}", self.calls);
        let call = json!([{ "type": "toolCall", "id": id, "name": name, "arguments": args }]);
        self.assistant(&call, "", "toolUse")?;
        let content = json!([{ "type": "text", "text": result }]);
        self.record(
            &json!({ "type": "tool_execution_start", "toolCallId": id, "toolName": name, "args": args }),
        )?;
        self.record(&json!({
            "type": "tool_execution_end", "toolCallId": id, "toolName": name, "isError": false,
            "result": { "content": content },
        }))?;
        let message = json!({
            "role": "toolResult", "toolCallId": id, "toolName": name, "content": content, "isError": false,
        });
        self.record(&json!({ "type": "message_end", "message": message }))
    }

    fn end(&self) -> Result<(), Stop> {
        self.record(&json!({ "type": "agent_end", "messages": [], "willRetry": false }))?;
        self.record(&json!({ "type": "agent_settled", "aborted": false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_say_what_is_next() {
        assert_eq!(next("# Tasks\n\nwrite `- [ ]` boxes\n"), Next::Plan);
        assert_eq!(
            next("- [x] a\n- [ ] b\n  - [ ] c\n"),
            Next::Work(vec!["b".into(), "c".into()])
        );
        assert_eq!(next("- [x] a\n"), Next::Finish);
    }

    #[test]
    fn the_plan_is_more_than_one_session_and_less_than_three() {
        assert!(PLAN.len() > TASKS_AT_ONCE && PLAN.len() <= 2 * TASKS_AT_ONCE);
        assert!(PLAN.iter().all(|task| task.contains(": ")));
    }
}
