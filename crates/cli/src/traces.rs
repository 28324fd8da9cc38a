//! What verbs that write traces and those that read them agree on.

/// Name of the trace in a profile's folder.
pub use profile::TRACE_FILE as IN_PROFILE;

/// A number of bytes with a unit; errors are phrases.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1u64 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        unit => return Err(format!("there is no unit '{unit}'; write a size like 4GiB")),
    };
    let count = digits.trim().parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
    count.filter(|bytes| *bytes > 0).ok_or_else(|| "write a size like 4GiB".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("4GiB"), Ok(4 << 30));
        assert_eq!(size("512K"), Ok(512 << 10));
        assert_eq!(size("200MB"), Ok(200_000_000));
        assert!(size("4 parsecs").is_err() && size("").is_err() && size("0").is_err());
        assert!(size("99999999999TiB").is_err());
    }
}
