//! podd: observe, plan, act, for ever.
//!
//! Level-triggered: a pass sees the whole world and decides by a pure function. A changed file, an ended
//! child or a timer only starts a pass. podd holds nothing that its successor could not see: killed at any
//! instant, it leaves running wake-ups alone, and the next one takes them up again.

#![forbid(unsafe_code)]

mod act;
mod broken;
mod children;
mod keeper;
mod logs;
mod only;
mod pass;
mod settling;
mod tending;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use pod_config::Config;
use pod_core::HomeLayout;
use pod_registry::Registry;

use crate::keeper::Keeper;
use crate::only::OnlyOne;

/// Wake the pods of one home, for ever
///
/// podd looks at every pod of its home, wakes those that are due, ends what has to be ended, and records
/// what it decides. It can be stopped, killed and started again at any time: running wake-ups go on.
#[derive(Debug, Parser)]
#[command(name = "podd", version, max_term_width = 100)]
struct Arguments {
    /// Make one pass and exit
    #[arg(long)]
    once: bool,
    /// The home, instead of $AGENTS_POD_HOME
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// The only configuration file to read
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How the log on stderr looks
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Why podd did not start.
#[derive(Debug)]
struct Failure {
    code: u8,
    error: anyhow::Error,
    hint: String,
}

impl Failure {
    fn new(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Self {
        Self {
            code: 1,
            error: error.into(),
            hint: hint.into(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("error: {}\n", pod_core::escaped(&self.error.to_string()));
        for cause in self.error.chain().skip(1) {
            text.push_str(&format!(
                "  caused by: {}\n",
                pod_core::escaped(&cause.to_string())
            ));
        }
        text.push_str(&format!("hint: {}\n", self.hint));
        text
    }
}

/// Runs podd with the arguments behind its name.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command_line = std::iter::once(OsString::from("podd")).chain(args);
    let arguments = match Arguments::try_parse_from(command_line) {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            let printed = std::io::stdout().write_all(error.render().to_string().as_bytes());
            return ExitCode::from(u8::from(printed.is_err()));
        }
        Err(error) => {
            let rendered = error.render().to_string();
            let said = rendered
                .trim_start_matches("error: ")
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            return say(&Failure {
                code: 2,
                error: anyhow::anyhow!(said),
                hint: "see `podd --help`".to_owned(),
            });
        }
    };
    match start(&arguments) {
        Ok(code) => code,
        Err(failure) => say(&failure),
    }
}

fn say(failure: &Failure) -> ExitCode {
    let _written = std::io::stderr().write_all(failure.text().as_bytes());
    ExitCode::from(failure.code)
}

fn start(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if std::env::var_os("AGENTS_POD_WAKE_TOKEN").is_some() {
        let error = anyhow::anyhow!("podd does not start within a wake-up");
        return Err(Failure::new(
            error,
            "the podd of your keeper wakes pods; `podctl wake` makes one due",
        ));
    }
    let env = |name: &str| std::env::var_os(name);
    let home: HomeLayout = pod_config::home_layout(arguments.home.as_deref(), &env).map_err(|error| {
        let hint = error.hint();
        Failure::new(error, hint)
    })?;
    let registry = Registry::open(home.clone()).map_err(|error| {
        let hint = error.hint();
        Failure::new(error, hint)
    })?;
    let config = Config::load(&home, arguments.config.as_deref(), &env).map_err(|error| {
        let hint = error.hint();
        Failure::new(error, hint)
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(16)
        .build()
        .map_err(|error| Failure::new(error, "are there file descriptors left?"))?;
    let signals = {
        let _entered = runtime.enter();
        // Trapped before anybody can see that we keep the home, so that being told to stop always ends us well.
        (!arguments.once).then(Keeper::trap_signals).transpose()?
    };
    let only = OnlyOne::take(&home)?;
    logs::start(arguments.log_format);
    let explicit = arguments.config.as_deref().map(std::path::absolute).transpose();
    let explicit = explicit.map_err(|error| Failure::new(error, "name an existing file with `--config`"))?;
    let keeper = Keeper::new(registry, config, explicit);
    let ended = runtime.block_on(async {
        match signals {
            Some(signals) => keeper.forever(signals).await,
            None => keeper.once().await,
        }
    });
    // What still settles a dead wake-up is taken up by the next podd.
    runtime.shutdown_background();
    drop(only);
    ended.map(|()| ExitCode::SUCCESS)
}
