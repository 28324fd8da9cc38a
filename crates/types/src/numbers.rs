//! Numbers for people: counts, shares and times, written the same way by every part of Threadtalk.
//!
//! Neighbours: report texts and the live view write with these; the page has its own in
//! `web/src/model/numbers.ts` with the same results.

use alloc::format;
use alloc::string::{String, ToString};

/// A count in at most four characters and a prefix: 999, 1.2 k, 34 k, 5.6 M.
pub fn short(count: f64) -> String {
    let (value, prefix) = scaled(count);
    let decimals = match prefix {
        "" if value % 1.0 == 0.0 => 0,
        _ if value >= 9.95 => 0,
        _ if value >= 0.095 || value == 0.0 => 1,
        _ if value >= 0.0095 => 3,
        _ => return format!("{value:.1e}"),
    };
    let space = if prefix.is_empty() { "" } else { " " };
    format!("{value:.decimals$}{space}{prefix}")
}

/// A rate or count for narrow columns, at most four characters: 0, .5, 7, 999, 1.2k, 34k, 5.6M.
pub fn narrow(value: f64) -> String {
    if value < 0.05 {
        return "0".into();
    }
    if value < 0.95 {
        return format!("{value:.1}").trim_start_matches('0').to_string();
    }
    let (value, prefix) = scaled(value);
    let decimals = usize::from(!prefix.is_empty() && value < 9.95);
    format!("{value:.decimals$}{prefix}")
}

/// The number as it stands before a prefix, and the prefix.
fn scaled(count: f64) -> (f64, &'static str) {
    let prefixes = ["", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut at) = (count, 0);
    // 999.5 would be printed as 1000.
    while value >= 999.5 && at + 1 < prefixes.len() {
        value /= 1000.0;
        at += 1;
    }
    (value, prefixes[at])
}

/// A whole number with its thousands apart: 1,234,567.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A share in whole percent; never 0 % of something, never 100 % of less than all.
pub fn percent(share: f64) -> String {
    if share <= 0.0 {
        "0 %".into()
    } else if share < 0.01 {
        "<1 %".into()
    } else if share < 1.0 && share > 0.99 {
        ">99 %".into()
    } else {
        format!("{:.0} %", share * 100.0)
    }
}

/// A share in percent with one decimal; never 0 of something, never all of less.
pub fn fine_percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 {
        "<0.1 %".into()
    } else if share < 1.0 && share > 0.9995 {
        ">99.9 %".into()
    } else {
        format!("{:.1} %", share * 100.0)
    }
}

/// Nanoseconds with a fitting unit, three digits: 1.24 ms.
pub fn nanoseconds(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let (scale, unit) =
        units.into_iter().find(|(scale, _)| ns / scale >= 0.9995).unwrap_or((1.0, "ns"));
    let value = ns / scale;
    let digits = match value {
        0.0 | 99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// Bytes with a fitting unit: 32 KiB, 1.5 MiB, 64 GiB.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = UNITS.iter().find(|(_, shift)| bytes >= 1 << shift);
    match fits {
        Some((unit, shift)) => {
            let number = format!("{:.1}", bytes as f64 / (1u64 << shift) as f64);
            format!("{} {unit}", number.trim_end_matches(".0"))
        }
        None => format!("{bytes} B"),
    }
}

/// Seconds with a fitting unit: 12 ms, 1.25 s, 3 min 20 s.
pub fn duration(seconds: f64) -> String {
    if seconds >= 60.0 {
        let whole = (seconds + 0.5) as u64;
        format!("{} min {} s", whole / 60, whole % 60)
    } else if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.001 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{:.0} µs", seconds * 1e6)
    }
}

/// The same with three digits where it is less than a second, for times that are compared: 1.25 s,
/// 123 ms, 12.3 ms, 4.56 µs.
pub fn fine_duration(seconds: f64) -> String {
    if seconds >= 0.9995 {
        return duration(seconds.max(1.0));
    }
    let (value, unit) = if seconds >= 0.999_5e-3 { (1e3, "ms") } else { (1e6, "µs") };
    let value = seconds * value;
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

/// Seconds on a clock: 12 s, 3:05, 1:00:07.
pub fn clock(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        let cases = [
            (0.0, "0"),
            (7.0, "7"),
            (0.4, "0.4"),
            (0.0426, "0.043"),
            (0.001, "1.0e-3"),
            (999.0, "999"),
            (999.6, "1.0 k"),
            (1234.0, "1.2 k"),
            (9_960.0, "10 k"),
            (45_678.0, "46 k"),
            (999_499.0, "999 k"),
            (2_310_000.0, "2.3 M"),
            (1.8e19, "18 E"),
        ];
        for (count, expected) in cases {
            assert_eq!(short(count), expected);
        }
    }

    #[test]
    fn narrow_columns_have_four_characters() {
        let cases = [
            (0.0, "0"),
            (0.04, "0"),
            (0.5, ".5"),
            (0.97, "1"),
            (999.0, "999"),
            (999.6, "1.0k"),
            (1234.0, "1.2k"),
            (9960.0, "10k"),
            (999_600.0, "1.0M"),
            (5.6e9, "5.6G"),
        ];
        for (value, text) in cases {
            assert_eq!(narrow(value), text);
        }
        let mut value = 1.0;
        while value < 1e20 {
            assert!(narrow(value).len() <= 4, "{value}");
            value *= 1.7;
        }
    }

    #[test]
    fn times_that_are_compared_have_three_digits() {
        let cases = [
            (200.0, "3 min 20 s"),
            (1.254, "1.25 s"),
            (0.9996, "1.00 s"),
            (0.123_4, "123 ms"),
            (0.099_96, "100 ms"),
            (0.012_34, "12.3 ms"),
            (0.009_996, "10.0 ms"),
            (0.000_999_6, "1.00 ms"),
            (0.000_004_56, "4.56 µs"),
            (0.0, "0.00 µs"),
        ];
        for (seconds, text) in cases {
            assert_eq!(fine_duration(seconds), text);
        }
    }

    #[test]
    fn thousands_are_apart() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn shares_never_round_to_all_or_nothing() {
        let cases =
            [(0.0, "0 %"), (0.004, "<1 %"), (0.61, "61 %"), (0.999, ">99 %"), (1.0, "100 %")];
        for (share, expected) in cases {
            assert_eq!(percent(share), expected);
        }
        let cases = [(0.0, "0.0 %"), (0.0004, "<0.1 %"), (0.612, "61.2 %"), (0.9999, ">99.9 %")];
        for (share, expected) in cases {
            assert_eq!(fine_percent(share), expected);
        }
    }

    #[test]
    fn nanoseconds_have_three_digits() {
        let cases = [
            (0.0, "0 ns"),
            (51.3, "51.3 ns"),
            (999.6, "1.00 µs"),
            (1_238_000.0, "1.24 ms"),
            (98.6e6, "98.6 ms"),
            (4.0e12, "4000 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(nanoseconds(ns), text);
        }
    }

    #[test]
    fn durations_have_units() {
        let cases =
            [(0.000_004, "4 µs"), (0.0123, "12 ms"), (1.254, "1.25 s"), (200.0, "3 min 20 s")];
        for (seconds, text) in cases {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!([clock(59), clock(185), clock(3607)], ["59 s", "3:05", "1:00:07"]);
    }
}
