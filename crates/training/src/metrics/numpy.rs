//! The random numbers of `numpy.random.default_rng`: PCG64 (O'Neill 2014), seeded by a
//! `SeedSequence`. With them, a bootstrap draws the same segments as sacreBLEU.

/// Random number generator that returns the same numbers as NumPy's for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Generator {
    state: u128,
    increment: u128,
    /// Upper half of the last 64-bit number, if only its lower half has been used.
    half: Option<u32>,
}

impl Generator {
    /// Creates the generator that `default_rng(seed)` creates.
    pub fn new(seed: u64) -> Self {
        let [a, b, c, d] = seed_state(seed);
        let join = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let mut generator = Self {
            state: 0,
            increment: join(c, d) << 1 | 1,
            half: None,
        };
        generator.step();
        generator.state = generator.state.wrapping_add(join(a, b));
        generator.step();
        generator
    }

    fn step(&mut self) {
        const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
        self.state = self
            .state
            .wrapping_mul(MULTIPLIER)
            .wrapping_add(self.increment);
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let [high, low] = [(self.state >> 64) as u64, self.state as u64];
        (high ^ low).rotate_right((self.state >> 122) as u32)
    }

    fn next_u32(&mut self) -> u32 {
        self.half.take().unwrap_or_else(|| {
            let drawn = self.next_u64();
            self.half = Some((drawn >> 32) as u32);
            drawn as u32
        })
    }

    /// Returns a uniformly distributed random number below `n` (Lemire 2019).
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        assert!(n > 0, "there is no number below 0");
        // Like NumPy, use no random bits if 0 is the only choice.
        if n == 1 {
            return 0;
        }
        let threshold = n.wrapping_neg() % n;
        loop {
            let product = u64::from(self.next_u32()) * u64::from(n);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }
}

/// Returns the four 64-bit words that NumPy's `SeedSequence` derives from a seed.
fn seed_state(seed: u64) -> [u64; 4] {
    const POOL: usize = 4;
    let mut constant: u32 = 0x43b0_d7e5;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(constant);
        value ^ value >> 16
    };
    let mix = |x: u32, y: u32| {
        let [x, y] = [x.wrapping_mul(0xca01_f9dd), y.wrapping_mul(0x4973_f715)];
        let mixed = x.wrapping_sub(y);
        mixed ^ mixed >> 16
    };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut hash);
    for source in 0..POOL {
        for target in (0..POOL).filter(|&target| target != source) {
            pool[target] = mix(pool[target], hash(pool[source]));
        }
    }
    let mut constant: u32 = 0x8b51_f9dd;
    let mut word = |index: usize| {
        let value = pool[index % POOL] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        let value = value.wrapping_mul(constant);
        u64::from(value ^ value >> 16)
    };
    std::array::from_fn(|index| word(2 * index) + (word(2 * index + 1) << 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_numpy() {
        // Results of `numpy.random.default_rng(seed).choice(n, 10)` in NumPy 2.4.
        for (seed, n, expected) in [
            (12345, 60, [41, 13, 47, 19, 12, 47, 38, 40, 59, 23]),
            (
                12345,
                3003,
                [2099, 682, 2368, 951, 613, 2394, 1929, 2030, 2968, 1174],
            ),
            (0, 7, [5, 4, 3, 1, 2, 0, 0, 0, 1, 5]),
            (
                1099511627781,
                1000,
                [14, 4, 449, 372, 915, 587, 899, 151, 9, 419],
            ),
            (
                1,
                3000000000,
                [
                    1535464873, 2851391088, 104557657, 2845948340, 935494355, 2607075741,
                    1269979346, 770976088, 1227597408, 1931486993,
                ],
            ),
        ] {
            let mut generator = Generator::new(seed);
            let drawn: [u32; 10] = std::array::from_fn(|_| generator.below(n));
            assert_eq!(drawn, expected, "{seed} {n}");
        }
    }
}
