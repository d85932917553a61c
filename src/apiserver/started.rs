//! What the process shows of its start at `/statusz` and `/flagz`.

use std::time::SystemTime;

/// When and how the process was started. It does not change while the server runs.
#[derive(Clone, Debug)]
pub struct Started {
    /// When the process started to serve.
    pub at: SystemTime,
    /// The flags of the command line and of defaults, sorted by name.
    pub flags: Vec<(String, String)>,
}
