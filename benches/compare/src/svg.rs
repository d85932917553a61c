//! Draws a curve of two servers as SVG text, both axes logarithmic. Knows points, not what they are of.

use std::fmt::Write;

use crate::table::rounded;

/// Size of the drawing and of the space around the axes, pixels.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 60.0;

/// Colour and dashes of each line: they differ in print too.
const STROKES: [(&str, &str); 2] = [("#326ce5", "6 4"), ("#c2410c", "none")];

/// One drawing.
pub(crate) struct Curve {
    pub(crate) title: &'static str,
    /// What the axes show, with units.
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) lines: [Line; 2],
}

/// One server's points; those that are not above zero have no place on a logarithmic axis and are left out.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Curve {
    /// The text of an SVG file.
    pub(crate) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.drawn());
        let x = Axis::of(points().map(|(x, _)| x), LEFT, WIDTH - RIGHT);
        let y = Axis::of(points().map(|(_, y)| y), HEIGHT - BOTTOM, TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        text(&mut svg, (middle, 24.0), "middle", self.title);
        text(&mut svg, (middle, HEIGHT - 16.0), "middle", self.x);
        text(&mut svg, (LEFT, TOP - 10.0), "middle", self.y);
        for (at, label) in x.ticks() {
            stroke(&mut svg, &[(at, TOP), (at, HEIGHT - BOTTOM)], "#ddd", "none");
            text(&mut svg, (at, HEIGHT - BOTTOM + 18.0), "middle", &label);
        }
        for (at, label) in y.ticks() {
            stroke(&mut svg, &[(LEFT, at), (WIDTH - RIGHT, at)], "#ddd", "none");
            text(&mut svg, (LEFT - 8.0, at + 4.0), "end", &label);
        }
        for ((line, (colour, dashes)), key) in self.lines.iter().zip(STROKES).zip([WIDTH - 330.0, WIDTH - 170.0]) {
            stroke(&mut svg, &[(key, 46.0), (key + 30.0, 46.0)], colour, dashes);
            text(&mut svg, (key + 36.0, 50.0), "start", line.name);
            let places: Vec<_> = line.drawn().map(|(px, py)| (x.place(px), y.place(py))).collect();
            stroke(&mut svg, &places, colour, dashes);
            for ((px, py), (_, value)) in places.into_iter().zip(line.drawn()) {
                let _ = writeln!(svg, "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"4\" fill=\"{colour}\"/>");
                text(&mut svg, (px, py - 9.0), "middle", &rounded(value));
            }
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Line {
    fn drawn(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0)
    }
}

/// Whole decades from one pixel to another.
struct Axis {
    decades: (i32, i32),
    pixels: (f64, f64),
}

impl Axis {
    fn of(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values.map(f64::log10).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        // Without a value, one decade: an empty drawing rather than none.
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        #[expect(clippy::cast_possible_truncation, reason = "there are about 600 decades")]
        let (first, last) = (low.floor() as i32, high.ceil() as i32);
        Self { decades: (first, last.max(first + 1)), pixels: (from, to) }
    }

    fn place(&self, value: f64) -> f64 {
        let (first, last) = (f64::from(self.decades.0), f64::from(self.decades.1));
        self.pixels.0 + (value.log10() - first) / (last - first) * (self.pixels.1 - self.pixels.0)
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        (self.decades.0..=self.decades.1).map(|decade| (self.place(10_f64.powi(decade)), format!("{}", 10_f64.powi(decade))))
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

fn stroke(svg: &mut String, points: &[(f64, f64)], colour: &str, dashes: &str) {
    let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _ =
        writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_whole_decades() {
        let axis = Axis::of([30.0, 2000.0].into_iter(), 0.0, 300.0);
        let ticks: Vec<_> = axis.ticks().map(|(at, label)| (at.round(), label)).collect();
        assert_eq!(ticks, [(0.0, "10".to_owned()), (100.0, "100".to_owned()), (200.0, "1000".to_owned()), (300.0, "10000".to_owned())]);
        assert_eq!(Axis::of([100.0].into_iter(), 0.0, 1.0).decades, (2, 3));
        assert_eq!(Axis::of([].into_iter(), 0.0, 1.0).decades, (0, 1));
    }

    #[test]
    fn a_drawing_has_both_lines_and_their_units() {
        let line = |name| Line { name, points: vec![(100.0, 2.0), (1000.0, 0.0), (3000.0, 21.04)] };
        let svg = Curve { title: "title", x: "watches", y: "MB", lines: [line("a"), line("b")] }.svg();
        for part in ["<svg ", ">title<", ">watches<", ">MB<", ">a<", ">b<", ">21.0<", "</svg>"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 4, "zero has no place");
    }
}
