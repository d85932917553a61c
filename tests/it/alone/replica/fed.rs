//! A server whose objects come from an API server, which is another watchcache here.

use super::*;
use crate::alone::metric;

const LIMITS: &str = "/api/v1/namespaces/default/limitranges";

/// Who may not read a resource has it not loaded, and is told so at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_may_read_has_it_loaded() -> Outcome {
    let cluster = Cluster::start().await?;
    let (site, at) = (&cluster.site, free_address()?);
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchcache"));
    command.args(["serve", "--insecure-port=0"]).args(site.fed_by(cluster.upstream_at)?).args(site.listening(at));
    let running = site.start("fed", command)?;
    let (admin, jane) = (site.client(at), site.client_of(at, "janetoken"));
    running.ready(&admin).await.map_err(|error| error.to_string())?;
    for query in ["", "/a", "?watch=1&resourceVersion=1"] {
        assert_eq!(jane.fetch(&format!("{LIMITS}{query}")).await?.status, 403, "{query}");
    }
    sleep(Duration::from_secs(2)).await;
    let loads = async || metric(&admin, "apiserver_watch_cache_initializations_total", "\"limitranges\"").await;
    assert_eq!(loads().await?, 0.0, "it was not loaded for jane");
    let handed = forwarded(&admin, "loading").await?;
    asked(&admin, ("GET", &format!("{LIMITS}?resourceVersion=0")), None, 200).await?;
    assert_eq!((loads().await?, forwarded(&admin, "loading").await?), (1.0, handed), "a list waits until it is loaded");
    // A watch may be the first to ask.
    admin.watch("/api/v1/namespaces/default/resourcequotas?watch=1&resourceVersion=0").await?.map_err(|answer| format!("{answer:?}"))?;
    assert_eq!(forwarded(&admin, "loading").await?, handed, "it waits until it is loaded");
    Ok(())
}
