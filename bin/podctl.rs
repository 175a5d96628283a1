//! `podctl`: steers the pods of one home.
//!
//! Where the other two programs are not beside it, it is they: whoever starts them gives it their name.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    match Path::new(&name).file_name().and_then(|name| name.to_str()) {
        Some("podd") => pod_daemon::main(args),
        Some("pod-wrapper") => pod_wrap::main(args),
        _ => pod_ctl::main(args),
    }
}
