import Foundation
import Testing

/// Tests the folders and files of the package.
@Suite struct TreeTests {
    /// Test folders that have no counterpart in the sources.
    private static let others: Set = ["Architecture", "Examples", "Faults", "Stress", "Support", ""]

    private static func folder(of path: String) -> String {
        path.split(separator: "/").dropLast().joined(separator: "/")
    }

    @Test func everyFolderOfTestsMirrorsOneOfSources() {
        let sources = Set(LibrarySources.files(below: "Sources/Convoy").map(Self.folder))
        let tests = Set(LibrarySources.files(below: "Tests/ConvoyTests").map(Self.folder))
        #expect(!sources.isEmpty)
        #expect(tests.subtracting(sources).subtracting(Self.others).sorted() == [])
    }

    @Test func productsAreTheCommandAndTheLibrariesWithTheirPages() {
        let manifest = LibrarySources.text("Package.swift")
        let libraries = manifest.matches(of: #/\.library\(name: "(\w+)"/#).map { String($0.1) }
        let programs = manifest.matches(of: #/\.executable\(name: "(\w+)"/#).map { String($0.1) }
        let documented = LibrarySources.text(".spi.yml").matches(of: #/Convoy\w*/#).map { String($0.0) }
        #expect(libraries.contains("Convoy"))
        #expect(libraries.sorted() == documented.sorted())
        #expect(programs == ["convoy"])
    }

    @Test(arguments: ["Layers", "Glossary"])
    func everyFileOnAPageExists(page: String) {
        let words = LibrarySources.page(page).split(separator: "`").map(String.init)
        let named = words.filter { $0.hasSuffix(".swift") }
        let files = Set(
            ["Sources", "Tests"].flatMap { folder in LibrarySources.files(below: folder).map { "\(folder)/\($0)" } })
        #expect(named.count > 10)
        #expect(named.filter { !files.contains("Sources/Convoy/" + $0) && !files.contains($0) } == [])
    }

    @Test func everyNameOnThePageOfLayersExistsInItsFile() {
        let pairs = LibrarySources.page("Layers").matches(of: #/`([A-Za-z]+)` in `([^`]+\.swift)`/#)
        #expect(pairs.count > 4)
        let lost = pairs.filter { pair in
            let path = pair.2.hasPrefix("Sources/") ? String(pair.2) : "Sources/Convoy/\(pair.2)"
            return !LibrarySources.text(path).contains(pair.1)
        }
        #expect(lost.map { "\($0.0)" } == [])
    }
}
