//! Credential plugins that issue, fail, hang and talk, and token files that change.

use std::fs;

use super::child::{ChildError, ChildLimits, run};
use super::*;

/// A directory with a program, which is a shell script.
struct Program {
    directory: tempfile::TempDir,
}

impl Program {
    fn new(script: &str) -> Program {
        let program = Program { directory: tempfile::tempdir().expect("a directory") };
        program.write(script);
        program
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The script runs in the directory, counts its runs in `runs`, and may say what is in `status`.
    fn write(&self, script: &str) {
        let directory = self.directory.path().display();
        let text = format!("#!/bin/sh\ncd {directory}\necho run >> runs\n{script}\n");
        fs::write(self.path("new"), text).expect("written");
        fs::rename(self.path("new"), self.path("plugin")).expect("renamed");
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).map_or(0, |runs| runs.lines().count())
    }

    fn spec(&self) -> PluginSpec {
        PluginSpec {
            version: PluginVersion::V1,
            // Whoever forks meanwhile has it open for writing: it cannot be run itself.
            command: PluginCommand::File(PathBuf::from("/bin/sh")),
            args: vec![self.path("plugin").display().to_string(), "one".to_owned(), "two words".to_owned()],
            env: vec![("GIVEN".to_owned(), "yes".to_owned()), ("GIVEN".to_owned(), "last".to_owned())],
            install_hint: "get \u{1b}[1mit".to_owned(),
            info: "{}\n".to_owned(),
        }
    }

    async fn run(&self, limits: ChildLimits) -> Result<super::child::Ended, ChildError> {
        run(Path::new("/bin/sh"), &[self.path("plugin").display().to_string()], &[], limits).await
    }

    fn plugin(&self) -> Arc<Plugin> {
        Plugin::new(self.spec())
    }
}

fn says(status: &str) -> String {
    format!("cat <<'X'\n{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{status}}}\nX")
}

fn token(issued: &Issued) -> String {
    issued.token.as_ref().map(|token| token.to_str().expect("a text").to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_plugin_is_run_once_for_all_who_wait() {
    let program =
        Program::new(&format!("sleep 0.2\nprintf '%s|' \"$GIVEN\" \"$KUBERNETES_EXEC_INFO\" \"$@\" > told\n{}", says(r#"{"token":"a"}"#)));
    let plugin = program.plugin();
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let plugin = plugin.clone();
            tokio::spawn(async move { plugin.issued().await.map(|issued| token(&issued)) })
        })
        .collect();
    for asked in asking {
        assert_eq!(asked.await.expect("it ends"), Ok("Bearer a".to_owned()));
    }
    assert_eq!(plugin.issued().await.map(|issued| token(&issued)), Ok("Bearer a".to_owned()));
    assert_eq!(program.runs(), 1, "they last");
    assert_eq!(fs::read_to_string(program.path("told")).expect("told"), "last|{}\n|one|two words|");
}

#[tokio::test]
async fn refused_credentials_are_renewed_once() {
    let program = Program::new(&says(r#"{"token":"a"}"#));
    let plugin = program.plugin();
    let first = plugin.issued().await.expect("issued");
    program.write(&says(r#"{"token":"b"}"#));
    assert!(plugin.renew(&first).await && plugin.renew(&first).await, "the second finds others");
    let second = plugin.issued().await.expect("issued");
    assert_eq!((token(&second).as_str(), program.runs()), ("Bearer b", 2));
    assert!(!plugin.renew(&second).await, "a pause");
    assert_eq!(program.runs(), 2);
}

#[tokio::test]
async fn credentials_that_end_are_issued_again() {
    let program = Program::new(&says(r#"{"token":"a","expirationTimestamp":"2001-01-01T00:00:00Z"}"#));
    let plugin = program.plugin();
    // What a plugin has just issued is sent, whatever time it says.
    assert_eq!(plugin.issued().await.map(|issued| token(&issued)), Ok("Bearer a".to_owned()));
    assert_eq!(plugin.issued().await.map(|issued| token(&issued)), Ok("Bearer a".to_owned()));
    assert_eq!(program.runs(), 1, "a pause");
    program.write(&says(r#"{"token":"b"}"#));
    while plugin.issued().await.map(|issued| token(&issued)) != Ok("Bearer b".to_owned()) {
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(program.runs(), 2);
}

#[tokio::test]
async fn a_plugin_that_fails_is_tried_again_after_a_pause() {
    let program = Program::new("echo oh >&2; exit 3");
    let plugin = program.plugin();
    for _ in 0..3 {
        assert_eq!(plugin.issued().await.map(drop), Err("exec: executable /bin/sh failed with exit code 3".to_owned()));
    }
    assert_eq!(program.runs(), 1);
    program.write(&says(r#"{"token":"a"}"#));
    while plugin.issued().await.is_err() {
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(program.runs(), 2);
    let missing = Plugin::new(PluginSpec { command: PluginCommand::Name("no-such-program".to_owned()), ..program.spec() });
    let why = missing.issued().await.expect_err("it is not there");
    assert_eq!(why, "exec: executable no-such-program not found: get \\u{1b}[1mit");
    let named = Plugin::new(PluginSpec { command: PluginCommand::Name("false".to_owned()), ..program.spec() });
    assert_eq!(named.issued().await.expect_err("it fails"), "exec: executable false failed with exit code 1");
}

#[tokio::test]
async fn connections_end_with_their_certificate() {
    let pair = || {
        let made = rcgen::generate_simple_self_signed(vec!["we".to_owned()]).expect("a name");
        let status = serde_json::json!({"clientCertificateData": made.cert.pem(), "clientKeyData": made.signing_key.serialize_pem()});
        says(&status.to_string())
    };
    let program = Program::new(&pair());
    let plugin = program.plugin();
    let rotations = plugin.rotations();
    let first = plugin.issued().await.expect("issued");
    assert!(first.certificate.is_some() && !rotations.has_changed().expect("it is there"));
    program.write(&pair());
    assert!(plugin.renew(&first).await && rotations.has_changed().expect("it is there"));
}

/// Waits until a process is gone.
async fn gone(id: &str) {
    let process = Path::new("/proc").join(id);
    while fs::read_to_string(process.join("stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_program_is_killed_with_its_children() {
    let limits = |time: u64| ChildLimits { time: Duration::from_millis(time), output_bytes: 1000 };
    let program = Program::new("sleep 1000 & echo $! > child; wait");
    let ended = program.run(limits(500)).await;
    assert!(matches!(ended, Err(ChildError::TimedOut(_))), "{ended:?}");
    if let Ok(child) = fs::read_to_string(program.path("child")) {
        gone(child.trim()).await;
    }
    for script in ["yes", "yes & exec sleep 1000", "exec 2>&1; yes >&2"] {
        program.write(&format!("echo $$ > child; {script}"));
        let ended = program.run(limits(60_000)).await;
        assert!(matches!(ended, Err(ChildError::TooMuch(1000))), "{script}: {ended:?}");
        gone(fs::read_to_string(program.path("child")).expect("it has begun").trim()).await;
    }
    program.write("yes | head -c 100000 >&2; cat; echo done");
    let ended = program.run(limits(60_000)).await.expect("it ends");
    assert_eq!((&ended.output[..], ended.error.len()), (&b"done\n"[..], 4 << 10), "it has nothing to read");
    // What it leaves behind does not hold us up.
    program.write("sleep 1000 & echo $! > child; echo done");
    let ended = program.run(limits(60_000)).await.expect("it ends");
    assert_eq!(ended.output, b"done\n");
    let child = fs::read_to_string(program.path("child")).expect("it has begun");
    let _ = std::process::Command::new("kill").arg(child.trim()).status();
    let none = run(Path::new("/no/such/program"), &[], &[], limits(1000)).await;
    assert!(matches!(none, Err(ChildError::NotStarted(_))), "{none:?}");
}

#[tokio::test]
async fn a_token_file_is_read_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("token");
    let mut file = FileToken::default();
    let of = |file: &FileToken| file.value.as_ref().map(|value| value.to_str().expect("a text").to_owned());
    file.look(&path, Duration::ZERO).await;
    assert_eq!((of(&file), file.wrong.as_deref()), (None, Some("No such file or directory (os error 2)")));
    fs::write(&path, " a\n").expect("written");
    file.look(&path, REREAD).await;
    assert_eq!(of(&file), None, "not yet");
    file.look(&path, Duration::ZERO).await;
    assert_eq!((of(&file).as_deref(), &file.wrong), (Some("Bearer a"), &None));
    for wrong in ["", "\n", "a\nb", &"x".repeat(TOKEN_BYTES_MAX + 1)] {
        fs::write(&path, wrong).expect("written");
        file.look(&path, Duration::ZERO).await;
        assert!(of(&file).as_deref() == Some("Bearer a") && file.wrong.is_some(), "{:?}", file.wrong);
    }
    fs::write(&path, "b").expect("written");
    file.look(&path, Duration::ZERO).await;
    assert_eq!((of(&file).as_deref(), &file.wrong), (Some("Bearer b"), &None));
}
