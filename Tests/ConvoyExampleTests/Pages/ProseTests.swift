// Tests the prose of the pages: short sentences and the terms of the field.
import Foundation
import Testing

/// Reads the README, the pages of all catalogues and of `.github`, without code, headings and pictures.
@Suite nonisolated struct ProseTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    private static let pages: [String] = {
        let folders = ["Sources", ".github"].flatMap { folder in
            (FileManager.default.enumerator(atPath: root.appending(path: folder).path)?.allObjects as? [String] ?? [])
                .map { "\(folder)/\($0)" }
        }
        return ["README.md"] + folders.filter { $0.hasSuffix(".md") && !$0.contains("/Symbols/") }.sorted()
    }()

    /// The paragraphs, items of lists and cells of tables with more than three words.
    private static func texts(_ page: String) throws -> [String] {
        let prose = try String(contentsOf: root.appending(path: page), encoding: .utf8)
            .replacing(#/```(?:.|\n)*?\n```/#, with: "\n")
            .replacing(#/!?\[([^\]]*)\]\([^)\s]*\)/#) { String($0.1) }
            .replacing(#/``?[^`\n]+``?/#, with: "Code")
        var texts: [String] = []
        var paragraph: [Substring] = []
        func end() {
            if !paragraph.isEmpty { texts.append(paragraph.joined(separator: " ")) }
            paragraph = []
        }
        for line in prose.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.isEmpty || line.hasPrefix("#") {
                end()
            } else if line.hasPrefix("|") {
                end()
                texts += line.split(separator: "|").map(String.init)
            } else {
                if line.hasPrefix("- ") || line.prefixMatch(of: #/\d+\. /#) != nil { end() }
                paragraph.append(line)
            }
        }
        end()
        return texts.filter { $0.split(separator: " ").count > 3 }
    }

    private static func sentences(_ text: String) -> [Int] {
        text.replacing(#/([.!?])["')*]* +(?=["'(*]*[A-Z0-9])/#) { "\($0.1)\n" }.split(separator: "\n").map { sentence in
            sentence.split(separator: " ").count { $0.contains { $0.isLetter || $0.isNumber } }
        }
    }

    @Test(arguments: pages)
    func sentencesHaveFifteenWordsOnAverage(page: String) throws {
        let counts = try Self.texts(page).flatMap(Self.sentences)
        #expect(!counts.isEmpty)
        let average = Double(counts.reduce(0, +)) / Double(max(1, counts.count))
        #expect(average <= 15, "\(page)")
    }

    @Test(arguments: pages)
    func noPageHasAWordOfOurOwn(page: String) throws {
        let prose = try Self.texts(page).joined(separator: "\n").lowercased()
        for words in ["is told", "are told", "goes on where", "gone round", "of yours", "as it comes", "what came"] {
            #expect(!prose.contains(words), "\(page): \(words)")
        }
    }
}
