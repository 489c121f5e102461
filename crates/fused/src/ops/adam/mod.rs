//! Adam and AdamW. On flex, a kernel makes one pass over a parameter and its moments.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod kernel;
mod sum_of_squares;
mod update;

use burn::tensor::Tensor;

pub use self::sum_of_squares::sum_of_squares;
pub use self::update::{Adam, AdamState};

impl Adam {
    /// Returns the updated state: `m = β1 m + (1 - β1) g`, `v = β2 v + (1 - β2) g²`, and then
    /// `w = (1 - η λ) w - η m / (1 - β1^t) / (sqrt(v / (1 - β2^t)) + ε)`.
    ///
    /// In these formulas, `g` is the gradient times `scale`. On flex, gradient clipping therefore
    /// needs no separate pass. `scale` is a tensor on the device of the gradient; `None` means 1.
    /// Only the elements `state.part` of the gradient are read. On flex, a contiguous tensor of the
    /// state that has a single owner is updated in place.
    ///
    /// # Shapes
    ///
    /// - parameter and gradient: `[N]`
    /// - moments: `[P]`, where `P` is the length of `state.part`
    /// - scale: `[1]`
    ///
    /// # Panics
    ///
    /// If the sizes differ, or `scale` does not have exactly one element. The fast path also panics
    /// if the gradient or a tensor of the state has autodiff.
    pub fn step(
        &self,
        state: AdamState,
        gradient: Tensor<1>,
        scale: Option<&Tensor<1>>,
    ) -> AdamState {
        state.check(&gradient);
        if let Some([n]) = scale.map(Tensor::dims) {
            assert!(n == 1, "the gradient's scale is [{n}], not [1]");
        }
        #[cfg(feature = "flex")]
        if crate::backend::flex::takes(&state.parameter) {
            let scale = scale.map_or(1.0, |scale| scale.clone().into_scalar());
            return flex::step(self, state, gradient, scale, false).0;
        }
        if !state.is_whole() {
            return self.step_part(state, gradient, scale);
        }
        let gradient = match scale {
            Some(scale) => gradient * scale.clone(),
            None => gradient,
        };
        let Self {
            learning_rate,
            weight_decay,
            epsilon,
            ..
        } = *self;
        let (beta_1, beta_2) = (self.beta_1, self.beta_2);
        let moment_1 = state.moment_1 * beta_1 + gradient.clone() * (1.0 - beta_1);
        let moment_2 = state.moment_2 * beta_2 + gradient.square() * (1.0 - beta_2);
        let [rate, deviation] = self.corrections();
        let update = moment_1.clone() * rate / (moment_2.clone().sqrt() * deviation + epsilon);
        let parameter = match weight_decay {
            0.0 => state.parameter,
            decay => state.parameter * (1.0 - learning_rate * f64::from(decay)),
        };
        AdamState {
            parameter: parameter - update,
            part: state.part,
            moment_1,
            moment_2,
        }
    }

    /// Copies the part of the parameter that is updated, updates the copy, and writes it back.
    fn step_part(
        &self,
        state: AdamState,
        gradient: Tensor<1>,
        scale: Option<&Tensor<1>>,
    ) -> AdamState {
        let AdamState {
            parameter, part, ..
        } = state;
        let copy = AdamState {
            parameter: parameter.clone().slice([part.clone()]),
            part: 0..part.len(),
            ..state
        };
        let updated = self.step(copy, gradient.slice([part.clone()]), scale);
        AdamState {
            parameter: parameter.slice_assign([part.clone()], updated.parameter),
            part,
            ..updated
        }
    }

    /// Returns the updated state, as [`step`](Self::step) without a scale does, and a sum of
    /// squares of the gradient, as a tensor `[1]`.
    ///
    /// The sum is that of the elements `state.part`, and equals
    /// [`sum_of_squares`](crate::sum_of_squares) of these elements exactly. On flex, it is computed
    /// in the same pass as the update.
    ///
    /// # Panics
    ///
    /// If the sizes differ. The fast path also panics if the gradient or a tensor of the state has
    /// autodiff.
    pub fn step_measured(&self, state: AdamState, gradient: Tensor<1>) -> (AdamState, Tensor<1>) {
        #[cfg(feature = "flex")]
        if crate::backend::flex::takes(&state.parameter) {
            state.check(&gradient);
            let (state, squares) = flex::step(self, state, gradient, 1.0, true);
            return (state, flex::scalar(squares));
        }
        let squares = if state.is_whole() {
            sum_of_squares(&gradient)
        } else {
            sum_of_squares(&gradient.clone().slice([state.part.clone()]))
        };
        (self.step(state, gradient, None), squares)
    }
}
