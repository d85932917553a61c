//! What Go does to text, because the API's bytes and messages are made that way: quotes, JSON, YAML, numbers, times, durations, URLs, media types, regular
//! expressions.

pub mod amount;
pub mod base64;
pub mod calendar;
pub mod duration;
pub mod envelope;
pub mod indent;
pub mod json;
pub mod mime;
pub mod netip;
pub mod quantity;
pub mod quote;
pub mod regexp;
pub mod scanner;
pub mod strconv;
pub mod time;
pub mod timestamp;
pub mod tree;
pub mod url;
pub mod yaml;
