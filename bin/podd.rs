//! `podd`: reconciles the pods of one home for ever.

fn main() -> std::process::ExitCode {
    pod_daemon::main(std::env::args_os().skip(1))
}
