//! Speech recognition by Whisper: reads WAV files, and prints what is said in them.
//!
//! FOLDER is a Hugging Face folder of an English or multilingual Whisper, such as `hf download
//! openai/whisper-tiny.en --local-dir whisper-tiny.en` makes: `config.json`, the weights and
//! `tokenizer.json`. The spectrogram and two convolutions stand in this file. Encoder, decoder and
//! search are those of the crate `transformer`.
//!
//!     cargo run --release -p examples --example speech -- FOLDER FILE.wav ...
//!
//! `--beam=5` searches with a beam, and `--language=de` is for multilingual models. Without arguments,
//! a tiny model with random parameters hears a sound.

use std::error::Error;
use std::f64::consts::PI;
use std::path::Path;

use burn::module::Module;
use burn::nn::PaddingConfig1d;
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Tensor, TensorData};
use hound::{SampleFormat, WavReader, WavSpec};
use realfft::RealFftPlanner;
use serde_json::Value;
use tokenizers::Tokenizer;
use transformer::generate::{EarlyStopping, GenerateConfig, LengthPenalty, Method};
use transformer::weights::{Rules, WeightsFile};
use transformer::{
    Activation, Decoder, DecoderConfig, Encoder, EncoderConfig, Memory, NormPlacement, Positions,
};

/// A random model, and a sound: see `whisper/make.py`.
const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/whisper");
/// Samples a second.
const RATE: u32 = 16_000;
/// Samples in a window of the spectrogram, and from one window to the next.
const WINDOW: usize = 400;
const HOP: usize = 160;
/// Samples of the 30 seconds that the model hears at once.
const CHUNK: usize = 30 * RATE as usize;
/// Frames of a spectrogram, of which the second convolution leaves every other one.
const FRAMES: usize = CHUNK / HOP;

/// Whisper (Radford et al. 2022): an encoder of the vectors that two convolutions make of a
/// spectrogram, and a decoder of tokens.
#[derive(Module, Debug)]
struct Whisper {
    conv1: Conv1d,
    conv2: Conv1d,
    encoder: Encoder,
    decoder: Decoder,
}

impl Whisper {
    /// Reads the model of a folder, whose `config.json` is given.
    fn open(folder: &Path, json: &Value, device: &Device) -> Result<Self, Box<dyn Error>> {
        let size = |name: &str| match json[name].as_u64() {
            Some(value) => Ok(value as usize),
            None => Err(format!("config.json has no number {name}")),
        };
        let d_model = size("d_model")?;
        let [d_ff, n_heads] = [size("encoder_ffn_dim")?, size("encoder_attention_heads")?];
        let mut encoder = EncoderConfig::new(d_model, d_ff, n_heads, size("encoder_layers")?)
            .with_positions(Positions::Learned)
            .with_max_len(size("max_source_positions")?)
            .with_norm_placement(NormPlacement::Pre)
            .with_activation(Activation::Gelu);
        encoder.input.scale = false;
        let [d_ff, n_heads] = [size("decoder_ffn_dim")?, size("decoder_attention_heads")?];
        let [vocab_size, n_layers] = [size("vocab_size")?, size("decoder_layers")?];
        let mut decoder = DecoderConfig::new(vocab_size, d_model, d_ff, n_heads, n_layers)
            .with_positions(Positions::Learned)
            .with_max_len(size("max_target_positions")?)
            .with_norm_placement(NormPlacement::Pre)
            .with_activation(Activation::Gelu)
            .with_tied_generator(true);
        decoder.input.scale = false;
        decoder.generator.bias = false;
        let conv = |channels, stride| {
            let conv = Conv1dConfig::new(channels, d_model, 3).with_stride(stride);
            conv.with_padding(PaddingConfig1d::Explicit(1, 1))
                .init(device)
        };
        let model = Self {
            conv1: conv(size("num_mel_bins")?, 1),
            conv2: conv(d_model, 2),
            encoder: encoder.init_zeros(device)?,
            decoder: decoder.init_zeros(device)?,
        };
        let file = WeightsFile::open(folder.join("model.safetensors"))?;
        Ok(rules().read(&file, &model)?)
    }

    /// Returns the memory of a spectrogram, `[1, N, 3000]` for `N` frequencies.
    fn encode(&self, spectrogram: Tensor<3>) -> Memory {
        let x = gelu(self.conv1.forward(spectrogram));
        let x = gelu(self.conv2.forward(x));
        self.encoder.forward_vectors(x.swap_dims(1, 2), None).into()
    }
}

/// Returns where the parameters are in a file of the library `transformers`.
fn rules() -> Rules {
    let mut rules = Rules::new().with_zero_biases().ignoring("proj_out");
    for stack in ["encoder", "decoder"] {
        let layer = |library: &str| format!("{library}{stack}.layers.{{i}}.");
        rules = rules
            .within(&format!("model.{stack}."), &format!("{stack}."))
            .same("embed_positions.weight", "input.position.learned.weight")
            .norm("layer_norm", "final_norm")
            .within(&layer("model."), &layer(""))
            .packed(
                &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
                "self_attention.w_qkv",
            )
            .linear("self_attn.out_proj", "self_attention.w_o")
            .norm("self_attn_layer_norm", "self_attention_residual.norm")
            .linear("fc1", "feed_forward.w_1")
            .linear("fc2", "feed_forward.w_2")
            .norm("final_layer_norm", "feed_forward_residual.norm");
    }
    // The rules of cross-attention follow those of the decoder's layers.
    rules
        .linear("encoder_attn.q_proj", "cross_attention.w_q")
        .packed(
            &["encoder_attn.k_proj", "encoder_attn.v_proj"],
            "cross_attention.w_kv",
        )
        .linear("encoder_attn.out_proj", "cross_attention.w_o")
        .norm("encoder_attn_layer_norm", "cross_attention_residual.norm")
        .within("model.", "")
        .same(
            "decoder.embed_tokens.weight",
            "decoder.input.embedding.weight",
        )
        .within("model.encoder.", "")
        .same("conv1.weight", "conv1.weight")
        .same("conv1.bias", "conv1.bias")
        .same("conv2.weight", "conv2.weight")
        .same("conv2.bias", "conv2.bias")
}

/// Reads a WAV file as samples from -1 to 1, one channel, at the model's rate.
fn read_wav(path: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let mut file = WavReader::open(path)?;
    let WavSpec {
        channels,
        sample_rate,
        bits_per_sample,
        sample_format,
    } = file.spec();
    let samples: Vec<f32> = match sample_format {
        SampleFormat::Float => file.samples().collect::<Result<_, _>>()?,
        SampleFormat::Int => {
            let largest = (1_i64 << (bits_per_sample - 1)) as f32;
            let samples = file.samples::<i32>();
            samples
                .map(|x| x.map(|x| x as f32 / largest))
                .collect::<Result<_, _>>()?
        }
    };
    let channels = usize::from(channels);
    let mono: Vec<f32> = samples
        .chunks_exact(channels)
        .map(|frame| frame.iter().sum::<f32>() / channels as f32)
        .collect();
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

/// Returns the logarithmic mel spectrogram of up to 30 seconds, `[1, n_mels, 3000]`.
fn spectrogram(samples: &[f32], n_mels: usize, device: &Device) -> Tensor<3> {
    // Silence follows the samples, and both ends are mirrored for the windows at the ends.
    let half = WINDOW as isize / 2;
    let sample = |index: isize| {
        let last = CHUNK as isize - 1;
        let index = last - (last - index.abs()).abs();
        f64::from(samples.get(index as usize).copied().unwrap_or(0.0))
    };
    let hann: Vec<f64> = (0..WINDOW)
        .map(|n| 0.5 - 0.5 * (2.0 * PI * n as f64 / WINDOW as f64).cos())
        .collect();
    let filters = mel_filters(n_mels);
    let fft = RealFftPlanner::<f64>::new().plan_fft_forward(WINDOW);
    let (mut windowed, mut spectrum) = (fft.make_input_vec(), fft.make_output_vec());
    let mut levels = vec![0.0; n_mels * FRAMES];
    for frame in 0..FRAMES {
        let first = (frame * HOP) as isize - half;
        for (n, value) in windowed.iter_mut().enumerate() {
            *value = sample(first + n as isize) * hann[n];
        }
        fft.process(&mut windowed, &mut spectrum)
            .expect("the buffers have the right lengths");
        let power: Vec<f64> = spectrum.iter().map(|x| x.norm_sqr()).collect();
        for (mel, filter) in filters.iter().enumerate() {
            let energy: f64 = filter
                .iter()
                .zip(&power)
                .map(|(weight, power)| weight * power)
                .sum();
            levels[mel * FRAMES + frame] = energy.max(1e-10).log10();
        }
    }
    let loudest = levels.iter().copied().fold(f64::MIN, f64::max);
    let scaled = levels.iter().map(|x| (x.max(loudest - 8.0) + 4.0) / 4.0);
    let levels: Vec<f32> = scaled.map(|x| x as f32).collect();
    Tensor::from_data(TensorData::new(levels, [1, n_mels, FRAMES]), device)
}

/// Returns the triangular filters of Slaney's mel scale, which is linear below 1000 Hz.
fn mel_filters(n_mels: usize) -> Vec<Vec<f64>> {
    let step = 6.4_f64.ln() / 27.0;
    let highest = 15.0 + 8.0_f64.ln() / step;
    let hertz = |mel: f64| match mel {
        mel if mel < 15.0 => 200.0 / 3.0 * mel,
        mel => 1000.0 * (step * (mel - 15.0)).exp(),
    };
    let edges: Vec<f64> = (0..n_mels + 2)
        .map(|n| hertz(highest * n as f64 / (n_mels + 1) as f64))
        .collect();
    let filter = |edges: &[f64]| -> Vec<f64> {
        let (low, middle, high) = (edges[0], edges[1], edges[2]);
        let frequencies = (0..=WINDOW / 2).map(|bin| bin as f64 * f64::from(RATE) / WINDOW as f64);
        let height = |f: f64| ((f - low) / (middle - low)).min((high - f) / (high - middle));
        frequencies
            .map(|f| height(f).max(0.0) * 2.0 / (high - low))
            .collect()
    };
    edges.windows(3).map(filter).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1);
    let (options, mut names): (Vec<String>, Vec<String>) =
        arguments.partition(|argument| argument.starts_with("--"));
    let option = |name: &str| options.iter().find_map(|option| option.strip_prefix(name));
    if names.is_empty() {
        names = vec![TINY.into(), format!("{TINY}/sound.wav")];
    }
    let (folder, device) = (Path::new(&names[0]), Device::flex());
    let json = std::fs::read(folder.join("config.json"))?;
    let json: Value = serde_json::from_slice(&json)?;
    let model = Whisper::open(folder, &json, &device)?;
    let tokenizer =
        Tokenizer::from_file(folder.join("tokenizer.json")).map_err(|e| e.to_string())?;
    let id = |token: &str| {
        let id = tokenizer.token_to_id(token);
        id.ok_or_else(|| format!("tokenizer.json has no token {token}"))
    };
    let mut prompt = vec![id("<|startoftranscript|>")?];
    // The vocabulary of the English models has this size; the others are told what to do.
    if json["vocab_size"] != 51_864 {
        let language = option("--language=").unwrap_or("en");
        prompt.extend([id(&format!("<|{language}|>"))?, id("<|transcribe|>")?]);
    }
    prompt.push(id("<|notimestamps|>")?);
    let ids = |name: &str| serde_json::from_value(json[name].clone()).unwrap_or_default();
    let mut search = GenerateConfig::new(prompt.len() + 224)
        .with_eos_id(Some(id("<|endoftext|>")?))
        .with_forbidden(ids("suppress_tokens"))
        .with_forbidden_first(ids("begin_suppress_tokens"))
        .with_normalize_first(true)
        .with_early_stopping(EarlyStopping::Heuristic);
    if let Some(width) = option("--beam=") {
        let length_penalty = LengthPenalty::Power { alpha: 1.0 };
        search.method = Method::Beam {
            width: width.parse()?,
            length_penalty,
        };
    }
    for path in &names[1..] {
        let samples = read_wav(path).map_err(|error| format!("{path}: {error}"))?;
        let mut text = String::new();
        for samples in samples.chunks(CHUNK) {
            let n_mels = model.conv1.weight.dims()[1];
            let memory = model.encode(spectrogram(samples, n_mels, &device));
            let found = model.decoder.complete(&memory, &[&prompt], &search)?;
            let tokens = &found[0][0].tokens[prompt.len()..];
            text += &tokenizer
                .decode(tokens, true)
                .map_err(|error| error.to_string())?;
        }
        println!("{path}: {}", text.trim());
    }
    Ok(())
}
