import Foundation

/// A new empty directory, removed with its content when the test releases it.
package final class TemporaryDirectory: Sendable {
    package let url: URL

    /// The directory of the test bundle and of the package's programs.
    static let products = URL(filePath: CommandLine.arguments[0]).absoluteURL.deletingLastPathComponent()

    /// - Parameter parent: by default in memory if there is room, see `TestTurns.c`.
    package init(in parent: URL = FileManager.default.temporaryDirectory) throws {
        url = parent.appending(path: "convoy-tests-\(UUID().uuidString)", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// A directory on the disk of the package's programs, for tests that need a file system on a disk.
    package static func besideProducts() throws -> TemporaryDirectory {
        #if os(Linux)
            try TemporaryDirectory(in: products)
        #else
            // On other systems, `products` may be the directory of a test runner outside the package.
            try TemporaryDirectory()
        #endif
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    package func file(_ name: String) -> URL { url.appending(path: name, directoryHint: .notDirectory) }

    package func makeDirectory(_ name: String) throws -> URL {
        let directory = url.appending(path: name)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        return directory
    }

    /// The sorted names in the directory, including hidden ones.
    package var entries: [String] {
        get throws { try names() }
    }

    /// The sorted names in a directory inside, including hidden ones.
    package func names(in directory: String = "") throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: url.appending(path: directory).path).sorted()
    }
}
