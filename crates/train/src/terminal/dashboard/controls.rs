//! The keys of the dashboard.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::terminal::interrupt::{CTRL_C, Q};

/// State of the dashboard that the user changes with keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Controls {
    /// Number of the first chart that is shown, modulo the number of charts.
    pub(super) chart: usize,
    /// Whether the last line asks whether training should stop.
    pub(super) asks: bool,
    /// Whether training stops after the current step.
    pub(super) stops: bool,
}

/// Request that a key makes in addition to changing the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Save a checkpoint after the current step, and stop, because of the key of this name.
    Stop(&'static str),
    /// End the process.
    StopAtOnce,
}

impl Controls {
    /// Handles a key, and returns the request of the key if it has one.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Request> {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            KeyCode::Char('c') if has_control && self.stops => return Some(Request::StopAtOnce),
            KeyCode::Char('c') if has_control => {
                self.stops = true;
                return Some(Request::Stop(CTRL_C));
            }
            _ if has_control => {}
            KeyCode::Enter | KeyCode::Char('y' | 'Y') if self.asks => {
                (self.asks, self.stops) = (false, true);
                return Some(Request::Stop(Q));
            }
            KeyCode::Esc | KeyCode::Char('n' | 'N' | 'q' | 'Q') if self.asks => self.asks = false,
            _ if self.asks => {}
            KeyCode::Char('q' | 'Q') => self.asks = !self.stops,
            KeyCode::Tab | KeyCode::Right => self.chart = self.chart.wrapping_add(1),
            KeyCode::BackTab | KeyCode::Left => self.chart = self.chart.wrapping_sub(1),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(controls: &mut Controls, code: KeyCode) -> Option<Request> {
        controls.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn training_stops_only_if_the_question_is_confirmed() {
        for cancel in [KeyCode::Esc, KeyCode::Char('n'), KeyCode::Char('q')] {
            let mut controls = Controls::default();
            assert_eq!(press(&mut controls, KeyCode::Char('q')), None);
            assert!(controls.asks);
            assert_eq!(press(&mut controls, cancel), None);
            assert_eq!(controls, Controls::default());
            assert_eq!(press(&mut controls, KeyCode::Enter), None);
        }
        for confirm in [KeyCode::Enter, KeyCode::Char('y')] {
            let mut controls = Controls::default();
            press(&mut controls, KeyCode::Char('q'));
            assert_eq!(press(&mut controls, confirm), Some(Request::Stop(Q)));
            assert!(controls.stops && !controls.asks);
            // Training stops already, so `q` does not ask again.
            press(&mut controls, KeyCode::Char('q'));
            assert!(!controls.asks);
        }
    }

    #[test]
    fn keys_choose_a_chart_and_stop() {
        let mut controls = Controls::default();
        press(&mut controls, KeyCode::Tab);
        assert_eq!(controls.chart, 1);
        press(&mut controls, KeyCode::BackTab);
        assert_eq!(controls.chart, 0);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(controls.key(control_c), Some(Request::Stop(CTRL_C)));
        assert_eq!(controls.key(control_c), Some(Request::StopAtOnce));
    }
}
