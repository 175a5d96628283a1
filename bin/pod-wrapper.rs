//! `pod-wrapper`: runs one wake-up of an idle pod.

fn main() -> std::process::ExitCode {
    pod_wrap::main(std::env::args_os().skip(1))
}
