//! Imports the weights of a model that PyTorch saved, compares the model's logits with PyTorch's,
//! and exports the weights again.
//!
//!     cargo run --release --example pytorch_weights

use burn::tensor::{Device, Int, Tensor};
use transformer::AttentionMask;
use transformer::weights::{self, Contents, ImportOptions, WeightsFile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/transformer/tests/fixtures/layouts"
    );
    let device = Device::flex();

    // The file is a checkpoint that `torch.save` wrote, with the weights in the entry `state_dict`.
    let file = WeightsFile::open(format!("{folder}/annotated.pt"))?;
    let options = ImportOptions {
        n_heads: Some(3), // cannot be inferred from the weights
        ..Default::default()
    };
    let imported = weights::import(&file, &options)?;
    println!("layout {}: {}", imported.layout, imported.contents);
    println!("{:?}", imported.stacks);

    let model = imported.clone().transformer(&device)?;
    let source = [
        [3, 4, 5, 6, 7, 8, 9],
        [9, 8, 16, 6, 5, 0, 0],
        [2, 15, 11, 0, 0, 0, 0],
    ];
    let target = [[1, 17, 4, 5, 6], [1, 7, 9, 2, 10], [1, 11, 12, 13, 14]];
    let source = Tensor::<2, Int>::from_data(source, &device);
    let target = Tensor::<2, Int>::from_data(target, &device);
    let expected = WeightsFile::open(format!("{folder}/annotated.expected.safetensors"))?;
    let theirs = Tensor::<3>::from_data(expected.read("output.logits")?, &device);
    let mask = AttentionMask::padding(&source, imported.config()?.pad_id);
    let difference = (model.forward(source, Some(&mask), target) - theirs)
        .abs()
        .max();
    let difference = difference.into_scalar::<f32>();
    println!("largest difference of a logit: {difference:.1e}");
    assert!(difference < 1e-5);

    // Export the weights under PyTorch's names again. If `back` is saved as a safetensors file,
    // `load_state_dict(safetensors.torch.load_file(..))` loads the file into the PyTorch module.
    let own = weights::parameters(&model);
    let (config, layout) = (&imported.config()?, imported.layout);
    let back = weights::export(config, Contents::Model, &own, layout, true)?;
    println!(
        "{} tensors, {} bytes of safetensors",
        back.len(),
        weights::to_bytes(&back)?.len()
    );
    Ok(())
}
