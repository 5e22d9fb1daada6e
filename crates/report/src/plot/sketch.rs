//! A drawing as a list of marks, and the SVG it becomes.
//!
//! Positions are in design pixels, y downwards. Marks are kept as a list so that tests can ask
//! whether labels overlap or leave the drawing; `plotters` then writes the SVG.

use plotters::coord::Shift;
use plotters::prelude::{
    Circle, DrawingArea, IntoDrawingArea, IntoFont, PathElement, Polygon, Rectangle, SVGBackend,
    ShapeStyle, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, TextStyle};

use crate::html::escape;
use crate::plot::palette::Ink;

/// A position, x and y.
pub(crate) type Point = (f64, f64);

/// Which of the two forms of a plot is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// For screens of a computer and for paper.
    Wide,
    /// For telephones.
    Narrow,
}

impl Layout {
    pub(crate) const fn width(self) -> f64 {
        match self {
            Self::Wide => 960.0,
            Self::Narrow => 400.0,
        }
    }

    /// Size of all text: the narrow form is shown smaller than drawn.
    pub(crate) const fn text_size(self) -> f64 {
        match self {
            Self::Wide => 13.0,
            Self::Narrow => 14.5,
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// Which side of its position a text stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Shape of a dot; series are told apart by shape as well as by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
}

impl Shape {
    pub(crate) fn of_series(number: usize) -> Self {
        [Self::Circle, Self::Square, Self::Triangle, Self::Diamond][number % 4]
    }
}

/// One thing drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mark {
    Path { points: Vec<Point>, ink: Ink, width: f64 },
    Rect { from: Point, to: Point, ink: Ink, alpha: f64 },
    Dot { at: Point, shape: Shape, ink: Ink, radius: f64 },
    Text { at: Point, text: String, ink: Ink, anchor: Anchor, size: f64 },
}

/// A drawing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sketch {
    pub(crate) layout: Layout,
    pub(crate) height: f64,
    pub(crate) marks: Vec<Mark>,
}

/// `plotters` rounds to whole units; a quarter of a design pixel is finer than the eye.
const UNITS_PER_PIXEL: f64 = 4.0;

/// Text is written so large that it comes out right: the SVG backend divides by this.
const BACKEND_TEXT_FACTOR: f64 = 1.24;

/// Mean width of a character as a part of the text size; sans-serif fonts stay below.
const CHARACTER_WIDTH: f64 = 0.56;

/// Estimates how wide a text will be.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    unicode_width::UnicodeWidthStr::width(text) as f64 * size * CHARACTER_WIDTH
}

impl Sketch {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, height: 0.0, marks: Vec::new() }
    }

    pub(crate) fn line(&mut self, points: Vec<Point>, ink: Ink, width: f64) {
        self.marks.push(Mark::Path { points, ink, width });
    }

    pub(crate) fn dot(&mut self, at: Point, shape: Shape, ink: Ink) {
        self.marks.push(Mark::Dot { at, shape, ink, radius: 3.5 });
    }

    pub(crate) fn text(&mut self, at: Point, text: impl Into<String>, anchor: Anchor, ink: Ink) {
        let size = self.layout.text_size();
        self.marks.push(Mark::Text { at, text: text.into(), ink, anchor, size });
    }

    /// Writes the SVG element; `key` is unique in the page.
    pub(crate) fn to_svg(&self, key: &str, title: &str) -> String {
        let mut drawn = String::new();
        let size = (unsigned(self.layout.width()), unsigned(self.height));
        let area = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        for mark in &self.marks {
            draw(&area, mark);
        }
        area.present().expect("drawing into memory cannot fail");
        drop(area);
        let head_end = drawn.find('>').map_or(0, |at| at + 1);
        let body = drawn[head_end..].replace(" opacity=\"1\"", "").replace('\n', "");
        let class = self.layout.class();
        let id = format!("{}-{class}", escape(key));
        format!(
            "<svg class=\"plot {class}\" viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-labelledby=\"{id}\"><title id=\"{id}\">{}</title>{body}",
            size.0,
            size.1,
            escape(title)
        )
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(area: &Area<'_>, mark: &Mark) {
    let drawn = match mark {
        Mark::Path { points, ink, width } => {
            let style = ShapeStyle {
                color: ink.colour().to_rgba(),
                filled: false,
                stroke_width: unsigned(*width),
            };
            let points: Vec<(i32, i32)> = points.iter().map(|at| units(*at)).collect();
            area.draw(&PathElement::new(points, style))
        }
        Mark::Rect { from, to, ink, alpha } => {
            let style = ink.colour().mix(*alpha).filled();
            area.draw(&Rectangle::new([units(*from), units(*to)], style))
        }
        Mark::Dot { at, shape: Shape::Circle, ink, radius } => {
            let radius = i32::try_from(unsigned(*radius)).expect("a small number");
            area.draw(&Circle::new(units(*at), radius, ink.colour().filled()))
        }
        Mark::Dot { at, shape, ink, radius } => {
            let corners = corners(*at, *shape, *radius);
            area.draw(&Polygon::new(corners, ink.colour().filled()))
        }
        Mark::Text { at, text, ink, anchor, size } => {
            let side = match anchor {
                Anchor::Start => HPos::Left,
                Anchor::Middle => HPos::Center,
                Anchor::End => HPos::Right,
            };
            let size = size * UNITS_PER_PIXEL * BACKEND_TEXT_FACTOR;
            let font = ("sans-serif", size, FontStyle::Normal).into_font();
            let colour = ink.colour();
            let style = TextStyle::from(font).color(&colour).pos(Pos::new(side, VPos::Center));
            area.draw(&Text::new(text.clone(), units(*at), style))
        }
    };
    drawn.expect("drawing into memory cannot fail");
}

fn corners((x, y): Point, shape: Shape, radius: f64) -> Vec<(i32, i32)> {
    let offsets: &[Point] = match shape {
        Shape::Circle | Shape::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        Shape::Triangle => &[(0.0, -1.25), (1.15, 0.8), (-1.15, 0.8)],
        Shape::Diamond => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    };
    offsets.iter().map(|(dx, dy)| units((x + dx * radius, y + dy * radius))).collect()
}

fn units((x, y): Point) -> (i32, i32) {
    (signed(x), signed(y))
}

#[expect(clippy::cast_possible_truncation, reason = "rounded on purpose; float casts saturate")]
fn signed(pixels: f64) -> i32 {
    (pixels * UNITS_PER_PIXEL).round() as i32
}

fn unsigned(pixels: f64) -> u32 {
    u32::try_from(signed(pixels)).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Asserts that texts stay inside the drawing and apart from one another.
    pub(crate) fn assert_readable(sketch: &Sketch) {
        let boxes: Vec<(&str, Point, Point)> = sketch
            .marks
            .iter()
            .filter_map(|mark| match mark {
                Mark::Text { at, text, anchor, size, .. } => {
                    let width = text_width(text, *size);
                    let left = match anchor {
                        Anchor::Start => at.0,
                        Anchor::Middle => at.0 - width / 2.0,
                        Anchor::End => at.0 - width,
                    };
                    let half = size * 0.45;
                    Some((text.as_str(), (left, at.1 - half), (left + width, at.1 + half)))
                }
                _ => None,
            })
            .collect();
        for (index, (text, from, to)) in boxes.iter().enumerate() {
            let inside = from.0 >= -1.0 && to.0 <= sketch.layout.width() + 1.0;
            assert!(inside && from.1 >= -1.0 && to.1 <= sketch.height + 1.0, "{text:?} is cut");
            for (other, other_from, other_to) in &boxes[..index] {
                let apart = to.0 <= other_from.0
                    || from.0 >= other_to.0
                    || to.1 <= other_from.1
                    || from.1 >= other_to.1;
                assert!(apart, "{text:?} lies over {other:?}");
            }
        }
    }

    #[test]
    fn text_from_data_is_escaped_and_no_address_is_left_in_the_svg() {
        let mut sketch = Sketch::new(Layout::Wide);
        sketch.height = 100.0;
        sketch.text((10.0, 20.0), "</text><script>alert(1)</script>", Anchor::Start, Ink::Text);
        let svg = sketch.to_svg("k", "a \"title\" <b>");
        assert!(!svg.contains("<script"), "{svg}");
        assert!(!svg.contains("<b>") && !svg.contains("http"), "{svg}");
        assert!(svg.ends_with("</svg>"), "{svg}");
    }

    #[test]
    fn every_shape_and_mark_reaches_the_svg() {
        let mut sketch = Sketch::new(Layout::Narrow);
        sketch.height = 50.0;
        sketch.line(vec![(0.0, 0.0), (10.0, 5.0)], Ink::Alarm, 1.5);
        for number in 0..4 {
            sketch.dot((20.0, 20.0), Shape::of_series(number), Ink::Series(number));
        }
        let svg = sketch.to_svg("k", "t");
        assert!(svg.contains("<polyline") && svg.contains("0,0 40,20"), "{svg}");
        assert_eq!(svg.matches("<polygon").count(), 3);
        assert_eq!(svg.matches("<circle").count(), 1);
    }
}
