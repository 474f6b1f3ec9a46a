//! System views: the state of the governor as rows.
