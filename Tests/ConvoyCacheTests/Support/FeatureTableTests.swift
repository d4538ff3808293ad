import Foundation
import Testing

/// Tests the table of features on the page "Caching HTTP responses".
struct FeatureTableTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// Each row ends with the name of a test.
    @Test func eachRowNamesATest() throws {
        let page = try String(
            contentsOf: Self.root.appending(path: "Sources/ConvoyCache/ConvoyCache.docc/Caching.md"), encoding: .utf8)
        let table = try #require(page.components(separatedBy: "\n## ").first { $0.hasPrefix("Comparison") })
        let rows = table.split(separator: "\n").filter { $0.hasPrefix("|") }.dropFirst(2)
        #expect(rows.count > 10)
        let folder = Self.root.appending(path: "Tests/ConvoyCacheTests")
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.allObjects as? [URL]
        let tests = try (files ?? []).filter { $0.pathExtension == "swift" }.map {
            try String(contentsOf: $0, encoding: .utf8)
        }.joined()
        for row in rows {
            let name = row.split(separator: "|").last?.trimmingCharacters(in: CharacterSet(charactersIn: " `")) ?? ""
            #expect(!name.isEmpty && tests.contains("func \(name)("), "\(row)")
        }
    }
}
