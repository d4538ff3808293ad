import Foundation
import Testing

@testable import Convoy

@Suite struct DownloadPlanTests {
    @Test(arguments: [
        ("/tmp/a", "/tmp", "a"), ("/a", "/", "a"), ("/tmp/a b%41?c#d", "/tmp", "a b%41?c#d"),
        ("/tmp//ü/n", "/tmp//ü", "n"),
    ])
    func theNameOfAFileIsTheLastPartOfItsPath(path: String, directory: String, name: String) {
        let place = DownloadPlan(target: .file(URL(filePath: path, directoryHint: .notDirectory))).place
        #expect(place.directory == directory)
        #expect(place.fileName == name)
    }

    @Test(arguments: [
        ("file:///tmp/a/", "/tmp", "a"), ("file://localhost/tmp/a", "/tmp", "a"), ("b/../c", "/tmp", "c"),
    ])
    func anyFileURLHasTheNameOfItsPath(text: String, directory: String, name: String) throws {
        let url = try #require(URL(string: text, relativeTo: URL(filePath: "/tmp", directoryHint: .isDirectory)))
        let place = DownloadPlan(target: .file(url)).place
        #expect(place.directory == directory)
        #expect(place.fileName == name)
    }
}
