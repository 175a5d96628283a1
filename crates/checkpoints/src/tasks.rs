//! Reads the boxes of TASKS.md.

/// Whether a list of tasks has boxes and every one of them is ticked.
pub fn all_ticked(tasks: &str) -> bool {
    let mut ticked = 0;
    let mut fenced = false;
    for line in tasks.lines().map(str::trim_start) {
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
        let Some(item) = item.or_else(numbered).filter(|_| !fenced) else {
            continue;
        };
        match item.trim_start().get(..3) {
            Some("[ ]") => return false,
            Some("[x]" | "[X]") => ticked += 1,
            Some(_) | None => {}
        }
    }
    ticked > 0
}

#[cfg(test)]
mod tests {
    use super::all_ticked;

    #[test]
    fn boxes_count_and_nothing_else() {
        assert!(all_ticked("# T\n- [x] a\n  * [X] b\n1. [x] c"));
        assert!(!all_ticked("- [x] a\n- [ ] b"));
        assert!(!all_ticked("no boxes"));
        assert!(!all_ticked(""));
        assert!(all_ticked("- [x] a\n```\n- [ ] an example\n```"));
    }
}
