import Foundation
import Testing

@testable import Convoy

/// Tests which parts and records a download reads when it begins or continues.
@Suite struct DownloadTests {
    private let directory: TemporaryDirectory
    private static let version = FileVersion(FileVersion.seeded(1, byteCount: 300_000))

    init() throws { directory = try TemporaryDirectory() }

    private func leavePart(_ plan: DownloadPlan, redirectingTo location: String? = nil) async throws {
        let server = StubServer { exchange in
            if let location, exchange.request.url.path == "/file" {
                return exchange.answer(302, headerFields: ["Location": location])
            }
            Self.version.answer(exchange, sending: 100_000, thenFailing: .cut)
        }
        let sending = Sending(Request.stub("file").saved(plan), over: server.transport)
        #expect(try await sending.error().code == .connectionLost)
    }

    /// Begins an attempt; returns the number of stored bytes that the attempt continues.
    private func begin(_ download: Download, _ name: String) async throws -> Int64? {
        let request = try PreparedRequest(Request.stub(name).core, baseURL: nil)
        let beginning = await withCheckedContinuation { continuation in
            download.begin(request, asksForWhole: false) { continuation.resume(returning: $0) }
        }
        guard case .send(_, let point) = try beginning.get() else { return nil }
        return point?.byteCount
    }

    /// A download that has released its part opens the part again after a redirect.
    @Test(arguments: [true, false]) func aReleasedPartIsFoundAfterARedirect(isNamedByServer: Bool) async throws {
        let target: DownloadPlan.Target =
            isNamedByServer ? .directory(directory.url) : .file(directory.file("target"))
        try await leavePart(DownloadPlan(target: target), redirectingTo: "/elsewhere")
        let names = try directory.entries
        #expect(names.count == 2)
        let download = Download(DownloadPlan(target: target))
        // The range belongs to the redirect's target, so the redirecting URL gets no range request.
        #expect(try await begin(download, "file") == nil)
        await withCheckedContinuation { continuation in download.release { continuation.resume() } }
        #expect(try await begin(download, "elsewhere") == 100_000)
        await withCheckedContinuation { continuation in download.close { continuation.resume() } }
        #expect(try directory.entries == names)
    }

    @Test func partWhoseRecordCannotBeReadStays() async throws {
        let plan = DownloadPlan(target: .file(directory.file("target")))
        try await leavePart(plan)
        // A directory can be opened but not read.
        let record = directory.file(".target.convoy-resume")
        try FileManager.default.removeItem(at: record)
        try FileManager.default.createDirectory(at: record, withIntermediateDirectories: false)
        let server = StubServer { Self.version.answer($0) }
        let error = try await Sending(Request.stub("file").saved(plan), over: server.transport).error()
        #expect(error.code == .destinationUnwritable)
        #expect(server.exchanges.count == 0)
        let part = try Data(contentsOf: directory.file(".target.convoy-part"))
        #expect(part == Self.version.content.prefix(100_000))
    }
}
