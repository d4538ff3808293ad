import Foundation
import Testing

@testable import Convoy

@Suite struct OperationStateTests {
    #if canImport(Glibc)
        /// Many operations may be queued.
        ///
        /// The numbers are those of 64-bit Linux, with the allocator's rounding. The allocator may return a larger block
        /// that it reuses, so the smallest of several blocks counts.
        @Test func aQueuedOperationIsSmall() throws {
            let symbol = try #require(dlsym(nil, "malloc_usable_size"))
            let usableSize = unsafeBitCast(symbol, to: (@convention(c) (UnsafeMutableRawPointer) -> Int).self)
            func byteCount(_ make: () -> AnyObject) -> Int {
                let objects = (0..<50).map { _ in make() }
                return objects.map { usableSize(Unmanaged.passUnretained($0).toOpaque()) }.min() ?? 0
            }
            let operation = RequestOperation(Request<Data>.get("http://stub/"))
            #expect(byteCount { RequestOperation(Request<Data>.get("http://stub/")) } <= 200)
            #expect(byteCount { QueueEntry(operation) } <= 152)
            #expect(byteCount { TypedRequestPlan(Request<Data>.get("http://stub/")) } <= 56)
            // With the object's header and the mutex, 264 bytes.
            #expect(MemoryLayout<OperationState>.size <= 208)
            #expect(MemoryLayout<RequestCore>.size <= 64)
        }
    #endif
}
