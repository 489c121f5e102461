//! The functions that JavaScript calls. Results of methods are JSON, and errors are messages.

use serde::Serialize;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{Session, TrainedModel};

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console)]
    fn error(text: &str);
}

/// Writes panics to the console of the browser.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| error(&panic.to_string())));
}

fn json<T: Serialize>(result: anyhow::Result<T>) -> Result<String, String> {
    let value = result.map_err(|error| format!("{error:#}"))?;
    serde_json::to_string(&value).map_err(|error| error.to_string())
}

fn text<T>(result: anyhow::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{error:#}"))
}

/// A model in training, for JavaScript.
#[wasm_bindgen(js_name = Session)]
pub struct JsSession(Session);

#[wasm_bindgen(js_class = Session)]
impl JsSession {
    /// See [`Session::new`].
    #[wasm_bindgen(constructor)]
    pub fn new(settings: &str) -> Result<Self, String> {
        text(Session::new(settings)).map(Self)
    }

    /// See [`Session::step`].
    pub fn step(&mut self) -> Result<String, String> {
        json(self.0.step())
    }

    /// See [`Session::evaluate`].
    pub fn evaluate(&self) -> Result<String, String> {
        json(self.0.evaluate())
    }

    /// See [`Session::look`].
    pub fn look(&self, source: &str) -> Result<String, String> {
        json(self.0.look(source))
    }

    /// See [`Session::config`].
    pub fn config(&self) -> Result<String, String> {
        text(self.0.config())
    }
}

/// A trained model, for JavaScript.
#[wasm_bindgen(js_name = TrainedModel)]
pub struct JsTrainedModel(TrainedModel);

#[wasm_bindgen(js_class = TrainedModel)]
impl JsTrainedModel {
    /// See [`TrainedModel::from_bytes`].
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        text(TrainedModel::from_bytes(bytes)).map(Self)
    }

    /// See [`TrainedModel::config`].
    pub fn config(&self) -> Result<String, String> {
        text(self.0.config())
    }

    /// See [`TrainedModel::beams`].
    pub fn beams(&self, source: &str, width: usize) -> Result<String, String> {
        json(self.0.beams(source, width))
    }
}
