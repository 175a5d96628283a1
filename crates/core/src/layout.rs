//! Where things lie. Only names are made here; nothing is looked at.

use std::path::{Path, PathBuf};

use crate::{GateMode, PodId, SubId, WaveId};

/// The directory beside the pods of a project that belongs to no pod.
pub const WAVES: &str = "waves";

const SHARDS: u8 = 64;

/// The places below the home of one podd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeLayout {
    root: PathBuf,
}

impl HomeLayout {
    /// The places below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The home itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The home's configuration.
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// The agent definitions.
    pub fn agents(&self) -> PathBuf {
        self.root.join("agents.toml")
    }

    /// The registry.
    pub fn registry(&self) -> PathBuf {
        self.root.join("registry")
    }

    /// The lock that everyone who changes anything holds shared.
    pub fn lock(&self) -> PathBuf {
        self.registry().join("lock")
    }

    /// The gate in front of the lock, so that who wants it alone is not starved.
    pub fn turnstile(&self) -> PathBuf {
        self.registry().join("turnstile")
    }

    /// The directory of the lock's shards.
    pub fn shards(&self) -> PathBuf {
        self.registry().join("locks")
    }

    /// The shard that guards a pod's record.
    pub fn shard(&self, pod: &PodId) -> PathBuf {
        // FNV-1a: it has to be the same in every version, and no more.
        let hash = pod
            .as_str()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        self.shards().join(format!("{:02x}", hash % u64::from(SHARDS)))
    }

    /// The records.
    pub fn pods(&self) -> PathBuf {
        self.registry().join("pods")
    }

    /// A pod's record.
    pub fn pod(&self, pod: &PodId) -> PathBuf {
        self.pods().join(format!("{pod}.json"))
    }

    /// What could not be read.
    pub fn quarantine(&self) -> PathBuf {
        self.registry().join("quarantine")
    }

    /// The lock of the one podd.
    pub fn podd_lock(&self) -> PathBuf {
        self.root.join("podd.lock")
    }

    /// The identity of the one podd.
    pub fn podd_identity(&self) -> PathBuf {
        self.root.join("podd.json")
    }
}

/// The places of one wave in its project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaveLayout {
    dir: PathBuf,
}

impl WaveLayout {
    /// The places of `wave` relative to a project.
    pub fn new(wave: &WaveId) -> Self {
        let dir = Path::new(PodLayout::BASE)
            .join(WAVES)
            .join(format!("wave-{wave}"));
        Self { dir }
    }

    /// The wave's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The wave's completions.
    pub fn state(&self) -> PathBuf {
        self.dir.join("STATE.md")
    }

    /// What guards the wave's completions.
    pub fn state_lock(&self) -> PathBuf {
        self.dir.join(".STATE.lock")
    }

    /// A subagent's checkpoint.
    pub fn checkpoint(&self, sub: &SubId) -> PathBuf {
        self.dir.join(format!("subagent-{sub}.checkpoint.json"))
    }

    /// A subagent's dispatch.
    pub fn dispatch(&self, sub: &SubId) -> PathBuf {
        self.dir.join(format!("subagent-{sub}.dispatch.json"))
    }

    /// What guards a subagent's files.
    pub fn lock(&self, sub: &SubId) -> PathBuf {
        self.dir.join(format!(".subagent-{sub}.lock"))
    }

    /// The subagent whose checkpoint or dispatch a file name says it is.
    pub fn sub_of(name: &str, kind: &str) -> Option<SubId> {
        let rest = name.strip_prefix("subagent-")?;
        rest.strip_suffix(kind)?.parse().ok()
    }
}

/// The places of one pod in its project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLayout {
    project: PathBuf,
    root: PathBuf,
}

impl PodLayout {
    /// The directory in a project that holds all its pods.
    pub const BASE: &'static str = ".agents-pod";

    /// The places of `pod` in `project`.
    pub fn new(project: impl Into<PathBuf>, pod: &PodId) -> Self {
        let project = project.into();
        let root = project.join(Self::BASE).join(pod.as_str());
        Self { project, root }
    }

    /// The project directory.
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// The directory that holds all pods of the project.
    pub fn base(&self) -> PathBuf {
        self.project.join(Self::BASE)
    }

    /// A place of this pod relative to the project, for an open that follows no symlink below it.
    pub fn below(&self, place: &Path) -> PathBuf {
        place.strip_prefix(&self.project).unwrap_or(place).to_owned()
    }

    /// The pod's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The three documents.
    pub fn docs(&self) -> PathBuf {
        self.root.join("docs")
    }

    /// The handoff.
    pub fn handoff(&self) -> PathBuf {
        self.docs().join("HANDOFF.md")
    }

    /// The plan.
    pub fn tasks(&self) -> PathBuf {
        self.docs().join("TASKS.md")
    }

    /// The reasons.
    pub fn decisions(&self) -> PathBuf {
        self.docs().join("DECISIONS.md")
    }

    /// All wake-ups.
    pub fn wakeups(&self) -> PathBuf {
        self.root.join("wakeups")
    }

    /// One wake-up.
    pub fn wakeup(&self, n: u32) -> PathBuf {
        self.wakeups().join(n.to_string())
    }

    /// A wake-up's raw log.
    pub fn events(&self, n: u32) -> PathBuf {
        self.wakeup(n).join("events.jsonl")
    }

    /// A wake-up's verdict.
    pub fn result(&self, n: u32) -> PathBuf {
        self.wakeup(n).join("result.json")
    }

    /// What a wake-up ran.
    pub fn agent(&self, n: u32) -> PathBuf {
        self.wakeup(n).join("agent.json")
    }

    /// A wake-up's prompt.
    pub fn prompt(&self, n: u32) -> PathBuf {
        self.wakeup(n).join("prompt.md")
    }

    /// A wake-up's session, where its CLI takes a path.
    pub fn session(&self, n: u32) -> PathBuf {
        self.wakeup(n).join("session.jsonl")
    }

    /// The human log.
    pub fn output(&self) -> PathBuf {
        self.root.join("output.log")
    }

    /// The heartbeat.
    pub fn heartbeat(&self) -> PathBuf {
        self.root.join("heartbeat")
    }

    /// The identity of the live wrapper.
    pub fn wrapper(&self) -> PathBuf {
        self.root.join("wrapper.json")
    }

    /// The lock that is held for the whole of a wake-up.
    pub fn wake_lock(&self) -> PathBuf {
        self.root.join("wake.lock")
    }

    /// What wake-ups left for those behind them, beside the documents.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The continuation checkpoints by wake-up.
    pub fn checkpoint_runs(&self) -> PathBuf {
        self.checkpoints().join("runs")
    }

    /// One wake-up's continuation checkpoint.
    pub fn checkpoint(&self, n: u32) -> PathBuf {
        self.checkpoint_runs().join(format!("{n}.md"))
    }

    /// The newest continuation checkpoint.
    pub fn latest_checkpoint(&self) -> PathBuf {
        self.checkpoints().join("latest.md")
    }

    /// What gates left.
    pub fn gates(&self) -> PathBuf {
        self.root.join("gates")
    }

    /// The newest evidence of a gate.
    pub fn latest_gate(&self, mode: GateMode) -> PathBuf {
        self.gates().join(format!("latest-{mode}.json"))
    }

    /// All evidence.
    pub fn gate_history(&self) -> PathBuf {
        self.gates().join("history")
    }

    /// What steps printed.
    pub fn gate_logs(&self) -> PathBuf {
        self.gates().join("logs")
    }

    /// What was decided about the pod.
    pub fn decision_log(&self) -> PathBuf {
        self.root.join("decisions.md")
    }

    /// The worktree before and behind a wake-up.
    pub fn worktree(&self, n: u32) -> PathBuf {
        self.wakeup(n).join("worktree.json")
    }

    /// Our own git index of the project.
    pub fn git_index(&self) -> PathBuf {
        self.root.join("git-index")
    }

    /// Messages for the next prompt.
    pub fn inbox(&self) -> PathBuf {
        self.root.join("inbox")
    }
}
