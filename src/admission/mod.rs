//! Who may start now, who is refused.
