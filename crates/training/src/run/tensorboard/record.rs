//! TFRecord frames, which surround each event with its length and two checksums.

/// Number of bytes before an event: its length and the checksum of the length.
const HEADER: usize = 12;

/// Number of bytes after an event: its checksum.
const FOOTER: usize = 4;

/// Returns the frame of an event, including the event.
pub(super) fn framed(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    let mut bytes = Vec::with_capacity(HEADER + event.len() + FOOTER);
    bytes.extend(length);
    bytes.extend(checksum(&length).to_le_bytes());
    bytes.extend(event);
    bytes.extend(checksum(event).to_le_bytes());
    bytes
}

/// Returns the first event in `bytes` and the number of bytes of its frame; `None` if the event is
/// incomplete or damaged.
pub(super) fn first(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*sum) != checksum(length) {
        return None;
    }
    let size = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (event, rest) = rest.split_at_checked(size)?;
    let (sum, _) = rest.split_first_chunk::<4>()?;
    let is_whole = u32::from_le_bytes(*sum) == checksum(event);
    is_whole.then_some((event, HEADER + size + FOOTER))
}

/// Returns the CRC-32C of `bytes`, masked as in TFRecord. The mask is needed because a CRC of data
/// that contain CRCs would be weak.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_that_of_other_writers() {
        // Event files of earlier TensorFlow versions begin with this header of an event of 24
        // bytes.
        let frame = framed(&[0; 24]);
        let header = [0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22];
        assert_eq!(frame[..12], header);
        assert_eq!(first(&frame), Some((&[0; 24][..], 40)));
    }

    #[test]
    fn incomplete_and_damaged_frames_are_detected() {
        let frame = framed(b"event");
        for length in 0..frame.len() {
            assert_eq!(first(&frame[..length]), None);
        }
        for index in 0..frame.len() {
            let mut damaged = frame.clone();
            damaged[index] ^= 4;
            assert_eq!(first(&damaged), None, "byte {index}");
        }
        let two = [frame.clone(), frame.clone()].concat();
        assert_eq!(first(&two), Some((&b"event"[..], frame.len())));
    }
}
