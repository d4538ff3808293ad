#if canImport(CLibcurl)
    import Foundation
    import Testing

    @testable import Convoy

    @Suite(.timeLimit(.minutes(5))) struct ReadAheadTests {
        private static let bytes = Data.patterned(3_000_000)

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
