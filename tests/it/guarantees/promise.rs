//! The promises by name and by sentence, the same words for every validator (`docs/guarantees.md`). Knows no validator.

/// A promise of the server to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Guarantee {
    Ordered,
    Atomic,
    Unique,
    Reliable,
    Resumable,
    Bookmarkable,
    Together,
    Fresh,
    Complete,
    Bounded,
}

impl Guarantee {
    /// The promise, as a sentence that a report can print.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Ordered => "revisions on a watch never go back, initial events apart",
            Self::Atomic => "all changes of one revision that the filter selects arrive, or none of them",
            Self::Unique => "a watch never shows the same change (a key at a revision) twice",
            Self::Reliable => "nothing that the filter selects is skipped between two things a watch showed, and nothing is made up",
            Self::Resumable => "a watch from a seen revision continues exactly after it, or ends with 410, and is never silent",
            Self::Bookmarkable => "a bookmark at R comes after every selected change up to R, and none at or below R comes after it",
            Self::Together => "a list shows one revision: every object as it was then, none newer, and the same on each of its pages",
            Self::Fresh => "a list or an object asked for at least R is answered at or after R, a list asked for exactly R at R",
            Self::Complete => "after its list, its events and its relists, a client has exactly the objects that are there",
            Self::Bounded => "every page, answer and watch keeps the limit that it was asked with",
        }
    }
}
