//! `podctl wave judge`: what a subagent's report is worth.

use pod_checkpoints::Repository;
use pod_core::{ClaimedCommit, Expected, JudgeVerdict, Judgement, Report, judge};

use super::LOOK;
use crate::args::Judge;
use crate::checkpoint::open;
use crate::context::Source;
use crate::fault::{Ended, Exit, Fault};
use crate::ui;

const CANNOT: &str = "cannot judge the report";

/// Judges a report.
pub(crate) fn run(args: &Judge) -> Ended {
    let wave = open(args.one.wave.clone())?;
    let text = Source::of_file(&args.report).read_lossily("the report")?;
    let report = Report::parse(&text);
    // What is no checkpoint, or no dispatch, is said and not believed.
    let sub = &args.one.sub;
    let checkpoint = wave.load(sub).unwrap_or_else(|why| {
        ui::note(&format!("the checkpoint of `{sub}` is skipped: {why}"));
        None
    });
    let dispatch = wave.dispatched(sub).unwrap_or_else(|why| {
        ui::note(&format!("the dispatch of `{sub}` is skipped: {why}"));
        None
    });
    let dispatch = dispatch.as_ref();
    let noted = dispatch.and_then(|dispatch| dispatch.branch.clone());
    let expected = Expected {
        since: args.since.or(dispatch.map(|dispatch| dispatch.at)),
        branch: args.branch.clone().or(noted).or_else(|| report.branch.clone()),
    };
    let commit = match &report.commit {
        None => ClaimedCommit::None,
        Some(commit) => {
            let repository =
                Repository::find(wave.root(), &LOOK).map_err(|error| Fault::of(CANNOT, &error))?;
            match repository {
                Some(repository) => repository
                    .claimed(commit, expected.branch.as_deref())
                    .map_err(|error| Fault::of(CANNOT, &error))?,
                None => ClaimedCommit::NotFound(format!(
                    "`{}` is no git repository, so nothing shows the commit",
                    pod_disk::shown(wave.root())
                )),
            }
        }
    };
    let judgement = judge(&report, checkpoint.as_ref(), &expected, &commit);
    if args.format.json {
        ui::json(&judgement)?;
    } else {
        ui::answer(&page(&judgement))?;
    }
    Ok(match judgement.verdict {
        JudgeVerdict::Done => Exit::Done,
        JudgeVerdict::NeedsContext
        | JudgeVerdict::Blocked
        | JudgeVerdict::Truncated
        | JudgeVerdict::Violation => Exit::No,
    })
}

fn page(judgement: &Judgement) -> String {
    let lines = [
        ("status", judgement.status.as_ref()),
        ("missing", judgement.missing.as_ref()),
        ("reason", judgement.reason.as_ref()),
        ("commit", judgement.commit.as_ref()),
    ];
    let mut text = format!("{}\n", judgement.verdict);
    let said = lines.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let warnings = judgement.warnings.iter().map(|warning| ("warning", warning));
    for (name, value) in said.chain(warnings) {
        text.push_str(&format!("  {name:<8} {}\n", pod_core::quoted(value, 400)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_comes_first_and_what_is_known_below() {
        let report = Report::parse("Status: DONE");
        let judgement = judge(&report, None, &Expected::default(), &ClaimedCommit::None);
        assert_eq!(
            page(&judgement),
            "needs_context\n  status   DONE\n  missing  commit-before-report\n  reason   the report names no commit\n"
        );
    }
}
