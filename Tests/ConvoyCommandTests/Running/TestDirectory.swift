import Foundation
import Testing

/// A directory of a test's own, removed with it.
final class TestDirectory: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "convoy-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// The names of everything in a directory inside, hidden ones too.
    func names(in directory: String = "") throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: url.appending(path: directory).path).sorted()
    }

    func makeDirectory(_ name: String) throws -> URL {
        let directory = url.appending(path: name)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        return directory
    }
}

/// Waits for what no event tells: looks once a millisecond, and records an issue when it takes too long.
func turns(within bound: Duration = .seconds(60), until isTrue: () -> Bool) async {
    let end = ContinuousClock.now + bound
    while !isTrue() {
        guard .now < end else {
            Issue.record("it did not come to pass within \(bound)")
            return
        }
        await withCheckedContinuation { continuation in
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { continuation.resume() }
        }
    }
}
