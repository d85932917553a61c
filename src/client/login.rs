//! Who we are at a server, as its kubeconfig file says now. All that ask the server share one [`Login`], so a new token, certificate,
//! authority or address counts for all of them at once.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use http::Uri;
use parking_lot::Mutex;
use reload::{FileError, FileRead, Named, Origin, Reload, Reloaded};
use tokio::sync::watch;

use super::connector::Versions;
use super::kubeconfig::{Kubeconfig, KubeconfigError, KubeconfigFiles};

const NAMES_NOBODY: &str = "it names nobody: its user has no token, no certificate and no password";

/// See the file's header. Somebody calls [`Reload::look`] now and then.
pub struct Login {
    kubeconfig: Reloaded<Kubeconfig>,
    /// A file that names nobody is of no use.
    must_name: Arc<AtomicBool>,
    /// The generation of what was read last, for those who wait for another one.
    changed: watch::Sender<u64>,
}

impl Login {
    /// Reads the file that a flag names, or the directory of a service account.
    ///
    /// # Errors
    /// One line with the flag, the file and what is wrong with it.
    pub fn read(flag: &'static str, path: &Path) -> Result<Arc<Login>, KubeconfigError> {
        let files = vec![Named { flag, path: path.to_owned() }];
        let must_name = Arc::<AtomicBool>::default();
        let origin = Checked { files: KubeconfigFiles::of(flag, path), file: files[0].clone(), must_name: must_name.clone() };
        let kubeconfig = Reloaded::load_from(files, origin);
        let kubeconfig = kubeconfig.map_err(|error| KubeconfigError { flag, path: path.to_owned(), what: error.what().to_owned() })?;
        Ok(Arc::new(Login { kubeconfig, must_name, changed: watch::Sender::new(0) }))
    }

    /// Checks that the file names somebody; from now on one that names nobody counts as wrong. Over plain HTTP no credentials are sent, as in client-go:
    /// whatever listens there (`kubectl proxy`) knows who we are.
    ///
    /// # Errors
    /// It names nobody.
    pub fn must_name_somebody(&self) -> Result<(), String> {
        self.must_name.store(true, Ordering::Relaxed);
        named(&self.now())
    }

    /// Returns one that never changes.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn of(kubeconfig: Kubeconfig) -> Arc<Login> {
        Arc::new(Login { kubeconfig: Reloaded::of(kubeconfig), must_name: Arc::default(), changed: watch::Sender::new(0) })
    }

    /// Returns what the file says now.
    #[must_use]
    pub fn now(&self) -> Arc<Kubeconfig> {
        self.kubeconfig.now()
    }

    /// Returns the URL of a path at the server, see [`Kubeconfig::url`].
    #[must_use]
    pub fn url(&self, path: &str) -> Uri {
        self.now().url(path)
    }

    /// Returns the flag that names the file.
    #[must_use]
    pub fn flag(&self) -> &'static str {
        self.files().first().map_or("", |file| file.flag)
    }

    /// Returns how often the file has changed. Whoever reads this before [`Login::now`] knows that the latter is at least as new.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.kubeconfig.generation()
    }

    /// Waits until the file says something else than at this generation.
    pub async fn changed_since(&self, generation: u64) {
        // The sender is this very object's.
        let _ = self.changed.subscribe().wait_for(|now| *now != generation).await;
    }
}

impl Reload for Login {
    fn look(&self) -> Result<bool, FileError> {
        let is_new = self.kubeconfig.look()?;
        if is_new {
            self.changed.send_replace(self.generation());
        }
        Ok(is_new)
    }

    fn files(&self) -> &[Named] {
        self.kubeconfig.files()
    }
}

/// The files of a login, of which connections can be made.
struct Checked {
    files: KubeconfigFiles,
    file: Named,
    must_name: Arc<AtomicBool>,
}

impl Origin<Kubeconfig> for Checked {
    fn read(&self) -> Option<Vec<FileRead>> {
        self.files.read()
    }

    fn value(&self, contents: Vec<FileRead>, before: Option<&Kubeconfig>) -> Result<Kubeconfig, FileError> {
        let read = self.files.value(contents, before)?;
        let checked = fits(&read).and_then(|()| if self.must_name.load(Ordering::Relaxed) { named(&read) } else { Ok(()) });
        checked.map(|()| read).map_err(|what| FileError::new(self.file.clone(), what))
    }
}

fn named(kubeconfig: &Kubeconfig) -> Result<(), String> {
    if kubeconfig.has_identity() || kubeconfig.server().starts_with("http://") { Ok(()) } else { Err(NAMES_NOBODY.to_owned()) }
}

/// Checks that connections can be made of it: a certificate and its key may not fit.
fn fits(kubeconfig: &Kubeconfig) -> Result<(), String> {
    kubeconfig.connector(Versions::Http1).map(drop)
}

/// The logins of a process: two flags that name the same file share one.
#[derive(Default)]
pub struct Logins(Mutex<Vec<(PathBuf, Weak<Login>)>>);

impl Logins {
    /// Returns the login of this file, read now unless somebody has it.
    ///
    /// # Errors
    /// As of [`Login::read`].
    pub fn open(&self, flag: &'static str, path: &Path) -> Result<Arc<Login>, KubeconfigError> {
        let mut all = self.0.lock();
        all.retain(|(_, login)| login.strong_count() > 0);
        if let Some(login) = all.iter().find(|(of, _)| of == path).and_then(|(_, login)| login.upgrade()) {
            return Ok(login);
        }
        let login = Login::read(flag, path)?;
        all.push((path.to_owned(), Arc::downgrade(&login)));
        Ok(login)
    }

    /// Returns those that somebody has.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Login>> {
        self.0.lock().iter().filter_map(|(_, login)| login.upgrade()).collect()
    }
}

type Make<T> = Box<dyn Fn(&Arc<Kubeconfig>, Option<&T>) -> Result<T, String> + Send + Sync>;

/// What is made of a login, and made anew when that has changed: connections, for one. What was made before goes on for whoever has it.
pub struct Derived<T> {
    login: Arc<Login>,
    make: Make<T>,
    made: ArcSwap<Made<T>>,
    making: Mutex<()>,
}

struct Made<T> {
    /// The generation of the login that it was made of.
    generation: u64,
    value: Arc<T>,
}

impl<T> Derived<T> {
    /// Makes it for the first time. `make` is given what there was before, too.
    ///
    /// # Errors
    /// What `make` finds wrong.
    pub fn new(
        login: Arc<Login>,
        make: impl Fn(&Arc<Kubeconfig>, Option<&T>) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let generation = login.generation();
        let made = ArcSwap::from_pointee(Made { generation, value: Arc::new(make(&login.now(), None)?) });
        Ok(Self { login, make: Box::new(make), made, making: Mutex::default() })
    }

    /// Returns the login that it is made of.
    #[must_use]
    pub fn login(&self) -> &Arc<Login> {
        &self.login
    }

    /// Returns what is made of the login of now.
    #[must_use]
    pub fn now(&self) -> Arc<T> {
        let is_of_now = |made: &Made<T>| made.generation == self.login.generation();
        let made = self.made.load();
        if is_of_now(&made) {
            return made.value.clone();
        }
        drop(made);
        let _making = self.making.lock();
        let before = self.made.load_full();
        if is_of_now(&before) {
            return before.value.clone();
        }
        let generation = self.login.generation();
        let value = (self.make)(&self.login.now(), Some(&before.value)).map(Arc::new).unwrap_or_else(|why| {
            tracing::error!(%why, server = self.login.now().server(), "a changed kubeconfig cannot be used: what was made of the one before stays");
            before.value.clone()
        });
        self.made.store(Arc::new(Made { generation, value: value.clone() }));
        value
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn kubeconfig(server: &str, token: &str) -> String {
        serde_json::json!({
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        })
        .to_string()
    }

    /// Looks as often as it takes until what is read twice the same counts.
    fn look(login: &Login) -> Result<bool, String> {
        login.look().and_then(|first| Ok(login.look()? || first)).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_changed_file_counts_for_all_that_is_made_of_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config");
        fs::write(&path, kubeconfig("https://one:1", "a")).expect("written");
        let logins = Logins::default();
        let login = logins.open("--a", &path).expect("good");
        assert!(Arc::ptr_eq(&login, &logins.open("--b", &path).expect("good")), "one for all");
        let servers = || {
            let made = Derived::new(login.clone(), |at, before: Option<&String>| {
                Ok(format!("{}{}", before.map_or(String::new(), |before| format!("{before} ")), at.server()))
            });
            made.expect("made")
        };
        let (first, second) = (servers(), servers());
        let changed = login.changed_since(0);
        fs::write(&path, kubeconfig("https://two:2", "b")).expect("written");
        assert_eq!(look(&login), Ok(true));
        changed.await;
        assert_eq!((login.generation(), login.url("/x").to_string()), (1, "https://two:2/x".to_owned()));
        for made in [&first, &second] {
            assert_eq!(*made.now(), "https://one:1 https://two:2");
            assert!(Arc::ptr_eq(&made.now(), &made.now()), "made once");
        }
    }

    #[test]
    fn a_file_that_is_wrong_or_cut_or_gone_changes_nothing_and_is_reported_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config");
        let good = kubeconfig("https://one:1", "a");
        fs::write(&path, &good).expect("written");
        let login = Login::read("--a", &path).expect("good");
        for (nth, wrong) in ["{", "", "clusters: 1", &good[..good.len() / 2]].into_iter().enumerate() {
            fs::write(&path, wrong).expect("written");
            let line = look(&login).expect_err("it is wrong");
            assert!(line.starts_with(&format!("--a {}: ", path.display())), "{nth}: {line}");
            assert_eq!(look(&login), Ok(false), "{nth}: once");
        }
        fs::remove_file(&path).expect("removed");
        assert!(look(&login).is_err_and(|line| line.contains("No such file")));
        assert_eq!((look(&login), login.generation(), login.now().server().to_owned()), (Ok(false), 0, "https://one:1".to_owned()));
        fs::write(&path, kubeconfig("https://two:2", "a")).expect("written");
        assert_eq!((look(&login), login.now().server().to_owned()), (Ok(true), "https://two:2".to_owned()));
    }

    #[test]
    fn who_must_be_somebody_stays_somebody() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config");
        let nobody = kubeconfig("https://one:1", "a").replace(r#""token":"a""#, "");
        fs::write(&path, kubeconfig("https://one:1", "a")).expect("written");
        let (login, free) = (Login::read("--a", &path).expect("good"), Login::read("--a", &path).expect("good"));
        login.must_name_somebody().expect("it has a token");
        fs::write(&path, nobody).expect("written");
        assert!(look(&login).is_err_and(|line| line.ends_with(NAMES_NOBODY)) && login.now().has_identity());
        assert_eq!((look(&free), free.now().has_identity(), free.must_name_somebody()), (Ok(true), false, Err(NAMES_NOBODY.to_owned())));
        fs::write(&path, kubeconfig("http://one:1", "a")).expect("written");
        assert_eq!(
            (look(&login), login.now().has_identity(), login.must_name_somebody()),
            (Ok(true), false, Ok(())),
            "no credentials go over plain HTTP"
        );
    }

    #[test]
    fn what_cannot_be_made_leaves_what_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config");
        fs::write(&path, kubeconfig("https://one:1", "a")).expect("written");
        let login = Login::read("--a", &path).expect("good");
        let made = Derived::new(login.clone(), |at, _| match at.server() {
            "https://two:2" => Err("no".to_owned()),
            server => Ok(server.to_owned()),
        });
        let made = made.expect("made");
        for (server, wanted) in [("https://two:2", "https://one:1"), ("https://three:3", "https://three:3")] {
            fs::write(&path, kubeconfig(server, "a")).expect("written");
            assert_eq!(look(&login), Ok(true));
            assert_eq!(*made.now(), wanted);
        }
    }
}
