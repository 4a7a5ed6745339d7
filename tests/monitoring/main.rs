//! Metrics, rules and dashboards, on real Prometheus and Alertmanager.

mod arrivals;
mod dashboards;
mod holder;
mod rules;
mod usual;
