import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests files as bodies and as parts of forms, and forms over the network.
@Suite(.timeLimit(.minutes(5))) struct FileBodyTests {
    /// The file is the body, or a part between fields of a form.
    enum Place: CaseIterable {
        case alone, inForm

        func put(_ file: URL, _ request: Request<Data>) -> Request<Data> {
            guard self == .inForm else { return request.body(fromFile: file) }
            var form = MultipartForm()
            form.append("before", name: "before")
            form.append(file: file, name: "file")
            form.append("behind", name: "behind")
            return request.multipart(form)
        }
    }

    // MARK: Forms

    @Test(arguments: ConformingTransport.all)
    func formArrivesWithItsLength(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue([.status(503), .status(307, headerFields: [("Location", "/there")]), .status(200)])
        let directory = try TemporaryDirectory()
        let contents = [0, 1, 65_536, 1_000_001].map { Data.patterned($0) }
        var form = MultipartForm()
        for (index, content) in contents.enumerated() {
            try content.write(to: directory.file("\(index).bin"))
            form.append("value \(index)", name: "field \(index)")
            form.append(file: directory.file("\(index).bin"), name: "file \(index)")
            form.append(content, name: "data \(index)")
            form.append(byteCount: Int64(content.count), name: "stream \(index)") { ScriptedInput(content) }
        }
        let expected = try form.rendered()
        let request = Request<Data>.put(server.url()).multipart(form)
            .retries(RetryPolicy(maxRetries: 1, baseDelay: .nanoseconds(1)))
        let response = try await Sending(request, over: subject.transport).response()
        #expect(response.transfer.upload.completedBytes == Int64(expected.count))
        for _ in 0..<3 {
            let seen = try await server.takeRequest()
            #expect(seen.values(of: "Content-Length") == ["\(expected.count)"])
            #expect(seen.value(of: "Transfer-Encoding") == nil && seen.value(of: "Expect") == nil)
            #expect(seen.body == expected)
            let type = try #require(seen.value(of: "Content-Type"))
            let parts = try FormParser.parse(seen.body, contentType: type)
            #expect(parts.filter { $0.name.hasPrefix("file") }.map(\.content) == contents)
            #expect(parts.count == 16)
        }
    }

    @Test(arguments: ConformingTransport.all)
    func emptyFormArrives(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200))
        let request = Request<Data>.post(server.url()).multipart(MultipartForm())
        _ = try await Sending(request, over: subject.transport).response()
        let seen = try await server.takeRequest()
        #expect(try FormParser.parse(seen.body, contentType: seen.value(of: "Content-Type") ?? "") == [])
    }

    // MARK: Files that cannot be sent

    /// A file that no user can read, not even root.
    private static func unreadableFile(in directory: TemporaryDirectory) throws -> URL? {
        if getuid() == 0 {
            #if os(Linux)
                let devices = URL(filePath: "/sys/devices/pci0000:00")
                let names = (try? FileManager.default.contentsOfDirectory(atPath: devices.path)) ?? []
                return names.map { devices.appending(path: $0 + "/rescan") }.first { file in
                    FileManager.default.fileExists(atPath: file.path) && open(file.path, O_RDONLY) < 0
                }
            #else
                return nil
            #endif
        }
        let file = directory.file("secret")
        try Data("x".utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0], ofItemAtPath: file.path)
        return file
    }

    @Test(arguments: ConformingTransport.all, Place.allCases)
    func aFileThatCannotBeSentIsReported(_ subject: ConformingTransport, _ place: Place) async throws {
        let directory = try TemporaryDirectory()
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(200) }
        mkfifo(directory.file("pipe").path, 0o600)
        let files = [
            directory.url, directory.file("none"), directory.file("pipe"), URL(filePath: "/dev/null"),
            // The size of this file is reported as 0, but it has bytes.
            URL(filePath: "/proc/self/status"), directory.file("name/of\0anything"),
            try Self.unreadableFile(in: directory),
        ]
        for file in files.compactMap(\.self) {
            let error = try await Sending(place.put(file, .put(server.url())), over: subject.transport).error()
            #expect(error.code == .bodyUnreadable, "\(error)")
            #expect(error.description.isOneLine)
            #expect(!error.isRetryable)
        }
        try await server.expectNothingWhole()
    }

    @Test func urlThatIsNotAFileURLIsRefused() async throws {
        let web = try #require(URL(string: "https://user:hunter2@stub/file"))
        for place in Place.allCases {
            let server = StubServer()
            let error = try await Sending(place.put(web, .put("http://stub/")), over: server.transport).error()
            #expect(error.message.contains("not a file URL"))
            #expect(!error.description.contains("hunter2"))
            #expect(server.exchanges.count == 0)
        }
    }

    // MARK: Files that change

    private static let byteCount: Int64 = 24 << 20

    /// Sends a file that exceeds the buffers on the network path, and changes it when the first byte has arrived.
    private func send(
        _ subject: ConformingTransport, _ place: Place, change: (URL) throws -> Void
    ) async throws -> (error: RequestError, server: TestServer) {
        let directory = try TemporaryDirectory()
        let file = directory.file("large")
        try Data().write(to: file)
        truncate(file.path, off_t(Self.byteCount))
        let gate = Gate()
        let server = try TestServer(bodyLimitBytes: 1)
        server.enqueue(Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 1)))
        let sending = Sending(place.put(file, .put(server.url())), over: subject.transport)
        try await gate.reached()
        try change(file)
        gate.open()
        return (try await sending.error(), server)
    }

    @Test(arguments: ConformingTransport.all, Place.allCases)
    func aFileThatShrinksFailsTheRequest(_ subject: ConformingTransport, _ place: Place) async throws {
        let (error, server) = try await send(subject, place) { truncate($0.path, 1_000) }
        defer { server.shutDown() }
        #expect(error.code == .bodyUnreadable, "\(error)")
        #expect(error.message.contains("shorter"))
        try await server.expectNothingWhole()
    }

    /// A file that is the complete body is sent with its announced length, see ``TransportConformanceTests``.
    @Test(arguments: ConformingTransport.all)
    func fileThatGrowsFailsAForm(_ subject: ConformingTransport) async throws {
        let (error, server) = try await send(subject, .inForm) { truncate($0.path, off_t(Self.byteCount + 1)) }
        defer { server.shutDown() }
        #expect(error.code == .bodyUnreadable, "\(error)")
        #expect(error.message.contains("longer"))
        try await server.expectNothingWhole()
    }
}
