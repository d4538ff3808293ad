// The hash functions of FIPS 180-4 in Swift, for short messages and for systems without their own.
import Foundation

/// SHA-256 (FIPS 180-4, section 6.2).
struct SHA256: HashFunction {
    private static let blockBytes = 64
    // The initial state (FIPS 180-4, section 5.3.3).
    private var state: SIMD8<UInt32> = [
        0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
    ]
    private var buffer = BlockBuffer(blockBytes: blockBytes)

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var words = state
        buffer.take(bytes) { Self.compress($0, count: $1, into: &words) }
        state = words
    }

    func finish() -> [UInt8] {
        var words = state
        // FIPS 180-4, section 5.1.1: the length has 64 bits.
        buffer.takeEnd(lengthField: (buffer.totalBytes &<< 3).bigEndianBytes) {
            Self.compress($0, count: $1, into: &words)
        }
        return words.indices.flatMap { words[$0].bigEndianBytes }
    }

    /// Processes complete blocks (FIPS 180-4, section 6.2.2).
    private static func compress(_ blocks: UnsafeRawPointer, count: Int, into state: inout SIMD8<UInt32>) {
        // This code is not generic, because a debug build would call through witness tables and be twenty times slower.
        func rotate(_ value: UInt32, _ count: UInt32) -> UInt32 { value &>> count | value &<< (32 &- count) }
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { w in
            guard let w = w.baseAddress else { return }
            for block in 0..<count {
                for t in 0..<64 {
                    guard t >= 16 else {
                        let word = (blocks + block &* blockBytes + t &* 4).loadUnaligned(as: UInt32.self)
                        w[t] = UInt32(bigEndian: word)
                        continue
                    }
                    let (x, y) = (w[t &- 15], w[t &- 2])
                    w[t] =
                        w[t &- 16] &+ (rotate(x, 7) ^ rotate(x, 18) ^ x &>> 3)
                        &+ w[t &- 7] &+ (rotate(y, 17) ^ rotate(y, 19) ^ y &>> 10)
                }
                var (a, b, c, d) = (state[0], state[1], state[2], state[3])
                var (e, f, g, h) = (state[4], state[5], state[6], state[7])
                for t in 0..<64 {
                    // FIPS 180-4, section 4.2.2: the constants are the upper halves of those of SHA-512.
                    let constant = UInt32(truncatingIfNeeded: sha2Constants[t] &>> 32)
                    let first =
                        h &+ (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) &+ (g ^ e & (f ^ g)) &+ constant &+ w[t]
                    let second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) &+ (a & b ^ a & c ^ b & c)
                    (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
                }
                state = state &+ [a, b, c, d, e, f, g, h]
            }
        }
    }
}

/// SHA-512 (FIPS 180-4, section 6.4).
struct SHA512: HashFunction {
    private static let blockBytes = 128
    private var state: SIMD8<UInt64>
    private var buffer = BlockBuffer(blockBytes: blockBytes)

    init() {
        // The initial state (FIPS 180-4, section 5.3.5).
        self.init(initialState: [
            0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1,
            0x510e_527f_ade6_82d1, 0x9b05_688c_2b3e_6c1f, 0x1f83_d9ab_fb41_bd6b, 0x5be0_cd19_137e_2179,
        ])
    }

    init(initialState: SIMD8<UInt64>) { state = initialState }

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var words = state
        buffer.take(bytes) { Self.compress($0, count: $1, into: &words) }
        state = words
    }

    func finish() -> [UInt8] {
        var words = state
        // FIPS 180-4, section 5.1.2: the length has 128 bits.
        let length = (buffer.totalBytes &>> 61).bigEndianBytes + (buffer.totalBytes &<< 3).bigEndianBytes
        buffer.takeEnd(lengthField: length) { Self.compress($0, count: $1, into: &words) }
        return words.indices.flatMap { words[$0].bigEndianBytes }
    }

    /// Processes complete blocks (FIPS 180-4, section 6.4.2).
    private static func compress(_ blocks: UnsafeRawPointer, count: Int, into state: inout SIMD8<UInt64>) {
        func rotate(_ value: UInt64, _ count: UInt64) -> UInt64 { value &>> count | value &<< (64 &- count) }
        withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 80) { w in
            guard let w = w.baseAddress else { return }
            for block in 0..<count {
                for t in 0..<80 {
                    guard t >= 16 else {
                        let word = (blocks + block &* blockBytes + t &* 8).loadUnaligned(as: UInt64.self)
                        w[t] = UInt64(bigEndian: word)
                        continue
                    }
                    let (x, y) = (w[t &- 15], w[t &- 2])
                    w[t] =
                        w[t &- 16] &+ (rotate(x, 1) ^ rotate(x, 8) ^ x &>> 7)
                        &+ w[t &- 7] &+ (rotate(y, 19) ^ rotate(y, 61) ^ y &>> 6)
                }
                var (a, b, c, d) = (state[0], state[1], state[2], state[3])
                var (e, f, g, h) = (state[4], state[5], state[6], state[7])
                for t in 0..<80 {
                    let first =
                        h &+ (rotate(e, 14) ^ rotate(e, 18) ^ rotate(e, 41)) &+ (g ^ e & (f ^ g))
                        &+ sha2Constants[t] &+ w[t]
                    let second = (rotate(a, 28) ^ rotate(a, 34) ^ rotate(a, 39)) &+ (a & b ^ a & c ^ b & c)
                    (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
                }
                state = state &+ [a, b, c, d, e, f, g, h]
            }
        }
    }
}

/// SHA-512/256: SHA-512 with another initial state and the first half of its digest (FIPS 180-4, section 6.7).
struct SHA512Truncated256: HashFunction {
    // The initial state (FIPS 180-4, section 5.3.6.2).
    private var whole = SHA512(initialState: [
        0x2231_2194_fc2b_f72c, 0x9f55_5fa3_c84c_64c2, 0x2393_b86b_6f53_b151, 0x9638_7719_5940_eabd,
        0x9628_3ee2_a88e_ffe3, 0xbe5e_1e25_5386_3992, 0x2b01_99fc_2c85_b8aa, 0x0eb7_2ddc_81c5_2ca2,
    ])

    mutating func update(_ bytes: UnsafeRawBufferPointer) { whole.update(bytes) }

    func finish() -> [UInt8] { Array(whole.finish().prefix(32)) }
}

/// The constants of SHA-512 (FIPS 180-4, section 4.2.3).
private let sha2Constants: [UInt64] = [
    0x428a_2f98_d728_ae22, 0x7137_4491_23ef_65cd, 0xb5c0_fbcf_ec4d_3b2f, 0xe9b5_dba5_8189_dbbc,
    0x3956_c25b_f348_b538, 0x59f1_11f1_b605_d019, 0x923f_82a4_af19_4f9b, 0xab1c_5ed5_da6d_8118,
    0xd807_aa98_a303_0242, 0x1283_5b01_4570_6fbe, 0x2431_85be_4ee4_b28c, 0x550c_7dc3_d5ff_b4e2,
    0x72be_5d74_f27b_896f, 0x80de_b1fe_3b16_96b1, 0x9bdc_06a7_25c7_1235, 0xc19b_f174_cf69_2694,
    0xe49b_69c1_9ef1_4ad2, 0xefbe_4786_384f_25e3, 0x0fc1_9dc6_8b8c_d5b5, 0x240c_a1cc_77ac_9c65,
    0x2de9_2c6f_592b_0275, 0x4a74_84aa_6ea6_e483, 0x5cb0_a9dc_bd41_fbd4, 0x76f9_88da_8311_53b5,
    0x983e_5152_ee66_dfab, 0xa831_c66d_2db4_3210, 0xb003_27c8_98fb_213f, 0xbf59_7fc7_beef_0ee4,
    0xc6e0_0bf3_3da8_8fc2, 0xd5a7_9147_930a_a725, 0x06ca_6351_e003_826f, 0x1429_2967_0a0e_6e70,
    0x27b7_0a85_46d2_2ffc, 0x2e1b_2138_5c26_c926, 0x4d2c_6dfc_5ac4_2aed, 0x5338_0d13_9d95_b3df,
    0x650a_7354_8baf_63de, 0x766a_0abb_3c77_b2a8, 0x81c2_c92e_47ed_aee6, 0x9272_2c85_1482_353b,
    0xa2bf_e8a1_4cf1_0364, 0xa81a_664b_bc42_3001, 0xc24b_8b70_d0f8_9791, 0xc76c_51a3_0654_be30,
    0xd192_e819_d6ef_5218, 0xd699_0624_5565_a910, 0xf40e_3585_5771_202a, 0x106a_a070_32bb_d1b8,
    0x19a4_c116_b8d2_d0c8, 0x1e37_6c08_5141_ab53, 0x2748_774c_df8e_eb99, 0x34b0_bcb5_e19b_48a8,
    0x391c_0cb3_c5c9_5a63, 0x4ed8_aa4a_e341_8acb, 0x5b9c_ca4f_7763_e373, 0x682e_6ff3_d6b2_b8a3,
    0x748f_82ee_5def_b2fc, 0x78a5_636f_4317_2f60, 0x84c8_7814_a1f0_ab72, 0x8cc7_0208_1a64_39ec,
    0x90be_fffa_2363_1e28, 0xa450_6ceb_de82_bde9, 0xbef9_a3f7_b2c6_7915, 0xc671_78f2_e372_532b,
    0xca27_3ece_ea26_619c, 0xd186_b8c7_21c0_c207, 0xeada_7dd6_cde0_eb1e, 0xf57d_4f7f_ee6e_d178,
    0x06f0_67aa_7217_6fba, 0x0a63_7dc5_a2c8_98a6, 0x113f_9804_bef9_0dae, 0x1b71_0b35_131c_471b,
    0x28db_77f5_2304_7d84, 0x32ca_ab7b_40c7_2493, 0x3c9e_be0a_15c9_bebc, 0x431d_67c4_9c10_0d4c,
    0x4cc5_d4be_cb3e_42b6, 0x597f_299c_fc65_7e2a, 0x5fcb_6fab_3ad6_faec, 0x6c44_198c_4a47_5817,
]

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

/// A hash function that receives chunks.
///
/// A function of the system may fail; Convoy's own code does not.
protocol FileHash {
    /// Adds bytes.
    ///
    /// The division of the bytes into chunks makes no difference.
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// The digest of all bytes so far.
    ///
    /// More bytes may be added afterwards, but not after an error.
    func finish() throws(HashFailure) -> [UInt8]
}

/// The system's library could not compute a digest: memory was exhausted, or an OpenSSL provider failed.
struct HashFailure: Error {}

/// A hash function in Convoy's own code, which does not fail.
///
/// A copy is independent of the original.
protocol HashFunction: FileHash, Sendable {
    init()
    func finish() -> [UInt8]
}

extension HashFunction {
    mutating func update(_ bytes: some ContiguousBytes) {
        bytes.withUnsafeBytes { update($0) }
    }

    static func digest(of bytes: some ContiguousBytes) -> [UInt8] {
        var hash = Self()
        hash.update(bytes)
        return hash.finish()
    }
}

extension Sequence<UInt8> {
    /// The bytes as two lower-case hexadecimal digits each.
    var hexadecimal: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

extension FixedWidthInteger {
    /// The bytes, most significant first.
    var bigEndianBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
    /// The bytes, least significant first.
    var littleEndianBytes: [UInt8] { withUnsafeBytes(of: littleEndian) { Array($0) } }
}

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
