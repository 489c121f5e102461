//! Cross-entropy of logits, and of the outputs of a linear layer in chunks.

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::common::assert_close;
use super::matmul::product;
use super::random::{Random, leaf, tensor};
use super::report;

/// Returns the loss of each row, and the gradients of the logits.
///
/// `d_loss` is the gradient of each loss.
fn by_hand(
    logits: &[f64],
    target: &[Option<usize>],
    smoothing: f64,
    d_loss: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let v = logits.len() / target.len();
    let (mut losses, mut gradients) = (Vec::new(), Vec::new());
    for ((logits, &target), d_loss) in logits.chunks(v).zip(target).zip(d_loss) {
        let largest = logits.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
        let sum: f64 = logits.iter().map(|x| (x - largest).exp()).sum();
        let log_p: Vec<f64> = logits.iter().map(|x| x - largest - sum.ln()).collect();
        let wanted = |i: usize| {
            let is_target = f64::from(u8::from(Some(i) == target));
            (1.0 - smoothing) * is_target + smoothing / v as f64
        };
        let is_real = f64::from(u8::from(target.is_some()));
        let loss: f64 = (0..v).map(|i| -wanted(i) * log_p[i]).sum();
        losses.push(is_real * loss);
        gradients.extend((0..v).map(|i| is_real * d_loss * (log_p[i].exp() - wanted(i))));
    }
    (losses, gradients)
}

/// Random test data: the target of each row (`None` if it is ignored), the label smoothing, and the gradient of each row's
/// loss.
struct Rows {
    target: Vec<Option<usize>>,
    smoothing: f64,
    d_loss: Vec<f64>,
}

impl Rows {
    fn new(random: &mut Random, rows: usize, vocab_size: usize) -> Self {
        Self {
            target: (0..rows)
                .map(|_| random.below(vocab_size + 1).checked_sub(1))
                .collect(),
            smoothing: [0.0, 0.1][random.below(2)],
            d_loss: random.numbers(rows, 1.0),
        }
    }

    fn target(&self) -> Tensor<1, Int> {
        let ids: Vec<i64> = self
            .target
            .iter()
            .map(|id| id.map_or(-1, |id| id as i64))
            .collect();
        let shape = [ids.len()];
        Tensor::from_data(TensorData::new(ids, shape), &Device::flex().autodiff())
    }

    fn d_loss(&self) -> Tensor<1> {
        let device = Device::flex().autodiff();
        tensor(&self.d_loss, [self.d_loss.len()], &device)
    }
}

#[test]
fn cross_entropy() {
    let mut random = Random::new(31);
    for _ in 0..80 {
        let shape = [random.size(40), 1 + random.size(500)];
        let rows = Rows::new(&mut random, shape[0], shape[1]);
        let scale = [0.1, 3.0, 30.0][random.below(3)];
        let logits = random.numbers(shape[0] * shape[1], scale);
        let input = leaf(&logits, shape);
        let (loss, _) = fused::cross_entropy(input.clone(), rows.target(), rows.smoothing);
        let gradients = (loss.clone() * rows.d_loss()).sum().backward();
        let (losses, expected) = by_hand(&logits, &rows.target, rows.smoothing, &rows.d_loss);
        let loss = loss.into_data();
        let gradient = input.grad(&gradients).unwrap().into_data();
        assert_close(&format!("loss of {shape:?}"), &loss, &losses, 2e-6);
        assert_close(&format!("dlogits of {shape:?}"), &gradient, &expected, 2e-6);
        report("cross_entropy", &[&loss, &gradient]);
    }
}

#[test]
fn linear_cross_entropy() {
    let mut random = Random::new(32);
    for _ in 0..60 {
        let [m, k, v] = [random.size(60), random.size(40), 1 + random.size(200)];
        let rows = Rows::new(&mut random, m, v);
        let (x, w) = (random.numbers(m * k, 1.0), random.numbers(k * v, 1.0));
        let b = random.numbers(v, 1.0);
        let leaves = (leaf(&x, [m, k]), leaf(&w, [k, v]), leaf(&b, [v]));
        let at_a_time = random.size(70);
        let (loss, _) = fused::linear_cross_entropy(
            leaves.0.clone(),
            leaves.1.clone(),
            leaves.2.clone(),
            rows.target(),
            rows.smoothing,
            at_a_time,
        );
        let gradients = (loss.clone() * rows.d_loss()).sum().backward();
        let found = [
            loss.into_data(),
            leaves.0.grad(&gradients).unwrap().into_data(),
            leaves.1.grad(&gradients).unwrap().into_data(),
            leaves.2.grad(&gradients).unwrap().into_data(),
        ];
        let mut logits = product([m, k, v], |i, j| x[i * k + j], |i, j| w[i * v + j]);
        (0..m * v).for_each(|i| logits[i] += b[i % v]);
        let (losses, d) = by_hand(&logits, &rows.target, rows.smoothing, &rows.d_loss);
        let expected = [
            losses,
            product([m, v, k], |i, j| d[i * v + j], |i, j| w[j * v + i]),
            product([k, m, v], |i, j| x[j * k + i], |i, j| d[i * v + j]),
            product([1, m, v], |_, _| 1.0, |i, j| d[i * v + j]),
        ];
        for (i, name) in ["loss", "dx", "dw", "db"].iter().enumerate() {
            let name = format!("{name} of [{m}, {k}] by [{k}, {v}], {at_a_time} at a time");
            assert_close(&name, &found[i], &expected[i], 1e-5);
        }
        report("linear_cross_entropy", &found.each_ref());
    }
}
