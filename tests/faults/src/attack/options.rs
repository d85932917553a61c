//! The attacks by name, and their sizes: a short form that a busy machine ends in minutes, and a long one.

use std::time::Duration;

use clap::{Args, Subcommand};

/// A number of the short form and of the long one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) usize, pub(crate) usize);

/// Sizes of the attacks. What has two defaults has them for the short and the long form.
#[derive(Clone, Debug, Args)]
pub(crate) struct Attacks {
    /// The long form: large numbers, and the honest clients' p99 is judged.
    #[arg(long = "attack-long", global = true)]
    pub(crate) long: bool,
    /// Print a row of a markdown table after each attack.
    #[arg(long, global = true)]
    pub(crate) table: bool,
    /// ConfigMaps of 600 bytes that lists are made of: 5,000 or 200,000.
    #[arg(long = "attack-objects", global = true)]
    objects: Option<usize>,
    /// Pods of 1.4 MB that lists are made of: 60 or 1,000.
    #[arg(long = "attack-large-objects", global = true)]
    large_objects: Option<usize>,
    /// How long an attack goes on, seconds: 5 or 20.
    #[arg(long = "attack-seconds", global = true)]
    seconds: Option<usize>,
    /// How long the honest clients are measured at rest, seconds: 2 or 10.
    #[arg(long, global = true)]
    rest_seconds: Option<usize>,
    /// How long after an attack the server's memory is looked at, seconds: 2 or 60.
    #[arg(long, global = true)]
    recovery_seconds: Option<usize>,
    /// How much the server may grow under one attack, MiB.
    #[arg(long, global = true, default_value_t = 256)]
    pub(crate) attack_mib: u64,
    /// Whoever waits this long is shut out, milliseconds; in the long form whoever waits for half of the attack, if that is more.
    #[arg(long, global = true, default_value_t = 2500)]
    pub(crate) shut_out_ms: u64,
    /// How long the soak lasts, seconds.
    #[arg(long, global = true, default_value_t = 60)]
    pub(crate) soak_seconds: u64,
}

impl Attacks {
    /// The number of this run's form.
    #[must_use]
    pub(crate) fn of(&self, size: Size) -> usize {
        if self.long { size.1 } else { size.0 }
    }

    /// Small objects.
    #[must_use]
    pub(crate) fn objects(&self) -> usize {
        self.objects.unwrap_or(self.of(Size(5_000, 200_000)))
    }

    /// Large objects.
    #[must_use]
    pub(crate) fn large_objects(&self) -> usize {
        self.large_objects.unwrap_or(self.of(Size(60, 1000)))
    }

    /// Length of an attack.
    #[must_use]
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(self.of(Size(5, 20))) as u64)
    }

    /// Length of the quiet time before it.
    #[must_use]
    pub(crate) fn rest(&self) -> Duration {
        Duration::from_secs(self.rest_seconds.unwrap_or(self.of(Size(2, 10))) as u64)
    }

    /// Length of the quiet time after it.
    #[must_use]
    pub(crate) fn recovery(&self) -> Duration {
        Duration::from_secs(self.recovery_seconds.unwrap_or(self.of(Size(2, 60))) as u64)
    }
}

/// The attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Attack {
    /// Standard error is a full disk; resets make log lines; SIGTERM.
    LogFull,
    /// Standard error is a full pipe that nobody reads; resets make log lines; SIGTERM.
    LogUnread,
    /// Pretty lists of many objects on streams without a window.
    UnreadLists,
    /// Three pretty lists of large objects that nobody reads.
    UnreadLarge,
    /// Every form of a list on 250 streams without a window.
    UnreadAll,
    /// Bodies of 2 MiB that never end.
    HalfBodies,
    /// The same, and SIGTERM meanwhile.
    HalfBodiesEnded,
    /// Bodies of a byte a second, and bodies whose trailers never come.
    SlowBodies,
    /// Strangers take every connection with a 401 that they do not let out.
    Strangers,
    /// TLS handshakes of a byte a second.
    SlowHandshakes,
    /// Many silent connections from one address.
    ManyConnections,
    /// Definitions of 62 KB are created and patched, and of 1.2 MB created; a restart.
    Definitions,
    /// Many small definitions, and what they cost at rest.
    ManyDefinitions,
    /// A definition near the limit beside an ordinary one, which has to be established soon.
    LargeDefinition,
    /// Definitions with the names of built-in resources.
    Shadow,
    /// Lists with a selector of 9,000 requirements, two at a time.
    LongSelectors,
    /// Watches with such selectors.
    LongSelectorWatches,
    /// SETTINGS as fast as they go, without credentials.
    SettingsFlood,
    /// PING, PRIORITY, empty DATA and CONTINUATION, WINDOW_UPDATE and rapid resets.
    FrameFloods,
    /// Bodies of 3 MiB of nesting, aliases and keys; heads at the limit.
    GiantDocuments,
    /// WebSocket watches that read nothing.
    UnreadWebsocket,
    /// Many idle connections that go away.
    BurstConnections,
    /// Many watches that end.
    BurstWatches,
    /// Small patches of an object whose tree is large.
    LargePatches,
    /// GETs and lists that etcd answers, unread.
    UnreadCopies,
    /// Watches that are not read, each of a state that is then replaced.
    UnreadPictures,
    /// Strangers' requests with long heads, whose tokens a webhook is asked about that does not answer.
    HeadsWaiting,
    /// Requests with long heads on a connection that does not read what it has asked for.
    HeadsRoom,
    /// Watches with long selectors, of a user whom roles allow them.
    HeadsSelectors,
    /// Watches that say that they come from many addresses, and an audit log.
    HeadsAudit,
    /// Watches over HTTP/1.1 and WebSockets with 60 headers of 2 KB.
    HeadsHttp1,
    /// Rapid resets of requests that a replica forwards, by another user than the honest one.
    UpstreamResets,
    /// More questions to a webhook than are asked at once, which it does not answer; and who has the right comes.
    HangingWebhook,
    /// Reviews of 2.9 MB, about which the webhook does not answer.
    LongQuestions,
    /// Lists that an audit webhook is told of, which does not answer.
    AuditStuck,
    /// Long blocks of headers that become no request, without credentials.
    DeadBlocks,
    /// Watches that were opened by impersonation, and the right to impersonate is taken away.
    ImpersonatedWatches,
    /// Objects of a definition with 300 large patterns, and one with patterns that are larger.
    DefinedPatterns,
    /// Tables of small objects whose 800 columns each look at all pairs of what is nested.
    DefinedColumns,
    /// A watch of a Table whose column doubles at each step, while its object is changed.
    WatchedColumns,
    /// Definitions with 8,000 defaults in the metadata of an embedded object.
    DefinedDefaults,
    /// A small object, and then a large default for each of its items.
    MultipliedDefaults,
    /// Every version of a large object is read.
    ManyVersions,
    /// Questions about the rules of a user to whom a large role is bound often.
    RulesReviews,
    /// One viewer asks for all streams of the overview.
    OverviewStreams,
    /// Requests for a certificate of `system:masters` whose text is of an unusual type.
    CertificateRequests,
}

impl Attack {
    /// What `attacks` runs.
    pub(crate) const ALL: [Self; 46] = [
        Self::LogFull,
        Self::LogUnread,
        Self::UnreadLists,
        Self::UnreadLarge,
        Self::UnreadAll,
        Self::HalfBodies,
        Self::HalfBodiesEnded,
        Self::SlowBodies,
        Self::Strangers,
        Self::SlowHandshakes,
        Self::ManyConnections,
        Self::Definitions,
        Self::ManyDefinitions,
        Self::LargeDefinition,
        Self::Shadow,
        Self::LongSelectors,
        Self::LongSelectorWatches,
        Self::SettingsFlood,
        Self::FrameFloods,
        Self::GiantDocuments,
        Self::UnreadWebsocket,
        Self::BurstConnections,
        Self::BurstWatches,
        Self::LargePatches,
        Self::UnreadCopies,
        Self::UnreadPictures,
        Self::HeadsWaiting,
        Self::HeadsRoom,
        Self::HeadsSelectors,
        Self::HeadsAudit,
        Self::HeadsHttp1,
        Self::UpstreamResets,
        Self::HangingWebhook,
        Self::LongQuestions,
        Self::AuditStuck,
        Self::DeadBlocks,
        Self::DefinedPatterns,
        Self::DefinedColumns,
        Self::WatchedColumns,
        Self::DefinedDefaults,
        Self::MultipliedDefaults,
        Self::ManyVersions,
        Self::RulesReviews,
        Self::OverviewStreams,
        Self::CertificateRequests,
        Self::ImpersonatedWatches,
    ];

    /// Whether `attacks` runs it with a server that a kube-apiserver feeds: not what takes 5 minutes there, after which a watch is judged again.
    #[must_use]
    pub(crate) fn is_soon_fed(self) -> bool {
        !matches!(self, Self::ImpersonatedWatches) && !self.is_defined()
    }

    /// Whether it is about what is written once, which a kube-apiserver that feeds the server would have to take, too.
    #[must_use]
    pub(crate) fn is_defined(self) -> bool {
        matches!(
            self,
            Self::DefinedPatterns
                | Self::DefinedColumns
                | Self::WatchedColumns
                | Self::DefinedDefaults
                | Self::MultipliedDefaults
                | Self::ManyVersions
                | Self::RulesReviews
                | Self::OverviewStreams
                | Self::CertificateRequests
        )
    }

    /// As typed on the command line.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LogFull => "log-full",
            Self::LogUnread => "log-unread",
            Self::UnreadLists => "unread-lists",
            Self::UnreadLarge => "unread-large",
            Self::UnreadAll => "unread-all",
            Self::HalfBodies => "half-bodies",
            Self::HalfBodiesEnded => "half-bodies-ended",
            Self::SlowBodies => "slow-bodies",
            Self::Strangers => "strangers",
            Self::SlowHandshakes => "slow-handshakes",
            Self::ManyConnections => "many-connections",
            Self::Definitions => "definitions",
            Self::ManyDefinitions => "many-definitions",
            Self::LargeDefinition => "large-definition",
            Self::Shadow => "shadow",
            Self::LongSelectors => "long-selectors",
            Self::LongSelectorWatches => "long-selector-watches",
            Self::SettingsFlood => "settings-flood",
            Self::FrameFloods => "frame-floods",
            Self::GiantDocuments => "giant-documents",
            Self::UnreadWebsocket => "unread-websocket",
            Self::BurstConnections => "burst-connections",
            Self::BurstWatches => "burst-watches",
            Self::LargePatches => "large-patches",
            Self::UnreadCopies => "unread-copies",
            Self::UnreadPictures => "unread-snapshots",
            Self::HeadsWaiting => "heads-waiting",
            Self::HeadsRoom => "heads-room",
            Self::HeadsSelectors => "heads-selectors",
            Self::HeadsAudit => "heads-audit",
            Self::HeadsHttp1 => "heads-http1",
            Self::UpstreamResets => "upstream-resets",
            Self::HangingWebhook => "hanging-webhook",
            Self::LongQuestions => "long-questions",
            Self::AuditStuck => "audit-stuck",
            Self::DeadBlocks => "dead-blocks",
            Self::ImpersonatedWatches => "impersonated-watches",
            Self::DefinedPatterns => "defined-patterns",
            Self::DefinedColumns => "defined-columns",
            Self::WatchedColumns => "watched-columns",
            Self::DefinedDefaults => "defined-defaults",
            Self::MultipliedDefaults => "multiplied-defaults",
            Self::ManyVersions => "many-versions",
            Self::RulesReviews => "rules-reviews",
            Self::OverviewStreams => "overview-streams",
            Self::CertificateRequests => "certificate-requests",
        }
    }
}
