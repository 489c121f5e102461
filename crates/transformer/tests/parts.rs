//! Tests of parts that are built and used alone: stacks of one's own, stacks that differ, encoders
//! of vectors, and files of them.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, Distribution, FloatDType, Int, Tensor, TensorData};
use transformer::attention::{KeyValueCache, attention_weights, scaled_dot_product_attention};
use transformer::generate::GenerateConfig;
use transformer::position::{
    Alibi, AttentionPosition, LearnedEncoding, RelativeBias, RotaryEncoding,
};
use transformer::residual::Residual;
use transformer::weights::{self, Dtype, Saved, WeightsError, load, parameters, save};
use transformer::{
    AttentionConfig, AttentionMask, CrossEntropy, Decoder, DecoderConfig, Encoder, EncoderConfig,
    InputConfig, LayerCache, LayerConfig, Memory, NormConfig, NormKind, NormPlacement,
    PositionConfig, Positions, Transformer, TransformerConfig, WeightTying, pad_sequences,
};

const IN_ATTENTION: [Positions; 4] = [
    Positions::None,
    Positions::Rotary,
    Positions::Relative,
    Positions::Alibi,
];

fn vectors(shape: [usize; 3], device: &Device) -> Tensor<3> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn same(a: Tensor<3>, b: Tensor<3>) -> bool {
    let difference = (a - b).abs().max().into_scalar::<f32>();
    difference < 1e-5
}

#[test]
fn a_stack_of_ones_own_does_what_an_encoder_does() {
    let device = Device::flex();
    for kind in IN_ATTENTION {
        for placement in [NormPlacement::Post, NormPlacement::Pre] {
            let config = EncoderConfig::new(16, 24, 4, 3)
                .with_positions(kind)
                .with_norm_placement(placement);
            let encoder = config.init(&device).unwrap();
            let x = vectors([2, 7, 16], &device);
            let mask = AttentionMask::of_lengths(&[7, 4], &device);
            let position = encoder.attention_position.as_ref();
            let position = position.map(|position| position.forward(0, 7));
            let mut own = x.clone();
            for layer in &encoder.layers {
                own = layer.forward(own, Some(&mask), position.as_ref());
            }
            let own = encoder.final_norm.as_ref().unwrap().forward(own);
            assert!(same(own, encoder.forward_vectors(x, Some(&mask))), "{kind}");
        }
    }
}

#[test]
fn a_decoder_layer_with_a_cache_continues_where_it_was() {
    let device = Device::flex();
    let layer = LayerConfig::new(16, 24, 4);
    let layer = layer.init_decoder_layer(true, &device).unwrap();
    let relative = PositionConfig::new(Positions::Relative);
    let relative = RelativeBias::new(&relative, 4, true, &device).unwrap();
    let positions: [Option<AttentionPosition>; 4] = [
        None,
        Some(RotaryEncoding::new(20, 4, 10_000.0, &device).into()),
        Some(relative.into()),
        Some(Alibi::new(4, &device).into()),
    ];
    let memory = Memory::from(vectors([2, 5, 16], &device));
    let x = vectors([2, 6, 16], &device);
    for positions in positions {
        let at = |past, length| positions.as_ref().map(|p| p.forward(past, length));
        let mask = AttentionMask::causal(6, &device);
        let mut cache = LayerCache::default();
        let whole = layer.forward(
            x.clone(),
            Some(&mask),
            at(0, 6).as_ref(),
            &memory,
            &mut cache,
        );
        // Two tokens, three tokens, one token.
        let mut cache = LayerCache::default();
        let mut parts = Vec::new();
        for (past, length) in [(0, 2), (2, 3), (5, 1)] {
            let part = x.clone().narrow(1, past, length);
            let mask = AttentionMask::causal_after(past, length, &device);
            let position = at(past, length);
            parts.push(layer.forward(part, Some(&mask), position.as_ref(), &memory, &mut cache));
        }
        assert!(same(Tensor::cat(parts, 1), whole));
    }
}

#[test]
fn targets_of_a_layer_branch_as_those_of_a_decoder() {
    let device = Device::flex();
    let config = DecoderConfig::new(11, 16, 24, 4, 2).with_positions(Positions::Rotary);
    let decoder = config.init(&device).unwrap();
    let position = decoder.attention_position.as_ref().unwrap();
    let mask = AttentionMask::of_lengths(&[5, 3], &device);
    let memory = Memory::new(vectors([2, 5, 16], &device), mask);
    let mut whole = decoder.new_cache();
    let mut caches = [LayerCache::default(), LayerCache::default()];
    // The parents of the targets of each step, and the number of its tokens. The first targets belong
    // to sources.
    for (step, (parents, length)) in [
        (vec![1, 0, 1], 2),
        (vec![1, 0, 1], 1),
        (vec![2, 0], 3),
        (vec![1], 1),
    ]
    .into_iter()
    .enumerate()
    {
        let past = whole.len();
        whole.branch(&parents);
        caches.iter_mut().for_each(|cache| cache.branch(&parents));
        let x = vectors([parents.len(), length, 16], &device);
        let mask = AttentionMask::causal_after(past, length, &device);
        let position = position.forward(past, length);
        let mut own = x.clone();
        for (layer, cache) in decoder.layers.iter().zip(&mut caches) {
            own = layer.forward(own, Some(&mask), Some(&position), &memory, cache);
        }
        let own = decoder.final_norm.as_ref().unwrap().forward(own);
        let expected = decoder.forward_layers(x, &memory, &mut whole);
        assert!(same(own, expected), "step {step}");
    }
}

#[test]
fn a_memory_is_projected_once_for_several_calls() {
    let device = Device::flex();
    let attention = AttentionConfig::new(16, 4).with_n_kv_heads(Some(2));
    let attention = attention.init_cross_attention(&device).unwrap();
    let memory = vectors([2, 5, 16], &device);
    let mask = AttentionMask::of_lengths(&[5, 3], &device);
    let projected = attention.project(memory.clone());
    for length in [1, 3] {
        let x = vectors([2, length, 16], &device);
        let again = attention.forward_projected(x.clone(), projected.clone(), Some(&mask));
        assert!(same(
            again,
            attention.forward(x, memory.clone(), Some(&mask))
        ));
    }
}

/// A mask or a position of one token fits any number of tokens by Burn's rules, and means nothing.
#[test]
fn masks_and_positions_of_another_length_are_refused() {
    let device = Device::flex();
    let attention = AttentionConfig::new(16, 4);
    let attention = attention.init_self_attention(&device).unwrap();
    let check = |run: &dyn Fn(), expected: &str| {
        let run = std::panic::AssertUnwindSafe(run);
        let panic = std::panic::catch_unwind(run).expect_err("it must not fit");
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains(expected), "{message}");
    };
    let x = || vectors([2, 5, 16], &device);
    let mask = AttentionMask::of_lengths(&[1, 1], &device);
    let expected =
        "the mask is [2, 1, 1, 1], but the scores are [2, 4, 5, 5] (batch, heads, queries, keys)";
    let with_mask = || drop(attention.forward(x(), Some(&mask), None));
    check(&with_mask, expected);
    let weights = || drop(attention.forward_with_weights(x(), Some(&mask), None));
    check(&weights, expected);
    let heads = || x().reshape([2, 5, 4, 4]).swap_dims(1, 2);
    let products = || drop(attention_weights(heads(), heads(), Some(&mask)));
    check(&products, expected);
    let rotary = RotaryEncoding::new(20, 4, 10_000.0, &device);
    let expected = "the rotation is one of 1 positions and heads of width 4, but there are 5 tokens and heads of width 4";
    let rotation = AttentionPosition::from(rotary).forward(2, 1);
    let rotated = || drop(attention.forward(x(), None, Some(&rotation)));
    check(&rotated, expected);
    // A rotation of the first token, for the second one of a cache.
    let rotary = AttentionPosition::from(RotaryEncoding::new(20, 4, 10_000.0, &device));
    let late = || {
        let mut cache = KeyValueCache::default();
        for _ in 0..2 {
            let x = vectors([2, 1, 16], &device);
            attention.forward_cached(x, None, Some(&rotary.forward(0, 1)), &mut cache);
        }
    };
    check(
        &late,
        "the rotation is one after 0 tokens, but the cache has 1",
    );
    let forgotten = || {
        let mut cache = KeyValueCache::default();
        for position in [Some(rotary.forward(0, 1)), None] {
            let x = vectors([2, 1, 16], &device);
            attention.forward_cached(x, None, position.as_ref(), &mut cache);
        }
    };
    let expected = "the tokens are given no positions, but those in the cache a rotation";
    check(&forgotten, expected);
    let shared = || {
        let mut cache = KeyValueCache::default();
        for _ in 0..2 {
            let layer = AttentionConfig::new(16, 4)
                .init_self_attention(&device)
                .unwrap();
            layer.forward_cached(vectors([2, 1, 16], &device), None, None, &mut cache);
        }
    };
    let expected = "the cache has 1 tokens of another layer: each layer needs a cache of its own";
    check(&shared, expected);
    let bias = AttentionPosition::from(Alibi::new(4, &device)).forward(0, 1);
    let biased = || drop(attention.forward(x(), None, Some(&bias)));
    let expected = "the bias of positions is [1, 4, 1, 1], but the scores need [1, 4, 5, 5]";
    check(&biased, expected);
    let cross = AttentionConfig::new(16, 4)
        .init_cross_attention(&device)
        .unwrap();
    let nothing = Tensor::<3>::zeros([2, 0, 16], &device);
    let empty = || drop(cross.forward(x(), nothing.clone(), None));
    let expected =
        "the states are [2, 0, 16], but a layer needs at least one sequence of one position";
    check(&empty, expected);
    let norm = NormConfig::new(16).init(&device).unwrap();
    check(&|| drop(norm.forward(nothing.clone())), expected);
    // Burn's operations would take the first rows, or repeat them.
    for (targets, length, sources) in [(2, 1, 3), (1, 1, 2), (3, 1, 2), (1, 2, 2)] {
        let x = vectors([targets, length, 16], &device);
        let memory = vectors([sources, 4, 16], &device);
        let expected = format!(
            "the queries are [{targets}, {length}, 4, 4], but the memory's keys and values are [{sources}, 4, 8, 4]"
        );
        let of_others = || drop(cross.forward(x.clone(), memory.clone(), None));
        check(&of_others, &expected);
        let weights = || drop(cross.forward_with_weights(x.clone(), memory.clone(), None));
        check(&weights, &expected);
    }
    let one = || heads().narrow(0, 0, 1);
    let products = || drop(attention_weights(one(), heads(), None));
    let expected = "the queries are [1, 4, 5, 4], but the keys are [2, 4, 5, 4]";
    check(&products, expected);
    let products = || drop(scaled_dot_product_attention(heads(), heads(), one(), None));
    let expected = "the keys are [2, 4, 5, 4], but the values are [1, 4, 5, 4]";
    check(&products, expected);
    let norm = NormConfig::new(16).init(&device).unwrap();
    let block = Residual::new(norm, NormPlacement::Pre, 0.0);
    let turned = || drop(block.forward(x(), |x| x.swap_dims(0, 1)));
    let expected = "x is [2, 5, 16], but the sublayer's output is [5, 2, 16]";
    check(&turned, expected);
    let input = InputConfig::new(16).init(&device).unwrap();
    let ids = || Tensor::<2, Int>::zeros([1, 5], &device);
    let narrow = || drop(input.forward_with_table(ids(), Tensor::zeros([9, 1], &device), 0));
    let expected = "the vectors are [1, 5, 1], but positions are [5, 16]";
    check(&narrow, expected);
}

#[test]
fn misspelt_fields_of_stacks_are_errors() {
    let config = EncoderConfig::new(16, 24, 4, 1);
    let json = serde_json::to_string(&config).unwrap();
    let misspelt = json.replace("final_norm", "final_nrom");
    let error = serde_json::from_str::<EncoderConfig>(&misspelt).unwrap_err();
    assert!(
        error.to_string().contains("unknown field `final_nrom`"),
        "{error}"
    );
}

#[test]
fn an_encoder_of_vectors_has_positions_and_no_table() {
    let device = Device::flex();
    let encoder = EncoderConfig::new(16, 24, 4, 1).init(&device).unwrap();
    assert!(
        !parameters(&encoder)
            .keys()
            .any(|name| name.contains("embedding"))
    );
    let x = vectors([1, 1, 16], &device).expand([1, 3, 16]);
    let states = |encoder: &Encoder| encoder.forward_vectors(x.clone(), None);
    let [first, last] = [0, 2].map(|at| states(&encoder).narrow(1, at, 1));
    assert!(!same(first, last), "equal vectors at two places differ");
    let config = EncoderConfig::new(16, 24, 4, 1).with_positions(Positions::None);
    let encoder = config.init(&device).unwrap();
    let [first, last] = [0, 2].map(|at| states(&encoder).narrow(1, at, 1));
    assert!(same(first, last), "without positions, they do not");
}

/// The input layer of BERT: token types are added before positions and norm.
#[test]
fn vectors_take_the_same_way_through_the_input_layer_as_tokens() {
    let device = Device::flex();
    let config = InputConfig::new(16)
        .with_vocab_size(Some(9))
        .with_scale(false)
        .with_positions(PositionConfig::new(Positions::Learned).with_max_len(8))
        .with_norm(Some(NormConfig::new(16)));
    let input = config.init(&device).unwrap();
    let ids = pad_sequences(&[vec![5, 6, 7]], 0, &device);
    let embedded = input.embed(ids.clone());
    let of_vectors = input.forward_vectors(embedded, 2);
    assert!(same(of_vectors, input.forward(ids, 2)));
    let learned = LearnedEncoding::new(8, 16, &device);
    assert_eq!(learned.forward(2, 3).dims(), [3, 16]);
}

/// An encoder of vectors and a decoder of another depth, width and length.
fn mixed(device: &Device) -> (Encoder, Decoder) {
    let encoder = EncoderConfig::new(16, 48, 4, 3).with_max_len(40);
    let decoder = DecoderConfig::new(11, 16, 24, 2, 1)
        .with_max_len(6)
        .with_positions(Positions::Learned)
        .with_tied_generator(true);
    (encoder.init(device).unwrap(), decoder.init(device).unwrap())
}

#[test]
fn stacks_that_differ_make_a_model() {
    let device = Device::flex();
    let (encoder, decoder) = mixed(&device);
    let memory = Memory::from(encoder.forward_vectors(vectors([2, 30, 16], &device), None));
    let config = GenerateConfig::new(6).with_bos_id(Some(1));
    let prompts = [vec![], vec![3]];
    let lines = decoder.complete(Some(&memory), &prompts, &config).unwrap();
    assert_eq!(lines.len(), 2);
    let model = Transformer::from_parts(encoder, decoder);
    assert_eq!(model.config(), None);
    let longer = model.with_max_len(50);
    assert_eq!(longer.encoder.max_len(), Some(50));
    assert_eq!(longer.decoder.max_len(), Some(6), "a learned table stays");
}

#[test]
#[should_panic(expected = "the decoder has no cross-attention")]
fn a_language_model_is_no_decoder_of_a_model() {
    let device = Device::flex();
    let (encoder, _) = mixed(&device);
    let decoder = DecoderConfig::new(11, 16, 24, 2, 1).with_cross_attention(false);
    Transformer::from_parts(encoder, decoder.init(&device).unwrap());
}

#[test]
fn configurations_of_parts_are_checked() {
    let device = Device::flex();
    let mut layer = LayerConfig::new(16, 24, 4);
    layer.feed_forward.d_model = 8;
    let error = layer.init_encoder_layer(&device).unwrap_err();
    let expected = "d_model is 8, but must be that of attention, too (16)";
    assert_eq!(error.to_string(), expected);
    let decoder = DecoderConfig::new(11, 15, 24, 2, 1);
    let error = decoder.init(&device).unwrap_err().to_string();
    assert_eq!(error, "n_heads is 2, but must be a divisor of d_model (15)");
    let encoder = EncoderConfig::new(16, 24, 4, 1).with_vocab_size(0);
    let error = encoder.init(&device).unwrap_err().to_string();
    assert_eq!(error, "vocab_size is 0, but must be at least 1");
    let error = NormConfig::new(4).with_epsilon(-1.0).init(&device);
    assert_eq!(error.unwrap_err().field, "epsilon");
}

/// Saves and loads a module, and checks that the file has all of it.
fn saved<M: Saved>(module: &M) -> M {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    save(&path, module).unwrap();
    // A file is replaced in one step, nothing else is left, and the bytes are always the same.
    let before = std::fs::read(&path).unwrap();
    save(&path, module).unwrap();
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let read = load(&path, &Device::flex()).unwrap();
    assert_eq!(parameters(&read), parameters(module));
    read
}

#[test]
fn models_are_saved_and_loaded_by_two_functions() {
    let device = Device::flex();
    for positions in [
        Positions::Sinusoidal,
        Positions::SinusoidalHalves,
        Positions::SinusoidalFairseq,
        Positions::Learned,
        Positions::Rotary,
        Positions::Relative,
        Positions::Alibi,
        Positions::None,
    ] {
        for weight_tying in [WeightTying::None, WeightTying::Embeddings, WeightTying::All] {
            let config = TransformerConfig::new(11, 11)
                .with_d_model(16)
                .with_n_heads(4)
                .with_n_kv_heads(Some(2))
                .with_d_ff(24)
                .with_n_encoder_layers(1)
                .with_n_decoder_layers(2)
                .with_positions(positions)
                .with_max_len(12)
                .with_pad_id(3)
                .with_norm_placement(NormPlacement::Pre)
                .with_weight_tying(weight_tying);
            let model = config.init(&device).unwrap();
            assert_eq!(model.config(), Some(config.clone()));
            let read = saved(&model);
            assert_eq!(read.config(), Some(config));
            let source = pad_sequences(&[vec![5, 6, 7], vec![8]], 3, &device);
            let mask = AttentionMask::of_lengths(&[3, 1], &device);
            let target = pad_sequences(&[vec![1, 7, 9], vec![1, 5]], 3, &device);
            let logits = |model: &Transformer| {
                let logits = model.forward(source.clone(), Some(&mask), target.clone());
                logits.into_data()
            };
            assert_eq!(logits(&read), logits(&model), "{positions}, {weight_tying}");
        }
    }
}

#[test]
fn stacks_are_saved_and_loaded() {
    let device = Device::flex();
    let (encoder, decoder) = mixed(&device);
    let x = vectors([2, 9, 16], &device);
    let states = encoder.forward_vectors(x.clone(), None).into_data();
    let read = saved(&encoder);
    assert_eq!(read.forward_vectors(x.clone(), None).into_data(), states);
    saved(&decoder);
    let language_model = DecoderConfig::new(11, 16, 24, 2, 1)
        .with_cross_attention(false)
        .with_norm(NormKind::Rms, 1e-6)
        .with_biases(false);
    let language_model = language_model.init(&device).unwrap();
    let ids = Tensor::<2, Int>::from_data([[1, 5, 6]], &device);
    let logits = |model: &Decoder| model.forward(ids.clone(), None, &mut model.new_cache());
    let read = saved(&language_model);
    assert_eq!(
        logits(&read).into_data(),
        logits(&language_model).into_data()
    );

    // A stack is also read from the file of a whole model.
    let model = Transformer::from_parts(encoder, decoder);
    saved(&model);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    save(&path, &model).unwrap();
    let read: Encoder = load(&path, &device).unwrap();
    assert_eq!(read.forward_vectors(x, None).into_data(), states);
    let read: Decoder = load(&path, &device).unwrap();
    assert_eq!(parameters(&read), parameters(&model.decoder));
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let device = Device::flex();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let (mut encoder, _) = mixed(&device);
    let tensors = weights::to_bytes(&parameters(&encoder)).unwrap();
    std::fs::write(&path, tensors).unwrap();
    let refused = |error: weights::WeightsError, what: &str| {
        let expected = format!("{}: {what}", path.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    };
    let error = load::<Encoder>(&path, &device).unwrap_err();
    refused(error, "has no configuration of the encoder: read it with");
    save(&path, &encoder).unwrap();
    let error = load::<Decoder>(&path, &device).unwrap_err();
    refused(error, "has the encoder of a model only, not its decoder");
    let before = std::fs::read(&path).unwrap();
    let config = EncoderConfig::new(16, 24, 2, 1).with_positions(Positions::Rotary);
    let mut rotary = config.init(&device).unwrap();
    rotary.layers[0].feed_forward.dropout.prob = 0.5;
    save(folder.path().join("other"), &rotary).unwrap();
    rotary.attention_position = Some(RotaryEncoding::new(5000, 8, 500_000.0, &device).into());
    let error = save(&path, &rotary).unwrap_err();
    refused(
        error,
        "cannot hold this model: it has `base: 500000.0` where its configuration says `base: 10000.0`",
    );
    let with = |kind| EncoderConfig::new(16, 24, 2, 1).with_positions(kind);
    let mut sinusoids = with(Positions::Sinusoidal).init(&device).unwrap();
    let halves = with(Positions::SinusoidalHalves).init(&device).unwrap();
    sinusoids.input.position = halves.input.position;
    let error = save(&path, &sinusoids).unwrap_err();
    refused(
        error,
        "cannot hold this model: it has `kind: SinusoidalHalves`",
    );
    encoder.layers.pop();
    let error = save(&path, &encoder).unwrap_err().to_string();
    assert!(error.contains("layers.2."), "{error}");
    assert_eq!(
        std::fs::read(&path).unwrap(),
        before,
        "the file is as it was"
    );
}

#[test]
fn elements_of_half_precision_are_loaded() {
    let device = Device::flex();
    let config = TransformerConfig::new(11, 11)
        .with_d_model(16)
        .with_n_heads(2);
    let model = config.init(&device).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for dtype in [Dtype::F16, Dtype::BF16] {
        let about = weights::metadata(&config);
        let bytes = weights::to_bytes_with(&parameters(&model), dtype, &about).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let read: Transformer = load(&path, &device).unwrap();
        let exact = parameters(&model);
        for (name, data) in parameters(&read) {
            for (a, b) in data.iter::<f32>().zip(exact[&name].iter::<f32>()) {
                assert!((a - b).abs() < 8e-3 * b.abs() + 1e-4, "{name}: {a} for {b}");
            }
        }
    }
}

#[test]
fn parts_are_trained_moved_and_cloned_with_the_module_that_holds_them() {
    let device = Device::flex().autodiff();
    let (encoder, _) = mixed(&device);
    let valid = encoder.valid();
    assert_eq!(valid.config(), encoder.config());
    assert_eq!(encoder.clone().num_params(), encoder.num_params());
}

#[test]
fn longer_positions_are_those_that_the_stack_has() {
    let device = Device::flex();
    let x = vectors([1, 5, 16], &device);
    let config = EncoderConfig::new(16, 24, 2, 1).with_max_len(20);
    let build = |kind| {
        config
            .clone()
            .with_positions(kind)
            .init_seeded(3, &device)
            .unwrap()
    };
    let mut rotary = build(Positions::Rotary);
    rotary.attention_position = Some(RotaryEncoding::new(20, 8, 500.0, &device).into());
    let mut without = build(Positions::Sinusoidal);
    without.input.position = None;
    let mut learned = build(Positions::Sinusoidal);
    learned.input.position = Some(LearnedEncoding::new(20, 16, &device).into());
    let halves = build(Positions::SinusoidalHalves);
    for (stack, longest) in [
        (rotary, Some(40)),
        (without, None),
        (learned, Some(20)),
        (halves, Some(40)),
    ] {
        // Positions that are left out cannot be forgotten: `forward_vectors` needs them.
        let states = |stack: &Encoder| {
            stack.forward_layers(
                match &stack.input.position {
                    Some(_) => stack.input.forward_vectors(x.clone(), 0),
                    None => x.clone(),
                },
                None,
            )
        };
        let longer = stack.clone().with_max_len(40);
        assert!(same(states(&stack), states(&longer)));
        assert_eq!(longer.max_len(), longest);
        assert_eq!(longer.num_params(), stack.num_params());
    }
}

#[test]
fn losses_and_scores_of_half_precision_are_those_of_f32() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        let n = 5000;
        let logits = Tensor::<3>::zeros([1, n, 4], (&device, DType::BF16));
        let labels = Tensor::<2, Int>::ones([1, n], &device);
        let loss = CrossEntropy::new(0.1).unwrap().sum(logits, labels);
        assert_eq!(loss.tokens.clone().into_scalar::<f32>(), n as f32);
        let mean = loss.mean().into_scalar::<f32>();
        assert!((mean - 4f32.ln()).abs() < 1e-5, "{mean}");
    }
    let device = Device::flex();
    let config = DecoderConfig::new(300, 16, 24, 4, 1).with_cross_attention(false);
    let decoder = config.init_seeded(1, &device).unwrap();
    let decoder = decoder.map(&mut CastTo(FloatDType::BF16));
    let ids = Tensor::<2, Int>::from_data([[3, 4, 5]], &device);
    let states = decoder.forward_states(ids, None, &mut decoder.new_cache());
    let sums = decoder.log_probabilities(states.clone()).exp().sum_dim(2);
    let furthest = (sums - 1.0).abs().max().into_scalar::<f32>();
    assert!(furthest < 1e-5, "{furthest}");
    let labels = Tensor::<2, Int>::from_data([[4, 5, 6]], &device);
    let criterion = CrossEntropy::new(0.0).unwrap();
    let chunked = criterion.sum_in_chunks(&decoder, states, labels, 2).sum;
    let scores = decoder.score(None, &[[3, 4, 5, 6]]).unwrap();
    let difference = f64::from(chunked.into_scalar::<f32>()) + scores[0].log_probability;
    assert!(difference.abs() < 1e-4, "{difference}");
}

#[test]
fn scores_are_those_of_the_logits_however_long_a_sequence_is() {
    let device = Device::flex();
    let config = DecoderConfig::new(11, 16, 24, 2, 1).with_cross_attention(false);
    let decoder = config.init_seeded(1, &device).unwrap();
    let sequences = [700, 1, 301].map(|n| (0..n).map(|i| (7 * i + i / 5) % 11).collect());
    let sequences: [Vec<u32>; 3] = sequences;
    let scores = decoder.score(None, &sequences).unwrap();
    for (sequence, score) in sequences.iter().zip(scores) {
        let ids = pad_sequences(&[sequence], 0, &device);
        let states = decoder.forward_states(ids, None, &mut decoder.new_cache());
        let data = decoder.log_probabilities(states).into_data();
        let rows: Vec<f32> = data.iter::<f32>().collect();
        let expected = rows.chunks(11).zip(&sequence[1..]);
        let expected = expected.map(|(row, &label)| row[label as usize]);
        let scored = score.token_log_probabilities;
        assert_eq!(scored.len(), sequence.len() - 1);
        for (a, b) in scored.into_iter().zip(expected) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }
}

#[test]
#[should_panic(expected = "the mask of the memory is [1, 1, 3, 3], but must be [")]
fn a_mask_of_queries_is_none_of_a_memory() {
    let device = Device::flex();
    let config = TransformerConfig::new(9, 9)
        .with_d_model(16)
        .with_n_heads(2);
    let model = config.init_seeded(1, &device).unwrap();
    let ids = pad_sequences(&[[3, 4, 5]], 0, &device);
    let causal = AttentionMask::causal(3, &device);
    let _ = model.forward(ids.clone(), Some(&causal), ids);
}

#[test]
#[should_panic(expected = "only some of the models have a parameter generator.bias of shape [9]")]
fn models_with_other_parameters_have_no_mean() {
    let of = |vocab_size| {
        let config = DecoderConfig::new(vocab_size, 16, 24, 2, 1);
        Ok(parameters(&config.init(&Device::flex()).unwrap()))
    };
    let _ = weights::mean([of(9), of(11)]).map_err(|error: WeightsError| error);
}

#[test]
fn a_model_that_has_diverged_replaces_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let device = Device::flex();
    let mut encoder = EncoderConfig::new(16, 24, 2, 1).init(&device).unwrap();
    save(&path, &encoder).unwrap();
    let norm = encoder.final_norm.as_mut().unwrap();
    norm.gamma = Param::from_tensor(Tensor::full([16], f32::NAN, &device));
    let error = save(&path, &encoder).unwrap_err().to_string();
    assert!(
        error.contains("final_norm.gamma has 16 of 16 elements that are not finite"),
        "{error}"
    );
    load::<Encoder>(&path, &device).unwrap();
}

#[test]
#[should_panic(expected = "there are 3 targets, but the cache has 2")]
fn keys_of_another_batch_are_not_appended() {
    let device = Device::flex();
    let mut cache = KeyValueCache::default();
    for rows in [2, 3] {
        cache.append(Tensor::ones([rows, 1, 4, 8], &device));
    }
}

#[test]
#[should_panic(
    expected = "the projection has 4 heads of width 4, but this layer's has 8 of width 4"
)]
fn the_projection_of_another_layer_is_refused() {
    let device = Device::flex();
    let layer = |heads| {
        let config = AttentionConfig::new(16, 4).with_n_kv_heads(Some(heads));
        config.init_cross_attention(&device).unwrap()
    };
    let projected = layer(2).project(vectors([1, 3, 16], &device));
    layer(4).forward_projected(vectors([1, 5, 16], &device), projected, None);
}

#[test]
#[should_panic(expected = "the parents are [1], but the last step had 1 targets")]
fn targets_that_are_not_there_do_not_branch_before_the_first_step() {
    let (_, decoder) = mixed(&Device::flex());
    let mut cache = decoder.new_cache();
    cache.branch(&[0]);
    cache.branch(&[1]);
}

/// Casts every floating-point parameter.
struct CastTo(FloatDType);

impl ModuleMapper for CastTo {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| tensor.cast(self.0))
    }
}

#[test]
fn positions_have_the_precision_of_a_module_that_was_cast() {
    let device = Device::flex();
    let ids = Tensor::<2, Int>::from_data([[3, 4, 5], [6, 7, 1]], &device);
    let kinds = [Positions::Sinusoidal, Positions::SinusoidalFairseq];
    for kind in kinds.into_iter().chain(IN_ATTENTION) {
        let config = DecoderConfig::new(11, 16, 24, 4, 2).with_positions(kind);
        let decoder = config
            .with_cross_attention(false)
            .init_seeded(1, &device)
            .unwrap();
        let logits = |decoder: &Decoder| {
            let logits = decoder.forward(ids.clone(), None, &mut decoder.new_cache());
            logits.cast(FloatDType::F32)
        };
        let exact = logits(&decoder);
        for precision in [FloatDType::F16, FloatDType::BF16] {
            let found = logits(&decoder.clone().map(&mut CastTo(precision)));
            let difference = (found - exact.clone()).abs().max().into_scalar::<f32>();
            assert!(difference < 0.1, "{kind}, {precision:?}: {difference}");
        }
    }
}

#[test]
#[should_panic(expected = "the targets belong to the sources [0, 2], but the memory has 2")]
fn a_target_of_a_source_that_is_not_there_is_refused() {
    let device = Device::flex();
    let (_, decoder) = mixed(&device);
    let memory = Memory::from(vectors([2, 5, 16], &device));
    let mut cache = decoder.new_cache();
    cache.branch(&[0, 2]);
    decoder.forward(Tensor::zeros([2, 1], &device), &memory, &mut cache);
}

#[test]
#[should_panic(expected = "there are 3 targets, but the cache has 2")]
fn a_cache_is_that_of_one_batch() {
    let device = Device::flex();
    let config = DecoderConfig::new(11, 16, 24, 2, 1).with_cross_attention(false);
    let decoder = config.init(&device).unwrap();
    let ids = |n| Tensor::<2, Int>::zeros([n, 2], &device);
    let mut cache = decoder.new_cache();
    decoder.forward(ids(2), None, &mut cache);
    decoder.forward(ids(3), None, &mut cache);
}

#[test]
#[should_panic(expected = "there are 1 targets, but the cache has 2")]
fn a_cache_of_a_layer_is_that_of_one_batch() {
    let device = Device::flex();
    let config = LayerConfig::new(16, 24, 4);
    let layer = config.init_decoder_layer(false, &device).unwrap();
    let mut cache = LayerCache::default();
    for n in [2, 1] {
        layer.forward(vectors([n, 1, 16], &device), None, None, None, &mut cache);
    }
}

#[test]
#[should_panic(expected = "the vectors are [2, 5, 1], but positions are [5, 16]")]
fn vectors_of_another_width_are_refused() {
    let device = Device::flex();
    let encoder = EncoderConfig::new(16, 24, 4, 1).init(&device).unwrap();
    encoder.forward_vectors(vectors([2, 5, 1], &device), None);
}

#[test]
fn hostile_files_are_refused_before_they_take_memory() {
    let device = Device::flex();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let config = TransformerConfig::new(11, 11)
        .with_d_model(16)
        .with_n_heads(2);
    let model = config.init(&device).unwrap();
    let write = |about: &std::collections::BTreeMap<String, String>, scale: f32| {
        let mut values = parameters(&model);
        let name = "encoder.final_norm.gamma";
        values.insert(name.into(), TensorData::new(vec![scale; 16], [16]));
        let bytes = weights::to_bytes_with(&values, Dtype::F32, about).unwrap();
        std::fs::write(&path, bytes).unwrap();
        load::<Transformer>(&path, &device).map_err(|error| error.to_string())
    };
    let about = weights::metadata(&config);
    assert!(write(&about, 1.0).is_ok());
    for value in [f32::NAN, f32::INFINITY] {
        let error = write(&about, value).unwrap_err();
        assert!(error.contains("encoder.final_norm.gamma"), "{error}");
    }
    for (from, to) in [
        ("\"n_layers\":6", "\"n_layers\":16777216"),
        ("\"max_len\":5000", "\"max_len\":16777216"),
        ("\"d_model\":16", "\"d_model\":16777216"),
    ] {
        let changed = about.iter().map(|(key, json)| {
            assert!(json.contains(from), "{json}");
            (key.clone(), json.replace(from, to))
        });
        write(&changed.collect(), 1.0).unwrap_err();
    }
}

#[test]
fn rotary_positions_have_the_base_of_the_configuration() {
    let device = Device::flex();
    let mut config = DecoderConfig::new(11, 16, 24, 2, 1)
        .with_cross_attention(false)
        .with_positions(Positions::Rotary);
    let ids = Tensor::<2, Int>::from_data([[1, 5, 6, 2]], &device);
    let logits = |config: &DecoderConfig| {
        let model = config.init_seeded(3, &device).unwrap();
        model.forward(ids.clone(), None, &mut model.new_cache())
    };
    let paper = logits(&config);
    config.input.positions.rotary_base = 500_000.0;
    assert!(!same(paper, logits(&config)));
    saved(&config.init(&device).unwrap());
    config.input.positions.rotary_base = 0.0;
    let error = config.init(&device).unwrap_err().to_string();
    assert_eq!(error, "rotary_base is 0, but must be more than 1");
}
