use super::*;

fn calm() -> Situation {
    Situation {
        stage: Stage::Building,
        modes: [GateMode::Fast, GateMode::Full, GateMode::Merge]
            .map(|mode| (mode, view_of(Freshness::Current, Some(GateOverall::Pass))))
            .into(),
        stage_agents: BTreeSet::new(),
        validity: Validity::Valid,
        violations: BTreeSet::new(),
        parked: None,
        claim: false,
        has_content: true,
        last: Some(Classification::ProgressApplied),
        invalid_outputs: 0,
        max_failures: 3,
        no_new_work: 0,
        gate_reruns: 0,
        max_gate_reruns: 3,
        gate_repairs: 0,
        max_gate_repairs: 3,
        plan_update_required: false,
        tasks_name_forbidden: false,
        failed_twice: false,
    }
}

fn view_of(freshness: Freshness, overall: Option<GateOverall>) -> ModeView {
    ModeView { freshness, overall }
}

fn with(change: impl FnOnce(&mut Situation)) -> Decision {
    let mut situation = calm();
    change(&mut situation);
    reconcile(&situation)
}

fn fast(at: &mut Situation, freshness: Freshness, overall: Option<GateOverall>) {
    at.modes.insert(GateMode::Fast, view_of(freshness, overall));
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is one table")]
fn the_table_row_by_row() {
    use Disposition as D;
    use Freshness::{Current, Missing, Stale, Unknown};
    use GateOverall::{Error, Fail, Pass};
    type Change = fn(&mut Situation);
    let stale_fail: Change = |at| fast(at, Stale, Some(Fail));
    let rows: Vec<(u32, Change, D, Next)> = vec![
        (
            1,
            |at| at.parked = Some((By::Operator, ParkCode::Operator)),
            D::BlockedOther,
            Next::Stay,
        ),
        (
            2,
            |at| at.validity = Validity::Invalid,
            D::BlockedCheckpointInvalid,
            Next::Park(ParkCode::CheckpointInvalid),
        ),
        (
            3,
            |at| {
                at.last = Some(Classification::ProviderOutputInvalid);
                at.invalid_outputs = 3;
            },
            D::BlockedProviderFailure,
            Next::Park(ParkCode::ProviderFailure),
        ),
        (
            4,
            |at| fast(at, Unknown, Some(Pass)),
            D::BlockedStaleEvidence,
            Next::Park(ParkCode::StaleEvidence),
        ),
        (
            4,
            |at| at.validity = Validity::Unknown,
            D::BlockedStaleEvidence,
            Next::Park(ParkCode::StaleEvidence),
        ),
        (
            5,
            |at| {
                at.parked = Some((By::Podd, ParkCode::GateFailed));
                fast(at, Stale, Some(Fail));
            },
            D::BlockedStaleEvidence,
            Next::Stay,
        ),
        (
            6,
            |at| at.parked = Some((By::Podd, ParkCode::GateFailed)),
            D::BlockedOther,
            Next::Stay,
        ),
        (
            7,
            |at| {
                at.gate_reruns = 3;
                fast(at, Stale, Some(Pass));
            },
            D::BlockedStaleEvidence,
            Next::Park(ParkCode::StaleEvidence),
        ),
        (
            8,
            |at| {
                at.has_content = false;
                fast(at, Missing, None);
            },
            D::RetryBuild,
            Next::Wake,
        ),
        (
            9,
            |at| fast(at, Stale, Some(Pass)),
            D::RerunFastGate,
            Next::Gate(GateMode::Fast),
        ),
        (9, stale_fail, D::RerunFastGate, Next::Gate(GateMode::Fast)),
        (
            9,
            |at| fast(at, Missing, None),
            D::RerunFastGate,
            Next::Gate(GateMode::Fast),
        ),
        (
            9,
            |at| {
                at.has_content = false;
                at.claim = true;
                fast(at, Missing, None);
            },
            D::RerunFastGate,
            Next::Gate(GateMode::Fast),
        ),
        (
            9,
            |at| {
                at.last = Some(Classification::NoNewWork);
                at.no_new_work = 9;
                fast(at, Stale, Some(Fail));
            },
            D::RerunFastGate,
            Next::Gate(GateMode::Fast),
        ),
        (
            10,
            |at| fast(at, Current, Some(Error)),
            D::BlockedOther,
            Next::Park(ParkCode::GateError),
        ),
        (11, |at| fast(at, Current, Some(Fail)), D::RetryBuild, Next::Wake),
        (
            12,
            |at| {
                at.gate_repairs = 3;
                fast(at, Current, Some(Fail));
            },
            D::BlockedOther,
            Next::Park(ParkCode::GateFailed),
        ),
        (
            13,
            |at| {
                at.last = Some(Classification::ProviderOutputInvalid);
                at.invalid_outputs = 1;
                at.claim = true;
            },
            D::RetryBuild,
            Next::Wake,
        ),
        (
            14,
            |at| {
                at.claim = true;
                at.modes.insert(GateMode::Full, view_of(Missing, None));
            },
            D::RerunFullGate,
            Next::Gate(GateMode::Full),
        ),
        (
            15,
            |at| {
                at.claim = true;
                at.stage = Stage::ReadyToMerge;
            },
            D::Converged,
            Next::Done,
        ),
        (
            16,
            |at| at.no_new_work = 3,
            D::BlockedOther,
            Next::Park(ParkCode::NoNewWork),
        ),
        (17, |_| {}, D::RetryBuild, Next::Wake),
        (17, |at| at.stage = Stage::Qa, D::RetryQa, Next::Wake),
    ];
    for (row, change, disposition, next) in rows {
        let decision = with(change);
        assert_eq!(
            (decision.disposition, decision.next),
            (disposition, next),
            "row {row}: {decision:?}"
        );
        assert_eq!(decision.plan, PlanDecision::Unchanged, "row {row}");
    }
    assert!(with(|at| fast(at, Current, Some(Fail))).repairs && !with(|_| {}).repairs);
}

#[test]
fn the_plan_changes_for_its_own_reasons() {
    use PlanDecision::{Unchanged, UpdateRequired};
    let plan = |change: fn(&mut Situation)| with(change).plan;
    assert_eq!(
        plan(|at| {
            at.validity = Validity::Invalid;
            at.tasks_name_forbidden = true;
        }),
        UpdateRequired
    );
    assert_eq!(plan(|at| at.tasks_name_forbidden = true), Unchanged);
    for repairs in [0, 3] {
        let decision = with(|at| {
            at.failed_twice = true;
            at.gate_repairs = repairs;
            fast(at, Freshness::Current, Some(GateOverall::Fail));
        });
        assert_eq!(decision.plan, UpdateRequired);
    }
    let asked = with(|at| {
        at.plan_update_required = true;
        at.claim = true;
        at.stage = Stage::ReadyToMerge;
    });
    assert_eq!(
        (asked.plan, asked.disposition),
        (UpdateRequired, Disposition::RetryBuild)
    );
    assert!(asked.reasons.contains(&"plan_update_required".to_owned()));
}

#[test]
fn a_stage_without_a_gate_is_passed_at_the_claim_and_an_agent_of_its_own_ends_the_claim() {
    let only_fast = |at: &mut Situation| {
        at.modes.retain(|mode, _| *mode == GateMode::Fast);
        at.claim = true;
    };
    let decision = with(only_fast);
    assert_eq!((decision.next, decision.stage), (Next::Done, Stage::ReadyToMerge));
    let decision = with(|at| {
        only_fast(at);
        at.stage_agents.insert(Stage::Qa);
    });
    assert_eq!(
        (decision.next, decision.stage, decision.claim),
        (Next::Wake, Stage::Qa, false)
    );
    assert_eq!(decision.disposition, Disposition::RetryQa);
}

#[test]
fn the_last_stage_asks_for_the_earliest_gate_that_does_not_agree() {
    let decision = with(|at| {
        at.stage = Stage::ReadyToMerge;
        at.claim = true;
        at.modes
            .insert(GateMode::Full, view_of(Freshness::Stale, Some(GateOverall::Pass)));
        at.modes
            .insert(GateMode::Merge, view_of(Freshness::Missing, None));
    });
    assert_eq!(decision.next, Next::Gate(GateMode::Full));
    assert_eq!(
        decision.reasons,
        ["full_gate_evidence_stale", "merge_gate_evidence_missing"]
    );
}

/// Everything that a situation can be, as far as the rows ask for it.
fn every(mut check: impl FnMut(&Situation, &Decision)) {
    let views: Vec<ModeView> = Freshness::ALL
        .iter()
        .flat_map(|freshness| {
            let overall = GateOverall::ALL
                .iter()
                .map(|overall| Some(*overall))
                .chain([None]);
            overall.map(|overall| view_of(*freshness, overall))
        })
        .collect();
    let parked = [
        None,
        Some((By::Operator, ParkCode::Operator)),
        Some((By::Podd, ParkCode::GateFailed)),
    ];
    let last = [None]
        .into_iter()
        .chain(Classification::ALL.iter().map(|one| Some(*one)));
    let last: Vec<_> = last.collect();
    let modes: [&[GateMode]; 3] = [
        &[GateMode::Fast],
        &[GateMode::Full, GateMode::Merge],
        GateMode::ALL,
    ];
    for stage in Stage::ALL {
        for defined in modes {
            for view in &views {
                for other in [
                    ModeView::UNDEFINED,
                    view_of(Freshness::Stale, Some(GateOverall::Pass)),
                ] {
                    for validity in Validity::ALL {
                        for parked in parked {
                            for last in &last {
                                for bits in 0..64_u32 {
                                    let bit = |at: u32| bits >> at & 1 == 1;
                                    let mut situation = calm();
                                    situation.stage = *stage;
                                    situation.modes = defined
                                        .iter()
                                        .enumerate()
                                        .map(|(at, mode)| (*mode, if at == 0 { *view } else { other }))
                                        .collect();
                                    situation.validity = *validity;
                                    situation.parked = parked;
                                    situation.last = *last;
                                    situation.claim = bit(0);
                                    situation.has_content = bit(1);
                                    situation.plan_update_required = bit(2);
                                    let limit = if bit(3) { 3 } else { 0 };
                                    situation.invalid_outputs = limit;
                                    situation.no_new_work = limit;
                                    situation.gate_reruns = if bit(4) { 3 } else { 0 };
                                    situation.gate_repairs = if bit(5) { 3 } else { 0 };
                                    check(&situation, &reconcile(&situation));
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn over_every_situation_there_is_a_decision_and_none_is_too_good() {
    let mut count = 0;
    every(|at, decision| {
        count += 1;
        let agrees = |mode: &GateMode| at.modes.get(mode).is_none_or(|view| view.agrees());
        if decision.disposition == Disposition::Converged {
            assert!(
                at.parked.is_none() && at.validity == Validity::Valid && at.claim,
                "{at:?}"
            );
            assert!(
                GateMode::ALL.iter().all(agrees) && !at.plan_update_required,
                "{at:?}"
            );
        }
        assert_eq!(
            decision.next == Next::Done,
            decision.disposition == Disposition::Converged,
            "{at:?}"
        );
        let stays = matches!(decision.next, Next::Park(_) | Next::Stay);
        assert_eq!(decision.disposition.is_blocked(), stays, "{at:?}: {decision:?}");
        if at.parked.is_some() {
            assert!(decision.disposition.is_blocked(), "{at:?}: {decision:?}");
        }
        if decision.stage != at.stage {
            // Nobody advances on evidence that is not about this content.
            assert!(
                agrees(&at.stage.mode()) && at.claim && at.parked.is_none(),
                "{at:?}: {decision:?}"
            );
        }
        if let Next::Gate(mode) = decision.next {
            assert!(
                at.modes.contains_key(&mode) && at.validity == Validity::Valid,
                "{at:?}: {decision:?}"
            );
        }
        if decision.disposition.is_blocked() {
            assert!(!decision.reasons.is_empty(), "{at:?}: {decision:?}");
        }
        let required = at.plan_update_required;
        assert!(
            !required || decision.plan == PlanDecision::UpdateRequired,
            "{at:?}"
        );
    });
    assert_eq!(count, 3 * 3 * 16 * 2 * 3 * 3 * 5 * 64);
}
