//! The words with which a subagent is dispatched again.

use super::SubCheckpoint;
use crate::escaped;

/// The keys that have a line of their own, and its name.
const LINES: [(&str, &str); 7] = [
    ("tool_use_count", "Tool uses so far"),
    ("last_action", "Last finished"),
    ("files_created", "Files created"),
    ("files_modified", "Files modified"),
    ("commits_made", "Commits made"),
    ("next_step", "Next step"),
    ("blockers", "Blocked by"),
];

/// The text that stands in front of the task when a subagent is dispatched again.
pub fn brief(checkpoint: &SubCheckpoint) -> String {
    let mut lines = vec![
        format!(
            "An earlier run of you, subagent `{}` of wave `{}`, was cut off. Its last checkpoint, of {}:",
            checkpoint.sub, checkpoint.wave, checkpoint.at
        ),
        String::new(),
    ];
    for (key, name) in LINES {
        let said = checkpoint.list(key);
        let said = if said.is_empty() {
            "(not said)".to_owned()
        } else {
            one_line(&said.join(", "))
        };
        lines.push(format!("- {name}: {said}"));
    }
    let others = checkpoint
        .payload
        .iter()
        .filter(|(key, _)| LINES.iter().all(|(known, _)| known != key));
    lines.extend(others.map(|(key, value)| format!("- {}: {}", one_line(key), one_line(&value.to_string()))));
    lines.extend([
        String::new(),
        "Do this in order:".to_owned(),
        "1. Verify that the commits above are there and hold what they should (`git log`, `git show`).".to_owned(),
        "2. Look at the files above; what is not committed may be incomplete.".to_owned(),
        "3. Go on from the next step. Do not start from scratch. If you have to leave that path, say why in the \
         commit message."
            .to_owned(),
    ]);
    lines.join("\n") + "\n"
}

fn one_line(text: &str) -> String {
    escaped(&text.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_says_all_that_was_kept_and_the_order_of_work() {
        let at = "2026-11-30T20:02:00Z".parse().unwrap();
        let payload = r#"{"tool_use_count":14,"last_action":"wrote\nit","commits_made":["abc","def"],
            "next_step":"run the tests","mood":{"x":1}}"#;
        let (wave, sub) = ("7".parse().unwrap(), "A1".parse().unwrap());
        let text = brief(&SubCheckpoint::new(wave, sub, at, payload).unwrap());
        for part in [
            "subagent `A1` of wave `7`",
            "- Tool uses so far: 14\n",
            "- Last finished: wrote it\n",
            "- Files created: (not said)\n",
            "- Commits made: abc, def\n",
            "- Next step: run the tests\n",
            "- Blocked by: (not said)\n",
            "- mood: {\"x\":1}\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        let verify = text.find("Verify that the commits").unwrap();
        assert!(
            verify
                < text
                    .find("Go on from the next step. Do not start from scratch")
                    .unwrap()
        );
    }
}
