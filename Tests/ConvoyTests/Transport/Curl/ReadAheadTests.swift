#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct ReadAheadTests {
        /// Reads a body to its end or its failure.
        private final class Taker {
            private(set) var data = Data()
            /// The number of bytes of each read.
            private(set) var counts: [Int] = []
            private(set) var failure: RequestError?
            private let ready = EventLog<Void>()
            private let source: ReadAhead
            private var waits = 0

            init(_ body: RequestBody) { source = ReadAhead(body) { [ready] in ready.record(()) } }

            /// Reads into a buffer of this size; returns whether more may follow.
            func take(_ size: Int) async -> Bool {
                var bytes = [UInt8](repeating: 0, count: size)
                while true {
                    switch bytes.withUnsafeMutableBytes({ source.take(into: $0) }) {
                    case .bytes(let count):
                        data.append(contentsOf: bytes[..<count])
                        counts.append(count)
                        return count > 0
                    case .failed(let error):
                        failure = error
                        return false
                    case .wait:
                        waits += 1
                        await ready.wait(count: waits)
                    }
                }
            }
        }

        private static let bytes = Data.patterned(3_000_000)

        private func sequence(_ data: Data, size: Int, asked: EventLog<Int>) -> RequestBody {
            .stream(.sequence(Chunks.of(data, size: size, asked: asked), byteCount: nil, canRepeat: false))
        }

        /// Small chunks are joined, because each single read would need a thread change and a system call.
        @Test func smallChunksAreJoined() async {
            let asked = EventLog<Int>()
            let data = Self.bytes.prefix(200_000)
            let taker = Taker(sequence(data, size: 100, asked: asked))
            // This number of chunks fills the buffer; one of them is empty.
            await asked.wait(count: (64 << 10) / 100 + 2)
            while await taker.take(10_000) {}
            #expect(taker.failure == nil)
            #expect(taker.data == data)
            #expect(asked.count == 2_002)
            #expect(taker.counts.first == 10_000)
        }

        @Test func largeChunksAreReadAFewAhead() async {
            let asked = EventLog<Int>()
            let taker = Taker(sequence(Self.bytes, size: 100_000, asked: asked))
            await asked.wait(count: 5)
            #expect(asked.count == 5)
            while await taker.take(64 << 10) {}
            #expect(taker.data == Self.bytes)
            #expect(asked.count == 32)
        }

        /// A read without waiting returns only bytes that are in memory.
        @Test func readerOfAFileDoesNotWait() throws {
            let directory = try TemporaryDirectory()
            let file = directory.file("body")
            try Self.bytes.write(to: file)
            let reader = FileReader(file, byteCount: Int64(Self.bytes.count))
            var bytes = [UInt8](repeating: 0, count: 1_000)
            func read(_ isWaiting: Bool) -> Result<Int, RequestError>? {
                bytes.withUnsafeMutableBytes {
                    isWaiting ? reader.read(into: $0) : reader.readWithoutWaiting(into: $0)
                }
            }
            // Opening the file may block, so the call without waiting returns nil.
            #expect(read(false) == nil)
            #expect(try read(true)?.get() == 1_000)
            // The result is nil if the file system does not support such reads.
            if let count = try read(false)?.get() {
                #expect(Self.bytes[1_000..<1_000 + count] == Data(bytes[..<count]))
            }
            try #require(truncate(file.path, 0) == 0)
            #expect(read(false) == nil)
            #expect(throws: RequestError.self) { try read(true)?.get() }
        }
    }
#endif
