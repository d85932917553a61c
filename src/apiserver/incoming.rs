//! The body of a request, read whole within the limits of its connection.

use axum::body::Body;
use server::{Conn, NoBody, Whole};
use storage::write::BODY_BYTES_MAX;
use tokio::time::Instant;

use super::status::Status;

/// A client that is refused because of others may come back so soon, seconds.
const RETRY_AFTER: u32 = 1;

/// Reads all of a body, until `until` at the latest. None: its time is over.
///
/// # Errors
/// Why there is no body.
pub(super) async fn whole_body(body: Body, conn: &Conn, until: Instant) -> Result<Option<Whole>, Status> {
    match Whole::read(body, BODY_BYTES_MAX, conn, until).await {
        Ok(whole) => Ok(Some(whole)),
        Err(NoBody::TimedOut) => Ok(None),
        Err(NoBody::Stopping) => Err(Status::unavailable("apiserver is shutting down", RETRY_AFTER)),
        Err(NoBody::Broken(why)) => Err(Status::bad_request(format!("the body could not be read: {why}"))),
        Err(NoBody::TooLarge) => Err(Status::too_large(&format!("limit is {BODY_BYTES_MAX}"))),
        Err(NoBody::NoRoom) => {
            Err(Status::too_many_requests("request bodies take all the memory that they may have, please try again later", RETRY_AFTER))
        }
    }
}
