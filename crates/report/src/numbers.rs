//! Numbers for people: short counts, shares, durations, bytes.
//!
//! Neighbours: `text` and `findings` write sentences and tables with these; the page has its own in
//! `web/src/numbers.ts` with the same results.

/// A count in at most four characters and a prefix: 999, 1.2 k, 34 k, 5.6 M.
pub(crate) fn short(count: f64) -> String {
    let units = ["", " k", " M", " G", " T", " P", " E"];
    let mut value = count;
    let mut unit = 0;
    // 999.5 would be printed as 1000.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match unit {
        0 if value == value.trunc() => 0,
        _ if value >= 9.95 => 0,
        _ if value >= 0.095 || value == 0.0 => 1,
        _ if value >= 0.0095 => 3,
        _ => return format!("{value:.1e}"),
    };
    format!("{value:.decimals$}{}", units[unit])
}

/// A whole number with its thousands apart: 1,234,567.
pub(crate) fn grouped(count: u64) -> String {
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
pub(crate) fn percent(share: f64) -> String {
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

/// Nanoseconds with a fitting unit, three digits: 1.24 ms.
pub(crate) fn nanoseconds(ns: f64) -> String {
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

/// Seconds with a fitting unit: 12 ms, 1.25 s, 3 min 20 s.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds >= 60.0 {
        let whole = seconds.round();
        format!("{} min {} s", (whole / 60.0).floor(), whole % 60.0)
    } else if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.001 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{:.0} µs", seconds * 1e6)
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
    fn thousands_are_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn shares_never_round_to_all_or_nothing() {
        let cases =
            [(0.0, "0 %"), (0.004, "<1 %"), (0.61, "61 %"), (0.999, ">99 %"), (1.0, "100 %")];
        for (share, expected) in cases {
            assert_eq!(percent(share), expected);
        }
    }

    #[test]
    fn nanoseconds_have_three_digits() {
        let cases =
            [(0.0, "0 ns"), (51.3, "51.3 ns"), (999.6, "1.00 µs"), (1_238_000.0, "1.24 ms")];
        cases.iter().for_each(|&(ns, text)| assert_eq!(nanoseconds(ns), text));
        assert_eq!((nanoseconds(98.6e6), nanoseconds(4.0e12)), ("98.6 ms".into(), "4000 s".into()));
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration(0.000_004), "4 µs");
        assert_eq!(duration(0.0123), "12 ms");
        assert_eq!(duration(1.254), "1.25 s");
        assert_eq!(duration(200.0), "3 min 20 s");
    }
}
