//! The functions that JavaScript calls.
//!
//! Results of methods are JSON, and errors are messages.

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
    /// Creates a session; see [`Session::new`].
    ///
    /// # Errors
    ///
    /// The message of the error that [`Session::new`] returns.
    #[wasm_bindgen(constructor)]
    pub fn new(settings: &str) -> Result<Self, String> {
        text(Session::new(settings)).map(Self)
    }

    /// Calls [`Session::step`], and returns the result as JSON.
    ///
    /// # Errors
    ///
    /// The message of the error that [`Session::step`] returns.
    pub fn step(&mut self) -> Result<String, String> {
        json(self.0.step())
    }

    /// Calls [`Session::evaluate`], and returns the result as JSON.
    ///
    /// # Errors
    ///
    /// The message of the error that [`Session::evaluate`] returns.
    pub fn evaluate(&self) -> Result<String, String> {
        json(self.0.evaluate())
    }

    /// Calls [`Session::look`], and returns the result as JSON.
    ///
    /// # Errors
    ///
    /// The message of the error that [`Session::look`] returns.
    pub fn look(&self, source: &str) -> Result<String, String> {
        json(self.0.look(source))
    }

    /// Calls [`Session::config`], and returns the result, which is JSON.
    ///
    /// # Errors
    ///
    /// The message of the error that [`Session::config`] returns.
    pub fn config(&self) -> Result<String, String> {
        text(self.0.config())
    }
}

/// A trained model, for JavaScript.
#[wasm_bindgen(js_name = TrainedModel)]
pub struct JsTrainedModel(TrainedModel);

#[wasm_bindgen(js_class = TrainedModel)]
impl JsTrainedModel {
    /// Reads a model; see [`TrainedModel::from_bytes`].
    ///
    /// # Errors
    ///
    /// The message of the error that [`TrainedModel::from_bytes`] returns.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        text(TrainedModel::from_bytes(bytes)).map(Self)
    }

    /// Calls [`TrainedModel::config`], and returns the result, which is JSON.
    ///
    /// # Errors
    ///
    /// The message of the error that [`TrainedModel::config`] returns.
    pub fn config(&self) -> Result<String, String> {
        text(self.0.config())
    }

    /// Calls [`TrainedModel::beams`], and returns the result as JSON.
    ///
    /// # Errors
    ///
    /// The message of the error that [`TrainedModel::beams`] returns.
    pub fn beams(&self, source: &str, width: usize) -> Result<String, String> {
        json(self.0.beams(source, width))
    }
}
