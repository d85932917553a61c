//! Writing CustomResourceDefinitions: defaults, validation, conditions (spec api-surface §11). Pure: knows no etcd and no clock.
