//! A table of cells, and its plain-text form.
//!
//! One [`Table`] serves the terminal and the page, so both show the same columns. A number that
//! is missing is a dash, and the table carries the reason as a note.

use unicode_width::UnicodeWidthStr;

/// Widest table that fits a usual terminal, columns.
pub const TERMINAL_COLUMNS: usize = 100;

const GAP: &str = "  ";
/// Narrowest that words are broken to.
const WRAPPED_MIN: usize = 20;
/// Words that are kept on one line as long as there are columns to spare.
const FIRST_COLUMN_MIN: usize = 32;

/// Where a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// What a cell means to the reader; the page colours it, plain text does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// Less important.
    Muted,
    /// As hoped.
    Good,
    /// Worth a look.
    Suspect,
    /// Wrong.
    Bad,
}

/// A column's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Unit of its numbers; empty where there is none.
    pub unit: &'static str,
    /// Alignment.
    pub align: Align,
    /// Order in which plain text leaves columns out to fit a terminal; `None` keeps it.
    pub spare: Option<usize>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Text; a dash where there is no value.
    pub text: String,
    /// A mark after the text that matters as much as the text, as in `NOT DURABLE`.
    pub mark: Option<&'static str>,
    /// Meaning.
    pub tone: Tone,
}

/// Columns, rows and notes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
    /// What the dashes mean, and what else must be said.
    pub notes: Vec<String>,
}

impl Cell {
    /// Makes a plain cell.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), mark: None, tone: Tone::Plain }
    }

    /// Makes the dash of a value that is not there.
    pub fn dash() -> Self {
        Self { text: "-".to_owned(), mark: None, tone: Tone::Muted }
    }

    /// Makes a cell of a value, or a dash.
    pub fn or_dash<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> Self {
        value.map_or_else(Self::dash, |value| Self::new(format(value)))
    }

    /// Gives the cell a meaning.
    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// Adds a mark.
    #[must_use]
    pub fn mark(mut self, mark: Option<&'static str>) -> Self {
        self.mark = mark;
        self
    }

    fn plain(&self) -> String {
        match self.mark {
            Some(mark) => format!("{} ({mark})", self.text),
            None => self.text.clone(),
        }
    }
}

impl Table {
    /// Makes an empty table; each column is a name and a unit. The first column holds words, the
    /// others numbers.
    pub fn new(columns: &[(&str, &'static str)]) -> Self {
        let column = |(index, (name, unit)): (usize, &(&str, &'static str))| Column {
            name: (*name).to_owned(),
            unit,
            align: if index == 0 { Align::Left } else { Align::Right },
            spare: None,
        };
        let columns = columns.iter().enumerate().map(column).collect();
        Self { columns, ..Self::default() }
    }

    /// Says which columns hold words, besides the first.
    #[must_use]
    pub fn with_words_in(mut self, columns: &[usize]) -> Self {
        for index in columns {
            self.columns[*index].align = Align::Left;
        }
        self
    }

    /// Says which columns plain text may leave out where the lines are too long, in this order.
    #[must_use]
    pub fn with_spare(mut self, columns: &[usize]) -> Self {
        for (order, index) in columns.iter().enumerate() {
            self.columns[*index].spare = Some(order);
        }
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// The row is not as long as the columns.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Adds a note, once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Drops columns, besides the first, that hold nothing but dashes.
    pub fn drop_empty_columns(&mut self) {
        for index in (1..self.columns.len()).rev() {
            if self.rows.iter().all(|row| matches!(row[index].text.as_str(), "-" | "")) {
                self.drop_column(index);
            }
        }
    }

    fn drop_column(&mut self, index: usize) {
        self.columns.remove(index);
        for row in &mut self.rows {
            row.remove(index);
        }
    }

    /// Lays the table out in plain text that fits a terminal where possible: spare columns are left
    /// out, then the first column is broken into lines.
    pub fn to_text(&self) -> String {
        let mut table = self.clone();
        let mut widths = table.widths();
        while too_wide(&widths, FIRST_COLUMN_MIN) > 0 {
            let spare = |index: &usize| table.columns[*index].spare;
            let all = 0..table.columns.len();
            let Some(index) = all.filter(|i| spare(i).is_some()).min_by_key(spare) else { break };
            table.drop_column(index);
            widths = table.widths();
        }
        let excess = too_wide(&widths, usize::MAX);
        if let Some(first) = widths.first_mut() {
            *first = first.saturating_sub(excess).max(WRAPPED_MIN.min(*first));
        }
        table.lay_out(&widths)
    }

    fn widths(&self) -> Vec<usize> {
        let cells = |index: usize| self.rows.iter().map(move |row| row[index].plain().width());
        let columns = self.columns.iter().enumerate();
        columns.map(|(i, column)| cells(i).fold(column.plain().width(), usize::max)).collect()
    }

    fn lay_out(&self, widths: &[usize]) -> String {
        let mut out = String::new();
        let heads: Vec<String> = self.columns.iter().map(Column::plain).collect();
        self.line(&mut out, widths, &heads);
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        self.line(&mut out, widths, &rule);
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::plain).collect();
            self.line(&mut out, widths, &cells);
        }
        for note in &self.notes {
            for line in wrap(&clean(note), TERMINAL_COLUMNS - GAP.len()) {
                out.extend([GAP, &line, "\n"]);
            }
        }
        out
    }

    fn line(&self, out: &mut String, widths: &[usize], cells: &[String]) {
        let mut firsts = wrap(&clean(&cells[0]), widths[0]);
        let last = firsts.pop().unwrap_or_default();
        for first in firsts {
            out.push_str(&first);
            out.push('\n');
        }
        let mut line = String::new();
        for (index, (column, width)) in self.columns.iter().zip(widths).enumerate() {
            let text = if index == 0 { last.clone() } else { clean(&cells[index]) };
            let padding = " ".repeat(width.saturating_sub(text.width()));
            if index > 0 {
                line.push_str(GAP);
            }
            match column.align {
                Align::Left => line.extend([text.as_str(), &padding]),
                Align::Right => line.extend([padding.as_str(), &text]),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

impl Column {
    fn plain(&self) -> String {
        match self.unit {
            "" => self.name.clone(),
            unit if unit.starts_with('/') => format!("{}{unit}", self.name),
            unit => format!("{} {unit}", self.name),
        }
    }
}

/// By how much lines are too long for a terminal if the first column takes `first_max` at most.
fn too_wide(widths: &[usize], first_max: usize) -> usize {
    let first = widths.first().map_or(0, |first| (*first).min(first_max));
    let others: usize = widths.iter().skip(1).map(|width| width + GAP.len()).sum();
    (first + others).saturating_sub(TERMINAL_COLUMNS)
}

/// Breaks text between words so that no line is wider; a longer word stands alone.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("never empty");
        if line.is_empty() {
            line.push_str(word);
        } else if line.width() + 1 + word.width() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            // The indent shows that the row goes on.
            lines.push(format!("  {word}"));
        }
    }
    lines
}

/// Replaces control characters: text from a run must not steer the terminal.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[("case", ""), ("p50", "us"), ("n", "")]);
        table.row(vec![Cell::new("äöü 日本"), Cell::new("12.5"), Cell::new("7")]);
        table.row(vec![Cell::new("b").mark(Some("NOT DURABLE")), Cell::dash(), Cell::new("10000")]);
        table.note("b: refused");
        table
    }

    #[test]
    fn numbers_stand_right_aligned_under_their_unit_whatever_the_script_of_the_words() {
        let text = table().to_text();
        let lines: Vec<&str> = text.lines().collect();
        let end = |line: &str, word: &str| {
            let at = line.find(word).expect("the word");
            line[..at].width() + word.width()
        };
        assert_eq!(end(lines[0], "p50 us"), end(lines[2], "12.5"));
        assert_eq!(end(lines[0], "n"), end(lines[3], "10000"));
        assert!(lines[3].contains("b (NOT DURABLE)"), "{text}");
        assert_eq!(lines[4], "  b: refused");
    }

    #[test]
    fn long_words_wrap_so_that_lines_fit_a_terminal() {
        let mut table = Table::new(&[("case", ""), ("p50", "us")]);
        table.row(vec![Cell::new("many words ".repeat(20)), Cell::new("1")]);
        assert!(table.to_text().lines().all(|line| line.width() <= TERMINAL_COLUMNS));
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let mut table = Table::new(&[("case", "")]);
        table.row(vec![Cell::new("a\u{1b}[31m\nb")]);
        table.note("x\u{7}");
        assert!(table.to_text().chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn columns_without_any_value_can_be_dropped() {
        let mut table = Table::new(&[("case", ""), ("a", ""), ("b", "")]);
        table.row(vec![Cell::new("x"), Cell::dash(), Cell::new("1")]);
        table.drop_empty_columns();
        assert_eq!(table.columns.len(), 2);
        assert_eq!(table.rows[0][1].text, "1");
    }
}
