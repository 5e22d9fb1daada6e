//! The legend: beside the data on wide pages, below it on narrow ones, never over it.

use crate::format::float;
use crate::plot::axis::Frame;
use crate::plot::palette::Ink;
use crate::plot::sketch::{Anchor, Layout, Shape, Sketch, text_width};

/// One line of the legend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) ink: Ink,
    pub(crate) shape: Shape,
    pub(crate) label: String,
    /// A number worth reading beside the label.
    pub(crate) detail: String,
    /// Where its data ends, to stand near it; `None` stacks entries from the top.
    pub(crate) wanted_y: Option<f64>,
}

const COLUMN_WIDTH: f64 = 276.0;
const LINE_HEIGHT: f64 = 17.0;
const LABEL_AT: f64 = 24.0;
const AXIS_HEIGHT: f64 = 46.0;
const HEAD_HEIGHT: f64 = 32.0;

/// Makes the frame for data of this height, with room for axes and legend, and sets the height of
/// the drawing.
pub(crate) fn frame(sketch: &mut Sketch, data_height: f64, entries: usize) -> Frame {
    let layout = sketch.layout;
    let (right, below) = match layout {
        Layout::Wide => (layout.width() - COLUMN_WIDTH, 0.0),
        Layout::Narrow => (layout.width() - 10.0, legend_height(entries)),
    };
    // A long legend beside the data needs its height too.
    let data_height = match layout {
        Layout::Wide => data_height.max(legend_height(entries)),
        Layout::Narrow => data_height * 0.8,
    };
    let bottom = HEAD_HEIGHT + data_height;
    sketch.height = bottom + AXIS_HEIGHT + below;
    Frame { left: 64.0, top: HEAD_HEIGHT, right, bottom }
}

/// Draws the entries where the layout has room for them.
pub(crate) fn draw(sketch: &mut Sketch, frame: &Frame, entries: &[Entry]) {
    match sketch.layout {
        Layout::Wide => {
            for (entry, y) in entries.iter().zip(spread(frame, entries)) {
                draw_entry(sketch, (frame.right + 18.0, y), entry);
            }
        }
        Layout::Narrow => {
            let mut y = frame.bottom + AXIS_HEIGHT + LINE_HEIGHT;
            for entry in entries {
                draw_entry(sketch, (0.0, y), entry);
                y += 2.0 * LINE_HEIGHT + 4.0;
            }
        }
    }
}

fn legend_height(entries: usize) -> f64 {
    float(entries) * (2.0 * LINE_HEIGHT + 4.0) + 8.0
}

/// Positions as near to the wanted ones as there is room for, in the order of the entries' data.
fn spread(frame: &Frame, entries: &[Entry]) -> Vec<f64> {
    let step = 2.0 * LINE_HEIGHT + 4.0;
    let mut order: Vec<usize> = (0..entries.len()).collect();
    let wanted = |index: usize| entries[index].wanted_y.unwrap_or(frame.top);
    order.sort_by(|a, b| wanted(*a).total_cmp(&wanted(*b)));
    let mut y = frame.top - step + 8.0;
    let mut at = vec![0.0; entries.len()];
    for index in &order {
        y = (y + step).max(wanted(*index));
        at[*index] = y;
    }
    let mut highest = frame.bottom - LINE_HEIGHT;
    for index in order.iter().rev() {
        at[*index] = at[*index].min(highest);
        highest = at[*index] - step;
    }
    at
}

fn draw_entry(sketch: &mut Sketch, (x, y): (f64, f64), entry: &Entry) {
    sketch.line(vec![(x, y), (x + 16.0, y)], entry.ink, 2.25);
    sketch.dot((x + 8.0, y), entry.shape, entry.ink);
    let room = sketch.layout.width() - x - LABEL_AT;
    let label = shortened(&entry.label, room, sketch.layout.text_size());
    sketch.text((x + LABEL_AT, y), label, Anchor::Start, Ink::Text);
    if !entry.detail.is_empty() {
        let detail = shortened(&entry.detail, room, sketch.layout.text_size());
        let at = (x + LABEL_AT, y + LINE_HEIGHT);
        sketch.text(at, detail, Anchor::Start, Ink::Muted);
    }
}

/// Cuts a label to the room there is; tables have it in full.
pub(crate) fn shortened(label: &str, room: f64, size: f64) -> String {
    if text_width(label, size) <= room {
        return label.to_owned();
    }
    let mut kept = String::new();
    for character in label.chars() {
        kept.push(character);
        if text_width(&kept, size) + size > room {
            break;
        }
    }
    kept.pop();
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}
