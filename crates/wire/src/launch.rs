//! The plan as the launch shim sees it, and what the shim reports back.
