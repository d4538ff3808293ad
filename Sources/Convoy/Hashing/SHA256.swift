// SHA-256: FIPS 180-4, section 6.2.

/// SHA-256 in Swift alone: for short messages, and for files where the system has no code for it.
struct SHA256: HashFunction, FileHash {
    static let blockBytes = 64

    private var state: SIMD8<UInt32>
    private var buffer: BlockBuffer

    init() {
        // Section 5.3.3.
        state = [
            0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
        ]
        buffer = BlockBuffer(blockBytes: Self.blockBytes)
    }

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var words = state
        buffer.take(bytes) { Self.compress($0, count: $1, into: &words) }
        state = words
    }

    func finish() -> [UInt8] {
        var words = state
        // Section 5.1.1.
        buffer.padded(lengthField: (buffer.totalBytes &<< 3).bigEndianBytes).withUnsafeBytes { end in
            guard let start = end.baseAddress else { return }
            Self.compress(start, count: end.count / Self.blockBytes, into: &words)
        }
        return words.indices.flatMap { words[$0].bigEndianBytes }
    }
}
