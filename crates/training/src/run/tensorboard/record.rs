//! TFRecord frames, which surround each event with its length and two checksums.

/// Returns the frame of an event, including the event.
pub(super) fn framed(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    let [of_length, of_event] = [&length, event].map(|bytes| checksum(bytes).to_le_bytes());
    [&length, &of_length[..], event, &of_event].concat()
}

/// Returns the CRC-32C of `bytes`, masked as in TFRecord. The mask is needed because a CRC of data
/// that contain CRCs would be weak.
fn checksum(bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c(bytes);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_that_of_other_writers() {
        // Event files of TensorFlow begin with this header of an event of 24 bytes.
        let frame = framed(&[0; 24]);
        let header = [0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22];
        assert_eq!((&frame[..12], frame.len()), (&header[..], 40));
    }
}
