use burn::tensor::TensorData;

use super::*;
use crate::collective::Alone;

#[derive(Module, Debug)]
struct Two {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

fn two(device: &Device) -> Two {
    Two {
        weight: Param::from_data([[1.0, -2.0]], device),
        bias: Param::from_data([3.0], device),
    }
}

/// Returns the gradients of the loss `a . weight + b * bias`.
fn gradients(module: &Two, a: [f32; 2], b: f32) -> GradientsParams {
    let device = module.weight.val().device();
    let a = Tensor::<2>::from_data([a], &device);
    let loss = (module.weight.val() * a).sum() + (module.bias.val() * b).sum();
    GradientsParams::from_grads(loss.backward(), module)
}

fn numbers(module: &Two) -> [f64; 3] {
    let weight = module.weight.val().into_data();
    let bias = module.bias.val().into_data();
    let all: Vec<f64> = weight.iter::<f64>().chain(bias.iter()).collect();
    all.try_into().unwrap()
}

/// Plain implementation of Adam and AdamW, with which the optimizer is compared. It updates three
/// numbers, each with its own weight decay.
struct ByHand {
    m: [f64; 3],
    v: [f64; 3],
    w: [f64; 3],
    decay: [f64; 3],
}

impl ByHand {
    fn step(&mut self, t: i32, learning_rate: f64, gradient: [f64; 3]) {
        for (i, g) in gradient.into_iter().enumerate() {
            self.m[i] = 0.9 * self.m[i] + 0.1 * g;
            self.v[i] = 0.98 * self.v[i] + 0.02 * g.powi(2);
            let m_hat = self.m[i] / (1.0 - 0.9f64.powi(t));
            let v_hat = self.v[i] / (1.0 - 0.98f64.powi(t));
            self.w[i] -= learning_rate * self.decay[i] * self.w[i];
            self.w[i] -= learning_rate * m_hat / (v_hat.sqrt() + 1e-9);
        }
    }
}

fn check(config: &OptimizerConfig, decay: [f64; 3], clip: impl Fn([f64; 3]) -> [f64; 3]) {
    for is_known in [false, true] {
        check_scaled(config, decay, &clip, 1.0, is_known);
    }
    check_scaled(config, decay, &clip, 8.0, true);
}

/// Checks the updates for gradients of a loss that was multiplied by `loss_scale`. If `is_known` is
/// true, the optimizer receives the global norm of the gradients even if it does not need it.
fn check_scaled(
    config: &OptimizerConfig,
    decay: [f64; 3],
    clip: &impl Fn([f64; 3]) -> [f64; 3],
    loss_scale: f32,
    is_known: bool,
) {
    let device = Device::flex().autodiff();
    let mut module = two(&device);
    let mut optimizer = Optimizer::new(config);
    let mut by_hand = ByHand {
        m: [0.0; 3],
        v: [0.0; 3],
        w: [1.0, -2.0, 3.0],
        decay,
    };
    for (t, a, b) in [
        (1, [0.5, -4.0], 0.1),
        (2, [-2.0, 0.25], 3.0),
        (3, [1.0, 1.0], -1.0),
    ] {
        let gradient = [a[0], a[1], b].map(f64::from);
        let gradients = gradients(&module, a.map(|a| a * loss_scale), b * loss_scale);
        let scale = loss_scale.into();
        let known = (is_known || optimizer.needs_norm(scale))
            .then(|| Squares::of(&module, &gradients, Division::NONE).norm(&Alone) / loss_scale);
        let step = optimizer.step(
            0.1,
            module,
            gradients,
            known.as_ref(),
            scale,
            Division::NONE,
        );
        module = step.0;
        let norm = known.unwrap_or_else(|| step.1.norm(&Alone));
        let norm: f64 = norm.into_scalar::<f32>().into();
        let expected = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        assert!((norm - expected).abs() < 1e-5, "{norm}, by hand {expected}");
        by_hand.step(t, 0.1, clip(gradient));
        for (actual, expected) in numbers(&module).into_iter().zip(by_hand.w) {
            assert!(
                (actual - expected).abs() < 1e-5,
                "step {t}: {actual}, by hand {expected}"
            );
        }
    }
    // If all gradients were multiplied by a wrong factor, Adam's updates would hardly change, but
    // the moments would. The first moments are therefore checked, too.
    for (name, expected) in [("weight", &by_hand.m[..2]), ("bias", &by_hand.m[2..])] {
        let found: Vec<f64> = optimizer.moments[name].first.to_data().iter().collect();
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < 1e-5,
                "{found}, by hand {expected}"
            );
        }
    }
}

#[test]
fn adam_follows_the_papers_formula() {
    check(&OptimizerConfig::default(), [0.0; 3], |g| g);
}

#[test]
fn adamw_decays_matrices_but_not_biases() {
    let config = OptimizerConfig {
        kind: OptimizerKind::AdamW,
        weight_decay: 0.5,
        ..OptimizerConfig::default()
    };
    check(&config, [0.5, 0.5, 0.0], |g| g);
}

#[test]
fn long_gradients_are_clipped_over_all_parameters_together() {
    let config = OptimizerConfig {
        clip_norm: Some(2.0),
        ..OptimizerConfig::default()
    };
    let clip = |g: [f64; 3]| {
        let norm = g.iter().map(|g| g * g).sum::<f64>().sqrt();
        g.map(|g| g * (2.0 / norm).min(1.0))
    };
    check(&config, [0.0; 3], clip);
}

#[test]
fn a_reloaded_optimizer_continues_to_the_last_bit() {
    for kind in [OptimizerKind::Adam, OptimizerKind::AdamW] {
        let config = OptimizerConfig {
            kind,
            ..OptimizerConfig::default()
        };
        let device = Device::flex().autodiff();
        let mut optimizer = Optimizer::new(&config);
        let module = two(&device);
        let first = gradients(&module, [1.0, 2.0], 3.0);
        let step = |optimizer: &mut Optimizer, module: &Two, gradients: GradientsParams| {
            let module = module.clone();
            optimizer
                .step(0.1, module, gradients, None, 1.0, Division::NONE)
                .0
        };
        let module = step(&mut optimizer, &module, first);
        let shapes = BTreeMap::from([("weight".into(), vec![2, 1]), ("bias".into(), vec![1])]);
        let mut reloaded = Optimizer::new(&config);
        let state = optimizer.state(&Alone);
        assert_eq!(state.len(), 4);
        reloaded
            .load_state(state.clone(), 1, &shapes, &device, Division::NONE)
            .unwrap();
        let go_on = |optimizer: &mut Optimizer| {
            let gradients = gradients(&module, [-1.0, 0.5], 2.0);
            numbers(&step(optimizer, &module, gradients))
        };
        assert_eq!(go_on(&mut reloaded), go_on(&mut optimizer));
        assert_eq!(reloaded.state(&Alone), optimizer.state(&Alone));

        let mut refused = |state: Parameters| {
            let error = reloaded.load_state(state, 1, &shapes, &device, Division::NONE);
            error.unwrap_err().to_string()
        };
        let mut less = state.clone();
        less.remove("moment_2.bias");
        assert_eq!(refused(less), "has no tensor moment_2.bias");
        // A parameter that has had no gradient has no moments.
        let mut one = state.clone();
        one.retain(|name, _| name.ends_with("weight"));
        let mut trained = Optimizer::new(&config);
        trained
            .load_state(one.clone(), 1, &shapes, &device, Division::NONE)
            .unwrap();
        assert_eq!(trained.state(&Alone), one);
        let mut more = state;
        more.insert("moment_1.other".into(), TensorData::from([1.0f32]));
        assert!(refused(more).contains("has a tensor moment_1.other"));
    }
}
