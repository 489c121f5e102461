//! The wire format of [protocol buffers](https://protobuf.dev/programming-guides/encoding/).

use crate::Error;

/// Value of a field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// Integers, booleans and enums.
    Varint(u64),
    /// Strings, bytes and messages.
    Bytes(&'a [u8]),
    /// Floats.
    Fixed32([u8; 4]),
    /// Doubles and 64-bit integers, of which a model has none.
    Fixed64,
}

/// The fields of a message, each with its number. Nothing follows an error.
#[derive(Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let taken = usize::try_from(length)
            .ok()
            .and_then(|length| self.0.split_at_checked(length));
        let (value, rest) = taken.ok_or(Error::Wire("a field ends after its message"))?;
        self.0 = rest;
        Ok(value)
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0;
        // Ten bytes of seven bits hold 64 bits.
        for shift in (0..70).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Wire("a number has more than 10 bytes"))
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), Error> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                let bytes = self.take(4)?;
                Value::Fixed32([bytes[0], bytes[1], bytes[2], bytes[3]])
            }
            _ => return Err(Error::Wire("a field has an unknown wire type")),
        };
        match tag >> 3 {
            0 => Err(Error::Wire("a field has the number 0")),
            number => Ok((number, value)),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_numbers_and_values() {
        let message = [
            0x08, 0x96, 0x01, 0x12, 2, b'a', b'b', 0x1d, 0, 0, 0x80, 0x3f,
        ];
        let fields: Vec<_> = Fields::new(&message).collect::<Result<_, _>>().unwrap();
        assert_eq!(
            fields,
            [
                (1, Value::Varint(150)),
                (2, Value::Bytes(b"ab")),
                (3, Value::Fixed32(1f32.to_le_bytes())),
            ]
        );
    }

    #[test]
    fn nothing_follows_an_error() {
        for message in [
            &[0x08][..],
            &[0x12, 3, b'a', b'b'],
            &[
                0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
            ],
            &[
                0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            ],
            &[0x0b],
            &[0x02, 0],
        ] {
            let mut fields = Fields::new(message);
            assert!(fields.next().unwrap().is_err(), "{message:?}");
            assert!(fields.next().is_none(), "{message:?}");
        }
    }
}
