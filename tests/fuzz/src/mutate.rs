//! Small changes to known inputs, the same ones in every run.

/// What parsers look for.
const WORDS: [&str; 30] = [
    "\n",
    "\0",
    "----",
    "\n----\n",
    "[job.a]",
    "command",
    "schedule",
    "{",
    "}",
    "\"",
    "'",
    "\\",
    "=",
    "#",
    "%",
    "*/",
    "@every ",
    "L-",
    "W",
    "\r\n",
    "Content-Length: ",
    "\u{1b}[",
    "é",
    "\u{202e}",
    "-1",
    "0",
    "9223372036854775807",
    "18446744073709551616",
    "null",
    "[[",
];

/// A stream of numbers from a seed (Steele and others, "Fast splittable pseudorandom number generators", 2014).
pub struct Numbers(pub u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// One of the seeds, changed in up to eight places.
pub fn mutated(seeds: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut text = seeds[numbers.below(seeds.len())].clone();
    for _ in 0..=numbers.below(8) {
        let at = numbers.below(text.len() + 1);
        let until = (at + numbers.below(20)).min(text.len());
        match numbers.below(7) {
            0 if at < text.len() => text[at] ^= 1 << numbers.below(8),
            1 if at < text.len() => text[at] = numbers.next() as u8,
            2 => drop(text.drain(at..until)),
            3 => {
                let again = text[at..until].to_vec();
                text.splice(at..at, again);
            }
            4 => {
                let other = &seeds[numbers.below(seeds.len())];
                let from = numbers.below(other.len() + 1);
                let piece = other[from..(from + numbers.below(60)).min(other.len())].to_vec();
                text.splice(at..until, piece);
            }
            _ => drop(text.splice(at..at, WORDS[numbers.below(WORDS.len())].bytes())),
        }
    }
    text
}
