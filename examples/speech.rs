//! Speech recognition by Whisper: reads WAV files, and prints what is said in them.
//!
//! FOLDER is a Hugging Face folder of an English or multilingual Whisper, such as `hf download
//! openai/whisper-tiny.en --local-dir whisper-tiny.en` makes: `config.json`, the weights and
//! `tokenizer.json`. The spectrogram and two convolutions stand in this file. Encoder, decoder and
//! search are those of the crate `transformer`.
//!
//!     cargo run --release -p examples --example speech -- FOLDER FILE.wav ...

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
    /// Reads the model of a folder.
    fn open(folder: &Path, device: &Device) -> Result<(Self, Value), Box<dyn Error>> {
        let json = std::fs::read(folder.join("config.json"))?;
        let json: Value = serde_json::from_slice(&json)?;
        let size = |name: &str| -> Result<usize, String> {
            let value = json[name].as_u64().map(|value| value as usize);
            value.ok_or_else(|| format!("config.json has no number {name}"))
        };
        let d_model = size("d_model")?;
        let mut encoder = EncoderConfig::new(
            d_model,
            size("encoder_ffn_dim")?,
            size("encoder_attention_heads")?,
            size("encoder_layers")?,
        )
        .with_positions(Positions::Learned)
        .with_max_len(size("max_source_positions")?)
        .with_norm_placement(NormPlacement::Pre)
        .with_activation(Activation::Gelu);
        encoder.input.scale = false;
        let mut decoder = DecoderConfig::new(
            size("vocab_size")?,
            d_model,
            size("decoder_ffn_dim")?,
            size("decoder_attention_heads")?,
            size("decoder_layers")?,
        )
        .with_positions(Positions::Learned)
        .with_max_len(size("max_target_positions")?)
        .with_norm_placement(NormPlacement::Pre)
        .with_activation(Activation::Gelu)
        .with_tied_generator(true);
        decoder.input.scale = false;
        decoder.generator.bias = false;
        let conv = |channels, stride| {
            Conv1dConfig::new(channels, d_model, 3)
                .with_stride(stride)
                .with_padding(PaddingConfig1d::Explicit(1, 1))
                .init(device)
        };
        let model = Self {
            conv1: conv(size("num_mel_bins")?, 1),
            conv2: conv(d_model, 2),
            encoder: encoder.init_zeros(device)?,
            decoder: decoder.init_zeros(device)?,
        };
        let file = WeightsFile::open(folder.join("model.safetensors"))?;
        Ok((rules().read(&file, &model)?, json))
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
        let theirs = format!("model.{stack}.layers.{{i}}");
        let ours = format!("{stack}.layers.{{i}}");
        let own = ["q", "k", "v"].map(|x| format!("{theirs}.self_attn.{x}_proj"));
        let cross = ["k", "v"].map(|x| format!("{theirs}.encoder_attn.{x}_proj"));
        rules = rules
            .packed(
                &own.each_ref().map(|x| &**x),
                &format!("{ours}.self_attention.w_qkv"),
            )
            .linear(
                &format!("{theirs}.self_attn.out_proj"),
                &format!("{ours}.self_attention.w_o"),
            )
            .norm(
                &format!("{theirs}.self_attn_layer_norm"),
                &format!("{ours}.self_attention_residual.norm"),
            )
            .linear(
                &format!("{theirs}.fc1"),
                &format!("{ours}.feed_forward.w_1"),
            )
            .linear(
                &format!("{theirs}.fc2"),
                &format!("{ours}.feed_forward.w_2"),
            )
            .norm(
                &format!("{theirs}.final_layer_norm"),
                &format!("{ours}.feed_forward_residual.norm"),
            )
            .norm(
                &format!("model.{stack}.layer_norm"),
                &format!("{stack}.final_norm"),
            )
            .same(
                &format!("model.{stack}.embed_positions.weight"),
                &format!("{stack}.input.position.learned.weight"),
            );
        if stack == "decoder" {
            rules = rules
                .linear(
                    &format!("{theirs}.encoder_attn.q_proj"),
                    &format!("{ours}.cross_attention.w_q"),
                )
                .packed(
                    &cross.each_ref().map(|x| &**x),
                    &format!("{ours}.cross_attention.w_kv"),
                )
                .linear(
                    &format!("{theirs}.encoder_attn.out_proj"),
                    &format!("{ours}.cross_attention.w_o"),
                )
                .norm(
                    &format!("{theirs}.encoder_attn_layer_norm"),
                    &format!("{ours}.cross_attention_residual.norm"),
                );
        }
    }
    rules
        .same(
            "model.decoder.embed_tokens.weight",
            "decoder.input.embedding.weight",
        )
        .same("model.encoder.conv1.weight", "conv1.weight")
        .same("model.encoder.conv1.bias", "conv1.bias")
        .same("model.encoder.conv2.weight", "conv2.weight")
        .same("model.encoder.conv2.bias", "conv2.bias")
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
    let levels: Vec<f32> = levels
        .iter()
        .map(|x| ((x.max(loudest - 8.0) + 4.0) / 4.0) as f32)
        .collect();
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
    let (options, names): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let option = |name: &str| options.iter().find_map(|option| option.strip_prefix(name));
    let [folder, files @ ..] = &names[..] else {
        return Err("usage: speech [--beam=WIDTH] [--language=en] FOLDER FILE.wav ...".into());
    };
    let folder = Path::new(folder);
    let device = Device::flex();
    let (model, config) = Whisper::open(folder, &device)?;
    let tokenizer =
        Tokenizer::from_file(folder.join("tokenizer.json")).map_err(|error| error.to_string())?;
    let id = |token: &str| {
        tokenizer
            .token_to_id(token)
            .ok_or(format!("tokenizer.json has no token {token}"))
    };
    // Only multilingual models have a token for what to do.
    let mut prompt = vec![id("<|startoftranscript|>")?];
    if config["vocab_size"].as_u64() != Some(51_864) {
        prompt.push(id(&format!(
            "<|{}|>",
            option("--language=").unwrap_or("en")
        ))?);
        prompt.push(id("<|transcribe|>")?);
    }
    prompt.push(id("<|notimestamps|>")?);
    let ids = |name: &str| serde_json::from_value(config[name].clone()).unwrap_or_default();
    let mut search = GenerateConfig::new(prompt.len() + 224)
        .with_eos_id(Some(id("<|endoftext|>")?))
        .with_forbidden_first(ids("begin_suppress_tokens"))
        .with_normalize_first(true);
    if let Some(width) = option("--beam=") {
        search.method = Method::Beam {
            width: width.parse()?,
            length_penalty: LengthPenalty::Power { alpha: 1.0 },
        };
        search.early_stopping = EarlyStopping::Heuristic;
    }
    for path in files {
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
