//! What the page and its API share among requests.

use std::sync::Arc;

use fair::Shares;

use super::shared::SharedAnswers;

/// Streams at once. One user may have seven of eight of them, so that others find a place.
const VIEWERS_MAX: usize = 128;

/// What was shown a moment ago, and who looks.
pub struct Inside {
    pub(super) answers: SharedAnswers,
    /// Streams that are open, by user.
    pub(super) viewers: Arc<Shares>,
}

impl Default for Inside {
    fn default() -> Self {
        Self { answers: SharedAnswers::default(), viewers: Shares::new(VIEWERS_MAX) }
    }
}
