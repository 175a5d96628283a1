//! `podctl`: pods from a terminal. Under another name it stands in for podd or pod-wrapper.

use std::path::Path;

fn main() -> std::process::ExitCode {
    let mut args = std::env::args_os();
    let name = args.next();
    match name
        .as_deref()
        .map(Path::new)
        .and_then(Path::file_name)
        .and_then(|name| name.to_str())
    {
        Some("podd") => pod_daemon::main(args),
        Some("pod-wrapper") => pod_wrap::main(args),
        _ => pod_ctl::main(args),
    }
}
