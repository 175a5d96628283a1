//! The domain of agents-pod: what a pod is, how a wake-up is judged, and what happens next.
//!
//! Everything here is a type or a pure function. Nothing reads a clock, a file, the environment or a
//! process (a lint holds this), so every verdict and every plan can be repeated from its inputs.

mod account;
mod adjudicate;
mod agent;
mod backoff;
mod budget;
mod checkpoint;
mod evidence;
mod gate;
mod handoff;
mod id;
mod layout;
mod lifecycle;
mod limit;
mod outcome;
mod plan;
mod policy;
mod record;
mod result;
mod retention;
mod review;
mod saved;
mod text;
mod time;
mod units;
mod wave;
mod world;

pub use account::{AccountHold, AccountLimits, AccountName};
pub use adjudicate::{Adjudication, adjudicate};
pub use agent::{AgentDefinition, AgentType, UnknownAgentType};
pub use backoff::{backoff, jittered};
pub use budget::{BudgetLine, budget_exhausted};
pub use checkpoint::{
    Checkpoint, CheckpointKind, Commit, Facts, QUOTE_LIMIT, is_complete, own_words, quote_checkpoint,
    split_front_matter, yaml_scalar,
};
pub use evidence::{
    ErrorClass, EventFacts, Evidence, ExitFacts, ExitStatus, FinalError, KilledBy, StartFailure, Stop,
    Terminal,
};
pub use gate::{
    Classification, Decision, DecisionEntry, DecisionLog, Disposition, Freshness, GateDefinitions,
    GateEvidence, GateMode, GateOverall, GateRun, GateState, LogPart, ModeView, Next, PatternError, Phase,
    PlanDecision, ReconciledTo, Scope, ScopeDefinition, Situation, Stage, StepDefinition, StepRecord,
    ValidationStatus, Validity, Violation, ViolationKind, WorktreeCheckpoint, WorktreeFile, classify,
    freshness, reconcile,
};
pub use handoff::{Declaration, HEAD_LIMIT, HandoffHead, asks_for_another_plan, parse_handoff};
pub use id::{AgentName, IdError, PodId, SubId, Token, WaveId};
pub use layout::{HomeLayout, PodLayout, WAVES, WaveLayout};
pub use lifecycle::{CancelEffect, Fence, Refusal, Settlement};
pub use limit::reset_from_text;
pub use outcome::{FailReason, KillCause, LostReason, Outcome, ParkCode, Verdict};
pub use plan::{Action, Step, plan};
pub use policy::{KEYS, OnLost, PoddLimits, Policy, PolicyError, PolicyKey, PolicyOverrides, nearest_key};
pub use record::{
    By, CancelMark, Current, CurrentKind, ExitRecord, KillIntent, LimitSource, MissingBytes, Parked,
    PodRecord, PodState, Progress, RateLimit, SCHEMA_VERSION, Survivor, Usage, WakeUpEntry,
};
pub use result::{AgentFile, SessionRecord, StartHead, Tail, WakeResult, WrapperFile};
pub use retention::{Kept, LOOK_AGAIN, forgettable, in_use};
pub use review::{Review, WakeMode, next_mode, review, streak};
pub use saved::{SavedWork, leaves_unsaved_work, saved_ref, saved_refs};
pub use text::{error_chain, escape_into, escaped, quoted};
pub use time::{Timestamp, ago};
pub use units::{ByteSize, Span, UnitError};
pub use wave::{
    BranchCheck, ClaimedCommit, CommitFacts, Expected, JudgeVerdict, Judgement, RUNNING_FOR, Report,
    SubCheckpoint, SubCheckpointError, SubState, SubView, brief, judge, sub_state,
};
pub use world::{Liveness, PodView, ProjectView, Pulse, Room, World, WrapperView};
