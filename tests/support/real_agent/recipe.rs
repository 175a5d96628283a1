//! What each agent has to be told in order to talk to a scripted model, and to give up soon where that refuses.
//!
//! All of it is what a user would say in files and variables of theirs. What only an unattended run needs is
//! left to the adapter under test.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Cli;
use crate::TestEnv;
use crate::model::Model;

type Variables<'a> = &'a [(&'a str, &'a str)];

/// Writes the user's configuration of an agent.
pub(super) fn configure(cli: Cli, env: &TestEnv, model: &Model) {
    let home = env.user_home();
    match cli {
        Cli::Pi16 | Cli::Pi073 => {
            let place = home.join(".pi/agent");
            write(place.join("models.json"), &pi_models(model).to_string());
            write(place.join("settings.json"), &pi_settings().to_string());
        }
        Cli::Claude => {}
        Cli::Codex => write(home.join(".codex/config.toml"), &codex_config(model)),
        Cli::Gemini => write(home.join(".gemini/settings.json"), &gemini_settings().to_string()),
        Cli::OpenCode => write(
            env.root().join("xdg/config/opencode/opencode.json"),
            &opencode_config(model).to_string(),
        ),
    }
}

fn write(file: PathBuf, text: &str) {
    let place = file.parent().expect("a file is in a directory");
    fs::create_dir_all(place).expect("the user's home takes a directory");
    fs::write(file, text).expect("it takes a file");
}

/// The lines of its definition beside its type and its binary.
pub(super) fn definition(cli: Cli) -> &'static str {
    match cli {
        Cli::Pi16 | Cli::Pi073 => "model = \"mock-model\"\nargs = [\"--provider\", \"mock\"]",
        Cli::Claude => "model = \"claude-sonnet-4-5\"",
        Cli::Codex => "model = \"mock-model\"",
        Cli::Gemini => "model = \"gemini-2.5-pro\"",
        Cli::OpenCode => "model = \"mock/mock-model\"",
    }
}

/// The variables of its definition.
pub(super) fn variables(cli: Cli, model: &Model) -> Vec<(&'static str, String)> {
    let text = str::to_owned;
    match cli {
        Cli::Pi16 | Cli::Pi073 => vec![("PI_OFFLINE", text("1"))],
        Cli::Claude => vec![
            ("ANTHROPIC_BASE_URL", model.origin()),
            ("ANTHROPIC_API_KEY", text("dummy")),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", text("1")),
            ("CLAUDE_CODE_MAX_RETRIES", text("1")),
        ],
        Cli::Codex => vec![("MOCK_API_KEY", text("dummy"))],
        Cli::Gemini => vec![
            ("GEMINI_API_KEY", text("dummy")),
            ("GOOGLE_GEMINI_BASE_URL", model.origin()),
        ],
        Cli::OpenCode => vec![
            ("OPENCODE_DISABLE_AUTOUPDATE", text("1")),
            ("OPENCODE_DISABLE_MODELS_FETCH", text("1")),
        ],
    }
}

/// The arguments in front of the prompt, and the variables, with which it runs by itself while nobody watches.
pub(super) fn unattended(cli: Cli) -> (Vec<&'static str>, Variables<'static>) {
    let (args, variables): (&str, Variables<'static>) = match cli {
        Cli::Pi16 | Cli::Pi073 => ("--print --mode json --provider mock --model mock-model", &[]),
        Cli::Claude => (
            "-p --output-format stream-json --verbose --dangerously-skip-permissions \
             --model claude-sonnet-4-5 --",
            &[("IS_SANDBOX", "1")],
        ),
        Cli::Codex => (
            "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox",
            &[],
        ),
        Cli::Gemini => (
            "--skip-trust --approval-mode yolo -o stream-json -m gemini-2.5-pro -p",
            &[("GEMINI_CLI_NO_RELAUNCH", "true")],
        ),
        Cli::OpenCode => ("run --format json -m mock/mock-model", &[]),
    };
    (args.split_whitespace().collect(), variables)
}

fn pi_models(model: &Model) -> Value {
    json!({"providers": {"mock": {
        "baseUrl": model.base_url(),
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{
            "id": "mock-model", "name": "Mock", "reasoning": false, "input": ["text"],
            "contextWindow": 200_000, "maxTokens": 8192,
            "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0},
        }],
    }}})
}

fn pi_settings() -> Value {
    json!({"retry": {"maxRetries": 1, "baseDelayMs": 20}})
}

fn codex_config(model: &Model) -> String {
    format!(
        "model = \"mock-model\"\n\
         model_provider = \"mock\"\n\
         check_for_update_on_startup = false\n\
         [analytics]\n\
         enabled = false\n\
         [model_providers.mock]\n\
         name = \"mock\"\n\
         base_url = \"{}\"\n\
         env_key = \"MOCK_API_KEY\"\n\
         wire_api = \"responses\"\n\
         request_max_retries = 1\n\
         stream_max_retries = 1\n",
        model.base_url()
    )
}

fn gemini_settings() -> Value {
    json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "telemetry": {"enabled": false},
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"enableAutoUpdate": false, "maxAttempts": 1},
    })
}

fn opencode_config(model: &Model) -> Value {
    json!({
        "autoupdate": false,
        "share": "disabled",
        "model": "mock/mock-model",
        "small_model": "mock/mock-model",
        "provider": {"mock": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Mock",
            "options": {"baseURL": model.base_url(), "apiKey": "dummy"},
            "models": {"mock-model": {
                "name": "Mock",
                "limit": {"context": 200_000, "output": 8192},
                "cost": {"input": 1, "output": 2},
            }},
        }},
    })
}
