//! A device whose tensors are in bfloat16, which must be set before its first use in a process.

use burn::tensor::{Device, FloatDType, Int, Tensor};
use transformer::{CrossEntropy, IGNORE_INDEX, TransformerConfig, pad_sequences};

#[test]
fn losses_are_in_f32() {
    let mut device = Device::flex();
    device.configure(FloatDType::BF16).unwrap();
    let criterion = CrossEntropy::new(0.1).unwrap();
    let n = 5000;
    let labels = Tensor::<2, Int>::ones([1, n], &device);
    let loss = criterion.sum(Tensor::zeros([1, n, 4], &device), labels);
    assert_eq!(loss.tokens.clone().into_scalar::<f32>(), n as f32);
    assert!((loss.mean().into_scalar::<f32>() - 4f32.ln()).abs() < 1e-5);

    let device = device.autodiff();
    let config = TransformerConfig::new(20, 20)
        .with_d_model(16)
        .with_n_heads(2);
    let model = config.init_seeded(1, &device).unwrap();
    let ids = pad_sequences(&[vec![5, 6, 7], vec![8]], 0, &device);
    let labels = pad_sequences(&[vec![6, 7, 2], vec![2]], IGNORE_INDEX, &device);
    for chunk in [None, Some(2)] {
        let loss = model.loss(
            ids.clone(),
            None,
            ids.clone(),
            labels.clone(),
            &criterion,
            chunk,
        );
        assert_eq!(loss.tokens.clone().into_scalar::<f32>(), 4.0);
        let mean = loss.mean();
        assert!(mean.clone().into_scalar::<f32>().is_finite());
        mean.backward();
    }
}
