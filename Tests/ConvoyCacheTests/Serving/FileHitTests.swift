import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation
import Testing

/// Tests hits whose body goes to a file.
@Suite(.timeLimit(.minutes(5)))
struct FileHitTests {
    private static let body = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) })

    private static func makeWorld(_ place: Place) throws -> CacheWorld {
        try CacheWorld(place, capacity: 64 << 20) { _, _ in
            .status(200, headerFields: [("Cache-Control", "max-age=60"), ("ETag", "\"a\"")], body: body)
        }
    }

    @Test(arguments: Place.allCases)
    func fileHasTheStoredBytes(_ place: Place) async throws {
        let world = try Self.makeWorld(place)
        let request = Request<Data>.get(world.server.url("/a"))
        let (first, second) = (world.directory.file("first"), world.directory.file("second"))
        _ = try await world.manager.download(request, to: first).response()
        _ = world.cache.statistics
        for _ in 0..<2 {
            let response = try await world.manager.download(request, to: second).response()
            #expect(response.metrics?.cache?.isHit == true)
            #expect(response.transfer.download.completedBytes == Int64(Self.body.count))
            #expect(try Data(contentsOf: second) == Self.body)
            // The file is a copy: changing it changes no stored response.
            try Data("changed".utf8).write(to: second)
        }
        #expect(try Data(contentsOf: first) == Self.body)
        #expect(world.sent.count == 1)
    }

    @Test(arguments: Place.allCases)
    func digestOfAHitIsVerified(_ place: Place) async throws {
        let world = try Self.makeWorld(place)
        let request = Request<Data>.get(world.server.url("/a"))
        _ = try await world.manager.send(request)
        let digest = FileDigest.sha256(Data(repeating: 0, count: 32).map { String(format: "%02x", $0) }.joined())
        let error = await #expect(throws: RequestError.self) {
            try await world.manager.download(request, to: world.directory.file("a"), verifying: digest).response()
        }
        #expect(error?.code == .integrityFailed)
    }

    @Test(arguments: Place.allCases)
    func limitOfAFileHoldsForAHit(_ place: Place) async throws {
        let world = try Self.makeWorld(place)
        let request = Request<Data>.get(world.server.url("/a"))
        _ = try await world.manager.send(request)
        let file = world.directory.file("a")
        let error = await #expect(throws: RequestError.self) {
            try await world.manager.download(request.maxBodyBytes(1_000_000), to: file).response()
        }
        #expect(error?.code == .bodyTooLarge)
        #expect(!FileManager.default.fileExists(atPath: file.path))
    }
}
