//! The committed code is what the `.proto` files say. With `WATCHCACHE_GENERATE=1` it is written anew instead.

use std::path::Path;
use std::{env, fs};

/// What is generated: one file for each package.
const FILES: [&str; 2] = ["etcdserverpb.rs", "mvccpb.rs"];

#[test]
fn the_committed_code_is_that_of_the_proto_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = tempfile::tempdir().expect("a temporary directory");
    let files = protox::compile(["rpc.proto", "kv.proto"], [root]).expect("the .proto files compile");
    // Who connects, and how, is not for the generated code to know.
    let generator = tonic_prost_build::configure()
        .build_transport(false)
        .codec_path("crate::codec::Codec")
        .emit_rerun_if_changed(false)
        .out_dir(made.path());
    generator.compile_fds(files).expect("code for what compiles");
    for file in FILES {
        let (new, committed) = (fs::read(made.path().join(file)).expect("made"), root.join("generated").join(file));
        if env::var_os("WATCHCACHE_GENERATE").is_some() {
            fs::write(&committed, &new).expect("writable");
        }
        let same = fs::read(&committed).is_ok_and(|old| old == new);
        assert!(same, "{file} is not what the .proto files say: run with WATCHCACHE_GENERATE=1");
    }
    assert_eq!(fs::read_dir(made.path()).expect("made").count(), FILES.len(), "another package");
}
