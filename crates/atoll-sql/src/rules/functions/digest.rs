//! `md5` and `sha256`, by RFC 1321 and FIPS 180-4.

/// A message with its padding, in blocks of 64 bytes; `length` writes the count of its bits.
fn blocks(message: &[u8], length: impl Fn(u64) -> [u8; 8]) -> Vec<u8> {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - message.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let at = padded.len() - 8;
    padded[at..].copy_from_slice(&length(message.len() as u64 * 8));
    padded
}

fn words(block: &[u8], read: fn([u8; 4]) -> u32) -> [u32; 16] {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = read([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    words
}

pub(super) fn md5(message: &[u8]) -> [u8; 16] {
    const TURNS: [[u32; 4]; 4] =
        [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in blocks(message, u64::to_le_bytes).chunks_exact(64) {
        let words = words(block, u32::from_le_bytes);
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64usize {
            let (mixed, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            let constant = ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
            let sum = mixed.wrapping_add(a).wrapping_add(constant).wrapping_add(words[word]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(TURNS[step / 16][step % 4]));
        }
        for (kept, added) in state.iter_mut().zip([a, b, c, d]) {
            *kept = kept.wrapping_add(added);
        }
    }
    let mut digest = [0; 16];
    for (part, word) in digest.chunks_exact_mut(4).zip(state) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

/// The first 32 bits behind the point of a root of the first primes.
fn of_roots<const COUNT: usize>(root: fn(f64) -> f64) -> [u32; COUNT] {
    let is_prime = |n: &u32| (2..*n).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    let mut made = [0; COUNT];
    for (word, prime) in made.iter_mut().zip((2..).filter(is_prime)) {
        *word = (root(prime.into()).fract() * 4_294_967_296.0) as u32;
    }
    made
}

pub(super) fn sha256(message: &[u8]) -> [u8; 32] {
    let constants: [u32; 64] = of_roots(f64::cbrt);
    let mut state: [u32; 8] = of_roots(f64::sqrt);
    for block in blocks(message, u64::to_be_bytes).chunks_exact(64) {
        let mut schedule = [0u32; 64];
        schedule[..16].copy_from_slice(&words(block, u32::from_be_bytes));
        for at in 16..64 {
            let (early, late) = (schedule[at - 15], schedule[at - 2]);
            let first = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
            let second = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
            schedule[at] = schedule[at - 16]
                .wrapping_add(first)
                .wrapping_add(schedule[at - 7])
                .wrapping_add(second);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for at in 0..64 {
            let turned = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let first = h
                .wrapping_add(turned)
                .wrapping_add((e & f) ^ (!e & g))
                .wrapping_add(constants[at])
                .wrapping_add(schedule[at]);
            let turned = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = turned.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        }
        for (kept, added) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *kept = kept.wrapping_add(added);
        }
    }
    let mut digest = [0; 32];
    for (part, word) in digest.chunks_exact_mut(4).zip(state) {
        part.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(&md5(&[b'a'; 56])), "3b0c8ac703f828b04c6c197006d17218");
        assert_eq!(hex(&md5(&[b'a'; 64])), "014842d480b571495a4a0363793f7367");
        assert_eq!(
            hex(&sha256(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(&sha256(&[b'a'; 64])),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"
        );
    }
}
