//! Choices made by the bytes of a fuzzer. After the last byte every choice is the first one, so any
//! bytes are an input, and short inputs are simple.

use std::collections::BTreeMap;

use atoll_machine::CrashMedium;
use atoll_machine::Medium;
use atoll_machine::medium::Open;

pub struct Input<'b>(pub &'b [u8]);

impl<'b> Input<'b> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u32::from_le_bytes(std::array::from_fn(|at| match at {
            0 => self.byte(),
            1 if end > 1 << 8 => self.byte(),
            2 if end > 1 << 16 => self.byte(),
            _ => 0,
        }));
        wide as usize % end
    }

    /// Any number: mostly a small one, or one near the limits.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            byte @ ..200 => byte.into(),
            byte @ 200..=215 => u64::MAX - u64::from(byte - 200),
            byte @ 216..=239 => 1 << (16 + 2 * (byte - 216)),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    /// `len` bytes, or the rest.
    pub fn take(&mut self, len: usize) -> &'b [u8] {
        let (head, tail) = self.0.split_at(len.min(self.0.len()));
        self.0 = tail;
        head
    }

    /// At most `most` bytes.
    pub fn bytes(&mut self, most: usize) -> &'b [u8] {
        let len = self.below(most + 1);
        self.take(len)
    }
}

/// Files of one folder, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The contents of a folder.
pub fn files_of(medium: &dyn Medium) -> Files {
    let read = |name: String| {
        let file = medium.open(&name, Open::Read).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    medium.names().unwrap().into_iter().map(read).collect()
}

/// Writes files into a folder.
pub fn put(medium: &dyn Medium, files: &Files) {
    for (name, bytes) in files {
        medium.open(name, Open::Create).unwrap().write_at(0, bytes).unwrap();
    }
    medium.sync_names().unwrap();
}

/// A medium with these files.
pub fn medium_of(files: &Files) -> CrashMedium {
    let medium = CrashMedium::default();
    put(&medium, files);
    medium
}

/// The damage done to files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Harm {
    /// Number of bytes that were changed, each at another position.
    pub flips: usize,
    /// Number of other damages.
    pub others: usize,
}

/// Does some damage: flips bits, loses or copies sectors, truncates, swaps or removes files.
pub fn harm(files: &mut Files, input: &mut Input<'_>, most: usize) -> Harm {
    const SECTOR: usize = 512;
    let mut harm = Harm::default();
    for _ in 0..1 + input.below(most) {
        let names: Vec<String> = files.keys().cloned().collect();
        if names.is_empty() {
            break;
        }
        let (how, name) = (input.byte() % 8, &names[input.below(names.len())]);
        let size = files[name].len();
        if how <= 3 {
            if size > 0 {
                // Most of a file is not used yet; the last written bytes are in front of that.
                let used = files[name].iter().rposition(|byte| *byte != 0).unwrap_or(0);
                let at = match how {
                    0 => input.below(size),
                    1 => input.below(used + 1),
                    _ => used - input.below(used.min(255) + 1),
                };
                let with = input.byte().max(1);
                files.get_mut(name).unwrap()[at] ^= with;
                harm.flips += 1;
            }
            continue;
        }
        harm.others += 1;
        match how {
            4 if size >= SECTOR => {
                let at = input.below(size / SECTOR) * SECTOR;
                files.get_mut(name).unwrap()[at..at + SECTOR].fill(0);
            }
            5 if size >= SECTOR => {
                let from = &names[input.below(names.len())];
                let at = input.below(files[from].len() / SECTOR + 1) * SECTOR;
                let bytes = files[from].get(at..at + SECTOR).map(<[u8]>::to_vec);
                let at = input.below(size / SECTOR) * SECTOR;
                if let Some(bytes) = bytes {
                    files.get_mut(name).unwrap()[at..at + SECTOR].copy_from_slice(&bytes);
                }
            }
            6 => files.get_mut(name).unwrap().truncate(input.below(size + 1)),
            7 if input.flag() => drop(files.remove(name)),
            _ => {
                let other = &names[input.below(names.len())];
                let (one, two) = (files[name].clone(), files[other].clone());
                files.insert(name.clone(), two);
                files.insert(other.clone(), one);
            }
        }
    }
    harm
}
