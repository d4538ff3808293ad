import Foundation

/// Counts and digests all bytes, and stores the first `limitBytes` bytes.
struct BodyRecorder {
    static let emptyDigest: UInt64 = 0xCBF2_9CE4_8422_2325
    static let prime: UInt64 = 0x0000_0100_0000_01B3

    let limitBytes: Int
    private(set) var kept = Data()
    private(set) var byteCount: Int64 = 0
    private(set) var digest = emptyDigest
    var trailerFields: [(name: String, value: String)] = []

    init(limitBytes: Int) { self.limitBytes = limitBytes }

    mutating func append(_ bytes: ArraySlice<UInt8>) {
        byteCount += Int64(bytes.count)
        digest = bytes.withUnsafeBufferPointer { [digest] bytes in
            // The loop uses an index, because an iterator or a closure for each byte takes seconds in a debug build.
            var (digest, index) = (digest, 0)
            while index < bytes.count {
                digest = (digest ^ UInt64(bytes[index])) &* Self.prime
                index += 1
            }
            return digest
        }
        let room = limitBytes - kept.count
        if room > 0 { kept.append(contentsOf: bytes.prefix(room)) }
    }
}
