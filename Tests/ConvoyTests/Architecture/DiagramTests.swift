import Testing

@testable import Convoy

/// The diagrams of the pages against the code; `.ci/diagrams` draws them.
@Suite struct DiagramTests {
    private static func name(_ phase: OperationStateMachine.Phase) -> String {
        String("\(phase)".prefix { $0 != "(" })
    }

    /// Every event at every stage of the table.
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
}
