//! Aligned tables in a box.
//!
//! A table that is wider than the terminal is fitted: first the widest texts are cut (numbers and
//! dates never are, because a cut number would be a wrong one), then columns at the right are left
//! out. [`Fit`] reports both. Control characters are written as escapes, so no value can move the
//! cursor or break the box.

use std::borrow::Cow;
use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::Style;

/// Columns of the screen below which a text is not cut.
const TEXT_MIN: usize = 8;

/// The alignment of a value in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Texts, which may be cut.
    Left,
    /// Dates and the like: at the left and never cut.
    LeftWhole,
    /// Numbers.
    Right,
}

/// A table to be written.
#[derive(Debug, Clone, Default)]
pub struct Grid {
    heads: Vec<(String, Align)>,
    /// `None` is NULL.
    rows: Vec<Vec<Option<String>>>,
}

/// The parts that did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fit {
    /// Columns that were left out.
    pub hidden: Vec<String>,
    /// Whether texts were cut.
    pub cut: bool,
}

impl Grid {
    /// A table with these columns.
    pub fn new<S: Into<String>>(heads: impl IntoIterator<Item = (S, Align)>) -> Self {
        let heads = heads.into_iter().map(|(head, align)| (visible(head.into()), align)).collect();
        Self { heads, rows: Vec::new() }
    }

    /// Adds a row; it must have a value for each column.
    pub fn push(&mut self, row: Vec<Option<String>>) {
        debug_assert_eq!(row.len(), self.heads.len());
        self.rows.push(row.into_iter().map(|cell| cell.map(visible)).collect());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table, at most `width` columns of the screen wide.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(
        &self,
        out: &mut impl Write,
        width: Option<usize>,
        style: Style,
    ) -> io::Result<Fit> {
        if self.heads.is_empty() {
            return Ok(Fit::default());
        }
        let natural = self.natural_widths();
        let widths = match width {
            Some(width) => self.fit(&natural, width),
            None => natural.clone(),
        };
        let shown = widths.len();
        write_rule(out, &widths, ['╭', '┬', '╮'], style)?;
        write!(out, "{}", style.dim("│"))?;
        for ((head, align), width) in self.heads.iter().zip(&widths) {
            write_cell(out, head, *width, *align, |text| style.bold(text))?;
            write!(out, "{}", style.dim("│"))?;
        }
        writeln!(out)?;
        write_rule(out, &widths, ['├', '┼', '┤'], style)?;
        for row in &self.rows {
            write!(out, "{}", style.dim("│"))?;
            for ((cell, (_, align)), width) in row.iter().zip(&self.heads).zip(&widths) {
                match cell {
                    Some(text) => write_cell(out, text, *width, *align, str::to_owned)?,
                    None => write_cell(out, "NULL", *width, *align, |text| style.dim(text))?,
                }
                write!(out, "{}", style.dim("│"))?;
            }
            writeln!(out)?;
        }
        write_rule(out, &widths, ['╰', '┴', '╯'], style)?;
        Ok(Fit {
            hidden: self.heads[shown..].iter().map(|(head, _)| head.clone()).collect(),
            cut: widths.iter().zip(&natural).any(|(fitted, natural)| fitted < natural),
        })
    }

    /// Writes each row as lines of names and values, for tables with many columns.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_expanded(&self, out: &mut impl Write, style: Style) -> io::Result<()> {
        let names = self.heads.iter().map(|(head, _)| head.width()).max().unwrap_or(0);
        for (number, row) in self.rows.iter().enumerate() {
            let title = format!("─[ row {} ]", number + 1);
            let rest = "─".repeat((names + 20).saturating_sub(title.width()));
            writeln!(out, "{}", style.dim(&format!("{title}{rest}")))?;
            for ((head, _), cell) in self.heads.iter().zip(row) {
                let pad = " ".repeat(names - head.width());
                let value = cell.clone().unwrap_or_else(|| style.dim("NULL"));
                writeln!(out, "{}{pad} {} {value}", style.bold(head), style.dim("│"))?;
            }
        }
        Ok(())
    }

    fn natural_widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heads.iter().map(|(head, _)| head.width()).collect();
        for row in &self.rows {
            for (cell, width) in row.iter().zip(&mut widths) {
                *width = (*width).max(cell.as_deref().map_or(4, UnicodeWidthStr::width));
            }
        }
        widths
    }

    /// Widths of the columns that fit, which may be fewer than there are.
    fn fit(&self, natural: &[usize], width: usize) -> Vec<usize> {
        let total = |widths: &[usize]| widths.iter().map(|w| w + 3).sum::<usize>() + 1;
        let mut widths = natural.to_vec();
        let least: Vec<usize> = self
            .heads
            .iter()
            .zip(natural)
            .map(|((_, align), natural)| match align {
                Align::Left => (*natural).min(TEXT_MIN),
                Align::LeftWhole | Align::Right => *natural,
            })
            .collect();
        // Columns that fit when all texts are as narrow as they may be; one is always shown.
        let mut shown = widths.len();
        while shown > 1 && total(&least[..shown]) > width {
            shown -= 1;
        }
        widths.truncate(shown);
        while total(&widths) > width {
            let widest =
                (0..shown).filter(|at| widths[*at] > least[*at]).max_by_key(|at| widths[*at]);
            let Some(widest) = widest else { break };
            // Down to the next widest, or to what is needed.
            let over = total(&widths) - width;
            let second = (0..shown)
                .filter(|at| *at != widest && widths[*at] > least[*at])
                .map(|at| widths[at])
                .max()
                .unwrap_or(0);
            let step = (widths[widest] - second.min(widths[widest] - 1)).min(over).max(1);
            widths[widest] = (widths[widest] - step).max(least[widest]);
        }
        widths
    }
}

fn write_rule(
    out: &mut impl Write,
    widths: &[usize],
    [left, middle, right]: [char; 3],
    style: Style,
) -> io::Result<()> {
    let mut rule = String::from(left);
    for (at, width) in widths.iter().enumerate() {
        if at > 0 {
            rule.push(middle);
        }
        rule.extend(std::iter::repeat_n('─', width + 2));
    }
    rule.push(right);
    writeln!(out, "{}", style.dim(&rule))
}

fn write_cell(
    out: &mut impl Write,
    text: &str,
    width: usize,
    align: Align,
    paint: impl Fn(&str) -> String,
) -> io::Result<()> {
    let cut = cut(text, width);
    let pad = " ".repeat(width.saturating_sub(cut.width()));
    match align {
        Align::Left | Align::LeftWhole => write!(out, " {}{pad} ", paint(&cut)),
        Align::Right => write!(out, " {pad}{} ", paint(&cut)),
    }
}

/// A text cut to a number of columns of the screen, with an ellipsis at the cut.
pub fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut used = 1;
    let mut short = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        short.push(c);
    }
    short.push('…');
    Cow::Owned(short)
}

/// A text with its control characters written as escapes.
fn visible(text: String) -> String {
    // Direction marks could turn the rest of the line around, as control characters could.
    let hidden =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.chars().any(hidden) {
        return text;
    }
    let escape = |c: char| if hidden(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text(grid: &Grid, width: Option<usize>) -> (String, Fit) {
        let mut out = Vec::new();
        let fit = grid.write(&mut out, width, Style::plain()).unwrap();
        (String::from_utf8(out).unwrap(), fit)
    }

    fn row(cells: &[&str]) -> Vec<Option<String>> {
        cells.iter().map(|cell| Some((*cell).to_owned())).collect()
    }

    #[test]
    fn numbers_stand_right_and_texts_left_and_null_is_seen() {
        let mut grid = Grid::new([("id", Align::Right), ("name", Align::Left)]);
        grid.push(row(&["7", "ann"]));
        grid.push(vec![Some("1234".to_owned()), None]);
        let (text, fit) = text(&grid, None);
        assert_eq!(
            text,
            "╭──────┬──────╮\n\
             │   id │ name │\n\
             ├──────┼──────┤\n\
             │    7 │ ann  │\n\
             │ 1234 │ NULL │\n\
             ╰──────┴──────╯\n"
        );
        assert_eq!(fit, Fit::default());
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut grid = Grid::new([("city", Align::Left), ("n", Align::Right)]);
        grid.push(row(&["東京", "1"]));
        grid.push(row(&["Zürich", "2"]));
        let (text, _) = text(&grid, None);
        let widths: Vec<usize> = text.lines().map(UnicodeWidthStr::width).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        assert!(text.contains("│ 東京   │ 1 │"), "{text}");
    }

    #[test]
    fn the_widest_text_is_cut_and_no_number_is() {
        let heads = [("n", Align::Right), ("a", Align::Left), ("b", Align::LeftWhole)];
        let mut grid = Grid::new(heads);
        grid.push(row(&["12345678901234567890", &"x".repeat(50), "short"]));
        let (text, fit) = text(&grid, Some(60));
        assert!(text.lines().all(|line| line.width() <= 60), "{text}");
        assert!(text.contains("12345678901234567890") && text.contains("short"), "{text}");
        assert!(text.contains('…') && fit.cut && fit.hidden.is_empty());
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_and_named() {
        let heads = (0..40).map(|n| (format!("column{n}"), Align::Right));
        let mut grid = Grid::new(heads);
        grid.push((0..40).map(|n| Some(n.to_string())).collect());
        let (text, fit) = text(&grid, Some(80));
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        assert_eq!(fit.hidden.len(), 40 - 7);
        assert_eq!(fit.hidden[0], "column7");
    }

    #[test]
    fn a_terminal_too_narrow_for_one_column_still_shows_it() {
        let mut grid = Grid::new([("number", Align::Right)]);
        grid.push(row(&["123456789012345678901234567890"]));
        let (text, fit) = text(&grid, Some(20));
        assert!(text.contains("123456789012345678901234567890") && fit.hidden.is_empty());
    }

    #[test]
    fn control_characters_are_written_as_escapes() {
        let mut grid = Grid::new([("a\tb", Align::Left)]);
        grid.push(row(&["line\nbreak \u{1b}[31m \u{202e}"]));
        let (text, _) = text(&grid, None);
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.contains("a\\tb") && text.contains("line\\nbreak \\u{1b}[31m \\u{202e}"));
    }

    #[test]
    fn a_cut_text_is_never_wider_than_asked() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日本語", 1), "…");
    }

    #[test]
    fn expanded_rows_have_a_line_for_each_column() {
        let mut grid = Grid::new([("id", Align::Right), ("name", Align::Left)]);
        grid.push(vec![Some("1".to_owned()), None]);
        let mut out = Vec::new();
        grid.write_expanded(&mut out, Style::plain()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("id   │ 1\nname │ NULL\n"), "{text}");
        assert!(text.starts_with("─[ row 1 ]─"), "{text}");
    }
}
