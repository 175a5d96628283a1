//! `podd`: reconciles the pods of one home for ever.
fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
