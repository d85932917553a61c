//! The corpus of tokens: whatever a client sends, our keys accept only what they have signed.

use std::collections::HashSet;
use std::sync::LazyLock;

use corpus::Subject;

use super::directory::Empty;
use super::jwt::Token;
use super::recorded;
use super::service_account::Accounts;

/// Header and claims of the tokens that were signed when the answers were recorded.
static SIGNED: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let cases = recorded::all()["reviews"].as_array().expect("cases").iter();
    let tokens = cases.filter_map(|case| case["token"].as_str()?.rsplit_once('.'));
    tokens.map(|(signed, _)| signed.to_owned()).collect()
});

static ACCOUNTS: LazyLock<Accounts> =
    LazyLock::new(|| Accounts { issuers: recorded::issuers(), keys: recorded::keys(), audiences: recorded::issuers(), lookup: true });

fn law(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let judged = ACCOUNTS.judge(text, None, &Empty, std::time::UNIX_EPOCH);
    assert!(!matches!(judged, Ok(Some(_))), "nobody has an account");
    let Ok(token) = Token::parse(text) else { return false };
    if token.vouched(&ACCOUNTS.keys).is_ok() {
        let (signed, _) = text.rsplit_once('.').expect("it was read");
        assert!(SIGNED.contains(signed), "nobody signed this");
    }
    true
}

#[test]
fn tokens() {
    let words = &[".", "eyJ", "eyJhbGciOiJub25lIn0", "eyJhbGciOiJSUzI1NiJ9", "=", "-", "_", "AAAA", "%"];
    let long = &[
        ["", ".", ""],
        ["", "a", ".b.c"],
        ["e30.", "W1tb", ".AAAA"],
        ["e30.e30.", "AAAA", ""],
        ["eyJhbGciOiJSUzI1NiJ9.eyJh", "OnsiYSI6eyJh", ".AAAA"],
    ];
    Subject { name: "tokens", law, words, long }.check();
}
