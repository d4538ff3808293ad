import Foundation
import Testing

/// A target, the table of its layers and the references between them.
struct LayeredTarget: CustomTestStringConvertible {
    let testDescription: String
    let table: LayerTable
    let sources: LayeredSources
    let folders: Set<String>
    let references: [LayeredSources.Reference]

    init(_ name: String, heading: String) {
        let texts = LibrarySources.texts(of: name)
        testDescription = name
        table = LayerTable(LibrarySources.section(heading, of: "Layers"))
        sources = LayeredSources(texts, layers: table.layers.map(\.name))
        folders = Set(texts.map { $0.path.prefix { $0 != "/" } }.map(String.init))
        references = sources.references()
    }

    /// The targets whose layers have a table in `Layers.md`, each with the heading of its section.
    static let all =
        [LayeredTarget("Convoy", heading: "Overview")]
        + ["ConvoyTesting", "ConvoyQueue", "ConvoyCache", "ConvoyHTTPFile", "ConvoyCommand"].map {
            LayeredTarget($0, heading: "Layers of \($0)")
        }
}

/// Compares the order of the layers in `Layers.md` with the sources.
@Suite struct LayerTests {
    @Test(arguments: LayeredTarget.all) func theTableIsInOrder(target: LayeredTarget) {
        #expect(target.table.mistakes == [])
    }

    @Test(arguments: LayeredTarget.all) func everySourceIsInALayerAndEveryLayerHasSources(target: LayeredTarget) {
        #expect(target.folders == Set(target.table.layers.map(\.name)))
        #expect(target.sources.unreadable == [])
    }

    @Test(arguments: LayeredTarget.all) func nothingRefersToALayerThatItMayNotUse(target: LayeredTarget) {
        let wrong = target.references.filter {
            target.table.layer($0.layer)?.uses.contains($0.declaredLayer) != true
        }
        #expect(wrong.isEmpty, "\(wrong.count) references:\n\(wrong.map(\.description).joined(separator: "\n"))")
    }

    /// The sources must contain each use that the table permits.
    ///
    /// Rows with `all above` are exempt.
    @Test(arguments: LayeredTarget.all) func everyLayerMakesTheUsesOfTheTable(target: LayeredTarget) {
        let used = Set(target.references.map { "\($0.layer) uses \($0.declaredLayer)" })
        let explicit = target.table.layers.filter { !$0.isUnbounded }
        let unused = explicit.flatMap { layer in layer.uses.sorted().map { "\(layer.name) uses \($0)" } }
            .filter { !used.contains($0) }
        #expect(unused == [])
    }
}

/// Tests how `LayeredSources` finds references, with sources written in the tests.
@Suite struct LayeredSourcesTests {
    private static let page = """
        | layer | what it holds | what it may use |
        |---|---|---|
        | `Low` | values | nothing |
        | `Beside` | others | nothing |
        | `Middle` | what acts | `Low` |
        | `High` | the rest | all above |
        """

    /// The references that the table forbids.
    private func wrong(_ sources: [String: String]) -> [String] {
        let table = LayerTable(Self.page)
        #expect(table.mistakes == [])
        let layered = LayeredSources(sources.map { ($0.key, $0.value) }, layers: table.layers.map(\.name))
        #expect(layered.unreadable == [])
        return layered.references().filter { table.layer($0.layer)?.uses.contains($0.declaredLayer) != true }
            .map { "\($0.path):\($0.line) \($0.name)" }.sorted()
    }

    @Test func aReferenceThatPointsUpIsNamedWithFileLineAndType() {
        let sources = [
            "Low/Value.swift": "struct Value {\n    let count = 1\n    var manager: Manager?\n}",
            "High/Manager.swift": "final class Manager { let value: Value }",
        ]
        #expect(wrong(sources) == ["Low/Value.swift:3 Manager"])
        let layered = LayeredSources(sources.map { ($0.key, $0.value) }, layers: ["Low", "High"])
        #expect(
            layered.references().map(\.description).min()
                == "High/Manager.swift:1: High uses `Value` of Low (Low/Value.swift)")
    }

    @Test func aLayerThatIsNotNamedMayNotBeUsedThoughItIsBelow() {
        let sources = ["Beside/Other.swift": "enum Other {}", "Middle/Act.swift": "let kind = Other.self"]
        #expect(wrong(sources) == ["Middle/Act.swift:1 Other"])
    }

    @Test(arguments: [
        "// Manager", "/* Manager /* Manager */ Manager */", #"let a = "Manager \u{41} \"Manager\"""#,
        ##"let a = #"Manager \(Manager.self)"#"##, "let a = \"\"\"\n    Manager \"quoted\"\n    \"\"\"",
        "let a = #/Manager\"/#", "struct Value { enum Manager {}\n let a: Manager }",
        "struct Value<Manager> { let a: Manager }", "func a(_ value: Other) { value.Manager() }",
        "extension Value { var b: Inner }\nstruct Value: Parent {}\nprotocol Parent { associatedtype Inner }",
    ])
    func whatIsNoReferenceIsNotFound(low: String) {
        #expect(
            wrong(["Low/Low.swift": low, "High/High.swift": "final class Manager {}\nstruct Holder { enum Inner {} }"])
                == [])
    }

    @Test(arguments: [
        ("let a: [String: Manager?] = [:]", "Manager"), ("let a = \"\\(b(\"c\") + Manager.name)\"", "Manager"),
        ("func a<T: Manager>(_: T) {}", "Manager"), ("extension Manager {}", "Manager"),
        ("struct Value: Manager {}", "Manager"), ("let a = Convoy.Manager()", "Manager"),
        ("let a: any Kind<Manager>", "Manager"), ("let a: Manager<Int>.State", "Manager"),
        ("let a = \\Manager.name", "Manager"), ("@Wrapped(Manager.self) var a", "Manager"),
        ("struct Box { typealias Manager = Int }\nlet a: Manager", "Manager"),
    ])
    func everyUseOfATypeIsFound(low: String, name: String) {
        let high = "class Manager<T> { struct State {} }"
        #expect(wrong(["Low/Low.swift": low, "High/High.swift": high]).contains { $0.hasSuffix(" " + name) })
    }

    @Test func aTypeInsideAnotherBelongsToTheLayerThatDeclaresIt() {
        let sources = [
            "Low/Value.swift": "struct Value {}\nextension Value { func a(_: State) {} }\nlet b: Value.State",
            "High/Value+State.swift": "extension Value { struct State {} }",
        ]
        #expect(wrong(sources) == ["Low/Value.swift:2 Value.State", "Low/Value.swift:3 Value.State"])
    }

    @Test func aTypeThatIsInheritedOrHasAnotherNameIsFound() {
        let sources = [
            "Low/Base.swift": "class Base {}\nclass Derived: Base { let a: State? = nil }\ntypealias Other = Base",
            "Middle/Use.swift": "let a: Other.State",
            "High/Base+State.swift": "extension Base { enum State {} }",
        ]
        #expect(wrong(sources) == ["Low/Base.swift:2 Base.State", "Middle/Use.swift:1 Base.State"])
    }

    @Test func aMemberThatAHigherLayerAddsIsFoundByItsName() {
        let sources = [
            "Low/Value.swift": """
            struct Value {
                var count = 0
                func a(_ text: String, _ it: Value) { print(text.shouted, it.doubled, count) }
                func b() { doubled() }
                func c() -> Value { Value(loudly: 1) }
            }
            """,
            "High/Value+More.swift": """
            extension Value {
                func doubled() {}
                init(loudly: Int) { self.init() }
                private func count() {}
            }
            extension String { var shouted: String { uppercased() } }
            """,
        ]
        #expect(
            wrong(sources) == [
                "Low/Value.swift:3 doubled", "Low/Value.swift:3 shouted", "Low/Value.swift:4 doubled",
                "Low/Value.swift:5 Value.init(loudly",
            ])
    }

    @Test func aTableThatIsOutOfOrderSaysSo() {
        let page =
            "| `Low` | values | `High` |\n| `High` | the rest | all above but `Low` |\n| `High` | again | nothing |"
        let table = LayerTable(page)
        #expect(
            table.mistakes == [
                "Low may use High, which is no layer above it in the table", "High is there twice",
            ])
        #expect(table.layer("High")?.uses == [])
        #expect(LayerTable("").mistakes == ["there is no table of layers"])
    }

    @Test func aSourceThatCannotBeReadToItsEndIsNamed() {
        #expect(LayeredSources([("Low/A.swift", "struct A {")], layers: ["Low"]).unreadable == ["Low/A.swift"])
    }
}
