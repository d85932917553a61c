//! An API server for one test: watchcache in memory, started by `TestServer::start` and ended when that is dropped.

use std::env;
use std::error::Error;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;

/// How long it may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What ends a test.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A server of its own.
pub struct TestServer {
    child: Child,
    dir: TempDir,
}

impl TestServer {
    /// Starts the program that `WATCHCACHE` names, or `watchcache` on the path, and waits until it is ready.
    ///
    /// # Errors
    /// It does not start, with what it has said.
    pub async fn start() -> Result<Self, Failure> {
        let dir = tempfile::tempdir()?;
        let program = env::var_os("WATCHCACHE").unwrap_or_else(|| "watchcache".into());
        let log = File::create(dir.path().join("log"))?;
        let mut command = Command::new(program);
        // Without controllers: as kube-apiserver alone, which is what envtest starts.
        command.args([
            "serve",
            "--data-dir=:memory:",
            "--controllers=",
            "--insecure-port=0",
            "--bind-address=127.0.0.1",
            "--secure-port=auto",
        ]);
        command.arg("--write-admin-kubeconfig").arg(dir.path().join("kubeconfig"));
        command.arg("--port-file").arg(dir.path().join("ready"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut server = Self { child: command.spawn()?, dir };
        let began = Instant::now();
        while !server.dir.path().join("ready").exists() {
            if server.child.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                return Err(format!("it is not ready: {}", std::fs::read_to_string(server.dir.path().join("log"))?).into());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(server)
    }

    /// Returns a client of an administrator.
    ///
    /// # Errors
    /// The kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client, Failure> {
        let file = Kubeconfig::read_from(self.dir.path().join("kubeconfig"))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // All of it is in memory.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
