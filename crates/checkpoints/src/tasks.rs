//! Reads the boxes of TASKS.md.

/// One box: whether it is ticked, and its text.
fn boxes(tasks: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut fenced = false;
    tasks.lines().map(str::trim_start).filter_map(move |line| {
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        }
        let item = ["- ", "* ", "+ "]
            .iter()
            .find_map(|bullet| line.strip_prefix(bullet));
        let numbered = || {
            line.split_once(". ")
                .filter(|(number, _)| number.parse::<u32>().is_ok())
                .map(|(_, item)| item)
        };
        let item = item.or_else(numbered).filter(|_| !fenced)?.trim_start();
        match item.get(..3)? {
            "[ ]" => Some((false, item[3..].trim())),
            "[x]" | "[X]" => Some((true, item[3..].trim())),
            _ => None,
        }
    })
}

/// Whether a list of tasks has boxes and every one of them is ticked.
pub fn all_ticked(tasks: &str) -> bool {
    let mut boxes = boxes(tasks).map(|(ticked, _)| ticked).peekable();
    boxes.peek().is_some() && boxes.all(|ticked| ticked)
}

/// The tasks that are open, from the top.
pub fn open_tasks(tasks: &str) -> Vec<String> {
    let open = boxes(tasks).filter(|(ticked, _)| !ticked);
    open.map(|(_, text)| text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{all_ticked, open_tasks};

    #[test]
    fn boxes_count_and_nothing_else() {
        assert!(all_ticked("# T\n- [x] a\n  * [X] b\n1. [x] c"));
        assert!(!all_ticked("- [x] a\n- [ ] b"));
        assert!(!all_ticked("no boxes"));
        assert!(!all_ticked(""));
        assert_eq!(open_tasks("- [x] a\n- [ ]  b c \n2. [ ] d"), ["b c", "d"]);
        assert!(all_ticked("- [x] a\n```\n- [ ] an example\n```"));
    }
}
