//! Says where a wait may never end.

use crate::context::{Context, Podd};
use crate::ui;

/// Says on stderr, once, that nobody will wake anything.
pub(crate) fn warn_without_podd(context: &Context) {
    if context.podd() == Podd::Absent {
        ui::note("no podd is running for this home, so nothing wakes by itself; start it with `podd`");
    }
}
