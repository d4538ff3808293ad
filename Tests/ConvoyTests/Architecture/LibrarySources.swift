import Foundation

/// The sources and the documentation of the library under test, read once.
enum LibrarySources {
    /// The folder of the package.
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    private static let folder = root.appending(path: "Sources/Convoy")

    /// The paths of the Swift files below a folder of the package, by that folder.
    static func files(below path: String) -> [String] {
        let files = FileManager.default.enumerator(atPath: root.appending(path: path).path)
        return (files?.compactMap { $0 as? String } ?? []).filter { $0.hasSuffix(".swift") }.sorted()
    }

    /// How many lines a file of the package has.
    static func lineCount(_ path: String) -> Int {
        (try? Data(contentsOf: root.appending(path: path)))?.count { $0 == 0x0A } ?? 0
    }

    /// The text of a file of the package; empty when there is none.
    static func text(_ path: String) -> String {
        (try? String(contentsOf: root.appending(path: path), encoding: .utf8)) ?? ""
    }

    /// Each source, by its path below that.
    static let texts: [(path: String, text: String)] = {
        files(below: "Sources/Convoy").compactMap { path in
            (try? String(contentsOf: folder.appending(path: path), encoding: .utf8)).map { (path, $0) }
        }
    }()

    /// A page of the documentation; empty when there is none.
    static func page(_ name: String) -> String {
        (try? String(contentsOf: folder.appending(path: "Convoy.docc/\(name).md"), encoding: .utf8)) ?? ""
    }
}
