//! Colours of the plots, for light and dark pages.
//!
//! Plots are drawn in the light colours, so they are right wherever an SVG is shown alone; the
//! page's style sheet swaps each for its dark twin. Every colour is used for one meaning only.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// A colour with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Text and the strongest marks.
    Text,
    /// Axis text.
    Muted,
    /// Grid lines.
    Grid,
    /// Axis lines.
    Axis,
    /// Cases that promise nothing.
    NotDurable,
    /// Stalls and limits.
    Alarm,
    /// One of the series.
    Series(usize),
}

/// Series that can be told apart by colour.
pub(crate) const SERIES_MAX: usize = 8;

/// Backgrounds that plots stand on: light, dark.
#[cfg(test)]
const BACKGROUND: (u32, u32) = (0xFF_FF_FF, 0x15_18_1C);

/// Light and dark colour of each ink; series last. All of them are different, since a colour is
/// what the style sheet finds a mark by.
const COLOURS: [(u32, u32); 6 + SERIES_MAX] = [
    (0x1C_20_24, 0xE8_EA_ED), // text
    (0x56_5D_66, 0xA6_AE_B8), // muted
    (0xE3_E6_EA, 0x2B_30_37), // grid
    (0x9A_A1_AA, 0x5B_63_6D), // axis
    (0x7A_82_8C, 0x87_8F_99), // not durable
    (0xB4_23_18, 0xFF_7B_6E), // alarm
    (0x1F_41_82, 0x93_AF_F9), // blue
    (0xD2_66_06, 0xEC_83_1F), // orange
    (0x33_96_5A, 0x6D_DC_A1), // green
    (0x8B_2B_E0, 0xA0_3F_F5), // purple
    (0x7A_4A_0B, 0xF6_E4_81), // brown, straw
    (0x0D_8C_CA, 0x84_E7_F1), // sky
    (0x7C_08_31, 0xF2_2A_55), // wine, rose
    (0x0A_14_94, 0x7A_66_CE), // navy, violet
];

impl Ink {
    fn index(self) -> usize {
        match self {
            Self::Text => 0,
            Self::Muted => 1,
            Self::Grid => 2,
            Self::Axis => 3,
            Self::NotDurable => 4,
            Self::Alarm => 5,
            Self::Series(number) => 6 + number % SERIES_MAX,
        }
    }

    pub(crate) fn colour(self) -> RGBColor {
        let [_, r, g, b] = COLOURS[self.index()].0.to_be_bytes();
        RGBColor(r, g, b)
    }
}

/// Makes the style rules that turn plots dark.
pub(crate) fn dark_rules() -> String {
    let mut rules = String::new();
    for (light, dark) in COLOURS {
        for property in ["fill", "stroke"] {
            // Writing to a string cannot fail.
            let rule = format!(".plot [{property}=\"#{light:06X}\"]{{{property}:#{dark:06X}}}");
            writeln!(rules, "{rule}").expect("a string takes any text");
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, WCAG 2.2.
    fn luminance(colour: u32) -> f64 {
        let [r, g, b] = linear(colour);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_marks_stand_out_from_both_backgrounds() {
        for (index, (light, dark)) in COLOURS.into_iter().enumerate() {
            let least = match index {
                0 | 1 => 4.5,
                2 | 3 => 1.0,
                _ => 3.0,
            };
            assert!(contrast(light, BACKGROUND.0) >= least, "{light:06X} on light");
            assert!(contrast(dark, BACKGROUND.1) >= least, "{dark:06X} on dark");
        }
    }

    /// Linear light of red, green and blue.
    fn linear(colour: u32) -> [f64; 3] {
        let [_, r, g, b] = colour.to_be_bytes();
        [r, g, b].map(|byte| {
            let c = f64::from(byte) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn times(matrix: &[[f64; 3]; 3], by: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(by).map(|(a, b)| a * b).sum())
    }

    /// CIE L*a*b*, D65.
    fn lab(linear: [f64; 3]) -> [f64; 3] {
        let to_xyz = [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8728]];
        let [x, y, z] = times(&to_xyz, linear)
            .map(|v| if v > 0.008_856 { v.cbrt() } else { 7.787 * v + 16.0 / 116.0 });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// What people without green or red cones see: Machado, Oliveira, Fernandes 2009.
    const SIGHTS: [[[f64; 3]; 3]; 3] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    ];

    #[test]
    fn series_can_be_told_apart_without_red_or_green_cones() {
        let light: Vec<u32> = COLOURS[6..].iter().map(|pair| pair.0).collect();
        let dark: Vec<u32> = COLOURS[6..].iter().map(|pair| pair.1).collect();
        for (theme, sight) in [light, dark].iter().flat_map(|t| SIGHTS.iter().map(move |s| (t, s)))
        {
            let seen: Vec<[f64; 3]> =
                theme.iter().map(|colour| lab(times(sight, linear(*colour)))).collect();
            for (index, a) in seen.iter().enumerate() {
                for (other, b) in seen[..index].iter().enumerate() {
                    let squares = a.iter().zip(b).map(|(a, b)| (a - b).powi(2));
                    let distance = squares.sum::<f64>().sqrt();
                    assert!(distance > 20.0, "series {other} and {index}: {distance:.1}");
                }
            }
        }
    }

    #[test]
    fn no_two_inks_share_a_colour_so_each_can_be_swapped_alone() {
        for (index, (light, _)) in COLOURS.into_iter().enumerate() {
            assert!(COLOURS[..index].iter().all(|other| other.0 != light), "{light:06X}");
        }
    }

    #[test]
    fn each_colour_has_a_dark_twin_in_the_rules() {
        let rules = dark_rules();
        assert!(rules.contains("[fill=\"#1F4182\"]{fill:#93AFF9}"), "{rules}");
        assert_eq!(rules.lines().count(), 2 * COLOURS.len());
    }
}
