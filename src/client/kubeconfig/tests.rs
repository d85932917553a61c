//! Kubeconfig files, good and bad ones, and their files when they change.

use std::fs;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;
use reload::{Named, Reload, Reloaded};

use super::*;

const FILE: &str = "
apiVersion: v1
kind: Config
clusters:
- name: there
  cluster:
    server: https://localhost:8443/authenticate/
    certificate-authority: ca.pem
- name: other
  cluster: {server: 'localhost:1'}
users:
- name: we
  user: {tokenFile: token}
- name: other
contexts:
- name: one
  context: {cluster: there, user: we, namespace: x}
- name: two
  context: {cluster: other, user: other}
current-context: one
";

/// A directory with a bundle, a key and tokens.
struct Place {
    directory: tempfile::TempDir,
    pem: String,
    key: String,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().expect("a directory");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a valid name");
        let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let place = Place { directory, pem, key };
        for (name, text) in [("ca.pem", place.pem.as_str()), ("key.pem", &place.key), ("token", " secret\n"), ("empty", "\n")] {
            place.write(name, text);
        }
        place
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).expect("written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, text: &str) -> Result<Kubeconfig, String> {
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        self.write("config", &text.replace("CA-DATA", &encoded(&self.pem)).replace("KEY-DATA", &encoded(&self.key)));
        let read = Kubeconfig::read("--a-flag", &self.path("config"));
        read.map_err(|error| error.to_string().replace(&self.directory.path().display().to_string(), "DIR"))
    }
}

fn read(change: impl Fn(String) -> String) -> Result<Kubeconfig, String> {
    Place::new().read(&change(FILE.to_owned()))
}

/// The error of a file in which this stands instead of that.
fn wrong(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    let error = read(|file| file.replace(from, to)).expect_err(to);
    error.strip_prefix("--a-flag DIR/config: ").expect("the flag and the file").to_owned()
}

/// The file with this user.
fn user(user: &str) -> Result<Kubeconfig, String> {
    let user = user.to_owned();
    read(move |file| file.replace("{tokenFile: token}", &user))
}

/// What the user sends.
async fn sent(config: &Kubeconfig) -> Vec<String> {
    let mut headers = http::HeaderMap::new();
    config.authorization().apply(&mut headers).await.expect("credentials");
    headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("a text"))).collect()
}

#[test]
fn the_current_context_says_where_and_who() {
    let config = read(|file| file).expect("good");
    assert_eq!(config.url("").to_string(), "https://localhost:8443/authenticate");
    assert_eq!(config.url("/apis?a=b").to_string(), "https://localhost:8443/authenticate/apis?a=b");
    assert!(matches!(&config.credentials, Credentials::TokenFile(path, None) if path.ends_with("token")), "{:?}", config.credentials);
    assert!(matches!(config.trust, Trust::Authorities(all) if all.len() == 1));
    let two = read(|file| file.replace("current-context: one", "current-context: two")).expect("good");
    assert_eq!((two.url("/").to_string().as_str(), two.trust), ("http://localhost:1/", Trust::System));
    let plain = read(|file| {
        file.replace("current-context: one", "current-context: two")
            .replace("'localhost:1'", "'localhost:1', certificate-authority-data: CA-DATA")
    });
    assert_eq!(plain.expect("good").server(), "http://localhost:1", "client-go looks at the scheme before it looks at authorities");
}

#[test]
fn users_have_tokens_certificates_or_passwords() {
    let data = user("{client-certificate-data: CA-DATA, client-key-data: KEY-DATA}").expect("good");
    assert!(data.certificate.is_some() && matches!(data.credentials, Credentials::None));
    assert!(user("{client-certificate: ca.pem, client-key: key.pem}").expect("good").certificate.is_some());
    let Credentials::Fixed(value) = user("{username: a, password: b}").expect("good").credentials else { panic!("a header") };
    assert_eq!(value, "Basic YTpi");
    assert!(matches!(user("{token: abc}").expect("good").credentials, Credentials::Fixed(value) if value == "Bearer abc"));
    assert!(!user("{password: b}").expect("good").has_identity(), "a password alone is nobody's");
    let named =
        read(|file| file.replace("certificate-authority: ca.pem", "insecure-skip-tls-verify: true\n    tls-server-name: example.com"));
    let named = named.expect("good");
    assert!(named.trust == Trust::Anyone && named.server_name == ServerName::try_from("example.com").ok());
}

/// PowerShell's `>`.
#[test]
fn a_file_may_be_in_utf_16() {
    let place = Place::new();
    let text = FILE.replace("{tokenFile: token}", "{token: jané}");
    for (mark, bytes) in [([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]), ([0xfe, 0xff], u16::to_be_bytes)] {
        let bytes: Vec<u8> = mark.into_iter().chain(text.encode_utf16().flat_map(bytes)).collect();
        fs::write(place.path("config"), bytes).expect("written");
        assert!(Kubeconfig::read("--a-flag", &place.path("config")).is_ok_and(|config| config.has_identity()));
    }
}

/// `base64` without `-w0`, and YAML's `|` blocks.
#[test]
fn base64_may_be_wrapped() {
    let place = Place::new();
    let wrapped = |text: &str, indent: &str, end: &str| {
        let data = BASE64_STANDARD.encode(text);
        data.as_bytes().chunks(76).map(|line| format!("{indent}{}{end}", String::from_utf8_lossy(line))).collect::<String>()
    };
    let block = format!("certificate-authority-data: |\n{}", wrapped(&place.pem, "      ", "\n"));
    assert!(place.read(&FILE.replace("certificate-authority: ca.pem", &block)).is_ok());
    let quoted = |text: &str| wrapped(text, "", "\\r\\n");
    let user = format!("{{client-certificate-data: \"{}\", client-key-data: \"{}\"}}", quoted(&place.pem), quoted(&place.key));
    assert!(place.read(&FILE.replace("{tokenFile: token}", &user)).expect("good").certificate.is_some());
}

#[tokio::test]
async fn a_user_may_act_as_another() {
    let config = user("{token: a, as: jané, as-uid: '1', as-groups: [g, h], as-user-extra: {example.org/Scopes: [p, q]}}").expect("good");
    let mut headers = http::HeaderMap::new();
    config.authorization().apply(&mut headers).await.expect("credentials");
    let all: Vec<_> = headers.iter().map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.as_bytes()))).collect();
    let wanted = [
        "authorization=Bearer a",
        "impersonate-user=jané",
        "impersonate-uid=1",
        "impersonate-group=g",
        "impersonate-group=h",
        "impersonate-extra-example.org%2fscopes=p",
        "impersonate-extra-example.org%2fscopes=q",
    ];
    assert_eq!(all, wanted);
    let mut named = http::HeaderMap::from_iter([(HeaderName::from_static("impersonate-user"), HeaderValue::from_static("jane"))]);
    config.authorization().apply(&mut named).await.expect("credentials");
    assert_eq!(named.get_all("impersonate-user").iter().collect::<Vec<_>>(), ["jane"], "who is named already counts");
    assert!(!named.contains_key("impersonate-group"));
    assert!(
        user("{as-groups: [x]}").expect_err("nobody").contains("requesting uid, groups or user-extra for we without impersonating a user")
    );
}

#[tokio::test]
async fn a_token_file_counts_before_a_token() {
    let place = Place::new();
    let both = FILE.replace("{tokenFile: token}", "{tokenFile: token, token: other}");
    assert_eq!(sent(&place.read(&both).expect("good")).await, ["authorization: Bearer secret"]);
    let missing = place.read(&both.replace("tokenFile: token", "tokenFile: none")).expect("good");
    assert_eq!(sent(&missing).await, ["authorization: Bearer other"]);
    let of_url = place.read(&both.replace("https://localhost", "https://a:b@localhost")).expect("good");
    assert_eq!(sent(&of_url).await, ["authorization: Basic YTpi"]);
    let plain = place.read(&both.replace("https://", "http://")).expect("good");
    assert!(sent(&plain).await.is_empty(), "nothing goes over a connection that anybody reads");
}

#[test]
fn a_pod_is_its_service_account() {
    let directory = tempfile::tempdir().expect("a directory");
    let of = |host: &'static str| {
        let variable = move |name: &str| Some(if name.ends_with("HOST") { host } else { "443" }.to_owned());
        Kubeconfig::in_cluster(&ReadFiles::read(directory.path(), None), variable)
    };
    assert!(of("10.0.0.1").expect_err("no token").starts_with("token: "));
    fs::write(directory.path().join("token"), "secret").expect("written");
    assert!(of("10.0.0.1").expect_err("no authority").starts_with("ca.crt: "));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a valid name");
    fs::write(directory.path().join("ca.crt"), made.cert.pem()).expect("written");
    let config = of("fd00::1").expect("good");
    assert_eq!((config.server(), config.has_identity()), ("https://[fd00::1]:443", true));
    assert!(matches!(&config.credentials, Credentials::TokenFile(path, None) if path.ends_with("token")));
    let nobody = config.as_nobody();
    assert!(!nobody.has_identity() && nobody.server() == "https://[fd00::1]:443");
    assert!(of("").expect_err("no pod").contains("KUBERNETES_SERVICE_HOST"));
}

#[test]
fn what_cannot_be_used_is_refused_in_one_line() {
    assert_eq!(wrong("current-context: one", "current-context: three"), "context was not found for specified context: three");
    assert_eq!(wrong("current-context: one", "{}"), "yaml: line 19: did not find expected key");
    assert!(wrong("current-context: one", "").ends_with("current-context is not set, and there are several contexts"));
    assert_eq!(wrong(FILE, ""), "no configuration has been provided: there is no context");
    assert_eq!(wrong("cluster: there, ", ""), "cluster was not specified for context \"one\"");
    assert_eq!(wrong("cluster: there,", "cluster: gone,"), "cluster \"gone\" was not found for context \"one\"");
    assert_eq!(
        wrong("    server: https://localhost:8443/authenticate/\n", ""),
        "invalid configuration: no server found for cluster \"there\""
    );
    assert_eq!(wrong("https://", "ftp://"), "server \"ftp://localhost:8443/authenticate/\": the scheme must be http or https");
    assert_eq!(
        wrong("certificate-authority: ca.pem", "proxy-url: socks4://a:secret@p"),
        "invalid configuration: invalid 'proxy-url' \"socks4://…@p\" for cluster \"there\": unsupported scheme \"socks4\", must be http, https, or socks5"
    );
    let missing =
        "invalid configuration: unable to read certificate-authority none.pem for there due to No such file or directory (os error 2)";
    assert_eq!(wrong("ca.pem", "none.pem"), missing);
    assert_eq!(wrong("ca.pem", "token"), "certificate-authority DIR/token: unable to parse bytes as PEM block");
    assert_eq!(wrong("tokenFile: token", "tokenFile: empty"), "tokenFile DIR/empty: read empty token");
    assert_eq!(wrong("kind: Config", "kind: Pod").split(':').next(), Some("no kind \"Pod\" is registered for version \"v1\""));
    let both = wrong("certificate-authority: ca.pem", "certificate-authority: ca.pem\n    insecure-skip-tls-verify: true");
    assert_eq!(both, "specifying a root certificates file with the insecure flag is not allowed");
    let gone = Kubeconfig::read("--a-flag", Path::new("nowhere")).expect_err("no file").to_string();
    assert_eq!(gone, "--a-flag nowhere: No such file or directory (os error 2)");
}

#[test]
fn users_that_cannot_be_used_are_refused() {
    let user = |user: &str| wrong("{tokenFile: token}", user);
    for (provider, way) in
        [("gcp", "gke-gcloud-auth-plugin"), ("azure", "kubelogin convert-kubeconfig"), ("oidc", "oidc-login"), ("x", "exec")]
    {
        let why = user(&format!("{{auth-provider: {{name: {provider}}}}}"));
        assert!(why.starts_with(&format!("auth-provider \"{provider}\" of user \"we\": ")) && why.contains(way), "{why}");
    }
    assert!(user("{token: a, username: b}").contains("more than one authentication method found for we"));
    assert!(user("{client-certificate: ca.pem}").contains("client-key-data or client-key must be specified for we"));
    assert_eq!(user("{token: [a]}"), "users[0].user.token: expected a string, found array");
    let exec = |exec: &str| user(&format!("{{exec: {{command: x, {exec}}}}}"));
    assert!(exec("apiVersion: client.authentication.k8s.io/v1").contains("interactiveMode must be specified for we"));
    assert!(exec("interactiveMode: Never").contains("apiVersion must be specified for we"));
    assert_eq!(
        exec("apiVersion: client.authentication.k8s.io/v1alpha1"),
        "exec plugin: invalid apiVersion \"client.authentication.k8s.io/v1alpha1\""
    );
    let asks = exec("apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always");
    assert!(asks.ends_with("cannot support interactive mode: standard input is not a terminal"), "{asks}");
}

#[test]
fn a_plugin_is_told_what_client_go_tells_it() {
    let cluster = "certificate-authority-data: 'YWJj'\n    insecure-skip-tls-verify: false\n    disable-compression: true\n    proxy-url: http://p:1\n    \
                   extensions: [{name: client.authentication.k8s.io/exec, extension: {b: '<', a: 1}}]";
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./bin/x, provideClusterInfo: true, interactiveMode: Never}}";
    let of = |cluster: &str, exec: &str| {
        let text =
            FILE.replace("certificate-authority: ca.pem", cluster).replace("{tokenFile: token}", exec).replace("nticate/", "nticate?x");
        let tree = reader::parse(text.as_bytes()).expect("YAML").value;
        let chosen = File::read(&tree).expect("a file").chosen().expect("chosen");
        exec::plugin("we", &chosen.user, &chosen.cluster, &ReadFiles::read(Path::new("/dir/config"), None))
            .expect("good")
            .expect("a plugin")
    };
    let spec = of(cluster, exec);
    assert_eq!(spec.command.to_string(), "/dir/bin/x");
    assert_eq!(
        spec.info,
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"spec\":{\"cluster\":{\"server\":\"https://localhost:8443/authenticate\",\
         \"certificate-authority-data\":\"YWJj\",\"proxy-url\":\"http://p:1\",\"disable-compression\":true,\"config\":{\"a\":1,\"b\":\"\\u003c\"}},\"interactive\":false}}\n"
    );
    let spec = of(cluster, "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x}}");
    assert_eq!(spec.command.to_string(), "x");
    let wanted = "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"spec\":{\"interactive\":false}}\n";
    assert_eq!(spec.info, wanted);
}

#[test]
fn files_that_it_names_are_read_again() {
    let place = Place::new();
    let path = place.path("config");
    place.write("config", &FILE.replace("{tokenFile: token}", "{client-certificate: cert.pem, client-key: key.pem}"));
    place.write("cert.pem", &place.pem);
    let files = || vec![Named { flag: "--a-flag", path: path.clone() }];
    let config = Reloaded::load_from(files(), KubeconfigFiles::of("--a-flag", &path)).expect("good");
    let look = || config.look().and_then(|first| Ok(config.look()? || first)).map_err(|error| error.to_string());
    let chain = || config.now().certificate.as_ref().map(|certificate| certificate.0.clone());
    let (first, trust) = (chain(), config.now().trust.clone());
    assert_eq!(look(), Ok(false));
    let other = Place::new();
    // A certificate whose key has not come yet, and one that is cut, change nothing and are reported once.
    for (name, text) in [("cert.pem", other.pem.as_str()), ("cert.pem", &other.pem[..100]), ("key.pem", "x"), ("ca.pem", "")] {
        place.write(name, text);
        let why = look().expect_err(name);
        assert!(why.starts_with(&format!("--a-flag {}: ", path.display())), "{why}");
        assert_eq!((look(), chain(), config.generation()), (Ok(false), first.clone(), 0), "{name}");
    }
    for (name, text) in [("cert.pem", &other.pem), ("key.pem", &other.key), ("ca.pem", &other.pem)] {
        place.write(name, text);
    }
    assert_eq!(look(), Ok(true));
    assert!(chain() != first && config.now().trust != trust);
    fs::remove_file(place.path("ca.pem")).expect("removed");
    assert!(look().is_err_and(|why| why.contains("No such file")));
    assert_eq!((look(), config.generation()), (Ok(false), 1));
    // Other files, which the kubeconfig names now.
    place.write("config", &FILE.replace("ca.pem", "new.pem"));
    place.write("new.pem", &place.pem);
    assert_eq!(look(), Ok(true));
    assert_eq!((chain(), config.now().trust == trust), (None, true));
    place.write("cert.pem", "nobody looks at it");
    assert_eq!(look(), Ok(false));
    place.write("new.pem", &other.pem);
    assert_eq!((look(), config.now().trust == trust), (Ok(true), false));
}

#[test]
fn a_plugin_goes_on_when_something_else_changes() {
    let place = Place::new();
    let path = place.path("config");
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Never, args: [a]}}";
    let text = FILE.replace("{tokenFile: token}", exec);
    place.write("config", &text);
    let config = Reloaded::load_from(Vec::new(), KubeconfigFiles::of("--a-flag", &path)).expect("good");
    let plugin = || match &config.now().credentials {
        Credentials::Plugin(plugin) => plugin.clone(),
        other => panic!("{other:?}"),
    };
    let look = || config.look().and_then(|first| Ok(config.look()? || first)).map_err(|error| error.to_string());
    let first = plugin();
    place.write("config", &text.replace("8443", "8444"));
    assert_eq!((look(), Arc::ptr_eq(&first, &plugin())), (Ok(true), true));
    place.write("config", &text.replace("[a]", "[b]"));
    assert_eq!((look(), Arc::ptr_eq(&first, &plugin())), (Ok(true), false));
}

proptest! {
    #[test]
    fn never_panics(server in ".{0,30}", text in "[ -~\n]{0,200}") {
        if let Ok(good) = Server::read(&server) {
            let uri: Uri = format!("{}/a?b=c", good.url).parse().expect("it was checked");
            prop_assert!(uri.host().is_some());
        }
        let _ = Proxy::read(&server);
        if let Ok(document) = reader::parse(text.as_bytes()) {
            let _ = File::read(&document.value).and_then(|file| file.chosen());
        }
    }
}
