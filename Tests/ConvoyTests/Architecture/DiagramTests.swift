import Testing

@testable import Convoy

/// Compares the diagrams of the pages, drawn by `.ci/diagrams`, with the code.
@Suite struct DiagramTests {
    private static func name(_ phase: OperationStateMachine.Phase) -> String {
        String("\(phase)".prefix { $0 != "(" })
    }

    /// Sends every event to the state machine in every stage of `OperationStages`.
    @Test func theArrowsBetweenPhasesAreThoseOfTheStateMachine() {
        var arrows: Set<Diagram.Arrow> = []
        var phases: Set<String> = []
        for way in OperationStages.ways {
            let before = OperationStages.machine(way.name)
            phases.insert(Self.name(before.phase))
            for (_, event) in OperationStages.events {
                var after = before
                _ = after.handle(event)
                let arrow = Diagram.Arrow(from: Self.name(before.phase), to: Self.name(after.phase))
                if arrow.from != arrow.to { arrows.insert(arrow) }
            }
        }
        let diagram = Diagram(LibrarySources.text("Sources/Convoy/Convoy.docc/Resources/operation.svg"))
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
        var arrows: Set<Diagram.Arrow> = []
        func name(_ answer: DownloadAnswer) -> String { String("\(answer)".prefix { $0 != "(" }) }
        for status in [200, 204, 206, 304, 404, 416, 503] {
            for range in ranges {
                for point in [nil, part(of: 10), part(of: nil)] {
                    var head = ResponseHead(statusCode: status)
                    head.headerFields["Content-Range"] = range
                    let isRefused = !(200..<300).contains(status) && status != 304
                    let answer = DownloadAnswer(head, continuing: point, asksForRange: false, isRefused: isRefused)
                    answers.insert(answer)
                    arrows.insert(.init(from: point == nil ? "nothing" : "part", to: name(answer)))
                }
            }
        }
        for answer in answers {
            switch answer {
            case .body, .isWhole, .isUnchanged: arrows.insert(.init(from: name(answer), to: "file"))
            case .mismatch where answer.canStartOver: arrows.insert(.init(from: name(answer), to: "nothing"))
            case .mismatch, .refused: break
            }
        }
        // If a body is interrupted, its bytes stay in the part.
        arrows.insert(.init(from: "body", to: "part"))
        let diagram = Diagram(LibrarySources.text("Sources/Convoy/Convoy.docc/Resources/download.svg"))
        #expect(diagram.states == Set(answers.map(name)).union(["nothing", "part", "file"]))
        #expect(diagram.arrows.symmetricDifference(arrows).sorted() == [])
    }

    @Test func everyLayerIsDrawnAboveThoseItUses() {
        let table = LayerTable(LibrarySources.section("Overview", of: "Layers"))
        let levels = Diagram(LibrarySources.text("Sources/Convoy/Convoy.docc/Resources/layers.svg")).levels
        #expect(Set(levels.keys) == Set(table.layers.map(\.name)))
        for layer in table.layers {
            let below = layer.uses.compactMap { levels[$0] }.max() ?? -1
            #expect(levels[layer.name] == below + 1, "\(layer.name)")
        }
    }

    /// Each arrow leads from the type of a step to that of the next, and every type is declared in the sources.
    @Test func theJourneyLeadsOverTypesOfTheSources() {
        let diagram = Diagram(LibrarySources.text("Sources/Convoy/Convoy.docc/Resources/journey.svg"))
        #expect(diagram.states.count == 6)
        #expect(diagram.arrows.count == diagram.states.count - 1)
        #expect(Set(diagram.arrows.flatMap { [$0.from, $0.to] }) == diagram.states)
        let declared = Set(
            LibrarySources.texts.flatMap { _, text in
                text.matches(of: #/(?:struct|class|protocol) (\w+)[<:]/#).map { String($0.1) }
            })
        #expect(diagram.states.subtracting(declared).sorted() == [])
    }
}
