// Options with several values.
import ArgumentParser

/// The values of an argument, separated by commas.
struct CommaList<Element: ExpressibleByArgument> {
    let elements: [Element]
}

extension CommaList: ExpressibleByArgument, ExpressibleByArrayLiteral {
    init(arrayLiteral elements: Element...) { self.elements = elements }

    init?(argument: String) {
        let parts = argument.split(separator: ",")
        elements = parts.compactMap { Element(argument: String($0)) }
        if parts.isEmpty || elements.count < parts.count { return nil }
    }

    static var allValueStrings: [String] { Element.allValueStrings }

    var defaultValueDescription: String { elements.map(\.defaultValueDescription).joined(separator: ",") }
}
