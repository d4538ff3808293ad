/// The states and arrows of a diagram drawn by `.ci/diagrams`, read from the attributes of its SVG elements.
struct Diagram {
    /// An arrow from a state to another.
    struct Arrow: Hashable, Comparable, CustomStringConvertible {
        let from: String
        let to: String
        var description: String { "\(from) > \(to)" }
        static func < (left: Arrow, right: Arrow) -> Bool { left.description < right.description }
    }

    let states: Set<String>
    let arrows: Set<Arrow>
    /// The row of each layer, counted from the bottom.
    let levels: [String: Int]

    /// - Parameter text: the picture as SVG.
    init(_ text: String) {
        states = Set(text.matches(of: #/data-state="(\w+)"/#).map { String($0.1) })
        arrows = Set(
            text.matches(of: #/data-from="(\w+)" data-to="(\w+)"/#).map {
                Arrow(from: String($0.1), to: String($0.2))
            })
        levels = Dictionary(
            text.matches(of: #/data-layer="(\w+)" data-level="(\d+)"/#).map { (String($0.1), Int($0.2) ?? -1) },
            uniquingKeysWith: max)
    }
}
