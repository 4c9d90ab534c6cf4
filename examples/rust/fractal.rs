//! The picture of the demo, without anything parallel: tiles, colours, and the file at the end.

use std::f64::consts::TAU;
use std::fs::{File, remove_file, rename};
use std::io::{self, BufWriter};
use std::path::Path;

/// Width and height of the picture, pixels.
pub const SIDE: usize = 2048;
/// Width and height of one tile, pixels.
pub const TILE: usize = 128;
/// How many tiles cover the picture.
pub const TILES: usize = (SIDE / TILE) * (SIDE / TILE);
/// Size of one tile's picture: three bytes a pixel.
pub const TILE_BYTES: usize = TILE * TILE * 3;

/// Middle of the picture in the complex plane: a small copy of the whole set, among the spirals of Seahorse Valley.
const CENTRE: (f64, f64) = (-0.743_643_5, 0.131_825_5);
/// Width of the picture in the complex plane.
const WIDTH: f64 = 0.000_06;
/// A point that has not escaped after this many steps counts as inside.
const MAX_STEPS: u32 = 4000;
/// Each pixel is the mean of this many samples, squared.
const SAMPLES: usize = 2;

/// The top left pixel (x, y) of a tile.
pub fn origin(tile: usize) -> (usize, usize) {
    let per_row = SIDE / TILE;
    (tile % per_row * TILE, tile / per_row * TILE)
}

/// One tile, row by row, as red, green and blue bytes.
pub fn render(tile: usize) -> Vec<u8> {
    let (left, top) = origin(tile);
    let mut rgb = Vec::with_capacity(TILE_BYTES);
    for y in top..top + TILE {
        for x in left..left + TILE {
            rgb.extend(pixel(x, y));
        }
    }
    rgb
}

fn pixel(x: usize, y: usize) -> [u8; 3] {
    let step = WIDTH / (SIDE * SAMPLES) as f64;
    let mut sum = [0.0; 3];
    for sample in 0..SAMPLES * SAMPLES {
        let column = (x * SAMPLES + sample % SAMPLES) as f64;
        let row = (y * SAMPLES + sample / SAMPLES) as f64;
        let colour = colour(
            CENTRE.0 - WIDTH / 2.0 + (column + 0.5) * step,
            CENTRE.1 + WIDTH / 2.0 - (row + 0.5) * step,
        );
        sum.iter_mut().zip(colour).for_each(|(sum, part)| *sum += part);
    }
    // The mean is taken in linear light; the square root brings it to the screen's scale.
    sum.map(|part| ((part / (SAMPLES * SAMPLES) as f64).sqrt() * 255.0 + 0.5) as u8)
}

/// The colour of the point `a + bi`, in linear light: z → z² + c until it escapes.
fn colour(a: f64, b: f64) -> [f64; 3] {
    let (mut x, mut y) = (0.0_f64, 0.0_f64);
    // The derivative of z by c: it points uphill, which gives the light something to shine on.
    let (mut dx, mut dy) = (0.0, 0.0);
    for steps in 0..MAX_STEPS {
        let (xx, yy) = (x * x, y * y);
        if xx + yy > 1e4 {
            let smooth = f64::from(steps) - (0.5 * (xx + yy).ln()).log2();
            return shade(smooth, slope(x, y, dx, dy));
        }
        (dx, dy) = (2.0 * (x * dx - y * dy) + 1.0, 2.0 * (x * dy + y * dx));
        (x, y) = (xx - yy + a, 2.0 * x * y + b);
    }
    [0.0; 3]
}

/// How much light a slope gets from the upper left: 0 to 1.
fn slope(x: f64, y: f64, dx: f64, dy: f64) -> f64 {
    // z / z' is the normal of the potential, as an arrow in the plane.
    let (nx, ny) = (x * dx + y * dy, y * dx - x * dy);
    let length = nx.hypot(ny);
    let (light_x, light_y, height) = (-0.6, 0.8, 1.5);
    ((nx * light_x + ny * light_y) / length + height) / (1.0 + height)
}

/// A warm-to-cold palette that repeats itself, dimmed by the slope.
fn shade(smooth: f64, light: f64) -> [f64; 3] {
    let phase = smooth.ln() * 1.9;
    let wave = |offset: f64, low: f64| low + (1.0 - low) * (0.5 + 0.5 * (TAU * (phase + offset)).cos());
    let light = light.powi(2);
    [wave(0.0, 0.02) * light, wave(0.12, 0.03) * light * 0.9, wave(0.30, 0.10) * light]
}

/// The picture, as the tiles come in.
pub struct Picture {
    rgb: Vec<u8>,
}

impl Default for Picture {
    fn default() -> Self {
        Self { rgb: vec![0; SIDE * SIDE * 3] }
    }
}

impl Picture {
    /// Puts a tile in its place.
    pub fn place(&mut self, tile: usize, rgb: &[u8]) {
        let (left, top) = origin(tile);
        for (row, line) in rgb.chunks_exact(TILE * 3).enumerate() {
            let start = ((top + row) * SIDE + left) * 3;
            self.rgb[start..start + line.len()].copy_from_slice(line);
        }
    }

    /// Writes the picture; a file of that name is replaced only when all is written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let unfinished = path.with_extension("png.part");
        let written = self.write_png(&unfinished).and_then(|()| rename(&unfinished, path));
        written.inspect_err(|_| {
            let _ = remove_file(&unfinished);
        })
    }

    fn write_png(&self, path: &Path) -> io::Result<()> {
        let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), SIDE as u32, SIDE as u32);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.rgb)?;
        writer.finish()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_picture_exactly_once() {
        let mut seen = vec![0_u8; SIDE * SIDE];
        for tile in 0..TILES {
            let (left, top) = origin(tile);
            for y in top..top + TILE {
                seen[y * SIDE + left..][..TILE].iter_mut().for_each(|count| *count += 1);
            }
        }
        assert!(seen.iter().all(|&count| count == 1));
    }

    #[test]
    fn a_tile_is_placed_where_its_pixels_belong() {
        let mut picture = Picture::default();
        let tile: Vec<u8> = (0..TILE_BYTES).map(|byte| (byte / 3 % 251) as u8 + 1).collect();
        picture.place(17, &tile);
        let (left, top) = origin(17);
        assert_eq!((left, top), (TILE, TILE));
        assert_eq!(picture.rgb[(top * SIDE + left) * 3], 1);
        let last = ((top + TILE - 1) * SIDE + left + TILE) * 3;
        assert_eq!(picture.rgb[last - 1], tile[TILE_BYTES - 1]);
        assert_eq!(picture.rgb.iter().filter(|&&byte| byte != 0).count(), TILE_BYTES);
    }

    #[test]
    fn points_of_the_set_are_black_and_others_are_not() {
        let brightness = |a, b| colour(a, b).iter().sum::<f64>();
        assert!(brightness(0.0, 0.0) <= 0.0);
        assert!(brightness(-1.0, 0.0) <= 0.0);
        assert!(brightness(0.5, 0.5) > 0.0);
    }

    #[test]
    fn the_file_holds_the_picture() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.png");
        let mut picture = Picture::default();
        picture.place(255, &render(255));
        picture.save(&path).unwrap();
        let mut reader =
            png::Decoder::new(io::BufReader::new(File::open(&path).unwrap())).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.width, info.height), (2048, 2048));
        assert!(bytes == picture.rgb);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the picture is left");
    }
}
