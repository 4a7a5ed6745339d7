//! Where signatures are asked for, the warden builds a request itself from what was signed. What the agent made of it is
//! not looked at: neither it nor the database can have anything else executed.

use super::child::system;
use farmhand_core::attempt::{Claimed, RunKind, Signed};
use farmhand_core::definition::{JobSpec, RunOn};
use farmhand_core::lease::BootInstant;
use farmhand_policy::trust::{Refused, Seen, Trust};
use farmhand_warden_client::request::{self, Assignment};
use farmhand_warden_client::wire::{Order, Refusal, Reply, SpawnRequest, Stage, StartFailure};

/// The request to be started.
pub(super) fn vouched(
    mut request: SpawnRequest,
    seen: &mut Seen,
) -> Result<SpawnRequest, (Box<SpawnRequest>, StartFailure)> {
    let trust = Trust::now(request.trusted_keys.as_deref());
    if matches!(trust, Trust::Off) {
        return Ok(request);
    }
    let order = request.order.take().ok_or(Refused::Unsigned);
    order
        .and_then(|order| rebuilt(&trust, seen, &request, *order))
        .map_err(|why| {
            let mut failure = system(Stage::Signature, "", &std::io::Error::other(""));
            failure.message = why.to_string();
            (Box::new(request), failure)
        })
}

/// So that an older definition is refused here from now on, although nothing of the newer one was executed here.
pub(super) fn note(trust: &Trust, signed: &[Signed], seen: &mut Seen) -> Result<Reply, Refusal> {
    let vouched = signed
        .iter()
        .filter_map(|signed| trust.check(Some(signed)).ok().flatten());
    let serials: Vec<(String, u64)> = vouched.map(|v| (v.job, v.serial)).collect();
    match seen.note_all(&serials) {
        Ok(()) => Ok(Reply::Acked),
        Err(why) => Err(Refusal::Machine { why: why.to_string() }),
    }
}

fn rebuilt(
    trust: &Trust,
    seen: &mut Seen,
    asked: &SpawnRequest,
    order: Order,
) -> Result<SpawnRequest, Refused> {
    let unusable = |why: String| Refused::Unusable { why };
    let Order {
        claimed,
        address,
        session,
        slot,
        claim_sent_ns,
        now,
        labels,
    } = order;
    let vouched = trust.check(claimed.signed.as_ref())?.ok_or(Refused::Unsigned)?;
    vouched.fits(&claimed.job_id, &claimed.spec)?;
    let lacking = vouched.spec.placement.lacking(&labels);
    if !lacking.is_empty() {
        return Err(unusable(format!("it is for nodes with the label {lacking}")));
    }
    placed(&vouched.spec, &claimed, &address).map_err(unusable)?;
    let mut assignment = Assignment::new(&claimed, vouched.spec, session);
    assignment.slot = Some(slot);
    let sent = BootInstant(claim_sent_ns);
    let mut request = request::request(&claimed, &assignment, &address, sent, now).map_err(unusable)?;
    if (request.id, request.fence) != (asked.id, asked.fence) {
        return Err(unusable("the order is for another attempt".to_owned()));
    }
    // Last: what is refused for another reason leaves no mark.
    seen.note(&vouched.job, vouched.serial)?;
    request.policy.clone_from(&asked.policy);
    request.secrets_dir.clone_from(&asked.secrets_dir);
    Ok(request)
}

/// Whether the run is one that the definition makes: on this node, with this number of so many, of this kind. The database has
/// it beside the definition, so a signature does not cover it.
fn placed(spec: &JobSpec, run: &Claimed, address: &str) -> Result<(), String> {
    match &run.node {
        Some(node) if node != address => return Err(format!("the run is for the node {node} alone")),
        None if spec.run_on == RunOn::EachNode => {
            return Err("the definition runs on each node, and the run names none".to_owned());
        }
        _ => {}
    }
    let (instance, instances) = (u32::try_from(run.instance), u32::try_from(run.instances));
    if instances != Ok(spec.instances) || !instance.is_ok_and(|nth| nth < spec.instances) {
        return Err(format!(
            "the run is instance {} of {}, and the definition has {}, counted from 0",
            run.instance, run.instances, spec.instances
        ));
    }
    let fits = match run.kind {
        RunKind::Continuous => spec.is_continuous(),
        RunKind::Table => spec.table.is_some(),
        _ => true,
    };
    if !fits {
        let kind = run.kind.as_str();
        return Err(format!(
            "the run is of the kind {kind}, and the definition is not"
        ));
    }
    Ok(())
}
