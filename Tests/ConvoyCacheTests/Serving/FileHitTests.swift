import ConvoyCache
import Foundation
import Testing

@testable import Convoy

/// Tests hits whose body goes to a file.
@Suite(.timeLimit(.minutes(5)))
struct FileHitTests {
    private static let body = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })

    private static func makeWorld(_ place: Place, _ body: Data = body) throws -> CacheWorld {
        try CacheWorld(place, capacity: 64 << 20) { _, _ in
            .status(200, headerFields: [("Cache-Control", "max-age=60"), ("ETag", "\"a\"")], body: body)
        }
    }

    @Test(arguments: Place.allCases, [100, 3_000_000])
    func fileHasTheStoredBytes(_ place: Place, _ byteCount: Int) async throws {
        let body = Self.body.prefix(byteCount)
        let world = try Self.makeWorld(place, body)
        let (request, first) = (world.request(), world.directory.file("first"))
        let second = world.directory.file("second")
        _ = try await world.manager.download(request, to: first).response()
        _ = world.cache.statistics
        for _ in 0..<2 {
            let response = try await world.manager.download(request, to: second).response()
            #expect(response.isHit)
            #expect(response.transfer.download.completedBytes == Int64(byteCount))
            #expect(try Data(contentsOf: second) == body)
            // The file is a copy, so changing it changes no stored response.
            try Data("changed".utf8).write(to: second)
        }
        #expect(try Data(contentsOf: first) == body)
        #expect(try await world.get().value == body)
        #expect(world.sent.count == 1)
    }

    /// A file that was decoded as it arrived is no hit for a request of the stored form.
    @Test(arguments: Place.allCases)
    func aFileInTheStoredFormIsNotTheDecodedOne(_ place: Place) async throws {
        let zipped = try #require(
            Data(base64Encoded: "H4sIAAAAAAACA0vOzyvLr1RIHqVGqVFqlBqlRqlRapTCRwEAiHc6/zQIAAA="))
        let world = try CacheWorld(place) { _, _ in
            .status(200, headerFields: [("Cache-Control", "max-age=60"), ("Content-Encoding", "gzip")], body: zipped)
        }
        let (request, decoded) = (world.request(), world.directory.file("decoded"))
        let stored = world.directory.file("stored")
        _ = try await world.manager.download(request.header("Accept-Encoding", "gzip"), to: decoded).response()
        #expect(try Data(contentsOf: decoded).count == 2_100)
        _ = world.cache.statistics
        _ = try await world.manager.download(request, to: stored).response()
        #expect(try Data(contentsOf: stored) == zipped)
    }

    @Test(arguments: Place.allCases)
    func digestAndLimitOfAFileHoldForAHit(_ place: Place) async throws {
        let world = try Self.makeWorld(place)
        let (request, file) = (world.request(), world.directory.file("a"))
        _ = try await world.manager.send(request)
        let digest = FileDigest.sha256(String(repeating: "0", count: 64))
        let wrong = await #expect(throws: RequestError.self) {
            try await world.manager.download(request, to: file, verifying: digest).response()
        }
        #expect(wrong?.code == .integrityFailed)
        let large = await #expect(throws: RequestError.self) {
            try await world.manager.download(request.maxBodyBytes(1_000_000), to: file).response()
        }
        #expect(large?.code == .bodyTooLarge)
        #expect(!FileManager.default.fileExists(atPath: file.path))
    }

    /// After the reader's first chunk, the stored body is cut off, as if the disk could no longer be read.
    @Test func bodyThatCannotBeReadIsSentForAgain() async throws {
        let world = try CacheWorld(.disk, capacity: 512 << 20) { _, _ in
            .generated(byteCount: 40 << 20, headerFields: [("Cache-Control", "max-age=60")])
        }
        let request = world.request().retries(.never).maxBodyBytes(64 << 20)
        let whole = try await world.manager.send(request).value
        try #require(world.cache.statistics.entryCount == 1)
        let bodies = world.directory.file("cache/convoy-cache-bodies")
        var count = 0
        let error = await #expect(throws: RequestError.self) {
            for try await chunk in world.manager.chunks(of: request) {
                if count == 0 {
                    for name in try FileManager.default.contentsOfDirectory(atPath: bodies.path) {
                        #expect(truncate(bodies.appending(path: name).path, 1 << 20) == 0)
                    }
                }
                count += chunk.count
            }
        }
        #expect(error?.code == .connectionLost)
        #expect(world.cache.statistics.entryCount == 0)
        #expect(world.cache.statistics.repairs == 1)
        #expect(try await world.manager.send(request).value == whole)
        #expect(world.sent.count == 2)
    }
}
