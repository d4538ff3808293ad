import Foundation

enum LibrarySources {
    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The paths of the Swift files below a folder of the package, relative to that folder.
    static func files(below path: String) -> [String] {
        let files = FileManager.default.enumerator(atPath: root.appending(path: path).path)
        return (files?.compactMap { $0 as? String } ?? []).filter { $0.hasSuffix(".swift") }.sorted()
    }

    /// The text of a file of the package; empty when there is none.
    static func text(_ path: String) -> String {
        (try? String(contentsOf: root.appending(path: path), encoding: .utf8)) ?? ""
    }

    /// A page of the documentation; empty when there is none.
    static func page(_ name: String) -> String {
        text("Sources/Convoy/Convoy.docc/\(name).md")
    }
}
