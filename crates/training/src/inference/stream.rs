//! Outputs token by token.

use std::ops::ControlFlow;

use anyhow::Result;

use super::predictor::{Predictor, error_of};
use super::records::one_line;
use super::request::Request;
use super::work::Work;

impl Predictor<'_> {
    /// Passes the text of an output to `print` token by token, and then a line break. This text is
    /// plain even if results are otherwise JSON. Scores, the outputs of a beam wider than 1, and
    /// several samples are instead passed at once, as [`predict`](Self::predict) returns them.
    /// Generation ends early if `print` returns `Break`.
    ///
    /// ```
    /// use std::cell::RefCell;
    /// use std::ops::ControlFlow;
    ///
    /// use burn::tensor::Device;
    /// use training::config::RunConfig;
    /// use training::inference::{Generation, Line, Predictor, Work};
    /// use training::run::checkpoint::TrainedRun;
    /// use transformer::generate::GenerateConfig;
    ///
    /// // `TrainedRun::load` would read a run folder. This example uses an untrained model.
    /// let mut config = RunConfig::copy();
    /// let dataset = config.check()?.expect("copy needs no files");
    /// let model = config.model.init_seeded(config.seed, &Device::flex())?;
    /// let run = TrainedRun { config, dataset, step: 0, model };
    /// let generation = Generation {
    ///     config: GenerateConfig::new(4)
    ///         .with_bos_id(Some(run.dataset.codec().vocabularies().bos_id)),
    ///     prefix: Vec::new(),
    ///     alignments: false,
    ///     extends: false,
    /// };
    /// let predictor = Predictor::new(&run, Work::Generate(generation), false);
    /// let line = Line { number: 1, text: "3 1 2".into() };
    /// let request = predictor.request(&line)?.expect("the line is not blank");
    ///
    /// // A program would print each part. This example collects the parts.
    /// let parts = RefCell::new(Vec::new());
    /// let ended = predictor.stream(&request, |part| {
    ///     parts.borrow_mut().push(part.to_owned());
    ///     Ok(ControlFlow::Continue(()))
    /// })?;
    /// assert!(ended.is_continue());
    /// assert_eq!(parts.borrow().len(), 5); // four symbols and the line break
    /// assert_eq!(parts.borrow().concat(), predictor.predict(&[request], &mut |_| ())?.concat());
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the model cannot process the request with these settings, if an output of the model is
    /// not finite, or if `print` returns an error.
    pub fn stream(
        &self,
        request: &Request,
        print: impl Fn(&str) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let requests = &[request];
        let generation = match &self.work {
            Work::Generate(generation) if generation.config.rows_per_source() == 1 => generation,
            _ => return print(&self.results(&[request])?.concat()),
        };
        let config = generation.config_at(request.line, self.max_output(request));
        let prefix = &generation.prefix;
        let model = self.model(requests, config.max_length);
        let wrong = |error| error_of(requests, error);
        let steps = model.stream_completion(&[&request.source], &[prefix], &config);
        let (mut target, mut printed) = (Vec::new(), String::new());
        for step in steps.map_err(wrong)? {
            // Only one row is decoded, so a step yields at most one token.
            let Some(token) = step.map_err(wrong)?.first().map(|row| row.token) else {
                continue;
            };
            if config.is_end(token) {
                continue;
            }
            target.push(token);
            let text = one_line(&self.codec().decode_target(&target));
            // The bytes of a character can be spread over several tokens. Print only whole
            // characters.
            let is_whole = !text.ends_with(char::REPLACEMENT_CHARACTER);
            if let Some(new) = text.strip_prefix(&printed).filter(|_| is_whole) {
                if print(new)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                printed = text;
            }
        }
        let text = one_line(&self.codec().decode_target(&target));
        // A later token can change text that has already been printed: for example, `n't` joins the
        // word before it. The whole text is then printed again from the change on.
        let mut pairs = text.char_indices().zip(printed.chars());
        let change = pairs.find(|((_, new), old)| new != old);
        let begin = change.map_or(printed.len(), |((index, _), _)| index);
        let rest = text.get(begin..).unwrap_or_default();
        print(&format!("{rest}\n"))
    }
}
