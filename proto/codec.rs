//! The codec of the generated clients and servers: a message is encoded into a buffer of its own length.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

/// Encodes `T` and decodes `U`. Unlike tonic's own it asks for the room that a message needs: a buffer that grows by doubling
/// takes up to three times as much.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<fn(T) -> U>);

/// The encoder of [`Codec`].
#[derive(Debug)]
pub struct SizedEncoder<T>(PhantomData<fn(T)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = SizedEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        SizedEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::default()
    }
}

impl<T: Message> Encoder for SizedEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.encoded_len());
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}
