// SHA-512 and SHA-512/256: FIPS 180-4, sections 6.4 and 6.7.

/// SHA-512 in Swift alone: for files where the system has no code for it.
struct SHA512: HashFunction, FileHash {
    static let blockBytes = 128

    private var state: SIMD8<UInt64>
    private var buffer: BlockBuffer

    init() {
        // Section 5.3.5.
        self.init(initialState: [
            0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1,
            0x510e_527f_ade6_82d1, 0x9b05_688c_2b3e_6c1f, 0x1f83_d9ab_fb41_bd6b, 0x5be0_cd19_137e_2179,
        ])
    }

    init(initialState: SIMD8<UInt64>) {
        state = initialState
        buffer = BlockBuffer(blockBytes: Self.blockBytes)
    }

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var words = state
        buffer.take(bytes) { Self.compress($0, count: $1, into: &words) }
        state = words
    }

    func finish() -> [UInt8] {
        var words = state
        // Section 5.1.2: the length has 128 bits.
        let length = (buffer.totalBytes &>> 61).bigEndianBytes + (buffer.totalBytes &<< 3).bigEndianBytes
        buffer.padded(lengthField: length).withUnsafeBytes { end in
            guard let start = end.baseAddress else { return }
            Self.compress(start, count: end.count / Self.blockBytes, into: &words)
        }
        return words.indices.flatMap { words[$0].bigEndianBytes }
    }
}

/// SHA-512/256: SHA-512 from another start, of which the first half counts.
struct SHA512Truncated256: HashFunction {
    // Section 5.3.6.2.
    private var whole = SHA512(initialState: [
        0x2231_2194_fc2b_f72c, 0x9f55_5fa3_c84c_64c2, 0x2393_b86b_6f53_b151, 0x9638_7719_5940_eabd,
        0x9628_3ee2_a88e_ffe3, 0xbe5e_1e25_5386_3992, 0x2b01_99fc_2c85_b8aa, 0x0eb7_2ddc_81c5_2ca2,
    ])

    mutating func update(_ bytes: UnsafeRawBufferPointer) { whole.update(bytes) }

    func finish() -> [UInt8] { Array(whole.finish().prefix(32)) }
}
