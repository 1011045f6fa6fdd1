//! What became of imported letters.

use serde::Deserialize;

/// What became of letters that were to be imported; lines are counted within the request.
#[derive(Deserialize, Debug)]
pub struct ImportReceipt {
    pub created: u64,
    pub known: u64,
    #[serde(default)]
    pub conflicts: Vec<ImportConflict>,
    #[serde(default)]
    pub refused: Vec<ImportRefusal>,
}

#[derive(Deserialize, Debug)]
pub struct ImportConflict {
    pub line: usize,
    pub id: Option<String>,
    pub detail: String,
}

#[derive(Deserialize, Debug)]
pub struct ImportRefusal {
    pub line: usize,
    pub detail: String,
}
