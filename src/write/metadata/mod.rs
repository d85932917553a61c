//! Names and ObjectMeta of what is written: normal form and validation (spec api-surface §5.4, §6.1). Knows no etcd.
