//! Placement policies and solver; pure and seeded: CommMatrix and Topology to Placement; the plan file.
