//! Encodes TensorBoard's events, which are Protocol Buffers messages.
//!
//! An event has a time, a step, and one of these: a file version, a summary or a session log. The
//! fields, from TensorFlow's `event.proto` and `summary.proto`, are:
//!
//! | message | fields |
//! |---|---|
//! | `Event` | 1 `double wall_time`, 2 `int64 step`, 3 `string file_version` |
//! | `Event`, continued | 5 `Summary summary`, 7 `SessionLog session_log` |
//! | `Summary` | 1 `repeated Value value` |
//! | `Value` | 1 `string tag`, 2 `float simple_value` |
//! | `SessionLog` | 1 `enum status`, whose value 1 is the start of a session |

/// Wire types of Protocol Buffers.
const VARINT: u8 = 0;
const EIGHT_BYTES: u8 = 1;
const BYTES: u8 = 2;
const FOUR_BYTES: u8 = 5;

/// Returns the version event, which is the first event of a file.
pub(super) fn version(wall_time: f64) -> Vec<u8> {
    let mut event = timed(wall_time);
    put_bytes(&mut event, 3, b"brain.Event:2");
    event
}

/// Returns the event of a process whose first step is `step`. The event makes TensorBoard forget
/// the values that it has read for this step and later ones.
pub(super) fn session_start(wall_time: f64, step: usize) -> Vec<u8> {
    let mut event = timed(wall_time);
    put_number(&mut event, 2, step as u64);
    put_bytes(&mut event, 7, &[0x08, 0x01]);
    event
}

/// Returns the event with the scalars of a step. `values` has the tag and the value of each scalar.
pub(super) fn scalars(wall_time: f64, step: usize, values: &[(&str, f32)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut scalar = Vec::new();
        put_bytes(&mut scalar, 1, tag.as_bytes());
        put_key(&mut scalar, 2, FOUR_BYTES);
        scalar.extend(value.to_le_bytes());
        put_bytes(&mut summary, 1, &scalar);
    }
    let mut event = timed(wall_time);
    put_number(&mut event, 2, step as u64);
    put_bytes(&mut event, 5, &summary);
    event
}

fn timed(wall_time: f64) -> Vec<u8> {
    let mut event = Vec::new();
    put_key(&mut event, 1, EIGHT_BYTES);
    event.extend(wall_time.to_le_bytes());
    event
}

fn put_key(bytes: &mut Vec<u8>, field: u8, wire_type: u8) {
    bytes.push(field << 3 | wire_type);
}

fn put_number(bytes: &mut Vec<u8>, field: u8, number: u64) {
    put_key(bytes, field, VARINT);
    put_varint(bytes, number);
}

fn put_bytes(bytes: &mut Vec<u8>, field: u8, content: &[u8]) {
    put_key(bytes, field, BYTES);
    put_varint(bytes, content.len() as u64);
    bytes.extend(content);
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_bytes_of_protocol_buffers() {
        let time = [0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f];
        assert_eq!(version(1.5), [&time[..], b"\x1a\x0dbrain.Event:2"].concat());
        assert_eq!(
            session_start(1.5, 300),
            [&time[..], b"\x10\xac\x02\x3a\x02\x08\x01"].concat()
        );
        assert_eq!(
            scalars(1.5, 7, &[("a", 0.5), ("b/c", 1.0)]),
            [
                &time[..],
                b"\x10\x07\x2a\x16",
                b"\x0a\x08\x0a\x01a\x15\x00\x00\x00\x3f",
                b"\x0a\x0a\x0a\x03b/c\x15\x00\x00\x80\x3f",
            ]
            .concat()
        );
    }
}
