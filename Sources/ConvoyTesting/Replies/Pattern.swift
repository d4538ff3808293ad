import Foundation

/// A lost, duplicated or misplaced block of any size changes the content: bytes 8*k* to 8*k*+7 are SplitMix64's output
/// for *k*.
enum Pattern {
    static func word(_ index: UInt64) -> UInt64 {
        var word = (index &+ 1) &* 0x9E37_79B9_7F4A_7C15
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }

    static func byte(at offset: Int64) -> UInt8 {
        let offset = UInt64(bitPattern: offset)
        return UInt8(truncatingIfNeeded: word(offset / 8) >> (offset % 8 * 8))
    }

    static func append(_ range: Range<Int64>, to bytes: inout [UInt8]) {
        guard !range.isEmpty else { return }
        // The loop writes 64-bit words, because single bytes would take seconds in a debug build.
        let first = UInt64(bitPattern: range.lowerBound) / 8
        let last = UInt64(bitPattern: range.upperBound - 1) / 8
        let words = [UInt64](unsafeUninitializedCapacity: Int(last - first) + 1) { words, count in
            while first + UInt64(count) <= last {
                words[count] = word(first + UInt64(count)).littleEndian
                count += 1
            }
        }
        words.withUnsafeBytes { words in
            let start = Int(range.lowerBound % 8)
            bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: words[start..<start + range.count]))
        }
    }
}

extension Reply {
    /// The byte of a generated body at an offset, so that a test can check received bytes.
    ///
    /// - Parameter offset: from the start of the complete resource, 0 or more.
    /// - Thread: any.
    /// - Complexity: O(1).
    public static func patternByte(at offset: Int64) -> UInt8 { Pattern.byte(at: offset) }

    /// The bytes of a generated body in a range of offsets.
    ///
    /// - Parameter range: offsets from the start of the complete resource; negative ones are ignored.
    /// - Thread: any.
    /// - Complexity: O(*n*) in time and memory for *n* bytes; read a large body in portions.
    public static func pattern(range: Range<Int64>) -> Data {
        var bytes: [UInt8] = []
        Pattern.append(range.clamped(to: 0..<Int64.max), to: &bytes)
        return Data(bytes)
    }
}
