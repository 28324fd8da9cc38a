//! Numbers that look random and are the same in each run.

/// Gives numbers below its argument (xorshift: Marsaglia 2003).
pub fn numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 88_172_645_463_325_252_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}
