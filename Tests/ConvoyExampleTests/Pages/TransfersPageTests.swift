// The code of the pages about files, uploads and forms, against a server.
import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct TransfersPageTests {
    private let server: TestServer
    private let manager: RequestManager
    private let directory = FileManager.default.temporaryDirectory.appending(path: "convoy-\(UUID().uuidString)")

    init() throws {
        server = try TestServer()
        manager = RequestManager(configuration: .init(baseURL: server.url()))
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        server.route("/image.iso") { _ in .resource(generatedByteCount: 3_000_000, etag: "\"v1\"") }
        server.route("/photos") { .status($0.bodyText.contains("name=\"title\"") ? 201 : 400) }
        server.respond { .status(200, body: "\($0.method) \($0.bodyByteCount)") }
    }

    @Test func aDownload() async throws {
        let digest = "2fbb31ba580f877a63d5d80dbad8c56e1b7714f05f7fc62bcd8094040c7e7fdb"
        let file = directory.appending(path: "image.iso")
        let download = manager.download(
            "image.iso", to: file, verifying: .sha256(digest),
            existing: ExistingFile.updateIfChanged)
        download.onProgress(on: .main, every: .milliseconds(250)) { progress in
            let bytes: ByteProgress = progress.download
            print(bytes.fractionCompleted ?? 0, bytes.bytesPerSecond ?? 0)
        }
        let saved: URL = try await download.response().value
        #expect(saved == file)
        try FileManager.default.removeItem(at: file)
        let segments = manager.downloadInSegments(
            .get("image.iso"), to: file, segments: 4,
            verifying: .sha256(digest))
        print(try await segments.file())
        #expect(try Data(contentsOf: file) == Reply.pattern(range: 0..<3_000_000))
        let directory = directory
        let urls = [server.url("/a.txt"), server.url("/b.txt")]
        let requests = urls.map {
            Request<Data>.get($0).saved(in: directory, existing: .rename)
        }
        let files = manager.batch(requests)
        for result in await files.results { print(try result.get().value) }
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(names.filter { !$0.hasPrefix(".") }.sorted() == ["a.txt", "b.txt", "image.iso"])
        server.shutDown()
        try FileManager.default.removeItem(at: directory)
    }

    @Test func bodiesArriveInPieces() async throws {
        var count = 0
        for try await chunk in manager.chunks(of: .get("image.iso")) {
            count += chunk.count
        }
        for try await line in manager.lines(of: .get("log")) { print(line) }
        #expect(count == 3_000_000)
        server.enqueue(
            .status(200, headerFields: [("Content-Type", "text/event-stream")], body: "retry: 10\ndata: a\n\n"))
        server.route("/news") { _ in .status(204) }
        var headlines: [String] = []
        func show(_ text: String) { headlines.append(text) }
        for try await event in manager.events(of: .get("news")) {
            let one: ServerSentEvent = event
            show(one.data)
        }
        #expect(headlines == ["a"])
        server.shutDown()
    }

    @Test func uploads() async throws {
        let photo = directory.appending(path: "photo.jpg")
        try Data("photo".utf8).write(to: photo)
        let upload = manager.operation(
            Request<Void>.put("photos/1").body(fromFile: photo))
        upload.onProgress { print($0.upload.fractionCompleted ?? 0) }
        manager.enqueue(upload)
        try await upload.response()
        var form = MultipartForm()
        form.append("Sunset", name: "title")
        form.append(file: photo, name: "photo")
        try await manager.send(Request<Void>.post("photos").multipart(form))

        let login = Request<Void>.post("login")
            .form(["name": "ada", "keep": true])
        try await manager.send(login)
        let note = Request<Void>.post("notes")
            .json(["text": "hello", "tags": ["a"]])
        try await manager.send(note)
        let lines = AsyncStream<Data> { stream in
            stream.yield(Data("one\n".utf8))
            stream.finish()
        }
        let text = Request<Void>.post("log")
            .body(lines, contentType: "text/plain")
        try await manager.send(text)
        #expect(server.recordedRequests.map(\.path) == ["/photos/1", "/photos", "/login", "/notes", "/log"])
        #expect(server.recordedRequests.last?.bodyText == "one\n")
        server.shutDown()
        try FileManager.default.removeItem(at: directory)
    }

    @Test func sourcesOfABody() async throws {
        let photo = directory.appending(path: "photo.jpg")
        try Data("photo".utf8).write(to: photo)
        let upload = manager.enqueue(Request<Void>.put("photos/1").body(fromFile: photo))
        _ = try await upload.response()
        var sources: [String] = []
        let body: RequestBody? = upload.request?.body
        switch body {
        case .data(let bytes): sources.append("\(bytes.count) bytes")
        case .file(let url, let byteCount):
            sources.append("\(url.lastPathComponent), \(byteCount) bytes")
        case .stream(let stream):
            let stream: BodyStream = stream
            sources.append("can be sent again: \(stream.canRepeat)")
        case .joined(let parts): sources.append("\(parts.count) parts")
        case nil: sources.append("none")
        }
        #expect(sources == ["photo.jpg, 5 bytes"])
        server.shutDown()
        try FileManager.default.removeItem(at: directory)
    }
}
