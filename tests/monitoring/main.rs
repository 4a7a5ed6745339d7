//! Metrics, rules and dashboards, on real Prometheus and Alertmanager.

mod holder;
mod rules;
