import Foundation

/// The sources of the package and the documentation of the library, read once.
enum LibrarySources {
    /// The folder of the package.
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
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

    /// Each source of the library, with its path below `Sources/Convoy`.
    static let texts = texts(of: "Convoy")

    /// Each source of a target, with its path below the target's folder.
    static func texts(of target: String) -> [(path: String, text: String)] {
        files(below: "Sources/\(target)").map { ($0, text("Sources/\(target)/\($0)")) }
    }

    /// A page of the documentation; empty when there is none.
    static func page(_ name: String) -> String {
        text("Sources/Convoy/Convoy.docc/\(name).md")
    }

    /// The text below a heading of a page, up to the next heading.
    static func section(_ heading: String, of name: String) -> String {
        let parts = page(name).components(separatedBy: "\n## ").dropFirst()
        return parts.first { $0.hasPrefix(heading + "\n") } ?? ""
    }
}
