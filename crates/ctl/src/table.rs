//! Tables for people: columns as wide as they must be, the last one cut to fit.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Between two columns.
const GAP: usize = 2;

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self {
            rows: vec![heading.iter().map(|&word| word.to_owned()).collect()],
        }
    }

    /// Adds a row. Control characters in it are shown and do not act.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(
            cells
                .into_iter()
                .map(|cell| pod_core::quoted(&cell, 4096))
                .collect(),
        );
    }

    /// Draws it, cutting the last column where the whole would be wider than `width`.
    pub(crate) fn draw(&self, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                if column + 1 == columns {
                    let room = width.map(|width| width.saturating_sub(line.width()).max(8));
                    line.push_str(&room.map_or_else(|| cell.clone(), |room| cut(cell, room)));
                } else {
                    line.push_str(cell);
                    let pad = widths[column] - cell.width() + GAP;
                    line.extend(std::iter::repeat_n(' ', pad));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The text in at most so many cells of a terminal, its end marked if it was cut.
pub(crate) fn cut(text: &str, cells: usize) -> String {
    if text.width() <= cells {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > cells {
            break;
        }
        used += wide;
        kept.push(c);
    }
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "STATE", "GOAL"]);
        table.row(["a".into(), "idle".into(), "日本語のとても長い目標".into()]);
        table.row(["long-id".into(), "parked".into(), "short\x1b[2J\n".into()]);
        table
    }

    #[test]
    fn a_table_fits_its_terminal() {
        assert_eq!(
            table().draw(Some(30)),
            "ID       STATE   GOAL\n\
             a        idle    日本語のとて…\n\
             long-id  parked  short\\x1b[2J…\n"
        );
        for line in table().draw(Some(40)).lines() {
            assert!(line.width() <= 40, "{line}");
        }
    }

    #[test]
    fn elsewhere_nothing_is_cut() {
        assert!(table().draw(None).contains("日本語のとても長い目標\n"));
    }

    #[test]
    fn a_cut_is_marked_and_wide_letters_count_twice() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
    }
}
