//! `watchcache store`: the embedded store alone, as an etcd on loopback.

use std::time::Duration;

use tokio::{runtime::Builder, sync::watch};

use super::{StartError, files, signals::Signals};
use crate::config::StoreAlone;
use store::{Store, StoreConfig};
use telemetry::build;

/// From SIGTERM until open streams are cut: watches do not end by themselves.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// Serves the store until SIGTERM or SIGINT, then closes it.
///
/// # Errors
/// What keeps it from starting, or the reason why its storage failed.
pub fn run_store(config: StoreAlone) -> Result<(), StartError> {
    let serving = Builder::new_multi_thread().enable_all().thread_name("serve").build()?;
    let outcome = serving.block_on(serve(config));
    serving.shutdown_timeout(DRAIN_MAX);
    outcome
}

async fn serve(config: StoreAlone) -> Result<(), StartError> {
    let listeners = Store::bind(&config.listen).await?;
    let settings = StoreConfig {
        auto_compaction_retention: config.auto_compaction_retention,
        progress_interval: config.progress_interval,
        client_urls: config.client_urls.clone(),
        quota_bytes: config.quota_bytes,
        unsynced: config.unsynced,
        ..StoreConfig::default()
    };
    let store = if config.in_memory { Store::open_in_memory(settings)? } else { Store::open(&config.data_dir, settings)? };
    let mut signals = Signals::listen()?;
    build::tell();
    files::report_flags(&config.warnings, &config.ignored_flags);
    tracing::info!(data_dir = %config.data_dir.display(), urls = ?config.client_urls, "serving etcd's API from the embedded store");
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(store.serve_socket(stopped.clone()));
    let serve = store.serve(listeners, stopped);
    tokio::pin!(serve);
    let mut serving = true;
    let fault = tokio::select! {
        signal = signals.stop() => {
            tracing::info!(signal, "stopping");
            None
        }
        ended = &mut serve => {
            serving = false;
            ended.err().map(StartError::from)
        }
        why = store.failed() => {
            tracing::error!(%why, "the store has failed; stopping");
            Some(StartError::StoreFailed(why))
        }
    };
    signals.end_at_next();
    // Nobody listens when it has ended.
    let _ = stop.send(true);
    tokio::select! {
        _ = &mut serve, if serving && fault.is_none() => {}
        () = tokio::time::sleep(DRAIN_MAX) => {}
    }
    store.close().await;
    tracing::info!("stopped");
    fault.map_or(Ok(()), Err)
}
