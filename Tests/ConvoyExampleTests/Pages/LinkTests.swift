// Tests links and pictures of the pages, as GitHub reads them and as `.ci/docs` converts them for the site.
import Foundation
import Testing

/// Checks every link and picture of the README, of the pages of all catalogues and of `.github`.
@Suite struct LinkTests {
    struct Link: Hashable {
        let page: String
        let target: String
        let isPicture: Bool
    }

    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// The paths of all pages, below the folder of the package.
    private static let pages: [String] = {
        let folders = ["Sources", ".github"].flatMap { folder in
            (FileManager.default.enumerator(atPath: root.appending(path: folder).path)?.allObjects as? [String] ?? [])
                .map { "\(folder)/\($0)" }
        }
        return ["README.md"] + folders.filter { $0.hasSuffix(".md") }.sorted()
    }()

    /// A page without its code.
    private static func prose(_ page: String) throws -> String {
        try String(contentsOf: root.appending(path: page), encoding: .utf8)
            .replacing(#/```(?:.|\n)*?\n```/#, with: "").replacing(#/``?[^`\n]+``?/#, with: "")
    }

    private static func links() throws -> [Link] {
        try pages.flatMap { page in
            try prose(page).matches(of: #/(!?)\[[^\]]*\]\(([^)\s]+)\)/#).map {
                Link(page: page, target: String($0.2), isPicture: !$0.1.isEmpty)
            }
        }.filter { !$0.target.hasPrefix("https://") }
    }

    /// The path that a link names, below the folder of the package.
    private static func path(_ link: Link) -> String {
        let target = link.target.split(separator: "#", omittingEmptySubsequences: false)[0]
        guard !target.isEmpty else { return link.page }
        var parts = link.page.split(separator: "/").dropLast().map(String.init)
        for part in target.split(separator: "/") {
            if part == ".." { _ = parts.popLast() } else { parts.append(String(part)) }
        }
        return parts.joined(separator: "/")
    }

    /// The anchors that GitHub derives from the headings of a page.
    private static func anchors(_ page: String) throws -> Set<String> {
        Set(
            try prose(page).split(separator: "\n").filter { $0.hasPrefix("#") }.map { heading in
                heading.drop { $0 == "#" }.trimmingCharacters(in: .whitespaces).lowercased()
                    .filter { $0.isLetter || $0.isNumber || $0 == " " || $0 == "-" || $0 == "_" }
                    .replacing(" ", with: "-")
            })
    }

    /// The catalogue that contains a page; an empty text if none does.
    private static func catalogue(_ path: String) -> String {
        path.range(of: ".docc/").map { String(path[..<$0.upperBound]) } ?? ""
    }

    @Test func everyLinkLeadsToAFile() throws {
        let links = try Self.links()
        #expect(links.count > 60)
        for link in links {
            let isThere = FileManager.default.fileExists(atPath: Self.root.appending(path: Self.path(link)).path)
            #expect(isThere, "\(link.page): \(link.target)")
        }
    }

    @Test func everyAnchorIsAHeading() throws {
        for link in try Self.links() where link.target.contains("#") {
            let anchor = link.target.split(separator: "#").last.map(String.init) ?? ""
            let anchors = try Self.anchors(Self.path(link))
            #expect(anchors.contains(anchor), "\(link.page): \(link.target)")
        }
    }

    /// Only these forms work on the site, because `.ci/docs` converts no others to DocC's form.
    @Test func everyLinkOfACatalogueHasAFormThatTheSiteKnows() throws {
        for link in try Self.links() where link.page.contains(".docc/") {
            let isKnown =
                link.isPicture
                ? link.target.wholeMatch(of: #/Resources/[A-Za-z-]+\.svg/#) != nil
                : link.target.wholeMatch(of: #/(?:\.\./\.\./[A-Za-z]+/[A-Za-z]+\.docc/)?[A-Za-z]+\.md/#) != nil
            #expect(isKnown, "\(link.page): \(link.target)")
        }
    }

    /// GitHub does not render DocC's own form of a link.
    @Test func noPageHasALinkThatOnlyTheSiteReads() throws {
        for page in Self.pages {
            #expect(try !Self.prose(page).contains("<doc:"), "\(page)")
            #expect(try !Self.prose(page).contains("](doc:"), "\(page)")
        }
    }

    /// Readers cannot find a page of a catalogue without a link from another page.
    @Test func everyPageIsLinkedTo() throws {
        let targets = Set(try Self.links().map(Self.path))
        let articles = Self.pages.filter { page in
            page.contains(".docc/") && !page.contains("/Symbols/")
                && !Self.catalogue(page).hasSuffix(
                    "/\(page.split(separator: "/").last?.dropLast(3) ?? "").docc/")
        }
        #expect(articles.count > 20)
        #expect(articles.filter { !targets.contains($0) } == [])
    }
}
