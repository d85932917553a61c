//! Strategic merge patch (spec api-surface §7.3).
