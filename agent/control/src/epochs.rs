//! A new epoch, by hand.

use farmhand_core::lease::{FENCE_BITS, MAX_REMEMBERED_EPOCH};
use farmhand_store::acting::Acting;
use farmhand_store::epochs::{self, Epoch};

use crate::Refusal;

/// No memory of a farm has such a fence.
const BEYOND: i64 = (MAX_REMEMBERED_EPOCH + 1) << FENCE_BITS;

/// The epoch that the next one must be above, so that its fences are above `above`.
/// Errors: 2 when `above` cannot be a fence, 4 when every next fence is above it already.
pub fn floor(shown: &Epoch, above: Option<i64>) -> Result<i64, Refusal> {
    let Some(above) = above else { return Ok(0) };
    let epoch = above >> FENCE_BITS;
    if above >= BEYOND {
        return Err(Refusal::usage(format!("{above} cannot be a fence of this farm"))
            .why(format!("fences are below {BEYOND}"))
            .next("give the highest FARMHAND_FENCE that your targets have stored"));
    }
    if above <= (shown.epoch << FENCE_BITS) + shown.fence {
        return Err(
            Refusal::refused(format!("every next fence is above {above} already"))
                .why(format!(
                    "the newest epoch is {}; its fences are above {}",
                    shown.epoch,
                    shown.epoch << FENCE_BITS
                ))
                .next("nothing needs to be done; without --above a new epoch is made anyway"),
        );
    }
    Ok(epoch)
}

/// What it costs.
pub fn bump_danger(shown: &Epoch, floor: i64) -> String {
    let next = shown.epoch.max(shown.seen_epoch).max(floor) + 1;
    format!(
        "Epoch {} ends, and fences go on above {}; that cannot be undone. Nothing new starts until an agent has watched \
         this database for the longest lease ({} s). What runs goes on.",
        shown.epoch,
        next << FENCE_BITS,
        shown.longest_lease_ms.div_euclid(1_000)
    )
}

/// Makes the epoch after the one that was shown; answers with its number.
/// Errors: 4 when another was made meanwhile.
pub async fn bump(acting: &Acting, shown: &Epoch, floor: i64, by: &str) -> Result<i64, Refusal> {
    epochs::bump(acting, shown.id, floor, by).await?.ok_or_else(|| {
        Refusal::refused(format!(
            "epoch {} is not the newest any more; nothing was done",
            shown.epoch
        ))
        .next("look again with `farmhand epoch`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn shown() -> Epoch {
        serde_json::from_value(serde_json::json!({
            "farm_id": "00000000-0000-0000-0000-000000000000", "epoch": 5, "id": "00000000-0000-0000-0000-000000000000",
            "open": true, "opened_at": "2026-01-01T00:00:00Z", "opened_by": "a", "server": "1 x", "cluster": null,
            "server_now": "1 x", "cluster_now": null, "fence": 100, "longest_lease_ms": 30_000, "seen_epoch": 0,
            "guessed": false, "open_nodes": 0
        }))
        .unwrap()
    }

    #[test]
    fn the_next_epoch_is_above_what_targets_have_seen() {
        let of = |above| floor(&shown(), Some(above)).map_err(|refusal| refusal.kind);
        assert_eq!(floor(&shown(), None).ok(), Some(0));
        assert_eq!(
            of((5 << FENCE_BITS) + 101),
            Ok(5),
            "of this epoch, and not given yet"
        );
        assert_eq!(of((9 << FENCE_BITS) + 1), Ok(9));
        for above in [1, 4 << FENCE_BITS, (5 << FENCE_BITS) + 100] {
            assert_eq!(of(above), Err(Kind::Refused), "{above}");
        }
        for above in [BEYOND, i64::MAX] {
            assert_eq!(of(above), Err(Kind::Usage), "{above}");
        }
    }
}
