//! Numbers in few characters.

/// A rate or count in at most four characters: 0, .5, 7, 999, 1.2k, 34k, 5.6M.
pub(crate) fn short(value: f64) -> String {
    if value < 0.05 {
        return "0".into();
    }
    if value < 0.95 {
        return format!("{value:.1}").trim_start_matches('0').to_string();
    }
    let (mut value, mut unit) = (value, 0);
    // 999.5 would be printed as 1000.
    while value >= 999.5 && unit < 5 {
        value /= 1000.0;
        unit += 1;
    }
    let letter = ["", "k", "M", "G", "T", "P"][unit];
    if unit > 0 && value < 9.95 {
        format!("{value:.1}{letter}")
    } else {
        format!("{value:.0}{letter}")
    }
}

/// A share in whole percent; never 0 % of something.
pub(crate) fn percent(share: f64) -> String {
    match share {
        share if share <= 0.0 => "0 %".into(),
        share if share < 0.01 => "<1 %".into(),
        share => format!("{:.0} %", share * 100.0),
    }
}

/// Seconds since the start: 12 s, 3:05, 1:00:07.
pub(crate) fn elapsed(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

/// The text in at most `width` characters, with a mark where something is missing.
pub(crate) fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
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
            assert_eq!(short(value), text);
        }
        assert!((0..60).all(|p| short(1.7f64.powi(p)).len() <= 4));
        assert_eq!([percent(0.0), percent(0.001), percent(0.5)], ["0 %", "<1 %", "50 %"]);
        assert_eq!([elapsed(59), elapsed(185), elapsed(3607)], ["59 s", "3:05", "1:00:07"]);
        assert_eq!([clipped("abcd", 4), clipped("abcde", 4)], ["abcd", "abc~"]);
    }
}
