import Convoy
import Foundation

/// A variable of the file has one value for the complete run, even if a system variable defines it: a request that
/// creates a resource and one that reads it then use the same identifier.
struct Expander {
    let file: HTTPFile
    let surroundings: Surroundings
    let requests: [String: Int]
    let globals: Globals
    var current: Int?
    let definitions: [String: [Int]]
    private var known: [Int: [Piece]] = [:]
    private var failed: [Int: Problem] = [:]
    private var open: [Int] = []
    private let date: Date
    var problems: [Problem] = []

    init(_ file: HTTPFile, _ surroundings: Surroundings, requests: [String: Int]) {
        (self.file, self.surroundings, self.requests) = (file, surroundings, requests)
        globals = Globals(file.requests.map { $0.handlers.flatMap(\.changes) })
        definitions = Dictionary(grouping: file.variables.indices) { file.variables[$0].name }
        date = surroundings.now()
    }

    mutating func pieces(of template: Template) -> [Piece] {
        var pieces: [Piece] = []
        for part in template.parts {
            switch part {
            case .text(let text): pieces += .plain(text)
            case .placeholder(let placeholder):
                pieces += self.pieces(of: placeholder).map { piece in
                    let isEncoded = placeholder.isEncoded && piece.encoding == .byPlace
                    return (isEncoded ? piece.encoded(.always) : piece).inside(placeholder)
                }
                // The number of pieces is limited, because variables that each use the previous one twice grow
                // exponentially.
                guard pieces.count <= Self.mostPieces else {
                    report(placeholder, "this consists of more than \(Self.mostPieces) pieces", "write the text itself")
                    return []
                }
            }
        }
        return pieces
    }

    private static let mostPieces = 10_000

    private mutating func pieces(of placeholder: Placeholder) -> [Piece] {
        switch placeholder.expression {
        case .reference(let reference, let encoding):
            _ = index(of: reference.name, at: placeholder.position, file: placeholder.file)
            let piece = Piece(source: .answer(reference), shown: "{{\(placeholder.source)}}")
            return [piece.encoded(encoding)]
        case .system(let variable): return pieces(of: variable, placeholder)
        case .shared(let name):
            guard let value = environmentValue(name, in: Environments.shared) else { return missing(name, placeholder) }
            return pieces(of: value, name, placeholder)
        case .variable(let name, let encoding):
            return pieces(ofVariable: name, placeholder).map { $0.encoded(encoding) }
        }
    }

    // MARK: Variables

    mutating func check(_ definition: Int) { _ = pieces(ofDefinition: definition) }

    private mutating func pieces(ofVariable name: String, _ placeholder: Placeholder) -> [Piece] {
        if let value = surroundings.given[name] {
            return [Piece(source: .text(value), shown: name.namesSecret ? "{{\(name)}}" : value)]
        }
        if surroundings.columns.contains(name) { return [Piece(source: .column(name), shown: "{{\(name)}}")] }
        if let piece = piece(ofGlobal: name) { return [piece] }
        // In `@host = {{host}}` without an earlier `@host`, the placeholder means the environment's variable.
        if let definition = definition(name, before: placeholder), definition != open.last {
            return pieces(ofDefinition: definition)
        }
        if let value = environmentValue(name, in: surroundings.environmentName)
            ?? environmentValue(name, in: Environments.shared)
        {
            return pieces(of: value, name, placeholder)
        }
        if let pieces = pieces(ofPart: name, placeholder) { return pieces }
        return missing(name, placeholder)
    }

    /// The last definition before the position, otherwise the first one after it.
    private func definition(_ name: String, before placeholder: Placeholder) -> Int? {
        guard let places = definitions[name] else { return nil }
        guard placeholder.file == nil else { return places.last }
        // The same line is not before, because `@a = {{a}}2` refers to the previous definition.
        let next = places.firstIndex(notBefore: { file.variables[$0].position.line < placeholder.position.line })
        return places[max(0, next - 1)]
    }

    private mutating func pieces(ofDefinition definition: Int) -> [Piece] {
        if let known = known[definition] { return known }
        if let problem = failed[definition] {
            problems.append(problem)
            return []
        }
        let variable = file.variables[definition]
        guard !open.contains(definition) else {
            reportCycle(Array(open.drop { $0 != definition }))
            return []
        }
        guard open.count < 64 else {
            let place = file.variables[definition].position
            let what = "@\(file.variables[definition].name) is the end of a chain of more than 64 variables"
            problems.append(Problem(place, what, "write the value itself in one of them"))
            return []
        }
        open.append(definition)
        let count = problems.count
        let pieces = pieces(of: variable.value).map { piece -> Piece in
            var piece = piece
            if case .system(let system) = piece.source, let text = system.value(at: date) {
                piece = Piece(source: .text(text), shown: text)
            }
            if variable.name.namesSecret { piece.shown = "{{\(variable.name)}}" }
            return piece
        }
        open.removeLast()
        // Each use of an invalid definition reports its error, because errors of skipped requests are ignored. Which
        // handler sets a variable depends on the place of the use, so such a value is not cached.
        let isFixed = pieces.allSatisfy { if case .global? = $0.reference?.part { false } else { true } }
        if problems.count > count {
            failed[definition] = problems[count]
        } else if isFixed {
            known[definition] = pieces
        }
        return pieces
    }

    /// The message begins with the cycle's first member in the file, so that all reports of the cycle are equal.
    private mutating func reportCycle(_ members: [Int]) {
        guard let first = members.min(), let start = members.firstIndex(of: first) else { return }
        let names = (members[start...] + members[..<start] + [first]).map { "@" + file.variables[$0].name }
        problems.append(
            Problem(
                file.variables[first].position, "\(names[0]) contains itself: \(names.joined(separator: " → "))",
                "write the value itself in one of them"))
    }

    func environmentValue(_ name: String, in environment: String?) -> Environments.Value? {
        environment.flatMap { surroundings.environments.values[$0]?[name] }
    }

    private mutating func pieces(of value: Environments.Value, _ name: String, _ placeholder: Placeholder) -> [Piece] {
        // The depth is limited, because the value {{a}} of the variable a would recurse without end.
        guard depth < 32, !isEndless || depth == 0 else {
            if !isEndless {
                report(placeholder, "\(name.shown) contains itself in its environment", "write the value itself there")
            }
            isEndless = true
            return []
        }
        if depth == 0 { isEndless = false }
        depth += 1
        defer { depth -= 1 }
        problems += value.problems
        let pieces = pieces(of: value.template)
        guard value.isSecret || name.namesSecret else { return pieces }
        return pieces.map { piece in
            var piece = piece
            piece.shown = "{{\(name)}}"
            return piece
        }
    }

    private var depth = 0
    private var isEndless = false
    var suggestionCount = 0

    private mutating func pieces(ofPart name: String, _ placeholder: Placeholder) -> [Piece]? {
        let names = name.split(separator: ".").map(String.init)
        guard names.count > 1, let first = names.first else { return nil }
        let path = JSONPath(segments: []).appending(names: Array(names.dropFirst()))
        if requests[first] != nil {
            let reference = Reference(name: first, side: .response, part: .json(path), source: name)
            return [Piece(source: .answer(reference), shown: "{{\(name)}}")]
        }
        guard let definition = definition(first, before: placeholder) else { return nil }
        let whole = pieces(ofDefinition: definition)
        guard whole.count == 1, var reference = whole[0].reference else { return nil }
        switch reference.part {
        case .body: reference.part = .json(path)
        case .json(let outer): reference.part = .json(outer.appending(names: Array(names.dropFirst())))
        case .header, .cookie, .global: return nil
        }
        reference.source += "." + names.dropFirst().joined(separator: ".")
        return [Piece(source: .answer(reference), shown: "{{\(name)}}")]
    }

    func piece(ofGlobal name: String) -> Piece? {
        guard let setter = globals.setter(of: name, for: current) else { return nil }
        let reference = Reference(name: file.requests[setter].key, side: .response, part: .global(name), source: name)
        return Piece(source: .answer(reference), shown: "{{\(name)}}")
    }

    // MARK: System variables

    private mutating func pieces(of variable: SystemVariable, _ placeholder: Placeholder) -> [Piece] {
        guard case .environment(var name, let isIndirect, let isFile) = variable else {
            return [Piece(source: .system(variable), shown: "{{\(placeholder.source)}}")]
        }
        if isIndirect {
            let count = problems.count
            guard let text = pieces(ofVariable: name, placeholder).knownText, problems.count == count else { return [] }
            name = text
        }
        guard let value = (isFile ? surroundings.dotEnvironment : surroundings.processEnvironment)[name] else {
            report(
                placeholder, "\(isFile ? "the file .env" : "the environment") has no variable \(name)",
                isFile ? "write \(name)=… there" : "set it: export \(name)=…")
            return []
        }
        return [Piece(source: .text(value), shown: "{{\(placeholder.source)}}")]
    }

    /// The request with the name; nil, and an error, if there is none.
    mutating func index(of name: String, at position: Position, file: String? = nil) -> Int? {
        if let index = requests[name] { return index }
        let near = suggestion(for: name, among: requests.keys)
        let advice = near.map { "did you mean \($0)?" } ?? "write # @name \(name) above its request line"
        problems.append(Problem(position, "no request is called \(name.shown)", advice, file: file))
        return nil
    }

    mutating func missing(_ name: String, _ placeholder: Placeholder) -> [Piece] {
        if requests[name] != nil {
            let advice = "write {{\(name).response.body.*}} or {{\(name).response.body.$.x}}"
            report(placeholder, "\(name.shown) is a request, not a value", advice)
            return []
        }
        let environment = surroundings.environmentName.flatMap { surroundings.environments.values[$0] } ?? [:]
        var advice = "write @\(name) = …, or give --variable \(name)=…"
        if let near = suggestion(for: name, among: definitions.keys) ?? suggestion(
            for: name, among: surroundings.given.keys) ?? suggestion(for: name, among: surroundings.columns)
            ?? suggestion(for: name, among: environment.keys)
        {
            advice = "did you mean \(near)?"
        } else if surroundings.environmentName == nil,
            let environment = surroundings.environments.names.first(where: { environmentValue(name, in: $0) != nil })
        {
            advice = "give --env \(environment)"
        }
        let kind: Problem.Kind = surroundings.skipsScripts ? .impossible : .mistake
        var problem = Problem(
            placeholder.position, "the variable \(name.shown) has no value", advice, kind: kind, file: placeholder.file)
        problem.variable = name
        problems.append(problem)
        return []
    }

    /// Only the first hundred calls search, because there may be very many names.
    private mutating func suggestion(for name: String, among names: some Collection<String>) -> String? {
        suggestionCount += 1
        return suggestionCount > 100 ? nil : names.filter { $0.isOneSlip(from: name) }.min()
    }

    mutating func report(_ position: Position, _ what: String, _ advice: String, _ kind: Problem.Kind = .mistake) {
        problems.append(Problem(position, what, advice, kind: kind))
    }

    private mutating func report(_ placeholder: Placeholder, _ what: String, _ advice: String) {
        problems.append(Problem(placeholder.position, what, advice, file: placeholder.file))
    }
}

extension Piece {
    fileprivate func encoded(_ encoding: ValueEncoding) -> Piece {
        guard encoding != .byPlace else { return self }
        var piece = self
        piece.encoding = encoding
        guard encoding == .always, let text else { return piece }
        piece.source = .text(text.percentEncoded)
        if !isSecret { piece.shown = text.percentEncoded }
        piece.encoding = .never
        return piece
    }
}

struct Globals {
    private var changes: [String: [(request: Int, sets: Bool)]] = [:]

    init(_ requests: [[(name: String?, sets: Bool)]]) {
        for (index, all) in requests.enumerated() {
            for change in all {
                for name in change.name.map({ [$0] }) ?? Array(changes.keys) {
                    changes[name, default: []].append((index, change.sets))
                }
            }
        }
    }

    /// The last setter before the request, otherwise the first one after it; nil if the last change before it is a
    /// clear.
    func setter(of name: String, for request: Int?) -> Int? {
        guard let changes = changes[name] else { return nil }
        let next = changes.firstIndex(notBefore: { $0.request < request ?? .max })
        if next > 0 { return changes[next - 1].sets ? changes[next - 1].request : nil }
        return changes.first { $0.request != request && $0.sets }?.request
    }
}
