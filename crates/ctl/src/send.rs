//! `podctl send`: a message for the next prompt.

use pod_core::{PodRecord, Refusal, Timestamp};
use pod_disk::Durability;
use pod_reconcile::PodFiles;

use crate::args::Send;
use crate::context::{self, Context, Source};
use crate::fault::{Ended, Exit, Fault};

/// A prompt quotes no more of one message.
const LONGEST: usize = 64 * 1024;

/// Leaves a message in a pod's inbox.
pub(crate) fn run(context: &Context, args: &Send) -> Ended {
    let id = &args.id;
    let cannot = format!("cannot send to pod `{id}`");
    let message = Source::of_argument(&args.message).read("the message")?;
    if message.len() > LONGEST {
        let hint = "put it into a file of the project, and send its name";
        let cause = format!(
            "the message has {} bytes, and a prompt takes {LONGEST} at most",
            message.len()
        );
        return Err(Fault::new(cannot, hint).caused_by(cause).into());
    }
    let record = context.read(id)?;
    if record.state.is_terminal() {
        let (pod, state) = (id.to_string(), record.state);
        return Err(Fault::of(cannot, &Refusal::Terminal { pod, state }).into());
    }
    let name = name(context::now(), &context::random_letters(6)?);
    leave(&record, &name, &message).map_err(|error| Fault::of(cannot, &error))?;
    Ok(Exit::Done)
}

/// A name that sorts by time.
fn name(now: Timestamp, random: &str) -> String {
    format!("{:013}-{random}.md", now.as_millis())
}

fn leave(record: &PodRecord, name: &str, message: &str) -> Result<(), pod_disk::DiskError> {
    let files = PodFiles::new(&record.project, &record.id);
    let inbox = files.layout().inbox();
    files.create_dirs(&inbox)?;
    files.write(&inbox.join(name), message.as_bytes(), Durability::Durable)
}

#[cfg(test)]
mod tests {
    use crate::words::tests::{at, record};

    use super::*;

    #[test]
    fn messages_lie_in_the_inbox_in_the_order_of_their_sending() {
        let directory = tempfile::tempdir().unwrap();
        let mut pod = record();
        pod.project = directory.path().to_str().unwrap().to_owned();
        for (time, random, text) in [("20:00:00", "zz", "one"), ("20:00:01", "aa", "two")] {
            leave(&pod, &name(at(time), random), text).unwrap();
        }
        let inbox = PodFiles::new(&pod.project, &pod.id).layout().inbox();
        let mut paths: Vec<_> = std::fs::read_dir(inbox)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        let texts: Vec<String> = paths
            .iter()
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        assert_eq!(texts, ["one", "two"]);
    }
}
