//! LIST, GET and WATCH as decisions: what was asked, and the plan that answers it. These rooms know no socket, no clock and no tokio.

pub mod options;
pub mod plan;
pub mod token;
