// The state of a hash function as bytes that may be kept in a file.
import Foundation

/// What a hash function of the SHA-2 family has to remember: its words, how much it has taken, what waits for its block.
///
/// The layout: a tag that names function and version, the words, the number of bytes taken (64 bits), the bytes kept,
/// and the first eight bytes of the SHA-256 of all that; integers with their most significant byte first. A file that was
/// cut short or damaged gives no state: a digest that goes on from a wrong one would blame the download.
struct SavedHashState<Word: FixedWidthInteger & SIMDScalar & Sendable> {
    let words: SIMD8<Word>
    let buffer: BlockBuffer

    init(words: SIMD8<Word>, buffer: BlockBuffer) {
        self.words = words
        self.buffer = buffer
    }

    init?(_ data: Data, tag: String, blockBytes: Int) {
        let (wordsLength, checksumLength) = (8 * MemoryLayout<Word>.size, 8)
        var rest = Array(data)[...]
        let header = tag.utf8.count + wordsLength + 8
        guard (header + checksumLength..<header + blockBytes + checksumLength).contains(rest.count) else { return nil }
        let checksum = rest.suffix(checksumLength)
        rest = rest.dropLast(checksumLength)
        guard SHA256.digest(of: rest).prefix(checksumLength) == checksum, rest.starts(with: tag.utf8) else {
            return nil
        }
        rest = rest.dropFirst(tag.utf8.count)
        var words = SIMD8<Word>()
        for index in words.indices {
            words[index] = Word(bigEndianBytes: rest.prefix(MemoryLayout<Word>.size))
            rest = rest.dropFirst(MemoryLayout<Word>.size)
        }
        let totalBytes = UInt64(bigEndianBytes: rest.prefix(8))
        guard let buffer = BlockBuffer(blockBytes: blockBytes, totalBytes: totalBytes, kept: rest.dropFirst(8)) else {
            return nil
        }
        self.init(words: words, buffer: buffer)
    }

    func data(tag: String) -> Data {
        let state = words.indices.flatMap { words[$0].bigEndianBytes }
        let bytes = Array(tag.utf8) + state + buffer.totalBytes.bigEndianBytes + buffer.kept
        return Data(bytes + SHA256.digest(of: bytes).prefix(8))
    }
}

extension FixedWidthInteger {
    /// Joins bytes, most significant first.
    fileprivate init(bigEndianBytes bytes: some Sequence<UInt8>) {
        self = bytes.reduce(0) { $0 &<< 8 | Self(truncatingIfNeeded: $1) }
    }
}
