import Foundation
import Testing

@testable import ConvoyTesting

@Suite struct DescriptorTests {
    @Test func signalWakesTheWait() throws {
        let pair = try #require(Descriptor.wakePair())
        #expect(pair.reading.waitForInput(milliseconds: 0, or: nil) == .timedOut)
        pair.writing.signal()
        #expect(pair.reading.waitForInput(milliseconds: 60_000, or: nil) == .woken)
    }

    /// Simulates a gate that opens when the connection no longer waits and has closed the reading end.
    @Test func signalToAClosedEndDoesNotEndTheProcess() async {
        await #expect(processExitsWith: .success) {
            let pair = try #require(Descriptor.wakePair())
            pair.reading.close()
            pair.writing.signal()
        }
    }
}
