// Blocks for hash functions out of pieces of any length.

/// Cuts a stream of bytes into whole blocks, and keeps what is left over for the next piece.
///
/// Whole blocks of a piece are handed on in place: only what crosses the border of two pieces is copied.
struct BlockBuffer: Sendable {
    /// The bytes taken so far, those kept included.
    private(set) var totalBytes: UInt64 = 0
    private var block: [UInt8]

    init(blockBytes: Int) {
        block = [UInt8](repeating: 0, count: blockBytes)
    }

    private var keptCount: Int { Int(totalBytes % UInt64(block.count)) }

    /// What waits for the rest of its block.
    private var kept: ArraySlice<UInt8> { block[..<keptCount] }

    /// - Parameter compress: takes a number of whole blocks.
    mutating func take(
        _ bytes: UnsafeRawBufferPointer, compress: (_ blocks: UnsafeRawPointer, _ count: Int) -> Void
    ) {
        guard var next = bytes.baseAddress else { return }
        var (left, kept) = (bytes.count, keptCount)
        let blockBytes = block.count
        totalBytes &+= UInt64(left)
        block.withUnsafeMutableBytes { block in
            guard let start = block.baseAddress else { return }
            if kept > 0 {
                let piece = min(left, blockBytes - kept)
                (start + kept).copyMemory(from: next, byteCount: piece)
                (next, left, kept) = (next + piece, left - piece, kept + piece)
                guard kept == blockBytes else { return }
                compress(start, 1)
            }
            let whole = left / blockBytes
            if whole > 0 { compress(next, whole) }
            start.copyMemory(from: next + whole * blockBytes, byteCount: left % blockBytes)
        }
    }

    /// Hands on the last one or two blocks: what is kept, a one bit, zeros, and the length field.
    func takeEnd(lengthField: [UInt8], compress: (_ blocks: UnsafeRawPointer, _ count: Int) -> Void) {
        var end = kept + [0x80]
        let used = (end.count + lengthField.count) % block.count
        end += [UInt8](repeating: 0, count: (block.count - used) % block.count)
        (end + lengthField).withUnsafeBytes { end in
            if let start = end.baseAddress { compress(start, end.count / block.count) }
        }
    }
}
