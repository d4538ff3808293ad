// Names imported requests, and finds variables without a value.
import Convoy

/// Makes names that are all different.
struct UniqueNames {
    private var taken: Set<String>
    /// The last number that was added to each base.
    private var numbers: [String: Int] = [:]
    /// The number of names that were tried; a test limits this number.
    private(set) var tries = 0

    init(taken: some Sequence<String> = []) { self.taken = Set(taken) }

    /// Returns an unused name: the base, or the base with a number after it.
    mutating func take(_ base: String) -> String {
        var number = numbers[base] ?? 0
        while true {
            number += 1
            tries += 1
            let name = number == 1 ? base : "\(base)_\(number)"
            if taken.insert(name).inserted {
                numbers[base] = number
                return name
            }
        }
    }
}

extension ImportedFile {
    /// Gives each request a unique name.
    mutating func nameRequests() {
        var names = UniqueNames()
        for index in requests.indices {
            let title = requests[index].request.title?.text ?? ""
            let base = title.split(separator: " / ").last.map { String($0).requestName } ?? "request"
            requests[index].request.name = Word(text: names.take(base), position: Position(line: 1, column: 1))
        }
    }

    /// Puts a prefix before the name of each attachment, so that two imports do not share a file.
    package mutating func nameAttachments(after stem: String) {
        var names: [String: String] = [:]
        for index in attachments.indices {
            let name = "\(stem)-\(attachments[index].path)"
            names[attachments[index].path] = name
            attachments[index].path = name
        }
        for index in requests.indices {
            guard case .file(let file)? = requests[index].request.body.first, let name = names[file.path.source] else {
                continue
            }
            requests[index].request.body = [.file(FileReference(name))]
        }
    }

    /// Removes the attachments of omitted requests.
    mutating func dropAttachments() {
        guard !attachments.isEmpty else { return }
        let paths = requests.flatMap(\.request.body).compactMap { part in
            if case .file(let file) = part { file.path.source } else { nil }
        }
        let used = Set(paths)
        attachments.removeAll { !used.contains($0.path) }
    }

    /// The files that bodies refer to, each once, without the attachments of the import.
    package var bodyFiles: [String] {
        var seen = Set(attachments.map(\.path))
        return requests.flatMap(\.request.body).compactMap { part in
            guard case .file(let file) = part, seen.insert(file.path.source).inserted else { return nil }
            return file.path.source
        }
    }

    /// The variables that requests use but neither the file nor a handler sets.
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
    /// The URL, the field values and the parts of the body, all of which may contain placeholders.
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
    /// A request name from the words of a title.
    ///
    /// Parts of a path that are identifiers are omitted.
    fileprivate var requestName: String {
        let segments = split { $0 == "/" }
        let telling = segments.filter { !$0.isIdentifier }
        let all = (telling.isEmpty ? segments : telling).flatMap { segment in
            segment.split { !($0.isLetter || $0.isNumber || $0 == "_") }.map { $0.lowercased() }
        }
        // In a long path, the method and the last parts identify the request best.
        let chosen = all.count > 5 ? all.prefix(1) + all.suffix(4) : all[...]
        let name = String(chosen.joined(separator: "_").prefix(48))
        return name.isRequestName ? name : "request"
    }
}

extension Substring {
    /// Whether a part of a path looks like an identifier: a number, a hash or a UUID.
    fileprivate var isIdentifier: Bool {
        let digits = utf8.count { (0x30...0x39).contains($0) }
        return digits > 0 && !contains(" ") && (digits * 3 >= utf8.count || utf8.count > 20)
    }
}
