//! What the governor measures, pulled at one moment and rendered as Prometheus text.
