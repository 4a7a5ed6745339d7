//! `tests/data/dst_vectors.sample.json`: Debian cron(8)'s rule for clock changes.

use farmhand_core::definition::DstPolicy;
use jiff::Timestamp;
use serde::Deserialize;

use super::parse_in;

#[derive(Deserialize)]
struct Vector {
    id: String,
    expr: String,
    tz: String,
    from: Timestamp,
    until: Timestamp,
    fires: Vec<Timestamp>,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../data/dst_vectors.sample.json")).expect("the sample is JSON")
}

#[test]
fn every_vector_fires_exactly_as_debian_cron_does() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 33);
    for v in vectors {
        let schedule = parse_in(&v.expr, &v.tz, DstPolicy::Once).unwrap();
        let fires: Vec<_> = schedule
            .iter_after(v.from)
            .take_while(|t| *t <= v.until)
            .collect();
        assert_eq!(fires, v.fires, "{} {} {}", v.id, v.expr, v.tz);
    }
}
