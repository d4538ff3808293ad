// Single bytes, collected into chunks for sending.
import Foundation

/// The bytes of a sequence in chunks of 16 KiB.
///
/// The last chunk may be shorter.
struct ByteChunks<Bytes: AsyncSequence & Sendable>: AsyncSequence, Sendable where Bytes.Element == UInt8 {
    let bytes: Bytes

    func makeAsyncIterator() -> Iterator { Iterator(bytes: bytes.makeAsyncIterator()) }

    struct Iterator: AsyncIteratorProtocol {
        fileprivate var bytes: Bytes.AsyncIterator
        private var isAtEnd = false

        fileprivate init(bytes: Bytes.AsyncIterator) { self.bytes = bytes }

        mutating func next() async throws -> Data? {
            var chunk: [UInt8] = []
            chunk.reserveCapacity(16 << 10)
            while !isAtEnd, chunk.count < 16 << 10 {
                if let byte = try await bytes.next() { chunk.append(byte) } else { isAtEnd = true }
            }
            return chunk.isEmpty ? nil : Data(chunk)
        }
    }
}
