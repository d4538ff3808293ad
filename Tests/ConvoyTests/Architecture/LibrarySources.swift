import Foundation

/// The sources and the documentation of the library under test, read once.
enum LibrarySources {
    /// `Sources/Convoy`.
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Sources/Convoy")

    /// Each source, by its path below that.
    static let texts: [(path: String, text: String)] = {
        let files = FileManager.default.enumerator(atPath: folder.path)?.compactMap { $0 as? String } ?? []
        return files.filter { $0.hasSuffix(".swift") }.sorted().compactMap { path in
            (try? String(contentsOf: folder.appending(path: path), encoding: .utf8)).map { (path, $0) }
        }
    }()

    /// A page of the documentation; empty when there is none.
    static func page(_ name: String) -> String {
        (try? String(contentsOf: folder.appending(path: "Convoy.docc/\(name).md"), encoding: .utf8)) ?? ""
    }
}
