import Foundation
import Testing

@testable import Convoy

@Suite struct SidecarFileTests {
    private let directory: TemporaryDirectory
    private var file: SidecarFile<ResumeRecord> { SidecarFile(path: directory.file("record").path) }

    init() throws { directory = try TemporaryDirectory() }

    @Test func aWrittenRecordIsReadUntilItIsRemoved() throws {
        let record = ResumeRecord(key: "k", validator: .entityTag("\"v\""), totalBytes: 1_000, boot: "b")
        #expect(try file.read() == nil)
        try file.write(record, synchronized: false)
        #expect(try file.read() == record)
        file.remove()
        #expect(try file.read() == nil)
    }

    #if os(Linux)
        /// The first page of `/proc/self/mem` is not mapped, so reading it fails with EIO.
        @Test func aReadErrorIsNotTheEndOfTheFile() throws {
            let error = #expect(throws: RequestError.self) {
                try SidecarFile<ResumeRecord>(path: "/proc/self/mem").read()
            }
            #expect((error?.underlying as? POSIXError)?.code == .EIO)
        }
    #endif
}
