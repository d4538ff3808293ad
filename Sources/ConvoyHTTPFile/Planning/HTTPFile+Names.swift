// Names that several requests share.

extension HTTPFile {
    /// The errors for names that several requests have and a reference or a dependency uses.
    ///
    /// Any other name is only a title.
    var repeatedNames: [Problem] {
        var first: [String: Int] = [:]
        var repeated: [(name: Word, line: Int)] = []
        for request in requests {
            guard let name = request.name else { continue }
            if let line = first[name.text] {
                repeated.append((name, line))
            } else {
                first[name.text] = name.position.line
            }
        }
        guard !repeated.isEmpty else { return [] }
        let referred = referredNames
        return repeated.filter { referred.contains($0.name.text) }.map { name, line in
            Problem(
                name.position, "the request in line \(line) is also called \(name.text.shown)",
                "give one of them another name")
        }
    }

    /// The names that references and dependencies use.
    private var referredNames: Set<String> {
        var names = Set(requests.flatMap(\.dependencies).map(\.text))
        var templates = variables.map(\.value)
        for request in requests {
            templates += [request.target] + request.fields.map(\.value)
            if let output = request.output { templates.append(output.path) }
            for part in request.body + request.graphQLVariables {
                switch part {
                case .text(let text): templates.append(text)
                case .file(let file): templates.append(file.path)
                }
            }
        }
        for placeholder in templates.lazy.flatMap(\.placeholders) {
            switch placeholder.expression {
            case .reference(let reference, _): names.insert(reference.name)
            case .variable(let name, _): names.insert(String(name.prefix { $0 != "." }))
            case .shared, .system: break
            }
        }
        return names
    }
}
