//! What the loop needs from whatever it listens for: an agent's streams, or the log of a gate's step.

use pod_core::Usage;

use crate::claim::Claimed;
use crate::machine::Event;

/// What hears a process.
pub(crate) trait Ears {
    /// It wrote to stdout.
    fn stdout(&mut self, piece: &[u8]);
    /// It wrote to stderr.
    fn stderr(&mut self, piece: &[u8]);
    /// Nothing more comes.
    fn end(&mut self);
    /// A line of our own for a person.
    fn note(&mut self, line: &str);
    /// What it has used, as far as it says.
    fn usage(&self) -> Usage;
    /// What the newest output means for the limits that the loop watches.
    fn heard(&self, claimed: &Claimed) -> Event;
}
