//! Why a file is not read as a model.

use std::io;
use std::path::PathBuf;

/// Reason why a file is not read as a SentencePiece model. It is displayed on one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// The file can be read, but is not a valid model.
    #[error("{} is not a valid SentencePiece model: {reason}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with its content.
        reason: Box<Error>,
    },
    /// The bytes are not a message in protocol buffers' wire format.
    #[error("the file is cut, or of another kind: {0}")]
    Wire(&'static str),
    /// A model needs pieces.
    #[error("there are no pieces")]
    NoPieces,
    /// A piece is not valid.
    #[error("piece {id} {reason}")]
    Piece {
        /// Index of the piece, from 0.
        id: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// A model without byte fallback needs a piece for unknown text.
    #[error("no piece is of the kind unknown")]
    NoUnknown,
    /// A model with byte fallback needs a piece for each of the 256 bytes.
    #[error("byte_fallback is true, but the byte piece {0} is missing")]
    NoByte(String),
    /// The table of a normaliser is not valid.
    #[error("the table of the normalizer {0}")]
    Charsmap(&'static str),
    /// The algorithm of the model is neither unigram nor BPE.
    #[error("the algorithm is {0}, but must be unigram or BPE")]
    Algorithm(&'static str),
}
