//! What a subagent's report is worth.
//!
//! A report is prose of a model. What counts is its last `Status:` line and the commit that it names, and the
//! commit counts only if git has it.

use std::time::Duration;

use serde::Serialize;

use super::SubCheckpoint;
use crate::outcome::words;
use crate::{Timestamp, quoted};

/// Clocks of one machine, read a moment apart and cut to seconds by git, may disagree by so much.
const TOLERANCE: Duration = Duration::from_secs(1);

/// What is missing where a report says that the work is done and no commit shows it.
const COMMIT_BEFORE_REPORT: &str = "commit-before-report";

words! {
    /// What follows from a report.
    JudgeVerdict {
        /// The work is done and committed.
        Done = "done",
        /// Somebody has to answer something first.
        NeedsContext = "needs_context",
        /// It cannot go on.
        Blocked = "blocked",
        /// The report has no end: the subagent was cut off.
        Truncated = "truncated",
        /// The report says a status that there is none of.
        Violation = "violation",
    }
}

/// The lines of a report that count. Of each the last one does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// `Status:`, in capitals.
    pub status: Option<String>,
    /// `Commit:`
    pub commit: Option<String>,
    /// `Branch:`
    pub branch: Option<String>,
    /// `Missing:`
    pub missing: Option<String>,
    /// `Reason:`
    pub reason: Option<String>,
}

impl Report {
    /// Finds the lines. Markdown around name and value is forgiven, and so is the name's letter case.
    pub fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            let line = line
                .trim()
                .trim_start_matches(['#', '*', '-', '>', '_', '`', ' ', '\u{feff}']);
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim().trim_matches(['*', '_', '`', ' ']).to_owned();
            let field = match name
                .trim_end_matches(['*', '_', '`', ' '])
                .to_ascii_lowercase()
                .as_str()
            {
                "status" => {
                    let word = value.split_whitespace().next().unwrap_or_default();
                    let word = word.trim_end_matches(['.', ',', ';', '*', '`', '!']);
                    report.status = Some(word.to_ascii_uppercase());
                    continue;
                }
                "commit" => &mut report.commit,
                "branch" => &mut report.branch,
                "missing" => &mut report.missing,
                "reason" => &mut report.reason,
                _ => continue,
            };
            *field = Some(value).filter(|value| !value.is_empty());
        }
        let word = |text: Option<String>| {
            text.and_then(|text| {
                let word = text.split_whitespace().next()?;
                let word = word.split("](").next()?;
                let around = ['`', '(', ')', '[', ']', '<', '>', '.', ',', ';', '!', '"', '\''];
                Some(word.trim_matches(around).to_owned())
            })
        };
        report.commit = word(report.commit);
        report.branch = word(report.branch);
        report
    }
}

/// What a commit has to fulfil.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expected {
    /// It is no older than this; `None` where nobody noted the dispatch.
    pub since: Option<Timestamp>,
    /// It is on this branch; `None` where nobody named one.
    pub branch: Option<String>,
}

/// Whether a commit is on the branch where it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchCheck {
    /// No branch was named.
    Unchecked,
    /// It is.
    On,
    /// It is not.
    NotOn,
    /// There is no such branch.
    NoSuchBranch,
}

/// A commit as git knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitFacts {
    /// Its whole id.
    pub id: String,
    /// When it was committed.
    pub committed_at: Timestamp,
    /// Its message.
    pub message: String,
    /// The paths that it changes.
    pub files: Vec<String>,
    /// Whether it is where it has to be.
    pub branch: BranchCheck,
}

/// The commit that a report claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedCommit {
    /// It names none.
    None,
    /// Git does not have the one that it names; in words.
    NotFound(String),
    /// Git has it.
    Found(CommitFacts),
}

/// What a report comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// What follows.
    pub verdict: JudgeVerdict,
    /// The status that the report says.
    pub status: Option<String>,
    /// What is missing.
    pub missing: Option<String>,
    /// Why, in words.
    pub reason: Option<String>,
    /// The commit, by its whole id.
    pub commit: Option<String>,
    /// What a person should know all the same.
    pub warnings: Vec<String>,
}

/// Judges a report.
pub fn judge(
    report: &Report,
    checkpoint: Option<&SubCheckpoint>,
    expected: &Expected,
    commit: &ClaimedCommit,
) -> Judgement {
    let mut judgement = Judgement {
        verdict: JudgeVerdict::Truncated,
        status: report.status.clone(),
        missing: report.missing.clone(),
        reason: report.reason.clone(),
        commit: match commit {
            ClaimedCommit::Found(found) => Some(found.id.clone()),
            ClaimedCommit::None | ClaimedCommit::NotFound(_) => None,
        },
        warnings: Vec::new(),
    };
    match report.status.as_deref() {
        None => match checkpoint.and_then(SubCheckpoint::blockers) {
            Some(blockers) => {
                judgement.verdict = JudgeVerdict::NeedsContext;
                judgement.reason = Some(blockers);
            }
            None => {
                judgement.verdict = JudgeVerdict::Truncated;
                judgement.reason = Some("the report has no `Status:` line".to_owned());
            }
        },
        Some("DONE" | "DONE_WITH_CONCERNS") => done(&mut judgement, checkpoint, expected, commit),
        Some("NEEDS_CONTEXT") => judgement.verdict = JudgeVerdict::NeedsContext,
        Some("BLOCKED") => judgement.verdict = JudgeVerdict::Blocked,
        Some(other) => {
            judgement.verdict = JudgeVerdict::Violation;
            judgement.reason = Some(format!(
                "`{}` is none of DONE, DONE_WITH_CONCERNS, NEEDS_CONTEXT, BLOCKED",
                quoted(other, 40)
            ));
        }
    }
    judgement
}

fn done(
    judgement: &mut Judgement,
    checkpoint: Option<&SubCheckpoint>,
    expected: &Expected,
    commit: &ClaimedCommit,
) {
    match shown(expected, commit) {
        Err(why) => {
            judgement.verdict = JudgeVerdict::NeedsContext;
            judgement.missing = Some(COMMIT_BEFORE_REPORT.to_owned());
            judgement.reason = Some(why);
        }
        Ok(found) => {
            judgement.verdict = JudgeVerdict::Done;
            if expected.since.is_none() {
                judgement
                    .warnings
                    .push("age unchecked: no dispatch was noted, and no `--since` was given".to_owned());
            }
            if found.branch == BranchCheck::Unchecked {
                judgement.warnings.push(
                    "branch unchecked: neither `--branch` nor the dispatch nor the report names one"
                        .to_owned(),
                );
            }
            judgement
                .warnings
                .extend(checkpoint.and_then(|checkpoint| divergence(checkpoint, found)));
        }
    }
}

/// The commit that shows the work, or why there is none.
fn shown<'a>(expected: &Expected, commit: &'a ClaimedCommit) -> Result<&'a CommitFacts, String> {
    let found = match commit {
        ClaimedCommit::None => return Err("the report names no commit".to_owned()),
        ClaimedCommit::NotFound(why) => return Err(why.clone()),
        ClaimedCommit::Found(found) => found,
    };
    if let Some(since) = expected.since
        && found.committed_at.plus(TOLERANCE) < since
    {
        return Err(format!(
            "commit {} of {} is older than the dispatch of {since}",
            found.id, found.committed_at
        ));
    }
    let branch = quoted(expected.branch.as_deref().unwrap_or_default(), 200);
    match found.branch {
        BranchCheck::Unchecked | BranchCheck::On => Ok(found),
        BranchCheck::NotOn => Err(format!("commit {} is not on branch `{branch}`", found.id)),
        BranchCheck::NoSuchBranch => Err(format!("there is no branch `{branch}`")),
    }
}

/// Whether a commit goes another way than the checkpoint said, and does not say so.
fn divergence(checkpoint: &SubCheckpoint, commit: &CommitFacts) -> Option<String> {
    let meant = checkpoint.list("files_modified");
    let plain = |path: &str| path.trim_start_matches("./").to_owned();
    let touches = |path: &String| commit.files.iter().any(|file| *file == plain(path));
    let message = commit.message.to_lowercase();
    let says = |path: &String| message.contains(&plain(path).to_lowercase());
    let explained = message.contains("diverg") || meant.iter().any(says);
    (!meant.is_empty() && !meant.iter().any(touches) && !explained).then(|| {
        format!(
            "divergence: commit {} touches none of the files that the checkpoint names ({}), and its message does \
             not say why",
            commit.id,
            quoted(&meant.join(", "), 200)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_millis(secs * 1000)
    }

    fn commit(secs: i64, branch: BranchCheck) -> ClaimedCommit {
        ClaimedCommit::Found(CommitFacts {
            id: "abc".into(),
            committed_at: at(secs),
            message: "Fix it".into(),
            files: vec!["src/a.rs".into()],
            branch,
        })
    }

    fn checkpoint(payload: &str) -> SubCheckpoint {
        SubCheckpoint::new("w".parse().unwrap(), "s".parse().unwrap(), at(0), payload).unwrap()
    }

    #[test]
    fn the_last_line_of_each_name_counts_and_markdown_is_forgiven() {
        let report = Report::parse(
            "Status: BLOCKED\ntext\n\u{feff}- **Status:** done_with_concerns.\n> Commit: `abc123` (the fix)\n\
             **Branch**: main\nReason:\nOther: x\nStatus update\n",
        );
        assert_eq!(
            report,
            Report {
                status: Some("DONE_WITH_CONCERNS".into()),
                commit: Some("abc123".into()),
                branch: Some("main".into()),
                missing: None,
                reason: None,
            }
        );
        for commit in [
            "abc1234.",
            "(abc1234)",
            "abc1234,",
            "[abc1234](http://x/y)",
            "`abc1234`!",
        ] {
            let report = Report::parse(&format!("Commit: {commit}\nBranch: main.\n"));
            assert_eq!(
                (report.commit.as_deref(), report.branch.as_deref()),
                (Some("abc1234"), Some("main")),
                "{commit}"
            );
        }
        assert_eq!(Report::parse("no status here\n"), Report::default());
    }

    #[test]
    fn the_table_of_verdicts() {
        use JudgeVerdict::{Blocked, Done, NeedsContext, Truncated, Violation};
        let (free, stuck) = (checkpoint("{}"), checkpoint(r#"{"blockers":"which key?"}"#));
        let missing = Some(COMMIT_BEFORE_REPORT);
        for (status, checkpoint, claimed, verdict, lacks) in [
            (Some("DONE"), &free, commit(100, BranchCheck::On), Done, None),
            (
                Some("DONE_WITH_CONCERNS"),
                &stuck,
                commit(99, BranchCheck::On),
                Done,
                None,
            ),
            (
                Some("DONE"),
                &free,
                commit(98, BranchCheck::On),
                NeedsContext,
                missing,
            ),
            (
                Some("DONE"),
                &free,
                commit(100, BranchCheck::NotOn),
                NeedsContext,
                missing,
            ),
            (
                Some("DONE"),
                &free,
                commit(100, BranchCheck::NoSuchBranch),
                NeedsContext,
                missing,
            ),
            (Some("DONE"), &free, ClaimedCommit::None, NeedsContext, missing),
            (
                Some("DONE"),
                &free,
                ClaimedCommit::NotFound("no".into()),
                NeedsContext,
                missing,
            ),
            (
                Some("NEEDS_CONTEXT"),
                &free,
                ClaimedCommit::None,
                NeedsContext,
                None,
            ),
            (Some("BLOCKED"), &free, ClaimedCommit::None, Blocked, None),
            (
                Some("FINISHED"),
                &free,
                commit(100, BranchCheck::On),
                Violation,
                None,
            ),
            (Some(""), &free, ClaimedCommit::None, Violation, None),
            (None, &free, commit(100, BranchCheck::On), Truncated, None),
            (None, &stuck, ClaimedCommit::None, NeedsContext, None),
        ] {
            let report = Report {
                status: status.map(str::to_owned),
                ..Report::default()
            };
            let expected = Expected {
                since: Some(at(100)),
                branch: Some("main".into()),
            };
            let judged = judge(&report, Some(checkpoint), &expected, &claimed);
            assert_eq!(
                (judged.verdict, judged.missing.as_deref()),
                (verdict, lacks),
                "{judged:?}"
            );
            assert!(judged.warnings.is_empty(), "{judged:?}");
        }
    }

    #[test]
    fn what_was_not_checked_and_what_went_another_way_is_said() {
        let done = Report::parse("Status: DONE\nCommit: abc");
        let unchecked = commit(1, BranchCheck::Unchecked);
        let warnings = |payload: &str, claimed: &ClaimedCommit| {
            judge(&done, Some(&checkpoint(payload)), &Expected::default(), claimed).warnings
        };
        assert_eq!(warnings("{}", &unchecked).len(), 2);
        let on = commit(1, BranchCheck::On);
        let diverged = |payload: &str, claimed: &ClaimedCommit| {
            warnings(payload, claimed)
                .iter()
                .any(|warning| warning.starts_with("divergence:"))
        };
        assert!(diverged(r#"{"files_modified":["src/b.rs"]}"#, &on));
        assert!(!diverged(r#"{"files_modified":["src/b.rs","./src/a.rs"]}"#, &on));
        assert!(!diverged(r#"{"files_modified":[]}"#, &on));
        let ClaimedCommit::Found(mut facts) = on else {
            unreachable!()
        };
        facts.message = "Fix it elsewhere: src/b.rs was right".into();
        assert!(!diverged(
            r#"{"files_modified":["src/b.rs"]}"#,
            &ClaimedCommit::Found(facts)
        ));
    }
}
