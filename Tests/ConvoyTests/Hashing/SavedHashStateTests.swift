// Digests that are put aside and picked up again.
import Foundation
import Testing

@testable import Convoy

struct SavedHashStateTests {
    static let functions: [any ResumableHashFunction.Type] = [SHA256.self, SHA512.self]
    private let message = (0..<300).map { UInt8(truncatingIfNeeded: $0 * 11 + 5) }

    private func saved<Function: ResumableHashFunction>(_ function: Function.Type, after count: Int) -> Data {
        var hash = Function()
        hash.update(message[..<count])
        return hash.savedState
    }

    @Test(arguments: functions.indices)
    func savedStateGoesOnWhereItWas(index: Int) throws {
        func check<Function: ResumableHashFunction>(_ function: Function.Type) throws {
            for cut in 0...message.count {
                var resumed = try #require(Function(savedState: saved(function, after: cut)))
                resumed.update(message[cut...])
                #expect(resumed.finish() == Function.digest(of: message), "cut at \(cut)")
            }
        }
        try check(Self.functions[index])
    }

    @Test(arguments: functions.indices)
    func savedStateIsShort(index: Int) {
        #expect((0...300).allSatisfy { saved(Self.functions[index], after: $0).count <= 300 })
    }

    @Test(arguments: functions.indices)
    func damagedStateIsRefused(index: Int) {
        let function = Self.functions[index]
        let good = saved(function, after: 77)
        for position in good.indices {
            for bit in 0..<8 {
                var bad = good
                bad[position] ^= 1 << bit
                #expect(function.init(savedState: bad) == nil, "bit \(bit) of byte \(position)")
            }
        }
    }

    @Test(arguments: functions.indices)
    func shortenedAndLengthenedStateIsRefused(index: Int) {
        let function = Self.functions[index]
        let good = saved(function, after: 77)
        for count in good.indices { #expect(function.init(savedState: good.prefix(count)) == nil) }
        #expect(function.init(savedState: good + [0]) == nil)
        // A slice does not begin at 0.
        #expect(function.init(savedState: ([0] + good).dropFirst()) != nil)
    }

    @Test func stateOfAnotherFunctionIsRefused() {
        #expect(SHA256(savedState: SHA512().savedState) == nil)
        #expect(SHA512(savedState: SHA256().savedState) == nil)
    }

    /// What somebody has put together with the right sum, and does not hang together.
    @Test(arguments: [UInt64.max, 1 << 61, 65, 63])
    func impossibleCountIsRefused(totalBytes: UInt64) {
        func state(_ totalBytes: UInt64) -> Data {
            let bytes = SHA256().savedState.dropLast(16) + totalBytes.bigEndianBytes
            return bytes + SHA256.digest(of: bytes).prefix(8)
        }
        #expect(SHA256(savedState: state(64)) != nil)
        #expect(SHA256(savedState: state(totalBytes)) == nil)
    }

    @Test(arguments: functions.indices)
    func garbageIsRefused(index: Int) {
        var random = SeededGenerator(seed: 0x5EED)
        for _ in 0..<2_000 {
            let garbage = Data(
                (0..<Int.random(in: 0...320, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) })
            #expect(Self.functions[index].init(savedState: garbage) == nil)
        }
    }
}
