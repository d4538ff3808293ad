// Builds the parts of an imported request, for the readers of all formats.
import Convoy

extension ImportedRequest {
    /// Adds a field, or a note if the name or the value is invalid.
    mutating func addField(_ name: String, _ value: Template) {
        guard name.isFieldName, !name.hasPrefix("#") else {
            return notes.append("the field \(name.shown) is omitted: its name is invalid")
        }
        let text = value.parts.contains { part in
            if case .text(let text) = part { text.utf8.contains { $0 == 0 || $0 == 0x0A || $0 == 0x0D } } else { false }
        }
        guard !text else { return notes.append("the field \(name) is omitted: its value contains a line end") }
        request.addField(name, value.trimmed)
    }

    mutating func setMethod(_ method: String) {
        request.method = method
        guard !HTTPFileReader.methods.contains(method) || method == "GRAPHQL" else { return }
        request.method = "GET"
        request.isDisabled = true
        notes.append("the method was \(method.shown), which convoy cannot send")
    }

    mutating func setForm(_ fields: [(name: Template, value: Template)]) {
        var text = Template()
        for (place, field) in fields.enumerated() {
            if place > 0 { text.append("&") }
            text.append(field.name)
            text.append("=")
            text.append(field.value)
        }
        request.bodyKind = .form
        request.body = text.parts.isEmpty ? [] : [.text(text)]
        setType("application/x-www-form-urlencoded")
    }

    mutating func setParts(_ parts: [FormParts.Part]) {
        let boundary = FormParts.boundary(of: parts)
        request.bodyKind = .multipart(boundary: boundary)
        request.body = FormParts.body(parts, boundary: boundary)
        request.fields.removeAll { $0.name.lowercased() == "content-type" }
        setType("multipart/form-data; boundary=\(boundary)")
    }

    /// Sets the body's type, unless a field already specifies it.
    mutating func setType(_ type: String) {
        if request.field("content-type") == nil { addField("Content-Type", Template(type)) }
    }

    /// Removes a body that the method does not allow.
    mutating func completeBody() {
        guard ["HEAD", "TRACE"].contains(request.method), !request.body.isEmpty else { return }
        (request.body, request.graphQLVariables, request.bodyKind) = ([], [], .plain)
        notes.append("its body is omitted: a \(request.method) request has none")
    }
}

extension Template {
    /// The template without surrounding blanks.
    var trimmed: Template {
        var template = self
        if case .text(let text)? = parts.first {
            template.parts[0] = .text(String(text.drop(while: \.isWhitespace)))
        }
        if let place = template.parts.indices.last, case .text(var text) = template.parts[place] {
            while text.last?.isWhitespace == true { text.removeLast() }
            template.parts[place] = .text(text)
        }
        template.parts.removeAll { $0 == .text("") }
        return template
    }
}
