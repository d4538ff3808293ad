// MD5: RFC 1321.

/// MD5, which is not secure.
///
/// Digest authentication still supports MD5 for old servers (RFC 7616, section 3.2).
struct MD5: HashFunction {
    private static let blockBytes = 64

    private var state: SIMD4<UInt32> = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476]
    private var buffer = BlockBuffer(blockBytes: blockBytes)

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var words = state
        buffer.take(bytes) { Self.compress($0, count: $1, into: &words) }
        state = words
    }

    func finish() -> [UInt8] {
        var words = state
        // RFC 1321, section 3.2: the length is stored with its least significant byte first.
        buffer.takeEnd(lengthField: (buffer.totalBytes &<< 3).littleEndianBytes) {
            Self.compress($0, count: $1, into: &words)
        }
        return words.indices.flatMap { words[$0].littleEndianBytes }
    }

    private static func compress(_ blocks: UnsafeRawPointer, count: Int, into state: inout SIMD4<UInt32>) {
        constants.withUnsafeBufferPointer { constants in
            guard let k = constants.baseAddress else { return }
            for number in 0..<count {
                let block = blocks + number &* blockBytes
                var (a, b, c, d) = (state[0], state[1], state[2], state[3])
                var step = 0
                while step < 64 {
                    let mixed: UInt32
                    let index: Int
                    switch step &>> 4 {
                    case 0: (mixed, index) = (d ^ (b & (c ^ d)), step)
                    case 1: (mixed, index) = (c ^ (d & (b ^ c)), 5 &* step &+ 1)
                    case 2: (mixed, index) = (b ^ c ^ d, 3 &* step &+ 5)
                    default: (mixed, index) = (c ^ (b | ~d), 7 &* step)
                    }
                    let word = UInt32(littleEndian: (block + (index & 15) &* 4).loadUnaligned(as: UInt32.self))
                    let sum = a &+ mixed &+ k[step] &+ word
                    let shift = shift(of: step)
                    (a, d, c, b) = (d, c, b, b &+ ((sum &<< shift) | (sum &>> (32 &- shift))))
                    step &+= 1
                }
                state = state &+ [a, b, c, d]
            }
        }
    }

    /// Returns the number of bits by which a step rotates.
    ///
    /// Each round of 16 steps repeats four shifts (RFC 1321, section 3.4). A constant contains the four shifts of a
    /// round, the first in its lowest byte.
    private static func shift(of step: Int) -> UInt32 {
        let turns: UInt32 =
            switch step &>> 4 {
            case 0: 0x1611_0c07
            case 1: 0x140e_0905
            case 2: 0x1710_0b04
            default: 0x150f_0a06
            }
        return (turns &>> UInt32(truncatingIfNeeded: (step & 3) &* 8)) & 0xff
    }

    /// 2^32 times the absolute sine of each number from 1 to 64, rounded down (RFC 1321, section 3.4).
    private static let constants: [UInt32] = [
        0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
        0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
        0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
        0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
        0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
        0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
        0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
        0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
    ]
}
