//! Random values by the rules of the specification: the skewed NURand, last names, strings.

use crate::keys::Random;

/// The syllables of last names.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// Characters of strings.
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The constants C of NURand, one for each of its three uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// For last names.
    pub last: u32,
    /// For customers.
    pub customer: u32,
    /// For items.
    pub item: u32,
}

impl Constants {
    /// The constants for filling the tables.
    pub fn of_load(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xc0c0);
        let mut below = |end| random.below(end) as u32;
        Self { last: below(256), customer: below(1024), item: below(8192) }
    }

    /// The constants for a run on such tables. The one for last names must differ by 65 to 119, but
    /// not by 96 or 112 (clause 2.1.6.1).
    pub fn of_run(self, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xd1d1);
        let delta = loop {
            let delta = 65 + random.below(55) as u32;
            if delta != 96 && delta != 112 {
                break delta;
            }
        };
        let last = if self.last + delta < 256 { self.last + delta } else { self.last - delta };
        Self { last, customer: random.below(1024) as u32, item: random.below(8192) as u32 }
    }
}

/// Random values of TPC-C.
#[derive(Debug, Clone)]
pub struct TpccRandom {
    random: Random,
    constants: Constants,
}

impl TpccRandom {
    /// A generator; each seed gives another sequence.
    pub fn new(seed: u64, constants: Constants) -> Self {
        Self { random: Random::new(seed), constants }
    }

    /// A number from `low` to `high`, both included.
    #[inline]
    pub fn uniform(&mut self, low: u32, high: u32) -> u32 {
        low + self.random.below(u64::from(high - low) + 1) as u32
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    fn nurand(&mut self, a: u32, constant: u32, low: u32, high: u32) -> u32 {
        let skewed = self.uniform(0, a) | self.uniform(low, high);
        (skewed + constant) % (high - low + 1) + low
    }

    /// A customer of a district with `customers` customers.
    pub fn customer(&mut self, customers: u32) -> u32 {
        self.nurand(1023, self.constants.customer, 1, customers)
    }

    /// An item of `items` items.
    pub fn item(&mut self, items: u32) -> u32 {
        self.nurand(8191, self.constants.item, 1, items)
    }

    /// The number of a last name that occurs in a district of `customers` customers.
    pub fn last_name(&mut self, customers: u32) -> u32 {
        self.nurand(255, self.constants.last, 0, customers.min(1000) - 1)
    }

    /// Appends a random string of `length` letters and digits.
    pub fn push_letters(&mut self, length: u32, text: &mut String) {
        self.push(length, LETTERS, text);
    }

    fn push(&mut self, length: u32, from: &[u8], text: &mut String) {
        let mut left = length;
        while left > 0 {
            let word = self.random.word();
            for at in 0..left.min(4) {
                let bits = word >> (at * 16) & 0xffff;
                text.push(char::from(from[(bits as usize * from.len()) >> 16]));
            }
            left -= left.min(4);
        }
    }

    /// A string of `low` to `high` letters and digits.
    pub fn letters(&mut self, low: u32, high: u32) -> String {
        let length = self.uniform(low, high);
        let mut text = String::with_capacity(length as usize);
        self.push_letters(length, &mut text);
        text
    }

    /// A string of `length` digits.
    pub fn digits(&mut self, length: u32) -> String {
        let mut text = String::with_capacity(length as usize);
        self.push(length, b"0123456789", &mut text);
        text
    }

    /// A postal code: four random digits and 11111.
    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// Data of an item or a stock: 26 to 50 letters, in 10 of 100 cases with ORIGINAL among them.
    pub fn data(&mut self) -> String {
        let mut text = self.letters(26, 50);
        if self.percent(10) {
            let at = self.uniform(0, text.len() as u32 - 8) as usize;
            text.replace_range(at..at + 8, "ORIGINAL");
        }
        text
    }

    /// The numbers from 1 to `count` in random order.
    pub fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=count).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        numbers
    }
}

/// Writes the last name with a number from 0 to 999.
pub fn write_last_name(number: u32, text: &mut String) {
    text.clear();
    for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
        text.push_str(SYLLABLES[digit as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::{Constants, TpccRandom, write_last_name};

    fn random() -> TpccRandom {
        TpccRandom::new(3, Constants::of_load(3))
    }

    #[test]
    fn skewed_numbers_stay_in_their_range_and_reach_both_ends() {
        let mut random = random();
        let (mut customers, mut items, mut names) = ([false; 301], [false; 101], [false; 1000]);
        for _ in 0..200_000 {
            customers[random.customer(300) as usize] = true;
            items[random.item(100) as usize] = true;
            names[random.last_name(3000) as usize] = true;
        }
        assert!(!customers[0] && customers[1..].iter().all(|seen| *seen));
        assert!(!items[0] && items[1..].iter().all(|seen| *seen));
        assert!(names.iter().filter(|seen| **seen).count() > 900);
        assert!((0..10_000).all(|_| random.last_name(20) < 20));
        assert!((0..10_000).all(|_| (1..=3000).contains(&random.customer(3000))));
        assert!((0..10_000).all(|_| (1..=100_000).contains(&random.item(100_000))));
    }

    #[test]
    fn skewed_numbers_prefer_some() {
        let mut random = random();
        let mut seen = vec![0u32; 3001];
        (0..300_000).for_each(|_| seen[random.customer(3000) as usize] += 1);
        seen.sort_unstable();
        // The most frequent tenth has far more than a tenth of all draws.
        let most: u32 = seen[2701..].iter().sum();
        assert!(most > 75_000, "{most} of 300000");
    }

    #[test]
    fn the_constants_of_a_run_differ_from_those_of_the_load_as_the_specification_asks() {
        for seed in 0..500 {
            let load = Constants::of_load(seed);
            let run = load.of_run(seed);
            let delta = load.last.abs_diff(run.last);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{delta}");
            assert!(run.last < 256 && run.customer < 1024 && run.item < 8192);
        }
    }

    #[test]
    fn last_names_are_made_of_three_syllables() {
        let mut name = String::new();
        write_last_name(371, &mut name);
        assert_eq!(name, "PRICALLYOUGHT");
        write_last_name(40, &mut name);
        assert_eq!(name, "BARPRESBAR");
    }

    #[test]
    fn strings_have_the_lengths_and_characters_that_were_asked_for() {
        let mut random = random();
        let mut original = 0;
        for _ in 0..2000 {
            let (letters, data) = (random.letters(3, 9), random.data());
            assert!((3..=9).contains(&letters.len()) && (26..=50).contains(&data.len()));
            assert!(letters.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            original += u32::from(data.contains("ORIGINAL"));
        }
        assert!((120..280).contains(&original), "{original} of 2000 are original");
        let zip = random.zip();
        assert!(zip.len() == 9 && zip.ends_with("11111") && zip.parse::<u64>().is_ok());
        let mut numbers = random.permutation(1000);
        assert!(numbers.windows(2).any(|pair| pair[0] > pair[1]));
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=1000));
    }
}
