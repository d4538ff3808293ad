// Errors of placeholders, with suggestions.

extension Expander {
    /// Reports a name that no request has.
    mutating func check(_ name: String, _ placeholder: Placeholder) {
        guard requests[name] == nil else { return }
        let near = suggestion(for: name, among: requests.keys)
        let advice = near.map { "did you mean \($0)?" } ?? "write # @name \(name) above its request line"
        report(placeholder, "no request is called \(name.shown)", advice)
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
            for: name, among: surroundings.given.keys)
            ?? suggestion(for: name, among: surroundings.columns)
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

    /// Returns the known name that an unknown one probably means; nil if none is similar.
    ///
    /// Only the first hundred calls search, because there may be very many names.
    private mutating func suggestion(for name: String, among names: some Collection<String>) -> String? {
        suggestionCount += 1
        return suggestionCount > 100 ? nil : names.filter { $0.isOneSlip(from: name) }.min()
    }

    mutating func report(
        _ placeholder: Placeholder, _ what: String, _ advice: String, _ kind: Problem.Kind = .mistake
    ) {
        problems.append(Problem(placeholder.position, what, advice, kind: kind, file: placeholder.file))
    }
}
