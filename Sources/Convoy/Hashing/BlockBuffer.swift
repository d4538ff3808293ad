// Fixed-size blocks for hash functions, from chunks of any length.

/// Divides a stream of bytes into complete blocks.
///
/// The remainder of a chunk is stored until the next chunk.
///
/// Complete blocks are passed on without a copy. Only remainders and blocks that span two chunks are copied.
struct BlockBuffer: Sendable {
    /// The number of bytes so far, including the remainder.
    private(set) var totalBytes: UInt64 = 0
    private var block: [UInt8]

    init(blockBytes: Int) {
        block = [UInt8](repeating: 0, count: blockBytes)
    }

    private var keptCount: Int { Int(totalBytes % UInt64(block.count)) }

    /// The remainder, which waits for the rest of its block.
    private var kept: ArraySlice<UInt8> { block[..<keptCount] }

    /// Adds bytes, and passes on the blocks that are now complete.
    ///
    /// - Parameter compress: receives a number of complete blocks.
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

    /// Passes on the last one or two blocks: the remainder, a one bit, zeros, and the length field.
    func takeEnd(lengthField: [UInt8], compress: (_ blocks: UnsafeRawPointer, _ count: Int) -> Void) {
        var end = kept + [0x80]
        let used = (end.count + lengthField.count) % block.count
        end += [UInt8](repeating: 0, count: (block.count - used) % block.count)
        (end + lengthField).withUnsafeBytes { end in
            if let start = end.baseAddress { compress(start, end.count / block.count) }
        }
    }
}
