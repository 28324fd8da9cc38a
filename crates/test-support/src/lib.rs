//! Builds and runs target programs for tests: timeouts, capability probes, artefacts.
