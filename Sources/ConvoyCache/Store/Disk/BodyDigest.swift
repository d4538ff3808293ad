import Foundation

// Detects damage and costs less than reading the file. It does not detect forged files, which only the owner of the
// directory could write.
struct BodyDigest: Sendable {
    private static let p1: UInt64 = 0x9E37_79B1_85EB_CA87
    private static let p2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
    private static let p3: UInt64 = 0x1656_67B1_9E37_79F9
    private static let p4: UInt64 = 0x85EB_CA77_C2B2_AE63
    private static let p5: UInt64 = 0x27D4_EB2F_1656_67C5

    private var lanes = SIMD4<UInt64>(p1 &+ p2, p2, 0, 0 &- p1)
    private var count: UInt64 = 0
    private var rest: [UInt8] = []

    init() {}

    static func of(_ data: Data) -> Int64 { data.withUnsafeBytes { of($0) } }

    static func of(_ bytes: UnsafeRawBufferPointer) -> Int64 {
        var digest = BodyDigest()
        digest.update(bytes)
        return digest.value
    }

    /// The chunk sizes do not affect the digest.
    mutating func update(_ data: Data) { data.withUnsafeBytes { update($0) } }

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        count &+= UInt64(bytes.count)
        var index = 0
        if !rest.isEmpty {
            index = min(32 - rest.count, bytes.count)
            rest.append(contentsOf: bytes[..<index])
            guard rest.count == 32 else { return }
            _ = rest.withUnsafeBytes { consume($0, from: 0) }
            rest.removeAll(keepingCapacity: true)
        }
        index = consume(bytes, from: index)
        rest.append(contentsOf: bytes[index...])
    }

    /// Returns the index after the last complete block.
    private mutating func consume(_ bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        // The loop uses scalar variables, because many CPUs have no fast 64-bit multiplication of vector lanes.
        var (index, a, b, c, d) = (start, lanes[0], lanes[1], lanes[2], lanes[3])
        while bytes.count - index >= 32 {
            a = Self.round(a, Self.word(bytes, index))
            b = Self.round(b, Self.word(bytes, index + 8))
            c = Self.round(c, Self.word(bytes, index + 16))
            d = Self.round(d, Self.word(bytes, index + 24))
            index += 32
        }
        lanes = SIMD4(a, b, c, d)
        return index
    }

    @inline(__always)
    private static func word(_ bytes: UnsafeRawBufferPointer, _ index: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
    }

    private static func round(_ accumulator: UInt64, _ word: UInt64) -> UInt64 {
        rotate(accumulator &+ word &* p2, 31) &* p1
    }

    private static func rotate(_ value: UInt64, _ count: UInt64) -> UInt64 {
        value &<< count | value &>> (64 &- count)
    }

    var value: Int64 {
        var hash: UInt64
        if count >= 32 {
            hash =
                Self.rotate(lanes[0], 1) &+ Self.rotate(lanes[1], 7) &+ Self.rotate(lanes[2], 12)
                &+ Self.rotate(lanes[3], 18)
            for lane in 0..<4 { hash = (hash ^ Self.round(0, lanes[lane])) &* Self.p1 &+ Self.p4 }
        } else {
            hash = Self.p5
        }
        hash &+= count
        var index = 0
        while rest.count - index >= 8 {
            let word = (0..<8).reduce(UInt64(0)) { $0 | UInt64(rest[index + $1]) << UInt64(8 * $1) }
            hash = Self.rotate(hash ^ Self.round(0, word), 27) &* Self.p1 &+ Self.p4
            index += 8
        }
        if rest.count - index >= 4 {
            let word = (0..<4).reduce(UInt64(0)) { $0 | UInt64(rest[index + $1]) << UInt64(8 * $1) }
            hash = Self.rotate(hash ^ word &* Self.p1, 23) &* Self.p2 &+ Self.p3
            index += 4
        }
        for byte in rest[index...] { hash = Self.rotate(hash ^ UInt64(byte) &* Self.p5, 11) &* Self.p1 }
        hash = (hash ^ hash &>> 33) &* Self.p2
        hash = (hash ^ hash &>> 29) &* Self.p3
        return Int64(bitPattern: hash ^ hash &>> 32)
    }
}
