//! The demo's own dice: SplitMix64, thirty lines that give the same throws for the same seed on every machine.
//!
//! Good enough to make a picture, and never to be used for a secret, nor for an id outside of a store that is thrown away.

/// A source of throws. Whoever needs throws of their own forks it, so that a longer story here does not change
/// every story after it.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(super) fn fork(&mut self) -> Dice {
        Dice(self.throw())
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from 0 up to and without `end`; 0 when there is no such number.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // The high half of the product is even enough, and needs no second throw.
        ((u128::from(self.throw()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.saturating_sub(low).max(0) as u64;
        low.saturating_add(self.below(span.saturating_add(1)) as i64)
    }

    /// Bytes for an id.
    pub(super) fn bytes(&mut self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.throw().to_be_bytes());
        bytes[8..].copy_from_slice(&self.throw().to_be_bytes()[..2]);
        bytes
    }

    /// True in `percent` of all throws.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the items, of which there must be one.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// Lower-case hexadecimal digits.
    pub(super) fn hex(&mut self, digits: usize) -> String {
        self.word(b"0123456789abcdef", digits)
    }

    /// A word of so many letters of an alphabet.
    pub(super) fn word(&mut self, alphabet: &[u8], letters: usize) -> String {
        (0..letters).map(|_| char::from(self.pick(alphabet))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same_and_another_seed_does_not() {
        let throws = |seed| {
            let mut dice = Dice::new(seed);
            (0..20).map(|_| dice.below(1_000_000)).collect::<Vec<_>>()
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));
    }

    #[test]
    fn throws_stay_within_their_bounds_and_reach_both_ends() {
        let mut dice = Dice::new(1);
        let throws: Vec<i64> = (0..2_000).map(|_| dice.between(-3, 3)).collect();
        assert_eq!((throws.iter().min(), throws.iter().max()), (Some(&-3), Some(&3)));
        assert_eq!(dice.below(0), 0);
        assert_eq!(dice.between(5, 4), 5);
        let hits = (0..10_000).filter(|_| dice.chance(30)).count();
        assert!((2_800..3_200).contains(&hits), "{hits}");
    }
}
