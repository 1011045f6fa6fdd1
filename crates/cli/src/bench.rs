//! What `lazaret bench` measures and by what means: a server as a process of its own, clients that keep their
//! connections, the load they make, and a server that answers at once as the floor.

mod figures;
mod line;
mod load;
mod null;
mod process;
mod sample;
mod wal;

pub use figures::{Figures, Measured, Waits};
pub use line::{Address, Line};
pub use load::{Load, Workload};
pub use null::serve as serve_null;
pub use process::{Server, Usage};
pub use wal::Wal;
