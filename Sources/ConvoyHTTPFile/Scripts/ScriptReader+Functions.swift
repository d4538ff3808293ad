// Reads functions, which are only allowed in tests and in loops over elements.

extension ScriptReader {
    /// Reads `function(item) { … }` or `item => …`: the names of the parameters and the body.
    mutating func function<Body>(
        _ body: (inout Self) throws(Problem) -> Body
    ) throws(Problem) -> (parameters: [String], body: Body) {
        let isWord = next == .name("function")
        if isWord { index += 1 }
        var parameters: [String] = []
        if case .name(let name) = next {
            index += 1
            // The name of a `function` is ignored.
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

    /// Reads a part of the script in which `names` are constants, besides the constants around it.
    mutating func naming<Body>(
        _ names: [String], _ body: (inout Self) throws(Problem) -> Body
    ) throws(Problem) -> Body {
        let outer = constants
        constants.formUnion(names)
        defer { constants = outer }
        return try body(&self)
    }

    /// Reads the body of a function that returns a value: an expression, or a block with only a `return`.
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
