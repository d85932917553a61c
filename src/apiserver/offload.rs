//! Long computations of answers, so that other requests and watches do not wait for them.

pub(super) use ::offload::long as offload;
