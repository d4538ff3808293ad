// Functions, which stand only where something is done for a test or for each element.

extension ScriptReader {
    /// Reads `function(item) { … }` or `item => …`; the names of its parameters, and what it does.
    mutating func function<Body>(
        _ body: (inout Self) throws(Problem) -> Body
    ) throws(Problem) -> (parameters: [String], body: Body) {
        let isWord = next == .name("function")
        if isWord { index += 1 }
        var parameters: [String] = []
        if case .name(let name) = next {
            index += 1
            // That of a function says nothing.
            if !isWord { parameters = [name] }
        }
        if parameters.isEmpty {
            try need("(")
            while !take(")") {
                parameters.append(try needName())
                guard take(",") || isNext(")") else { throw refusal() }
            }
        }
        if isWord {
            guard isNext("{") else { throw refusal() }
        } else {
            try need("=>")
        }
        return (parameters, try naming(parameters, body))
    }

    /// Reads something in which these are names of values.
    mutating func naming<Body>(
        _ names: [String], _ body: (inout Self) throws(Problem) -> Body
    ) throws(Problem) -> Body {
        let outer = constants
        constants.formUnion(names)
        defer { constants = outer }
        return try body(&self)
    }

    /// What a function gives back: an expression, or the only statement of a block.
    mutating func result() throws(Problem) -> Script.Expression {
        guard take("{") else { return try expression() }
        guard next == .name("return") else { throw refusal() }
        index += 1
        let value = try expression()
        _ = take(";")
        try need("}")
        return value
    }
}
