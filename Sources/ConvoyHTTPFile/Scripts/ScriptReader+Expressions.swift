// Reads expressions of a handler.

extension ScriptReader {
    /// The names with which an expression may start, besides the names of constants.
    ///
    /// The `typeof` of any other name is "undefined".
    private static let known: Set = [
        "true", "false", "null", "undefined", "response", "client", "JSON", "Array", "jsonPath", "Number", "String",
        "Boolean", "parseInt", "parseFloat", "encodeURIComponent", "typeof",
    ]

    mutating func expression() throws(Problem) -> Script.Expression {
        try deeper { (reader) throws(Problem) in
            let condition = try reader.binary(above: 0)
            guard reader.take("?") else { return condition }
            let first = try reader.expression()
            try reader.need(":")
            return .choice(condition, first, try reader.expression())
        }
    }

    private mutating func binary(above strength: Int) throws(Problem) -> Script.Expression {
        var left = try unary()
        while case .mark(let mark) = next, let operation = Script.Operator(rawValue: mark),
            operation.strength > strength
        {
            index += 1
            try countLink()
            left = .binary(operation, left, try binary(above: operation.strength))
        }
        return left
    }

    private mutating func unary() throws(Problem) -> Script.Expression {
        if let conversion: Script.Conversion = isNext("!")
            ? .not
            : isNext("-")
                ? .minus
                : next == .name("typeof")
                    ? .type : nil
        {
            index += 1
            if conversion == .type, case .name(let name) = next, !Self.known.contains(name), !isConstant(name) {
                // As in JavaScript, `typeof` of an unknown name is "undefined".
                index += 1
                return .literal(.string("undefined"))
            }
            return .convert(conversion, try deeper { (reader) throws(Problem) in try reader.unary() })
        }
        return try behind(try primary())
    }

    private mutating func primary() throws(Problem) -> Script.Expression {
        let token = next
        index += 1
        switch token {
        case .number(let digits): return .literal(.number(digits))
        case .text(let text): return .literal(.string(text))
        case .template(let parts):
            var texts: [Script.Expression] = []
            for part in parts {
                switch part {
                case .text(let text): texts.append(.literal(.string(text)))
                case .source(let source, let place):
                    texts.append(try deeper { (reader) throws(Problem) in try reader.expression(source, at: place) })
                }
            }
            return .text(texts)
        case .mark("("):
            let inner = try expression()
            try need(")")
            return inner
        case .mark("["): return .list(try list(until: "]"))
        case .name(let name): return try named(name)
        case .mark, .end:
            index -= 1
            throw refusal()
        }
    }

    private mutating func named(_ name: String) throws(Problem) -> Script.Expression {
        switch name {
        case "true": return .literal(.bool(true))
        case "false": return .literal(.bool(false))
        case "null": return .literal(.null)
        case "undefined": return .undefined
        case _ where isConstant(name): return .constant(name)
        case "response": return try answer()
        case "client":
            for word in ["global", "get"] {
                try need(".")
                guard next == .name(word) else { throw refusal() }
                index += 1
            }
            try need("(")
            let variable = try needText()
            try need(")")
            return .global(variable)
        case "JSON", "Array":
            try need(".")
            guard case .name(let function) = next, let conversion = Script.Conversion(rawValue: "\(name).\(function)")
            else { throw refusal() }
            index += 1
            return .convert(conversion, try argument())
        case "jsonPath": return try path()
        default:
            guard isNext("("), let conversion = Script.Conversion(rawValue: name) else {
                index -= 1
                throw refusal()
            }
            return .convert(conversion, try argument())
        }
    }

    /// Reads the arguments of a call, and returns the first one.
    ///
    /// Further arguments, such as the indentation of `JSON.stringify`, are ignored.
    private mutating func argument() throws(Problem) -> Script.Expression {
        let place = place
        guard let first = try arguments().first else { throw Script.problem(place, "the parentheses contain no value") }
        return first
    }

    private mutating func path() throws(Problem) -> Script.Expression {
        try need("(")
        let base = try expression()
        try need(",")
        let (place, text) = (place, try needText())
        try need(")")
        do throws(JSONPath.Defect) { return .path(base, try JSONPath(text)) } catch {
            throw Script.problem(place, "\(text.shown) is not a JSONPath: \(error.what)")
        }
    }

    /// Reads a part of the response, such as `.body`, after the word `response`.
    private mutating func answer() throws(Problem) -> Script.Expression {
        try need(".")
        switch try needName() {
        case "status": return .answer(.status)
        case "body": return .answer(.body)
        case "contentType":
            try need(".")
            guard let part = Script.AnswerPart(rawValue: try needName()), part == .mimeType || part == .charset else {
                index -= 1
                throw refusal()
            }
            return .answer(part)
        case "headers":
            if take("[") {
                let name = try expression()
                try need("]")
                return .header(name)
            }
            try need(".")
            guard next == .name("valueOf") else { throw refusal() }
            index += 1
            return .header(try argument())
        default:
            index -= 1
            throw refusal()
        }
    }

    /// Reads members, elements and calls after a value.
    private mutating func behind(_ value: Script.Expression) throws(Problem) -> Script.Expression {
        var value = value
        while true {
            if take("[") {
                try countLink()
                value = .member(value, try expression())
                try need("]")
                continue
            }
            guard isNext(".") || isNext("?."), tokens[index + 1].token != .name("forEach") else { return value }
            index += 1
            try countLink()
            let name = try needName()
            guard isNext("(") else {
                value = .member(value, .literal(.string(name)))
                continue
            }
            if let each = Script.Each(rawValue: name) {
                try need("(")
                let (parameters, body) = try function { (reader) throws(Problem) in try reader.result() }
                _ = take(",")
                try need(")")
                value = .each(each, value, parameters, body)
                continue
            }
            guard let method = Script.Method(rawValue: name) else {
                index -= 1
                throw refusal()
            }
            value = .call(method, value, try arguments())
        }
    }
}
