// The tree of encoded parameters, in the order of encoding.

/// A node of the tree of parameters, into which one value encodes itself.
final class ParameterNode {
    enum Content {
        /// No value has been encoded yet; any other state may follow.
        case nothing
        /// A nil that the encoding omits; any other state may follow.
        case absent
        /// A single value; no other state follows.
        case text(String)
        /// Elements in order; more may be appended.
        case array([ParameterNode])
        /// Values by key; more may be added.
        case object(Members)
    }

    /// The values of an object in the order of the first use of their keys.
    struct Members {
        /// The values in order.
        ///
        /// A node without a key contains the values of a superclass, which belong to the object itself.
        private(set) var list: [(key: String?, node: ParameterNode)] = []
        private var positions: [String: Int] = [:]

        subscript(_ key: String) -> ParameterNode? { positions[key].map { list[$0].node } }

        mutating func set(_ node: ParameterNode, for key: String?) {
            if let key, let position = positions[key] {
                list[position].node = node
                return
            }
            if let key { positions[key] = list.count }
            list.append((key, node))
        }
    }

    private(set) var content = Content.nothing
    /// The first error of a function that cannot throw, such as `becomeObject`.
    ///
    /// `ParameterText` throws this error when it reads the tree.
    private(set) var defect: EncodingError?

    /// Stores a single value, or a nil that is omitted.
    func set(_ text: String?, at codingPath: [any CodingKey]) throws(EncodingError) {
        switch content {
        case .nothing, .absent: content = text.map(Content.text) ?? .absent
        default: throw .refusal("a single value would replace a value that is already encoded", at: codingPath)
        }
    }

    /// The values by key; empty if the node is not an object.
    var members: Members { if case .object(let members) = content { members } else { Members() } }

    /// The number of elements; 0 if the node is not an array.
    var count: Int { if case .array(let elements) = content { elements.count } else { 0 } }

    func becomeObject(at codingPath: [any CodingKey]) {
        switch content {
        case .nothing, .absent: content = .object(Members())
        case .object: break
        default: refuse(.refusal("values with keys would replace a value that is already encoded", at: codingPath))
        }
    }

    func becomeArray(at codingPath: [any CodingKey]) {
        switch content {
        case .nothing, .absent: content = .array([])
        case .array: break
        default: refuse(.refusal("elements would replace a value that is already encoded", at: codingPath))
        }
    }

    /// Adds a value to an object.
    ///
    /// - Parameter key: nil for the values of a superclass.
    func put(_ node: ParameterNode, for key: String?) {
        guard case .object(var members) = content else { return }
        content = .nothing  // Avoids a copy while the storage grows.
        members.set(node, for: key)
        content = .object(members)
    }

    /// Adds an element to an array.
    func append(_ node: ParameterNode) {
        guard case .array(var elements) = content else { return }
        content = .nothing  // Avoids a copy while the storage grows.
        elements.append(node)
        content = .array(elements)
    }

    /// Records an error, if it is the first of this node.
    func refuse(_ error: EncodingError) { defect = defect ?? error }
}

/// A key in the path of an error: a name, or the index of an element.
struct ParameterKey: CodingKey {
    let stringValue: String
    let intValue: Int?

    init(_ name: String) { (stringValue, intValue) = (name, nil) }
    init(index: Int) { (stringValue, intValue) = ("\(index)", index) }
    init(stringValue: String) { self.init(stringValue) }
    init(intValue: Int) { self.init(index: intValue) }
}
