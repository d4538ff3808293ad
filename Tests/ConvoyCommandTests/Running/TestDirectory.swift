import Foundation
import Testing

/// The directory of one test, which is removed with its last reference.
final class TestDirectory: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "convoy-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// Returns all names in a directory inside, including hidden ones.
    func names(in directory: String = "") throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: url.appending(path: directory).path).sorted()
    }

    func makeDirectory(_ name: String) throws -> URL {
        let directory = url.appending(path: name)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        return directory
    }
}

/// Waits for a condition that no event signals.
///
/// Checks once a millisecond and records an issue after too long.
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
