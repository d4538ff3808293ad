import ConvoyQueue
import Foundation
import Testing

/// Compares the diagram of the page "Working with jobs", drawn by `.ci/diagrams`, with the table of states and
/// events.
@Suite struct JobDiagramTests {
    @Test func theArrowsBetweenStatesAreThoseOfTheTable() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let picture = try String(
            contentsOf: root.appending(path: "Sources/ConvoyQueue/ConvoyQueue.docc/Resources/job.svg"), encoding: .utf8)
        let drawn = Set(picture.matches(of: #/data-from="(\w+)" data-to="(\w+)"/#).map { "\($0.1) > \($0.2)" })
        let moves = JobLifeTests.table.flatMap { state, ends in
            ends.values.filter { $0 != state }.map { "\(state) > \($0)" }
        }
        #expect(drawn.symmetricDifference(moves).sorted() == [])
        let states = Set(picture.matches(of: #/data-state="(\w+)"/#).map { String($0.1) })
        #expect(states == Set(JobState.allCases.map(\.rawValue)))
    }
}
