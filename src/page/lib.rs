//! The files of the page at `/watchcache/`, which shows a server from inside: as they lie in `files`, in the binary. There is no build step, and nothing of it
//! asks any other server for anything.

use std::hash::{DefaultHasher, Hasher};

/// What browsers let the page load and do: its own files and its own server, nothing inline.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
                                           form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// A file of the page.
#[derive(Debug)]
pub struct File {
    /// Its name beside the others.
    pub name: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
}

macro_rules! files {
    ($($name:literal $kind:ident),* $(,)?) => {
        &[$(File { name: $name, content_type: $kind, bytes: include_bytes!(concat!("files/", $name)) }),*]
    };
}

/// All of them.
const FILES: &[File] = files![
    "index.html" HTML,
    "icon.svg" IMAGE,
    "style.css" STYLE,
    "app.js" SCRIPT,
    "dom.js" SCRIPT,
    "format.js" SCRIPT,
    "server.js" SCRIPT,
    "list.js" SCRIPT,
    "table.js" SCRIPT,
    "plot.js" SCRIPT,
    "overview.js" SCRIPT,
    "resources.js" SCRIPT,
    "watches.js" SCRIPT,
    "expired.js" SCRIPT,
    "object.js" SCRIPT,
    "cluster.js" SCRIPT,
    "diff.js" SCRIPT,
    "finder.js" SCRIPT,
    "health.js" SCRIPT,
    "tail.js" SCRIPT,
    "uPlot.iife.min.js" SCRIPT,
    "uPlot.min.css" STYLE,
    "uPlot.LICENSE" TEXT,
];

/// Returns the file of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

impl File {
    /// Returns what tells this file from others of its name: a hash of its bytes.
    #[must_use]
    pub fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.bytes);
        format!("{:016x}", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sha2::{Digest, Sha256};

    use super::*;

    /// What a page weighs over the wire, without compression.
    const BYTES_MAX: usize = 150_000;

    fn text(file: &File) -> &'static str {
        std::str::from_utf8(file.bytes).expect("UTF-8")
    }

    #[test]
    fn the_page_is_light() {
        let bytes: usize = FILES.iter().map(|file| file.bytes.len()).sum();
        assert!((50_000..=BYTES_MAX).contains(&bytes), "{bytes} bytes");
        let names: BTreeSet<&str> = FILES.iter().map(|file| file.name).collect();
        assert_eq!(names.len(), FILES.len(), "each once");
        let tags: BTreeSet<String> = FILES.iter().map(File::tag).collect();
        assert_eq!((tags.len(), FILES[0].tag()), (FILES.len(), find("index.html").expect("it is there").tag()));
        assert!(find("../lib.rs").is_none() && find("").is_none());
    }

    /// Whatever a file names is there: modules, scripts, styles.
    #[test]
    fn files_name_files_that_are_there() {
        for file in FILES.iter().filter(|file| !file.name.starts_with("uPlot")) {
            for around in ["from \"./", "src=\"", "href=\"", "import(\"./"] {
                for rest in text(file).split(around).skip(1) {
                    let name = rest.split('"').next().expect("a first part");
                    assert!(name.starts_with('#') || name.is_empty() || find(name).is_some(), "{}: {name}", file.name);
                }
            }
        }
    }

    /// What others write must never become markup, and the policy lets nothing inline run.
    #[test]
    fn the_page_writes_text_only() {
        for file in FILES.iter().filter(|file| !file.name.starts_with("uPlot") && file.content_type != IMAGE) {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacent",
                "document.write",
                "eval(",
                "new Function",
                "style=\"",
                "http://",
                "https://",
                "onclick=",
            ] {
                assert!(!text(file).contains(word), "{}: {word}", file.name);
            }
        }
        assert!(!text(find("index.html").expect("it is there")).contains("<script>"));
    }

    /// uPlot 1.6.32 as its npm package has it (sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==).
    #[test]
    fn the_library_is_as_it_came() {
        for (name, sum) in [
            ("uPlot.LICENSE", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
            ("uPlot.iife.min.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
            ("uPlot.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
        ] {
            let found = Sha256::digest(find(name).expect("it is there").bytes);
            assert_eq!(found.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), sum, "{name}");
        }
    }
}
