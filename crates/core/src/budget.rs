//! Wake-ups, tokens and money that a pod may use in all.

use crate::{PodRecord, Policy, Usage};

/// The budget that is used up, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetLine(pub String);

/// Says which budget is used up, `running` being what a wake-up that still runs has used.
///
/// Unknown usage uses nothing up. Wake-ups that only ran into a limit are not counted.
pub fn budget_exhausted(record: &PodRecord, policy: &Policy, running: Usage) -> Option<BudgetLine> {
    let counted = record.wake_up_count.saturating_sub(record.held_wake_ups);
    if counted >= policy.max_wake_ups && record.wake().is_none() {
        return Some(BudgetLine(format!(
            "{counted} wake-ups of maxWakeUps {}",
            policy.max_wake_ups
        )));
    }
    let used = record.usage_total.unwrap_or_default().plus(running);
    if let (Some(limit), Some(tokens)) = (policy.max_tokens, used.tokens())
        && tokens >= limit
    {
        return Some(BudgetLine(format!("{tokens} tokens of maxTokens {limit}")));
    }
    if let (Some(limit), Some(cost)) = (policy.max_cost_usd, used.cost_usd)
        && cost >= limit
    {
        return Some(BudgetLine(format!("{cost:.4} USD of maxCostUsd {limit}")));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::tests::idle;

    #[test]
    fn each_budget_counts_what_it_names() {
        let mut record = idle();
        let mut policy = Policy::of_layers(&[]);
        policy.max_wake_ups = 3;
        record.wake_up_count = 4;
        record.held_wake_ups = 2;
        assert_eq!(budget_exhausted(&record, &policy, Usage::default()), None);
        record.held_wake_ups = 1;
        assert!(budget_exhausted(&record, &policy, Usage::default()).is_some());
        record.wake_up_count = 1;
        policy.max_tokens = Some(100);
        record.usage_total = Some(Usage {
            input_tokens: Some(40),
            output_tokens: Some(40),
            cache_read_tokens: Some(900),
            cost_usd: None,
        });
        assert_eq!(budget_exhausted(&record, &policy, Usage::default()), None);
        let running = Usage {
            output_tokens: Some(20),
            ..Usage::default()
        };
        assert!(budget_exhausted(&record, &policy, running).is_some());
        policy.max_tokens = None;
        policy.max_cost_usd = Some(0.5);
        assert_eq!(
            budget_exhausted(&record, &policy, running),
            None,
            "an unknown cost uses nothing up"
        );
    }
}
