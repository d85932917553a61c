//! What a server that is at its `--memory-budget` does without. Everything here only saves time: it can be made again, or asked of etcd.

/// How much is given up: each with all before it, in the order in which they give way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GivenUp {
    /// Nothing: there is room.
    #[default]
    Nothing,
    /// Objects' protobuf messages: each list and event makes them anew.
    Messages,
    /// Compressed pieces of lists: each list is compressed anew.
    Blocks,
    /// Snapshots of the past, and indexes by labels and fields: a list at an old revision undoes all events since, a selector looks at every object.
    Snapshots,
    /// Three quarters of what history may hold: watches resume from less far back.
    OldHistory,
    /// All history but the least that is kept anyway.
    History,
}

impl GivenUp {
    /// From the first that gives way to the last.
    pub const ALL: [Self; 5] = [Self::Messages, Self::Blocks, Self::Snapshots, Self::OldHistory, Self::History];

    /// With what gives way next, if anything is left.
    #[must_use]
    pub fn more(self) -> Option<Self> {
        Self::ALL.into_iter().find(|next| *next > self)
    }

    /// Without what gave way last, if anything has.
    #[must_use]
    pub fn less(self) -> Option<Self> {
        (self > Self::Nothing).then(|| Self::ALL.into_iter().rev().find(|before| *before < self).unwrap_or_default())
    }

    /// What gave way last, in words for the log and the metric.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Messages => "messages",
            Self::Blocks => "blocks",
            Self::Snapshots => "snapshots",
            Self::OldHistory => "old_history",
            Self::History => "history",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_and_back() {
        let mut order = vec![GivenUp::Nothing];
        order.extend(std::iter::successors(GivenUp::Nothing.more(), |now| now.more()));
        assert_eq!(order[1..], GivenUp::ALL);
        assert!(order.is_sorted());
        order.reverse();
        assert_eq!(std::iter::successors(Some(GivenUp::History), |now| now.less()).collect::<Vec<_>>(), order);
    }
}
