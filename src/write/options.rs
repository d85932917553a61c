//! The query parameters of writes become options (spec api-surface §5.1, §7.1, §8.1). Knows no resource.
