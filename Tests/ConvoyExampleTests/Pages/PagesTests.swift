// Checks that the code of the documentation is compiled here.
import Foundation
import Testing

/// Compares the code on the pages of all catalogues with the example tests, and requires examples of public types.
@Suite struct PagesTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    private static func files(_ suffix: String, below folder: String) -> [URL] {
        let all = FileManager.default.enumerator(at: root.appending(path: folder), includingPropertiesForKeys: nil)
        return (all?.allObjects as? [URL] ?? []).filter { $0.lastPathComponent.hasSuffix(suffix) }
    }

    private static func text(_ file: URL) throws -> String { try String(contentsOf: file, encoding: .utf8) }

    /// The lines of code blocks, each with the name of its page.
    private static func code() throws -> [(page: String, line: Substring)] {
        try files(".md", below: "Sources").flatMap { page in
            try text(page).split(separator: "```swift\n").dropFirst().flatMap { block in
                (block.split(separator: "```").first ?? "").split(separator: "\n").map {
                    (page.lastPathComponent, $0)
                }
            }
        }
    }

    /// The line without its comment and its blanks.
    private static func statement(_ line: some StringProtocol) -> String {
        let line = line.drop { $0 == " " }
        guard !line.hasPrefix("//") else { return "" }
        let code = line.range(of: "  //").map { line[..<$0.lowerBound] } ?? line
        return String(code.filter { $0 != " " })
    }

    /// The statements of a text, without those that a test adds to the code of a page.
    private static func statements(_ text: some StringProtocol) -> [String] {
        text.split(separator: "\n").filter { !$0.hasSuffix("  // not on the page") }.map(statement).filter {
            !$0.isEmpty
        }
    }

    /// The numbers of the code blocks of a page that are missing in a file.
    ///
    /// The file must contain the blocks in order, and the lines of each block without a gap. Imports may be anywhere in
    /// the file.
    private static func missing(_ blocks: [[String]], in file: [String]) -> [Int] {
        var start = 0
        return blocks.enumerated().compactMap { number, block in
            let imports = block.filter { $0.hasPrefix("import") || $0.hasPrefix("#if") || $0 == "#endif" }
            guard imports.allSatisfy(file.contains) else { return number + 1 }
            let code = block.filter { !imports.contains($0) }
            guard !code.isEmpty else { return nil }
            let last = file.count - code.count
            guard start <= last, let place = (start...last).first(where: { file[$0...].starts(with: code) }) else {
                return number + 1
            }
            start = place + code.count
            return nil
        }
    }

    /// For every page a test file contains its code, in the order of the page.
    @Test func theCodeOfAPageIsCompiledInItsOrder() throws {
        let files =
            Self.files(".swift", below: "Tests/ConvoyExampleTests")
            + Self.files("QueueExampleTests.swift", below: "Tests/ConvoyQueueTests")
        let tests = try files.map { Self.statements(try Self.text($0)) }
        var count = 0
        for page in Self.files(".md", below: "Sources") {
            let blocks = try Self.text(page).split(separator: "```swift\n").dropFirst().map {
                Self.statements($0.split(separator: "\n```", maxSplits: 1).first ?? "")
            }
            guard !blocks.isEmpty else { continue }
            count += blocks.count
            let missing = tests.map { Self.missing(blocks, in: $0) }.min { $0.count < $1.count } ?? []
            #expect(missing == [], "\(page.lastPathComponent): blocks, counted from 1")
        }
        #expect(count > 50)
    }

    @Test func everyLineOfCodeFitsAPage() throws {
        for (page, line) in try Self.code() {
            let columns = line.count
            #expect(columns < 75, "\(page): \(line)")
        }
    }

    @Test func everyTypeHasAnExample() throws {
        let words = Set(
            try Self.code().flatMap { $0.line.split { !($0.isLetter || $0.isNumber || $0 == "_") } }.map(String.init))
        var count = 0
        let files = ["Convoy", "ConvoyCache", "ConvoyTesting", "ConvoyQueue", "ConvoyPostgres"].flatMap {
            Self.files(".swift", below: "Sources/\($0)/")
        }
        for file in files {
            var comment: [Substring] = []
            for line in try Self.text(file).split(separator: "\n", omittingEmptySubsequences: false) {
                if line.hasPrefix("///") || line.hasPrefix("@") {
                    comment.append(line)
                    continue
                }
                if line.hasPrefix("public "),
                    let match = line.prefixMatch(of: /public (?:final )?(?:class|struct|enum|protocol) (\w+)/)
                {
                    count += 1
                    let isShown = comment.contains { $0.hasPrefix("/// ```") } || words.contains(String(match.1))
                    #expect(isShown, "\(match.1) in \(file.lastPathComponent)")
                }
                comment = []
            }
        }
        #expect(count > 100)
    }
}
