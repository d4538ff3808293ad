// What imported requests are called, and which variables have no value.
import Convoy

extension ImportedFile {
    /// Gives each request a name that no other has.
    mutating func nameRequests() {
        var taken: Set<String> = []
        for index in requests.indices {
            let title = requests[index].request.title?.text ?? ""
            let base = title.split(separator: " / ").last.map { String($0).requestName } ?? "request"
            var (name, number) = (base, 1)
            while !taken.insert(name).inserted {
                number += 1
                name = "\(base)_\(number)"
            }
            requests[index].request.name = Word(text: name, position: Position(line: 1, column: 1))
        }
    }

    /// The files that bodies come from, each once, but for those of the import itself.
    package var bodyFiles: [String] {
        var seen = Set(attachments.map(\.path))
        return requests.flatMap(\.request.body).compactMap { part in
            guard case .file(let file) = part, seen.insert(file.path.source).inserted else { return nil }
            return file.path.source
        }
    }

    /// The variables that the requests use, and neither the file nor a handler sets.
    package var unsetVariables: [String] {
        var known = Set(variables.map(\.name))
        for request in requests { known.formUnion(request.setVariables) }
        var names: [String] = []
        for template in variables.map(\.value) + requests.flatMap(\.request.templates) {
            for placeholder in template.placeholders {
                guard case .variable(let name, _) = placeholder.expression, known.insert(name).inserted else {
                    continue
                }
                names.append(name)
            }
        }
        return names
    }
}

extension FileRequest {
    /// Everything in it that may hold values.
    var templates: [Template] {
        [target] + fields.map(\.value)
            + (body + graphQLVariables).map { part in
                switch part {
                case .text(let text): text
                case .file(let file): file.path
                }
            }
    }
}

extension String {
    /// A name of a request, made of the words of a title; parts of a path that count something are left out.
    fileprivate var requestName: String {
        let segments = split { $0 == "/" }
        let telling = segments.filter { !$0.isIdentifier }
        let all = (telling.isEmpty ? segments : telling).flatMap { segment in
            segment.split { !($0.isLetter || $0.isNumber || $0 == "_") }.map { $0.lowercased() }
        }
        // Of a long path the method and its end say most.
        let chosen = all.count > 5 ? all.prefix(1) + all.suffix(4) : all[...]
        let name = String(chosen.joined(separator: "_").prefix(48))
        return name.isRequestName ? name : "request"
    }
}

extension Substring {
    /// Whether a part of a path names one of many: a number, a hash, a UUID.
    fileprivate var isIdentifier: Bool {
        let digits = utf8.count { (0x30...0x39).contains($0) }
        return digits > 0 && !contains(" ") && (digits * 3 >= utf8.count || utf8.count > 20)
    }
}
