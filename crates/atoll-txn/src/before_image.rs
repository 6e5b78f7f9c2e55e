//! Before images: the columns that a change replaces, as the bytes that their segments stored.

/// Some columns of an older version of a row, and whether that version was present.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct BeforeImage {
    /// Whether the row was present.
    pub present: bool,
    cells: Vec<Cell>,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    column: u16,
    valid: bool,
    start: u32,
    len: u32,
}

impl BeforeImage {
    /// Removes all columns.
    pub fn clear(&mut self, present: bool) {
        self.present = present;
        self.cells.clear();
        self.bytes.clear();
    }

    /// Adds a column of `len` bytes, or replaces it, and returns its bytes for the caller to fill.
    pub fn add(&mut self, column: u16, valid: bool, len: usize) -> &mut [u8] {
        let start = match self.cells.iter_mut().find(|cell| cell.column == column) {
            Some(cell) => {
                cell.valid = valid;
                cell.start as usize
            }
            None => {
                let start = self.bytes.len();
                self.bytes.resize(start + len, 0);
                let cell = Cell { column, valid, start: start as u32, len: len as u32 };
                self.cells.push(cell);
                start
            }
        };
        &mut self.bytes[start..start + len]
    }

    /// Adds the columns of another image that this one does not have.
    pub fn add_missing(&mut self, other: &Self) {
        for (column, valid, bytes) in other.cells() {
            if self.get(column.into()).is_none() {
                self.add(column, valid, bytes.len()).copy_from_slice(bytes);
            }
        }
    }

    /// Sets whether a column that was added is valid.
    pub fn set_valid(&mut self, column: u16, valid: bool) {
        let cell = self.cells.iter_mut().find(|cell| cell.column == column);
        cell.expect("the column was added").valid = valid;
    }

    /// A column: whether it is valid, and its bytes.
    pub fn get(&self, column: usize) -> Option<(bool, &[u8])> {
        let cell = self.cells.iter().find(|cell| usize::from(cell.column) == column)?;
        Some((cell.valid, &self.bytes[cell.start as usize..][..cell.len as usize]))
    }

    /// All columns.
    pub fn cells(&self) -> impl Iterator<Item = (u16, bool, &[u8])> {
        self.cells.iter().map(|cell| {
            (cell.column, cell.valid, &self.bytes[cell.start as usize..][..cell.len as usize])
        })
    }
}
