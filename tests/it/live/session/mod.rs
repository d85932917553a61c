//! A person with kubectl and the server on its embedded store: what they type, what they are told, and with which exit code.

mod definitions;
mod deployments;
mod generators;
mod lives;
mod objects;
mod trials;

use std::{
    env,
    ffi::OsString,
    fs,
    io::Write,
    process::{Command, Stdio},
};

use tempfile::TempDir;

use super::{rows::Rows, subject::Subject};

/// What a case answers: nothing, or why it failed.
type Outcome = Result<(), Failure>;
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A server of its own, and the kubectl that talks to it. The fields are ended in this order. With `WATCHCACHE_TEST_SUBJECT=kube-apiserver` it is
/// one of those (give the test program one thread then: each starts its own).
struct Session {
    server: Subject,
    program: OsString,
    dir: TempDir,
}

/// What a command came to.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Session {
    /// A fresh one.
    async fn open() -> Result<Self, Failure> {
        let program = env::var_os("WATCHCACHE_TEST_KUBECTL").ok_or("WATCHCACHE_TEST_KUBECTL does not name a kubectl")?;
        let dir = tempfile::tempdir()?;
        let server = Subject::start(dir.path()).await?;
        Ok(Self { server, program, dir })
    }

    /// kubectl with no configuration but the server. Words are parted by spaces.
    fn command(&self, line: &str) -> Result<Command, Failure> {
        let home = self.dir.path().join("home");
        fs::create_dir_all(&home)?;
        let mut command = Command::new(&self.program);
        command.env("HOME", &home).env("KUBECONFIG", home.join("none")).env("TMPDIR", &home);
        self.server.name_to(&mut command);
        command.arg("--cache-dir").arg(home.join("cache"));
        command.args(line.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    fn run(&self, line: &str, input: &str) -> Result<Said, Failure> {
        let mut child = self.command(line)?.stdin(Stdio::piped()).spawn()?;
        // A command that wants no input may have ended before it is written.
        let _ = child.stdin.take().ok_or("no stdin")?.write_all(input.as_bytes());
        let output = child.wait_with_output()?;
        let text = |bytes| String::from_utf8(bytes).map(|text| text.trim_end().to_owned());
        Ok(Said { code: output.status.code(), out: text(output.stdout)?, err: text(output.stderr)? })
    }

    /// The output of a command that must succeed, with this manifest as its input.
    fn given(&self, line: &str, input: &str) -> Result<String, Failure> {
        let said = self.run(line, input)?;
        if said.code == Some(0) { Ok(said.out) } else { Err(format!("kubectl {line}: {said:?}").into()) }
    }

    /// The output of a command that must succeed.
    fn ok(&self, line: &str) -> Result<String, Failure> {
        self.given(line, "")
    }

    /// A command that must succeed and say exactly this.
    fn says(&self, line: &str, expected: &str) -> Outcome {
        same(line, &self.ok(line)?, expected)
    }

    /// The same with an input.
    fn says_given(&self, line: &str, input: &str, expected: &str) -> Outcome {
        same(line, &self.given(line, input)?, expected)
    }

    /// A command that must fail with code 1 and say exactly this on stderr.
    fn refused(&self, line: &str, input: &str, expected: &str) -> Outcome {
        let said = self.run(line, input)?;
        if said.code != Some(1) {
            return Err(format!("kubectl {line} should fail: {said:?}").into());
        }
        same(line, &said.err, expected)
    }

    /// `kubectl edit` with a `sed` script (no spaces in it) as the editor; an edit that came to nothing is told on stderr.
    fn edits(&self, line: &str, script: &str, expected: &str) -> Outcome {
        let output = self.command(line)?.env("EDITOR", format!("sed -i {script}")).output()?;
        if !output.status.success() {
            return Err(format!("kubectl {line}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let told = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        same(line, String::from_utf8(told)?.trim_end(), expected)
    }

    /// What a `jsonpath` of an object is.
    fn field(&self, object: &str, path: &str) -> Result<String, Failure> {
        self.ok(&format!("get {object} -o jsonpath={path}"))
    }

    /// That a `jsonpath` of an object is this.
    fn has(&self, object: &str, path: &str, expected: &str) -> Outcome {
        same(&format!("{path} of {object}"), &self.field(object, path)?, expected)
    }

    /// `delete`; newer versions name the namespace too.
    fn deletes(&self, line: &str, expected: &str) -> Outcome {
        let out = self.ok(line)?;
        if out.starts_with(expected) { Ok(()) } else { Err(format!("kubectl {line}: {out:?} does not begin with {expected:?}").into()) }
    }

    /// A command whose rows are read while it runs.
    fn rows(&self, line: &str) -> Result<Rows, Failure> {
        Ok(Rows::of(self.command(line)?.stderr(Stdio::inherit()))?)
    }
}

fn same(what: &str, got: &str, expected: &str) -> Outcome {
    if got == expected { Ok(()) } else { Err(format!("{what}:\n--- got\n{got}\n--- expected\n{expected}").into()) }
}
