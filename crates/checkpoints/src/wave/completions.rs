//! The head of a wave's STATE.md, which people write in as well: read tolerantly, changed in one place.

use std::collections::BTreeSet;
use std::ops::Range;

use pod_core::{SubId, WaveId, split_front_matter, yaml_scalar};
use serde::Deserialize;

const KEY: &str = "completed_subs:";

/// Whose work somebody took, as far as the text says.
pub(super) fn completed(text: &str) -> BTreeSet<SubId> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        completed_subs: Option<Vec<String>>,
    }
    let (head, _) = head_and_body(text);
    let read: Option<Head> = serde_saphyr::from_str(head).ok();
    let names = match read {
        Some(head) => head.completed_subs.unwrap_or_default(),
        // A head that is no YAML, by a colon too many further up, still has its list.
        None => by_line(head),
    };
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// The text with these completions, and everything else as it was.
pub(super) fn with_completed(text: &str, wave: &WaveId, completed: &BTreeSet<SubId>) -> String {
    let items: Vec<String> = completed
        .iter()
        .map(|sub| format!("  - {}\n", yaml_scalar(sub.as_str())))
        .collect();
    let list = format!("{KEY}\n{}", items.concat());
    if text.trim().is_empty() {
        return format!(
            "---\nschema_version: 1\nwave_id: {}\n{list}---\n\n# Wave {wave}\n\nThe head of this file lists the \
             subagents whose work was taken. `podctl wave status {wave}` shows the others.\n",
            yaml_scalar(wave.as_str())
        );
    }
    let (head, body) = head_and_body(text);
    let ends = if head.is_empty() || head.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let head = match blocks(head).as_slice() {
        [] => format!("{head}{ends}{list}"),
        [first, others @ ..] => {
            let mut kept = format!("{}{list}", &head[..first.start]);
            let mut at = first.end;
            for other in others {
                kept.push_str(&head[at..other.start]);
                at = other.end;
            }
            kept + &head[at..]
        }
    };
    format!("---\n{head}---\n{body}")
}

/// The head and what stands below it. One without an end goes as far as the first blank line.
fn head_and_body(text: &str) -> (&str, &str) {
    match split_front_matter(text) {
        (Some(head), body) => (head, body),
        (None, text) => {
            let Some(rest) = text.strip_prefix("---").and_then(|rest| {
                let line = rest.find('\n')?;
                rest[..line].trim().is_empty().then(|| &rest[line + 1..])
            }) else {
                return ("", text);
            };
            let mut at = 0;
            for line in rest.split_inclusive('\n') {
                if line.trim().is_empty() {
                    break;
                }
                at += line.len();
            }
            rest.split_at(at)
        }
    }
}

/// Where the lists stand in a head: each its key and all lines that belong to it. Blank lines and comments between
/// items do.
fn blocks(head: &str) -> Vec<Range<usize>> {
    let mut at = 0;
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open: Option<bool> = None;
    for line in head.split_inclusive('\n') {
        let next = at + line.len();
        let text = line.trim();
        match open {
            _ if line.starts_with(KEY) => {
                found.push(at..next);
                open = Some(line.contains('[') && !line.contains(']'));
            }
            Some(bracket) if bracket || line.starts_with([' ', '\t', '-']) && !text.is_empty() => {
                if let Some(range) = found.last_mut() {
                    range.end = next;
                }
                open = Some(bracket && !line.contains(']'));
            }
            Some(_) if text.is_empty() || text.starts_with('#') => {}
            Some(_) => open = None,
            None => {}
        }
        at = next;
    }
    found
}

fn by_line(head: &str) -> Vec<String> {
    let blocks = blocks(head);
    let lines = blocks
        .iter()
        .flat_map(|block| head[block.clone()][KEY.len()..].lines());
    let items = lines.flat_map(|line| {
        let line = line.split(" #").next().unwrap_or_default().trim();
        match line.strip_prefix("- ") {
            // `- a: done` is about a.
            Some(item) => vec![item.split_whitespace().next().unwrap_or_default()],
            None if line.starts_with('#') => Vec::new(),
            None => line.split(['[', ']', ',']).map(str::trim).collect(),
        }
    });
    let words = items.map(|word| word.trim_matches(['"', '\'', ':']).to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subs(names: &[&str]) -> BTreeSet<SubId> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn a_list_is_found_in_whatever_form_a_person_writes_it() {
        for text in [
            "---\ncompleted_subs:\n  - a\n  - \"7\"\n---\nbody",
            "---\ncompleted_subs: [a, 7]\n---\n",
            "---\r\ncompleted_subs:\r\n- a\r\n- '7'\r\nother: x\r\n---\r\n",
            "\u{feff}---\ncompleted_subs: [a,\n  7]\n---\n",
            "---\ntitle: a colon: too many\ncompleted_subs:\n  - a # taken\n  - 7\n---\n",
            "---\ncompleted_subs: [a, 7]\n\nno end\n",
            "---\ntitle: x: y\ncompleted_subs:\n  - a\n\n# a word\n  - 7\nmore: z\n---\n",
            "---\ncompleted_subs: [a]\ncompleted_subs:\n  - 7\n---\n",
            "---\ncompleted_subs:\n  - a: done\n  - 7: done\n---\n",
        ] {
            assert_eq!(completed(text), subs(&["a", "7"]), "{text:?}");
        }
        for none in [
            "",
            "completed_subs: [a]",
            "---\ncompleted_subs:\n---\n",
            "---\nx: [a]\n---\n",
        ] {
            assert_eq!(completed(none), subs(&[]), "{none:?}");
        }
        assert_eq!(completed("---\ncompleted_subs: ['../x', b]\n---\n"), subs(&["b"]));
    }

    #[test]
    fn what_is_written_reads_back_and_the_rest_stays() {
        let wave: WaveId = "w".parse().unwrap();
        let all = subs(&["a", "true", "7"]);
        for (text, kept) in [
            ("", "# Wave w"),
            ("# Notes\n", "# Notes\n"),
            (
                "---\ntitle: a: b\ncompleted_subs: [a,\n 7]\nmore: x # y\n---\n\n# N\n",
                "title: a: b\n",
            ),
            (
                "---\r\ncompleted_subs:\r\n  - a\r\nlast: z\r\n---\r\nbody\r\n",
                "last: z\r\n",
            ),
            ("---\ncompleted_subs: [a]\n\nno end\n", "\n\nno end\n"),
        ] {
            let written = with_completed(text, &wave, &all);
            assert_eq!(completed(&written), all, "{written}");
            assert!(written.contains(kept), "{written}");
            assert_eq!(with_completed(&written, &wave, &all), written);
        }
    }
}
