//! Names that the server makes: `generateName` (spec api-surface §5.3). Knows no object.
