// What the documentation shows is what is compiled here.
import Foundation
import Testing

/// The code of the pages of all catalogues, against the files of this folder; and whether every type has an example.
@Suite struct PagesTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    private static func files(_ suffix: String, below folder: String) -> [URL] {
        let all = FileManager.default.enumerator(at: root.appending(path: folder), includingPropertiesForKeys: nil)
        return (all?.allObjects as? [URL] ?? []).filter { $0.lastPathComponent.hasSuffix(suffix) }
    }

    private static func text(_ file: URL) throws -> String { try String(contentsOf: file, encoding: .utf8) }

    /// The lines between fences, by the name of their page.
    private static func code() throws -> [(page: String, line: Substring)] {
        try files(".md", below: "Sources").flatMap { page in
            try text(page).split(separator: "```swift\n").dropFirst().flatMap { block in
                (block.split(separator: "```").first ?? "").split(separator: "\n").map {
                    (page.lastPathComponent, $0)
                }
            }
        }
    }

    /// Without its comment and its blanks.
    private static func statement(_ line: some StringProtocol) -> String {
        let code = line.range(of: "  //").map { line[..<$0.lowerBound] } ?? line[...]
        return String(code.filter { $0 != " " })
    }

    @Test func everyLineOfCodeIsCompiled() throws {
        let files =
            Self.files(".swift", below: "Tests/ConvoyExampleTests")
            + Self.files("QueueExampleTests.swift", below: "Tests/ConvoyQueueTests")
        let tests = Set(try files.flatMap { try Self.text($0).split(separator: "\n").map(Self.statement) })
        let code = try Self.code()
        #expect(code.count > 200)
        for (page, line) in code {
            let isCompiled = tests.contains(Self.statement(line))
            #expect(isCompiled, "\(page): \(line)")
        }
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
        let files = ["Convoy", "ConvoyTesting", "ConvoyQueue"].flatMap { Self.files(".swift", below: "Sources/\($0)/") }
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
