//! CPU affinity of processes and threads: set, read back.
