//! The composition root: builds the stages, translates the catalog into their inputs.
