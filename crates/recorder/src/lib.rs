//! Spawn a program with an injected agent, follow it, collect its profile; launch it under a plan.
