//! Findings and profiles to text, JSON and HTML; matrix exports.
