// The compression of SHA-256: FIPS 180-4, section 6.2.2.

extension SHA256 {
    /// Takes whole blocks.
    ///
    /// The schedule lives in sixteen variables that are renamed instead of moved, and is extended between the rounds: a
    /// schedule in memory costs a sixth of the speed.
    static func compress(_ blocks: UnsafeRawPointer, count: Int, into state: inout SIMD8<UInt32>) {
        constants.withUnsafeBufferPointer { constants in
            // The address: a buffer pointer checks each access in a debug build.
            guard let k = constants.baseAddress else { return }
            for number in 0..<count {
                let block = blocks + number &* blockBytes
                var w0 = word(block)
                var w1 = word(block + 4)
                var w2 = word(block + 8)
                var w3 = word(block + 12)
                var w4 = word(block + 16)
                var w5 = word(block + 20)
                var w6 = word(block + 24)
                var w7 = word(block + 28)
                var w8 = word(block + 32)
                var w9 = word(block + 36)
                var w10 = word(block + 40)
                var w11 = word(block + 44)
                var w12 = word(block + 48)
                var w13 = word(block + 52)
                var w14 = word(block + 56)
                var w15 = word(block + 60)
                var (a, b, c, d) = (state[0], state[1], state[2], state[3])
                var (e, f, g, h) = (state[4], state[5], state[6], state[7])
                var differing = b ^ c
                var index = 0
                while true {
                    round(a, b, &d, e, f, g, &h, &differing, w0 &+ k[index])
                    round(h, a, &c, d, e, f, &g, &differing, w1 &+ k[index &+ 1])
                    round(g, h, &b, c, d, e, &f, &differing, w2 &+ k[index &+ 2])
                    round(f, g, &a, b, c, d, &e, &differing, w3 &+ k[index &+ 3])
                    round(e, f, &h, a, b, c, &d, &differing, w4 &+ k[index &+ 4])
                    round(d, e, &g, h, a, b, &c, &differing, w5 &+ k[index &+ 5])
                    round(c, d, &f, g, h, a, &b, &differing, w6 &+ k[index &+ 6])
                    round(b, c, &e, f, g, h, &a, &differing, w7 &+ k[index &+ 7])
                    round(a, b, &d, e, f, g, &h, &differing, w8 &+ k[index &+ 8])
                    round(h, a, &c, d, e, f, &g, &differing, w9 &+ k[index &+ 9])
                    round(g, h, &b, c, d, e, &f, &differing, w10 &+ k[index &+ 10])
                    round(f, g, &a, b, c, d, &e, &differing, w11 &+ k[index &+ 11])
                    round(e, f, &h, a, b, c, &d, &differing, w12 &+ k[index &+ 12])
                    round(d, e, &g, h, a, b, &c, &differing, w13 &+ k[index &+ 13])
                    round(c, d, &f, g, h, a, &b, &differing, w14 &+ k[index &+ 14])
                    round(b, c, &e, f, g, h, &a, &differing, w15 &+ k[index &+ 15])
                    index &+= 16
                    if index == 64 { break }
                    extend(&w0, w1, w9, w14)
                    extend(&w1, w2, w10, w15)
                    extend(&w2, w3, w11, w0)
                    extend(&w3, w4, w12, w1)
                    extend(&w4, w5, w13, w2)
                    extend(&w5, w6, w14, w3)
                    extend(&w6, w7, w15, w4)
                    extend(&w7, w8, w0, w5)
                    extend(&w8, w9, w1, w6)
                    extend(&w9, w10, w2, w7)
                    extend(&w10, w11, w3, w8)
                    extend(&w11, w12, w4, w9)
                    extend(&w12, w13, w5, w10)
                    extend(&w13, w14, w6, w11)
                    extend(&w14, w15, w7, w12)
                    extend(&w15, w0, w8, w13)
                }
                state = state &+ SIMD8(a, b, c, d, e, f, g, h)
            }
        }
    }

    /// One round: section 6.2.2, step 3.
    ///
    /// - Parameter differing: `b ^ c`, which is the `a ^ b` of the round before; it makes the majority cheaper.
    @inline(__always)
    private static func round(
        _ a: UInt32, _ b: UInt32, _ d: inout UInt32, _ e: UInt32, _ f: UInt32, _ g: UInt32, _ h: inout UInt32,
        _ differing: inout UInt32, _ word: UInt32
    ) {
        h = h &+ (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) &+ (g ^ (e & (f ^ g))) &+ word
        d = d &+ h
        let next = a ^ b
        h = h &+ (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) &+ (b ^ (next & differing))
        differing = next
    }

    /// The word of the schedule sixteen further on: section 6.2.2, step 1.
    @inline(__always)
    private static func extend(_ word: inout UInt32, _ second: UInt32, _ tenth: UInt32, _ fifteenth: UInt32) {
        let sigma0 = rotate(second, 7) ^ rotate(second, 18) ^ (second &>> 3)
        let sigma1 = rotate(fifteenth, 17) ^ rotate(fifteenth, 19) ^ (fifteenth &>> 10)
        word = word &+ sigma0 &+ tenth &+ sigma1
    }

    // Not generic over the integers: a debug build would call through witness tables, twenty times slower.
    @inline(__always)
    private static func rotate(_ value: UInt32, _ count: UInt32) -> UInt32 {
        (value &>> count) | (value &<< (32 &- count))
    }

    @inline(__always)
    private static func word(_ address: UnsafeRawPointer) -> UInt32 {
        UInt32(bigEndian: address.loadUnaligned(as: UInt32.self))
    }

    /// Section 4.2.2.
    private static let constants: [UInt32] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
        0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
        0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
        0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
        0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
        0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
        0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ]
}
