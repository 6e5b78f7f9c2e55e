//! The engine as the layers of this crate share it.

use std::sync::Arc;

use atoll_machine::Native;
use atoll_txn::any::{AnyEngine, AnyTxn};

/// The engine of any scheme.
pub(crate) type Engine = Arc<dyn AnyEngine<Native>>;
/// A transaction of the engine.
pub(crate) type CoreTxn = Box<dyn AnyTxn<Native>>;
