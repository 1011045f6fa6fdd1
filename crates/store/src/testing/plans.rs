//! How PostgreSQL comes by what a read asks for: every statement of it is explained, with the very values it is run
//! with.

use std::cell::RefCell;

use tokio_postgres::Row;

use crate::StoreError;

/// One statement and how it was run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub sql: String,
    pub steps: Vec<String>,
}

impl Plan {
    /// The most rows that any step has met, those that it let go included.
    pub fn rows_most(&self) -> u64 {
        let number_behind = |step: &str, mark: &str| -> Option<f64> {
            let from = step.find(mark)? + mark.len();
            step[from..]
                .split(|c: char| c != '.' && !c.is_ascii_digit())
                .find(|text| !text.is_empty())?
                .parse()
                .ok()
        };
        let met = self.steps.iter().filter_map(|step| {
            let times = number_behind(step, "loops=").unwrap_or(1.0);
            let rows = number_behind(step, "actual rows=").or_else(|| number_behind(step, "Rows Removed by"));
            Some((rows? * times) as u64)
        });
        met.max().unwrap_or(0)
    }
}

tokio::task_local! {
    static PLANS: RefCell<Vec<Plan>>;
}

/// Runs a read and says how each of its statements was run.
pub async fn of<T>(read: impl Future<Output = T>) -> (T, Vec<Plan>) {
    let kept = async {
        let result = read.await;
        (result, PLANS.with(RefCell::take))
    };
    PLANS.scope(RefCell::default(), kept).await
}

pub(crate) fn are_wanted() -> bool {
    PLANS.try_with(|_| ()).is_ok()
}

pub(crate) fn explained(sql: &str) -> String {
    format!("explain (analyze, costs off, timing off, summary off) {sql}")
}

pub(crate) fn keep(sql: &str, rows: &[Row]) -> Result<(), StoreError> {
    let steps: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    PLANS.with(|plans| plans.borrow_mut().push(Plan { sql: sql.to_owned(), steps }));
    Ok(())
}
