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

    /// A thread opens a gate while a connection stops waiting for it and closes its end.
    @Test func signalToAClosedEndDoesNotEndTheProcess() async {
        await #expect(processExitsWith: .success) {
            let pair = try #require(Descriptor.wakePair())
            pair.reading.close()
            pair.writing.signal()
        }
    }
}
