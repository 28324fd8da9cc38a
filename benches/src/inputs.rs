//! Inputs of the measured programs, generated: the same bytes on every machine and every run.
//!
//! They lie in the build folder's `bench-inputs/` and are made once.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use test_support::paths;

/// xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }
}

/// Changes when what is generated below changes, so that no old file is taken for a new one.
const VERSION: &str = "1";

/// Where the inputs lie.
pub fn folder() -> PathBuf {
    paths::build().join("bench-inputs").join(VERSION)
}

/// The file `name` of the folder, written by `make` unless it is there.
fn once(name: &str, make: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<PathBuf> {
    let path = folder().join(name);
    if !path.exists() {
        fs::create_dir_all(folder())?;
        let draft = path.with_extension("draft");
        let mut file = BufWriter::new(File::create(&draft)?);
        make(&mut file)?;
        file.flush()?;
        fs::rename(draft, &path)?;
    }
    Ok(path)
}

/// A page whose script computes for about two seconds, in several workers.
pub fn page() -> io::Result<PathBuf> {
    once("page.html", |file| {
        file.write_all(
            br#"<!doctype html><body><p id="sum">0</p><script>
const code = `onmessage = e => {
  let words = new Map(), sum = 0;
  for (let k = 0; k < 600000; k++) {
    const word = "w" + (k * 7919 + e.data) % 5003;
    words.set(word, (words.get(word) || 0) + 1);
    sum = (sum + word.length * k) % 1000003;
  }
  postMessage(sum + words.size);
}`;
const url = URL.createObjectURL(new Blob([code]));
let left = 4, sum = 0;
for (let k = 0; k < 4; k++) {
  const worker = new Worker(url);
  worker.onmessage = e => {
    sum += e.data;
    if (--left == 0) document.getElementById("sum").textContent = sum;
  };
  worker.postMessage(k);
}
</script></body>
"#,
        )
    })
}

/// About 24 MB of text that compresses like text: words of few letters, some often, most seldom.
pub fn text() -> io::Result<PathBuf> {
    once("text", |file| {
        let mut random = Random::new(1);
        let words: Vec<String> = (0..4000).map(|_| word(&mut random)).collect();
        let mut written = 0;
        while written < 24 << 20 {
            let limit = 1 + random.below(words.len() as u64);
            let word = &words[random.below(limit) as usize];
            let end = if random.below(12) == 0 { '\n' } else { ' ' };
            write!(file, "{word}{end}")?;
            written += word.len() + 1;
        }
        Ok(())
    })
}

fn word(random: &mut Random) -> String {
    let letters = 2 + random.below(8);
    (0..letters).map(|_| char::from(b'a' + random.below(26).min(random.below(26)) as u8)).collect()
}

/// A million lines in no order.
pub fn lines() -> io::Result<PathBuf> {
    once("lines", |file| {
        let mut random = Random::new(2);
        for _ in 0..1_000_000 {
            writeln!(file, "{:x} {}", random.draw(), random.below(1000))?;
        }
        Ok(())
    })
}

/// A C source of many functions.
pub fn c_source() -> io::Result<PathBuf> {
    once("source.c", |file| {
        let mut random = Random::new(3);
        for k in 0..60 {
            writeln!(file, "int f{k}(int a, int b) {{\n    int s = {};", random.below(100))?;
            for _ in 0..6 {
                let (c, d) = (random.below(50), 1 + random.below(9));
                writeln!(file, "    for (int i = 0; i < b; i++) s += (a ^ {c}) / {d} + i * s;")?;
                writeln!(file, "    if (s % {d} == a) s -= b << {}; else a += s;", d % 5)?;
            }
            writeln!(
                file,
                "    return s{};\n}}",
                if k > 0 { format!(" + f{}(s, a)", k - 1) } else { String::new() }
            )?;
        }
        Ok(())
    })
}

/// A genome of a million bases.
pub fn genome() -> io::Result<PathBuf> {
    once("genome.fa", |file| {
        let bases = genome_bases();
        writeln!(file, ">one")?;
        for line in bases.chunks(80) {
            file.write_all(line)?;
            writeln!(file)?;
        }
        Ok(())
    })
}

fn genome_bases() -> Vec<u8> {
    let mut random = Random::new(4);
    (0..1_000_000).map(|_| b"ACGT"[random.below(4) as usize]).collect()
}

/// 1,500 reads of the genome, 2,000 bases each, one base in twenty wrong.
pub fn reads() -> io::Result<PathBuf> {
    once("reads.fa", |file| {
        let (bases, mut random) = (genome_bases(), Random::new(5));
        for read in 0..1500 {
            let start = random.below(bases.len() as u64 - 2000) as usize;
            let mut copy = bases[start..start + 2000].to_vec();
            for base in &mut copy {
                if random.below(20) == 0 {
                    *base = b"ACGT"[random.below(4) as usize];
                }
            }
            writeln!(file, ">r{read}\n{}", String::from_utf8_lossy(&copy))?;
        }
        Ok(())
    })
}

/// 40 pictures of 320 by 192 points: two textures that move over each other (YUV4MPEG2).
pub fn video() -> io::Result<PathBuf> {
    const WIDTH: u64 = 320;
    const HEIGHT: u64 = 192;
    once("video.y4m", |file| {
        writeln!(file, "YUV4MPEG2 W{WIDTH} H{HEIGHT} F25:1 Ip A1:1 C420jpeg")?;
        let mut random = Random::new(6);
        let noise: Vec<u8> = (0..WIDTH * HEIGHT).map(|_| random.below(40) as u8).collect();
        for picture in 0..40u64 {
            writeln!(file, "FRAME")?;
            for y in 0..HEIGHT {
                let point = |x: u64| {
                    let moved = (y * WIDTH + (x + picture * 3) % WIDTH) as usize;
                    let wave = (x + y * 2 + picture * 5) % 160;
                    noise[moved] + wave as u8
                };
                file.write_all(&(0..WIDTH).map(point).collect::<Vec<_>>())?;
            }
            file.write_all(&vec![128; (WIDTH * HEIGHT / 2) as usize])?;
        }
        Ok(())
    })
}

/// A Python program that works with dictionaries, strings and numbers.
pub fn python_script() -> io::Result<PathBuf> {
    once("script.py", |file| {
        file.write_all(
            b"import hashlib, json, re\n\
              words = {}\n\
              state = 12345\n\
              for i in range(1000000):\n\
              \x20   state = (state * 1103515245 + 12345) % 2147483648\n\
              \x20   words['w%d' % (state % 5000)] = words.get('w%d' % (state % 5000), 0) + i\n\
              text = json.dumps(words, sort_keys=True)\n\
              found = sum(int(n) % 7 for n in re.findall(r'\\d+', text))\n\
              print(len(words), found, hashlib.sha256(text.encode()).hexdigest())\n",
        )
    })
}

/// An empty folder of that name.
pub fn fresh_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let path = parent.join(name);
    if path.exists() {
        fs::remove_dir_all(&path)?;
    }
    fs::create_dir_all(&path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_every_time() {
        let take = || {
            let mut random = Random::new(1);
            (0..4).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(take(), take());
        assert_eq!(word(&mut Random::new(9)), word(&mut Random::new(9)));
    }
}
