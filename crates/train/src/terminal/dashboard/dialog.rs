//! The dialog that asks whether training should stop.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

/// Maximum width of the text, in columns.
const WIDTH: u16 = 56;

/// Draws the dialog in the middle of the screen. Returns `false` if the screen is too small for it.
pub(super) fn draw(frame: &mut Frame<'_>, resume: &str) -> bool {
    let screen = frame.area();
    let width = WIDTH.min(screen.width.saturating_sub(4));
    let mut lines: Vec<Line<'_>> = Vec::new();
    let what = "Training stops after this step and saves a checkpoint. To resume it later:";
    let words = wrap(what, width.into());
    lines.extend(words.into_iter().map(Line::from));
    let resume = wrap(resume, usize::from(width.saturating_sub(2)));
    lines.extend(
        resume
            .into_iter()
            .map(|line| Line::from(format!("  {line}"))),
    );
    lines.push(Line::default());
    let key = |key| Span::styled(key, Style::new().add_modifier(Modifier::BOLD));
    let stop = [
        key("Enter"),
        Span::raw(" stop     "),
        key("Esc"),
        Span::raw(" cancel"),
    ];
    lines.push(Line::from(stop.to_vec()));
    let height = lines.len() as u16 + 2;
    if width < 20 || height > screen.height {
        return false;
    }
    let area = Rect {
        x: screen.x + (screen.width - width - 4) / 2,
        y: screen.y + (screen.height - height) / 2,
        width: width + 4,
        height,
    };
    let block = Block::bordered().title(" Stop training? ");
    let inner = block.inner(area);
    let inner = Rect {
        x: inner.x + 1,
        width,
        ..inner
    };
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    frame.render_widget(Paragraph::new(lines), inner);
    true
}

/// Breaks a text into lines between words. A word that is longer than a line is broken as well.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let length = lines[lines.len() - 1].chars().count();
        if length > 0 && length + 1 + word.len() > width {
            lines.push(String::new());
        } else if length > 0 {
            word.insert(0, ' ');
        }
        for letter in word {
            let last = lines.len() - 1;
            if lines[last].chars().count() == width {
                lines.push(letter.into());
            } else {
                lines[last].push(letter);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_long_words_anywhere() {
        assert_eq!(wrap("to be or not", 5), ["to be", "or", "not"]);
        assert_eq!(wrap("a abcdefgh b", 4), ["a", "abcd", "efgh", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
