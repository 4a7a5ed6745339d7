//! Which machine this is, and which boot of it.

use sha2::{Digest, Sha256};

/// Random, made by the kernel at each boot.
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Random, made once by the installation. A copied machine has that of its original.
const MACHINE_ID: &str = "/etc/machine-id";

/// This boot of this machine.
pub fn boot_id() -> std::io::Result<String> {
    Ok(std::fs::read_to_string(BOOT_ID)?.trim().to_owned())
}

/// `MACHINE/BOOT` for other agents to compare; None where one of them is not known. The machine's id is confidential, as
/// machine-id(5) says, so what is shown is derived from it.
pub fn identity() -> Option<String> {
    let id = std::fs::read_to_string(MACHINE_ID).ok()?;
    let id = id.trim();
    if id.len() != 32 {
        return None;
    }
    let derived = Sha256::new()
        .chain_update("the machine of a node: ")
        .chain_update(id)
        .finalize();
    let machine: String = derived[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{machine}/{}", boot_id().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_names_machine_and_boot_and_not_the_machines_own_id() {
        let Some(identity) = identity() else {
            assert!(std::fs::read_to_string(MACHINE_ID).map_or(true, |id| id.trim().len() != 32));
            return;
        };
        let (machine, boot) = identity.split_once('/').unwrap();
        assert_eq!(machine.len(), 16);
        assert_eq!(boot, boot_id().unwrap());
        assert!(!std::fs::read_to_string(MACHINE_ID).unwrap().contains(machine));
    }
}
