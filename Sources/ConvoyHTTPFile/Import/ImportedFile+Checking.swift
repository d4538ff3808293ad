// Disables imported requests that cannot be sent, and breaks dependency cycles.
import Convoy

extension ImportedFile {
    /// Disables each request whose URL is invalid, or is neither http nor https.
    ///
    /// A URL whose scheme or host depends on a variable is not checked.
    mutating func disableUnsendable() {
        for index in requests.indices {
            let target = requests[index].request.target
            guard target.host != nil || target.placeholders.isEmpty else { continue }
            let text = target.parts.map { part in if case .text(let text) = part { text } else { "1" } }.joined()
            let url = text.schemeEnd == nil ? "http://" + text : text
            let scheme = url.prefix { $0 != ":" }.lowercased()
            if ["http", "https"].contains(scheme), url.originText != nil { continue }
            requests[index].request.isDisabled = true
            requests[index].notes.append("it is disabled: its URL is neither http nor https")
        }
    }

    /// Renames variables, so that no request depends on itself through the handlers of later requests.
    ///
    /// In such a cycle, Postman uses the value of a variable from an earlier run. Here, `{{t}}` becomes `{{t_before}}`.
    /// The user sets that variable.
    ///
    /// - Complexity: O(*n*) for *n* uses of variables, and a search for each use before its setter.
    mutating func breakCycles() {
        let setters = setters
        guard !setters.isEmpty else { return }
        var needs = requests.indices.map { index in
            requests[index].variables.compactMap { name in setter(name, of: index, setters).map { (name, $0) } }
        }
        for index in requests.indices {
            // In file order, the first request of a cycle uses a variable that a later request sets. Renaming it
            // breaks the cycle.
            for (name, setter) in needs[index] where setter > index && reaches(index, from: setter, needs) {
                requests[index].rename(name, to: name + "_before")
                needs[index].removeAll { $0.0 == name }
            }
        }
    }

    /// For each variable, the indices of the requests whose handlers set it.
    private var setters: [String: [Int]] {
        var setters: [String: [Int]] = [:]
        for index in requests.indices {
            for name in requests[index].setVariables { setters[name, default: []].append(index) }
        }
        return setters
    }

    /// The index of the last request before `index` whose handler sets a variable, or else of the first one after it.
    ///
    /// ``Globals/setter(of:for:)`` uses the same rule, but also considers handlers that clear the variable.
    private func setter(_ name: String, of index: Int, _ setters: [String: [Int]]) -> Int? {
        guard let all = setters[name] else { return nil }
        var (low, high) = (0, all.count)
        while low < high {
            let middle = (low + high) / 2
            if all[middle] < index { low = middle + 1 } else { high = middle }
        }
        if low > 0 { return all[low - 1] }
        return all.first { $0 > index }
    }

    /// Whether the request `start` needs the request `goal`, directly or through requests after `goal`.
    ///
    /// Requests before `goal` are not searched, because their cycles are broken already.
    private func reaches(_ goal: Int, from start: Int, _ needs: [[(String, Int)]]) -> Bool {
        var (open, seen) = ([start], Set<Int>())
        while let next = open.popLast() {
            if next == goal { return true }
            if next > goal, seen.insert(next).inserted { open += needs[next].map(\.1) }
        }
        return false
    }
}

extension ImportedRequest {
    /// The variables that the request's handler sets.
    var setVariables: [String] {
        guard !handler.isEmpty else { return [] }
        let text = handler.joined(separator: "\n")
        let script = try? ScriptReader.read(text, at: Position(line: 1, column: 1))
        return script?.changes.filter(\.sets).compactMap(\.name) ?? []
    }

    /// The variables that the request uses, each once.
    fileprivate var variables: [String] {
        var seen: Set<String> = []
        return request.templates.flatMap(\.placeholders).compactMap { placeholder in
            guard case .variable(let name, _) = placeholder.expression, seen.insert(name).inserted else { return nil }
            return name
        }
    }

    fileprivate mutating func rename(_ name: String, to other: String) {
        func renamed(_ template: Template) -> Template {
            var result = Template()
            for part in template.parts {
                if case .placeholder(let placeholder) = part, case .variable(name, _) = placeholder.expression {
                    result.append(Template(placeholder: other))
                } else {
                    result.parts.append(part)
                }
            }
            return result
        }
        request.target = renamed(request.target)
        for place in request.fields.indices { request.fields[place].value = renamed(request.fields[place].value) }
        func renamedParts(_ parts: [BodyPart]) -> [BodyPart] {
            parts.map { part in if case .text(let text) = part { .text(renamed(text)) } else { part } }
        }
        (request.body, request.graphQLVariables) = (renamedParts(request.body), renamedParts(request.graphQLVariables))
    }
}
