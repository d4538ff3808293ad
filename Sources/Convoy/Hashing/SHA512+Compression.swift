// The compression of SHA-512: FIPS 180-4, section 6.4.2.

extension SHA512 {
    /// Takes whole blocks.
    ///
    /// The schedule lives in sixteen variables that are renamed instead of moved, and is extended between the rounds: a
    /// schedule in memory costs a sixth of the speed.
    static func compress(_ blocks: UnsafeRawPointer, count: Int, into state: inout SIMD8<UInt64>) {
        constants.withUnsafeBufferPointer { constants in
            // The address: a buffer pointer checks each access in a debug build.
            guard let k = constants.baseAddress else { return }
            for number in 0..<count {
                let block = blocks + number &* blockBytes
                var w0 = word(block)
                var w1 = word(block + 8)
                var w2 = word(block + 16)
                var w3 = word(block + 24)
                var w4 = word(block + 32)
                var w5 = word(block + 40)
                var w6 = word(block + 48)
                var w7 = word(block + 56)
                var w8 = word(block + 64)
                var w9 = word(block + 72)
                var w10 = word(block + 80)
                var w11 = word(block + 88)
                var w12 = word(block + 96)
                var w13 = word(block + 104)
                var w14 = word(block + 112)
                var w15 = word(block + 120)
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
                    if index == 80 { break }
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

    /// One round: section 6.4.2, step 3.
    ///
    /// - Parameter differing: `b ^ c`, which is the `a ^ b` of the round before; it makes the majority cheaper.
    @inline(__always)
    private static func round(
        _ a: UInt64, _ b: UInt64, _ d: inout UInt64, _ e: UInt64, _ f: UInt64, _ g: UInt64, _ h: inout UInt64,
        _ differing: inout UInt64, _ word: UInt64
    ) {
        h = h &+ (rotate(e, 14) ^ rotate(e, 18) ^ rotate(e, 41)) &+ (g ^ (e & (f ^ g))) &+ word
        d = d &+ h
        let next = a ^ b
        h = h &+ (rotate(a, 28) ^ rotate(a, 34) ^ rotate(a, 39)) &+ (b ^ (next & differing))
        differing = next
    }

    /// The word of the schedule sixteen further on: section 6.4.2, step 1.
    @inline(__always)
    private static func extend(_ word: inout UInt64, _ second: UInt64, _ tenth: UInt64, _ fifteenth: UInt64) {
        let sigma0 = rotate(second, 1) ^ rotate(second, 8) ^ (second &>> 7)
        let sigma1 = rotate(fifteenth, 19) ^ rotate(fifteenth, 61) ^ (fifteenth &>> 6)
        word = word &+ sigma0 &+ tenth &+ sigma1
    }

    // Not generic over the integers: a debug build would call through witness tables, twenty times slower.
    @inline(__always)
    private static func rotate(_ value: UInt64, _ count: UInt64) -> UInt64 {
        (value &>> count) | (value &<< (64 &- count))
    }

    @inline(__always)
    private static func word(_ address: UnsafeRawPointer) -> UInt64 {
        UInt64(bigEndian: address.loadUnaligned(as: UInt64.self))
    }

    /// Section 4.2.3.
    private static let constants: [UInt64] = [
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
}
