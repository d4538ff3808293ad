import Testing

@testable import Convoy

/// Compares the diagrams of the pages, drawn by `.ci/diagrams`, with the code.
@Suite struct DiagramTests {
    private static func name(_ phase: OperationStateMachine.Phase) -> String {
        String("\(phase)".prefix { $0 != "(" })
    }

    /// Every event in every stage of the table.
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

    @Test func everyLayerIsDrawnAboveThoseItUses() {
        let table = LayerTable(LibrarySources.page("Layers"))
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
