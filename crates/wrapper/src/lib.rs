//! One wake-up, from claim to recorded outcome.
#![expect(dead_code, reason = "being built")]
mod framer;
mod machine;
mod prune;
