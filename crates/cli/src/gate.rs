//! What the gate asks for, as the command to type next. The server knows why it is shut; here stand the words of the
//! terminal for it.

/// The command that opens the gate for an incident, by the code of the refusal.
pub fn command(code: &str, incident: &str) -> Option<String> {
    match code {
        "rca_required" => Some(format!("lazaret incident diagnose {incident}")),
        "fix_required" => Some(format!("lazaret incident fix {incident} --ref REFERENCE")),
        "decision_required" => Some(format!("lazaret incident fix {incident} --decision --ref REFERENCE")),
        "poison" => Some(format!("lazaret discard --filter incident:{incident}")),
        _ => None,
    }
}

/// What that command is for.
pub fn purpose(code: &str) -> &'static str {
    match code {
        "rca_required" => "save the root cause",
        "fix_required" => "link the fix once it is deployed",
        "decision_required" => "record the approver decision",
        "poison" => "discard the poison pills",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_core::gate::Shut;

    #[test]
    fn every_refusal_has_a_command_and_what_it_is_for() {
        for shut in Shut::ALL {
            assert!(command(shut.code(), "x").is_some(), "{shut:?}");
            assert!(!purpose(shut.code()).is_empty(), "{shut:?}");
        }
    }
}
