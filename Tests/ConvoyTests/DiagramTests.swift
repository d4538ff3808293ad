import Testing

@testable import Convoy

/// The states and arrows of a diagram, read from the attributes of its SVG elements.
private struct Diagram {
    let states: Set<String>
    let arrows: Set<String>

    init(_ name: String) {
        let text = LibrarySources.text("Sources/Convoy/Convoy.docc/Resources/\(name).svg")
        states = Set(text.matches(of: #/data-state="(\w+)"/#).map { String($0.1) })
        arrows = Set(text.matches(of: #/data-from="(\w+)" data-to="(\w+)"/#).map { "\($0.1) > \($0.2)" })
    }
}

/// Compares the diagrams of the pages, drawn by `.ci/diagrams`, with the code.
@Suite struct DiagramTests {
    private static func name(_ state: Any) -> String { String("\(state)".prefix { $0 != "(" }) }

    /// Sends every event to the state machine in every stage of `OperationStages`.
    @Test func theArrowsBetweenPhasesAreThoseOfTheStateMachine() {
        var arrows: Set<String> = []
        var phases: Set<String> = []
        for way in OperationStages.ways {
            let before = OperationStages.machine(way.name)
            phases.insert(Self.name(before.phase))
            for (_, event) in OperationStages.events {
                var after = before
                _ = after.handle(event)
                let (from, to) = (Self.name(before.phase), Self.name(after.phase))
                if from != to { arrows.insert("\(from) > \(to)") }
            }
        }
        let diagram = Diagram("operation")
        #expect(phases.count == 8)
        #expect(diagram.states == phases)
        #expect(diagram.arrows.symmetricDifference(arrows).sorted() == [])
    }

    /// Classifies each status code with and without a partial file, and with each `Content-Range`.
    @Test func theArrowsOfADownloadAreThoseOfItsAnswers() {
        func part(of total: Int64?) -> ResumePoint? {
            ResumePoint(byteCount: 5, validator: nil, totalBytes: total, coding: nil)
        }
        let ranges = [nil, "bytes 5-9/10", "bytes 0-4/10", "bytes */5", "bytes */10"]
        var answers: Set<DownloadAnswer> = []
        var arrows: Set<String> = []
        for status in [200, 204, 206, 304, 404, 416, 503] {
            for range in ranges {
                for point in [nil, part(of: 10), part(of: nil)] {
                    var head = ResponseHead(statusCode: status)
                    head.headerFields["Content-Range"] = range
                    let isRefused = !(200..<300).contains(status) && status != 304
                    let answer = DownloadAnswer(head, continuing: point, asksForRange: false, isRefused: isRefused)
                    answers.insert(answer)
                    arrows.insert("\(point == nil ? "nothing" : "part") > \(Self.name(answer))")
                }
            }
        }
        for answer in answers {
            switch answer {
            case .body, .isWhole, .isUnchanged: arrows.insert("\(Self.name(answer)) > file")
            case .mismatch where answer.canStartOver: arrows.insert("\(Self.name(answer)) > nothing")
            case .mismatch, .refused: break
            }
        }
        // If a body is interrupted, its bytes stay in the part.
        arrows.insert("body > part")
        let diagram = Diagram("download")
        #expect(diagram.states == Set(answers.map(Self.name)).union(["nothing", "part", "file"]))
        #expect(diagram.arrows.symmetricDifference(arrows).sorted() == [])
    }
}
