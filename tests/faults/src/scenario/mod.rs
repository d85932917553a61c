//! The scenarios: each tells one story of things going wrong, and asks for a verdict.

mod feeder;
mod histories;
mod host;
mod hostile;
mod load;
mod network;
mod restart;
mod restore;
mod slow;
mod soak;
mod store;
mod store_asked;
mod upgraded;
mod upstream;
mod whole;

use std::path::Path;

use anyhow::Result;

use crate::{
    options::{Options, Scenario},
    stage::Verdict,
};

/// Plays one scenario in a folder of its own.
pub(crate) async fn play(scenario: Scenario, options: &Options, dir: &Path) -> Result<Verdict> {
    options.ports().free().await?;
    match scenario {
        Scenario::All | Scenario::Faults | Scenario::Crowds | Scenario::Attacks => anyhow::bail!("this is a list, not a scenario"),
        Scenario::Attack(_) => anyhow::bail!("an attack has a report, not a verdict"),
        Scenario::EtcdKilled => store::etcd_killed(options, dir).await,
        Scenario::LeaderKilled => store::leader_killed(options, dir).await,
        Scenario::MemberIsolated => store::member_isolated(options, dir).await,
        Scenario::CutSilent => network::cut(options, dir, crate::proxy::Gate::Silent).await,
        Scenario::CutReset => network::cut(options, dir, crate::proxy::Gate::Broken).await,
        Scenario::Compaction => network::compaction(options, dir).await,
        Scenario::Restored => restore::seen(options, dir).await,
        Scenario::RestoredUnseen => restore::unseen(options, dir).await,
        Scenario::RestoredStore => restore::store(options, dir).await,
        Scenario::Restarted => restart::terminated(options, dir).await,
        Scenario::Crashed => restart::crashed(options, dir).await,
        Scenario::UpstreamBroken => upstream::broken(options, dir).await,
        Scenario::Upgraded => upgraded::upgraded(options, dir).await,
        Scenario::HostBroken => host::broken(options, dir).await,
        Scenario::Whole => whole::lease_and_transaction(options, dir).await,
        Scenario::Fragments => whole::fragments(options, dir).await,
        Scenario::FeederBroken => feeder::broken(options, dir).await,
        Scenario::Histories => histories::histories(options, dir).await,
        Scenario::Load => load::load(options, dir).await,
        Scenario::Slow => slow::slow(options, dir).await,
        Scenario::Hostile => hostile::hostile(options, dir).await,
        Scenario::StoreAsked => store_asked::asked(options, dir).await,
        Scenario::Soak => soak::soak(options, dir).await,
    }
}
