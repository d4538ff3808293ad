// Converts a request of the file to a request of the plan.

extension Planner {
    mutating func expand(_ request: FileRequest, _ index: Int, _ expander: inout Expander) -> PlannedRequest {
        var planned = PlannedRequest(request: request)
        expander.current = index
        defer { expander.current = nil }
        for field in request.fields where !Self.ownFields.contains(field.name.lowercased()) {
            planned.fields.append(.init(name: field.name, value: expander.pieces(of: field.value)))
        }
        planned.target = target(of: request, &planned.fields, &expander)
        planned.label = request.name?.text ?? request.title?.text ?? "\(request.method) \(planned.shownTarget)"
        planned.body = parts(request.body, &expander)
        planned.graphQLVariables = parts(request.graphQLVariables, &expander)
        if let output = request.output {
            let path = expander.pieces(of: output.path)
            planned.output = .init(path: path, replaces: output.replaces)
            checkOutput(path, output, &expander)
        }
        for prompt in request.prompts where surroundings.given[prompt.text] == nil {
            expander.problems.append(
                Problem(
                    prompt.position, "convoy cannot ask for \(prompt.text.shown)",
                    "give the value: --variable \(prompt.text)=…", kind: .impossible))
        }
        for name in Set(request.handlers.flatMap(\.globals)).sorted() {
            // A variable without a value is left out, because it is `undefined` in scripts.
            if let text = surroundings.given[name] {
                planned.globals[name] = Piece(source: .text(text), shown: "{{\(name)}}")
            } else if let piece = expander.piece(ofGlobal: name) {
                planned.globals[name] = piece
            }
        }
        planned.needs = needs(of: planned, request, &expander)
        return planned
    }

    /// The header fields of the file that are not sent: the body determines them, or only other programs use them.
    private static let ownFields: Set = ["content-length", "transfer-encoding", "x-request-type"]

    private mutating func needs(
        of planned: PlannedRequest, _ request: FileRequest, _ expander: inout Expander
    ) -> [Int] {
        var needs: Set<Int> = []
        for word in request.dependencies {
            guard let needed = names[word.text] else {
                let near = names.keys.sorted().first { $0.isOneSlip(from: word.text) }
                let advice = near.map { "did you mean \($0)?" } ?? "write # @name \(word.text) above its request line"
                expander.problems.append(
                    Problem(word.position, "no request is called \(word.text.shown)", advice))
                continue
            }
            needs.insert(needed)
        }
        needs.formUnion(planned.references.compactMap { names[$0.name] })
        return needs.sorted()
    }

    // MARK: Targets

    /// The complete URL.
    ///
    /// For a path, the host comes from the `Host` field or the variable `host`.
    private mutating func target(
        of request: FileRequest, _ fields: inout [PlannedRequest.Field], _ expander: inout Expander
    ) -> [Piece] {
        let known = expander.problems.count
        let pieces = expander.pieces(of: request.target)
        // If the host is a variable without a value, only the missing value is reported.
        if expander.problems.count > known, case .placeholder? = request.target.parts.first { return pieces }
        let text = pieces.leadingText
        if text.hasPrefix("*") {
            expander.problems.append(
                Problem(
                    request.position, "a request for the whole server, *, cannot be sent",
                    "write a URL: OPTIONS https://…/",
                    kind: .impossible))
            return pieces
        }
        guard text.hasPrefix("/") else {
            if text.schemeEnd != nil || pieces.isEmpty || pieces[0].text == nil { return pieces }
            if text.prefix(while: { !"/?#".contains($0) }).contains(where: \.isWhitespace) {
                expander.problems.append(
                    Problem(
                        request.position, "\(pieces.shown.shown) is not a request line",
                        "write METHOD https://example.com/path, and header fields below it"))
            }
            // A URL without a scheme is an http URL, as in JetBrains' HTTP Client.
            return .plain("http://") + pieces
        }
        if let place = fields.firstIndex(where: { $0.name.lowercased() == "host" }) {
            let host = fields.remove(at: place).value
            let known = host.leadingText
            if known.contains("://") { return Self.withoutSlash(host) + pieces }
            // The port determines the scheme, as in REST Client.
            let isSecure = known.hasSuffix(":443") || known.hasSuffix(":8443")
            return .plain(isSecure ? "https://" : "http://") + host + pieces
        }
        let placeholder = Placeholder(
            source: "host", position: request.position, expression: .variable("host", .byPlace))
        let before = expander.problems.count
        var template = Template()
        template.parts = [.placeholder(placeholder)]
        let host = expander.pieces(of: template)
        guard expander.problems.count == before else {
            expander.problems.removeLast(expander.problems.count - before)
            var problem = Problem(
                request.position, "the URL has no host",
                "write https://example.com\(request.target.prefixText.prefix(20)), or a header field Host: example.com")
            problem.variable = "host"
            expander.problems.append(problem)
            return pieces
        }
        return (host.leadingText.contains("://") ? [] : .plain("http://")) + Self.withoutSlash(host) + pieces
    }

    private static func withoutSlash(_ pieces: [Piece]) -> [Piece] {
        guard let last = pieces.last, let text = last.text, text.hasSuffix("/") else { return pieces }
        return pieces.dropLast() + .plain(String(text.dropLast()))
    }

    // MARK: Bodies and outputs

    private mutating func parts(_ parts: [BodyPart], _ expander: inout Expander) -> [PlannedRequest.Part] {
        parts.compactMap { part -> PlannedRequest.Part? in
            switch part {
            case .text(let template): .text(expander.pieces(of: template))
            case .file(let reference): self.part(reference, &expander)
            }
        }
    }

    private func part(_ reference: FileReference, _ expander: inout Expander) -> PlannedRequest.Part? {
        func problem(_ what: String, _ advice: String) -> PlannedRequest.Part? {
            expander.problems.append(Problem(reference.position, what, advice))
            return nil
        }
        guard let path = expander.pieces(of: reference.path).knownText else {
            return problem(
                "a file name cannot come from a response or a row", "write the name, or set it with --variable")
        }
        if let reason = surroundings.defectOfFile(path) {
            return problem(
                "the file \(path.shown) cannot be read: \(reason)", "its path is relative to the file of requests")
        }
        guard reference.hasVariables || reference.dropsLineEnds else { return .file(path, reference.position) }
        let bytes: [UInt8]
        do throws(Unreadable) { bytes = try surroundings.readFile(path) } catch {
            return problem(
                "the file \(path.shown) cannot be read: \(error.reason)", "its path is relative to the file of requests"
            )
        }
        guard let text = reference.encoding.text(of: bytes) else {
            return problem(
                "the file \(path.shown) is in another encoding",
                reference.dropsLineEnds
                    ? "write --data-binary @\(path)" : "write <@latin1 \(path), or < \(path)")
        }
        if reference.dropsLineEnds {
            let kept = text.utf8.filter { ![0x0D, 0x0A, 0].contains($0) }
            return .text(.plain(String(decoding: kept, as: UTF8.self)))
        }
        var template = Template()
        let lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
        for (number, line) in lines.enumerated() {
            if number > 0 { template.append(text.contains("\r\n") ? "\r\n" : "\n") }
            let place = Position(line: number + 1, column: 1)
            template.append(Template.read(line, at: place, file: path, &expander.problems))
        }
        return .text(expander.pieces(of: template))
    }

    private func checkOutput(_ path: [Piece], _ output: FileRequest.Output, _ expander: inout Expander) {
        guard let text = path.knownText, let defect = OutputPath.defect(text) else { return }
        expander.problems.append(
            Problem(
                output.position, "\(path.shown.shown) \(defect)",
                "write a name inside of the output directory: answer.json"))
    }
}
