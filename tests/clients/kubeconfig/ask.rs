//! Reads paths of kubeconfig files, one a line, asks the server of each one thing, and writes what it answered, or why it was not asked: a line of JSON each.
//! `tests/clients/go/kubeconfig` compares that with client-go.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use watchcache_client::{Client, Kubeconfig, Limits};

const LIMITS: Limits = Limits { timeout: Duration::from_secs(10), answer_bytes_max: 1 << 20, concurrent_max: 1 };

#[tokio::main]
async fn main() {
    for path in stdin().lock().lines() {
        let path = path.expect("a path");
        let line = ask(Path::new(&path)).await.unwrap_or_else(|error| json!({"error": error}));
        writeln!(stdout(), "{line}").expect("somebody reads");
    }
}

async fn ask(path: &Path) -> Result<Value, String> {
    let kubeconfig = Kubeconfig::read("--kubeconfig", path).map_err(|error| error.what)?;
    let client = Client::of(&kubeconfig, LIMITS)?;
    let answer = client.get(&kubeconfig.url("/echo")).await.map_err(|error| error.to_string())?;
    if let Some(why) = answer.failure() {
        return Err(why);
    }
    let answer: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    Ok(json!({"answer": answer}))
}
