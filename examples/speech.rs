//! Speech recognition by Whisper: reads WAV files, and prints what is said in them.
//!
//! FOLDER is a Hugging Face folder of an English or multilingual Whisper, such as `hf download
//! openai/whisper-tiny.en --local-dir whisper-tiny.en` makes: `config.json`, the weights and
//! `tokenizer.json`. The spectrogram and two convolutions stand in this file. Encoder, decoder and
//! search are those of the crate `transformer`.
//!
//!     cargo run --release --example speech -- FOLDER FILE.wav ...
//!
//! `--beam=5` searches with a beam, `--int8` has matrices of 8 bits, `--times` prints times, and
//! `--language=de` is for multilingual models. Without arguments, a tiny random model hears a sound.

use std::error::Error;
use std::f64::consts::PI;
use std::time::Instant;

use burn::module::Module;
use burn::nn::PaddingConfig1d;
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::tensor::{Device, Tensor, TensorData};
use hound::{SampleFormat, WavReader};
use realfft::RealFftPlanner;
use tokenizers::Tokenizer;
use transformer::fused::activate;
use transformer::generate::{LengthPenalty, Method};
use transformer::weights::{
    Imported, Layout, ModelFolder, Parameters, WeightsError, read_generation, with_parameters,
};
use transformer::{Activation, Decoder, Encoder, Memory};

/// A random model, and a sound: see `whisper/make.py`.
const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/whisper");
const OPTIONS: [&str; 4] = ["--beam=", "--int8", "--language=", "--times"];
/// Samples a second.
const RATE: u32 = 16_000;
/// Samples in a window of the spectrogram, and from one window to the next.
const WINDOW: usize = 400;
const HOP: usize = 160;

/// Whisper (Radford et al. 2022): an encoder of the vectors that two convolutions make of a
/// spectrogram, and a decoder of tokens.
struct Whisper {
    convolutions: Convolutions,
    encoder: Encoder,
    decoder: Decoder,
}

#[derive(Module, Debug)]
struct Convolutions {
    conv1: Conv1d,
    conv2: Conv1d,
}

impl Whisper {
    /// Builds the model of a folder.
    fn new(mut imported: Imported, device: &Device) -> Result<Self, WeightsError> {
        let given = std::mem::take(&mut imported.others).into_iter();
        let given = given.map(|(name, data)| (name.replace("encoder.", ""), data));
        let given: Parameters = given.collect();
        let conv = |name: &str, stride| {
            let shape = given[&format!("{name}.weight")].shape();
            Conv1dConfig::new(shape[1], shape[0], shape[2])
                .with_stride(stride)
                .with_padding(PaddingConfig1d::Explicit(1, 1))
                .init(device)
        };
        let (conv1, conv2) = (conv("conv1", 1), conv("conv2", 2));
        let convolutions = Convolutions { conv1, conv2 };
        let (encoder, decoder) = imported.encoder_and_decoder(device)?;
        Ok(Self {
            convolutions: with_parameters(&convolutions, given)?,
            encoder,
            decoder,
        })
    }

    /// Returns the shape of a spectrogram: frequencies, and frames of 30 seconds in the published
    /// models. The second convolution leaves every other frame.
    fn shape(&self) -> [usize; 2] {
        let positions = self.encoder.max_len().expect("positions are learned");
        [self.convolutions.conv1.weight.dims()[1], 2 * positions]
    }

    /// Returns the memory of a spectrogram.
    fn encode(&self, spectrogram: Tensor<2>) -> Memory {
        let Convolutions { conv1, conv2 } = &self.convolutions;
        let gelu = Activation::Gelu.operation();
        let gelu = |x: Tensor<3>| activate(x.squeeze_dim(0), gelu, 0.0).unsqueeze();
        let x = gelu(conv1.forward(spectrogram.unsqueeze()));
        let x: Tensor<3> = gelu(conv2.forward(x));
        self.encoder.forward_vectors(x.swap_dims(1, 2), None).into()
    }
}

/// Reads a WAV file as samples from -1 to 1, one channel, at the model's rate.
fn read_wav(path: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let mut file = WavReader::open(path)?;
    let spec = file.spec();
    let (sample_rate, channels) = (spec.sample_rate, usize::from(spec.channels));
    let samples: Vec<f32> = match spec.sample_format {
        SampleFormat::Float => file.samples().collect::<Result<_, _>>()?,
        SampleFormat::Int => {
            let largest = (1_i64 << (spec.bits_per_sample - 1)) as f32;
            let scaled = (file.samples::<i32>()).map(|x| x.map(|x| x as f32 / largest));
            scaled.collect::<Result<_, _>>()?
        }
    };
    if sample_rate == 0 {
        return Err("has a sample rate of 0".into());
    }
    let mean = |frame: &[f32]| frame.iter().sum::<f32>() / channels as f32;
    let mono: Vec<f32> = samples.chunks_exact(channels).map(mean).collect();
    if sample_rate == RATE {
        return Ok(mono);
    }
    // Linear interpolation between neighbours.
    let length = mono.len() as u64 * u64::from(RATE) / u64::from(sample_rate);
    let last = mono.len().saturating_sub(1);
    let at = |index: u64| {
        let place = index as f64 * f64::from(sample_rate) / f64::from(RATE);
        let before = (place as usize).min(last);
        let (left, right) = (mono[before], mono[(before + 1).min(last)]);
        (f64::from(left) + f64::from(right - left) * place.fract()) as f32
    };
    Ok((0..length).map(at).collect())
}

/// Returns the logarithmic mel spectrogram of samples, `[n_mels, n_frames]`.
fn spectrogram(samples: &[f32], [n_mels, n_frames]: [usize; 2], device: &Device) -> Tensor<2> {
    // Silence follows the samples, and both ends are mirrored for the windows at the ends.
    let sample = |index: isize| {
        let last = (n_frames * HOP) as isize - 1;
        let index = last - (last - index.abs()).abs();
        f64::from(samples.get(index as usize).copied().unwrap_or(0.0))
    };
    let hann = |n: usize| 0.5 - 0.5 * (2.0 * PI * n as f64 / WINDOW as f64).cos();
    let hann: Vec<f64> = (0..WINDOW).map(hann).collect();
    let filters = mel_filters(n_mels);
    let fft = RealFftPlanner::<f64>::new().plan_fft_forward(WINDOW);
    let (mut windowed, mut spectrum) = (fft.make_input_vec(), fft.make_output_vec());
    let mut levels = vec![0.0; n_mels * n_frames];
    for frame in 0..n_frames {
        let first = (frame * HOP) as isize - WINDOW as isize / 2;
        for (n, value) in windowed.iter_mut().enumerate() {
            *value = sample(first + n as isize) * hann[n];
        }
        fft.process(&mut windowed, &mut spectrum)
            .expect("the buffers have the right lengths");
        let power: Vec<f64> = spectrum.iter().map(|x| x.norm_sqr()).collect();
        for (mel, filter) in filters.iter().enumerate() {
            let energy: f64 = filter.iter().zip(&power).map(|(a, b)| a * b).sum();
            levels[mel * n_frames + frame] = energy.max(1e-10).log10();
        }
    }
    let loudest = levels.iter().copied().fold(f64::MIN, f64::max);
    let scaled = levels.iter().map(|x| (x.max(loudest - 8.0) + 4.0) / 4.0);
    let levels: Vec<f32> = scaled.map(|x| x as f32).collect();
    Tensor::from_data(TensorData::new(levels, [n_mels, n_frames]), device)
}

/// Returns the triangular filters of Slaney's mel scale, which is linear below 1000 Hz.
fn mel_filters(n_mels: usize) -> Vec<Vec<f64>> {
    let step = 6.4_f64.ln() / 27.0;
    let highest = 15.0 + 8.0_f64.ln() / step;
    let hertz = |mel: f64| match mel {
        mel if mel < 15.0 => 200.0 / 3.0 * mel,
        mel => 1000.0 * (step * (mel - 15.0)).exp(),
    };
    let edge = |n: usize| hertz(highest * n as f64 / (n_mels + 1) as f64);
    let edges: Vec<f64> = (0..n_mels + 2).map(edge).collect();
    let filter = |&[low, middle, high]: &[f64; 3]| -> Vec<f64> {
        let frequencies = (0..=WINDOW / 2).map(|bin| bin as f64 * f64::from(RATE) / WINDOW as f64);
        let height = |f: f64| ((f - low) / (middle - low)).min((high - f) / (high - middle));
        let scaled = frequencies.map(|f| height(f).max(0.0) * 2.0 / (high - low));
        scaled.collect()
    };
    edges.array_windows().map(filter).collect()
}

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1);
    let (options, mut names): (Vec<_>, Vec<_>) = arguments.partition(|it| it.starts_with("--"));
    let is_known = |it: &&String| OPTIONS.map(Some).contains(&it.split_inclusive('=').next());
    if let Some(unknown) = options.iter().find(|it| !is_known(it)) {
        return Err(format!("{unknown} is not one of {}", OPTIONS.join(", ")).into());
    }
    let option = |name: &str| options.iter().find_map(|option| option.strip_prefix(name));
    if names.is_empty() {
        names = vec![TINY.into(), format!("{TINY}/sound.wav")];
    }
    let (folder, device) = (&names[0], Device::flex());
    let mut opened = ModelFolder::open(folder)?;
    opened.options.int8 = option("--int8").is_some();
    let imported = opened.import()?;
    if imported.layout != Layout::Whisper {
        return Err(format!("{folder} is a model of {}, not Whisper", imported.layout).into());
    }
    let mut defaults = read_generation(folder, &imported.stacks)?;
    let model = Whisper::new(imported, &device)?;
    let path = format!("{folder}/tokenizer.json");
    let tokenizer = Tokenizer::from_file(&path).map_err(|error| format!("{path}: {error}"))?;
    if let Some(language) = option("--language=") {
        // Only multilingual models have a language, a task and a third token before a text.
        let id = tokenizer.token_to_id(&format!("<|{language}|>"));
        match (&mut defaults.prefix[..], id) {
            ([first, _, _], Some(id)) => *first = id,
            _ => return Err(format!("the model has no language {language}").into()),
        }
    }
    // A folder need not say how timestamps are left out.
    let last = tokenizer.token_to_id("<|notimestamps|>");
    (defaults.prefix).extend(last.filter(|id| !defaults.prefix.contains(id)));
    if let Some(width) = option("--beam=") {
        defaults.method = Method::Beam {
            width: width.parse().map_err(|error| format!("--beam: {error}"))?,
            length_penalty: LengthPenalty::Power { alpha: 1.0 },
        };
    }
    // The start token takes one of the decoder's positions.
    let positions = model.decoder.max_len().expect("positions are learned");
    let (search, shape) = (defaults.config(positions - 1), model.shape());
    for path in &names[1..] {
        let samples = read_wav(path).map_err(|error| format!("{path}: {error}"))?;
        let mut text = String::new();
        for samples in samples.chunks(shape[1] * HOP) {
            let spectrogram = spectrogram(samples, shape, &device);
            let begin = Instant::now();
            let memory = model.encode(spectrogram);
            let encoded = begin.elapsed();
            let found = (model.decoder).complete(&memory, &[&defaults.prefix], &search)?;
            if option("--times").is_some() {
                let n = found[0][0].tokens.len() - defaults.prefix.len();
                let decoded = begin.elapsed() - encoded;
                eprintln!("encoder {encoded:?}, {n} tokens in {decoded:?}");
            }
            let heard = tokenizer.decode(&found[0][0].tokens, true);
            text += &heard.map_err(|error| error.to_string())?;
        }
        println!("{path}: {}", text.trim());
    }
    Ok(())
}
