package struct RunPlan: Sendable {
    package struct Wishes: Sendable {
        package var names: [String] = []
        package var isSerial = false
        package var mixesUnsafe = false
        package init() {}
    }

    package var requests: [PlannedRequest] = []
    package var leftOut: [(label: String, reason: String)] = []
    package var problems: [Problem] = []
    package var hints: [Problem] = []

    package init(_ file: HTTPFile, _ surroundings: Surroundings, _ wishes: Wishes = Wishes()) {
        var planner = Planner(file, surroundings, wishes)
        planner.plan()
        (requests, leftOut) = (planner.ordered, planner.leftOut)
        problems = Problem.inOrder(planner.problems)
        hints = planner.hints
    }
}

struct Planner {
    let file: HTTPFile
    let surroundings: Surroundings
    let wishes: RunPlan.Wishes
    var planned: [PlannedRequest] = []
    var problems: [Problem] = []
    var leftOut: [(label: String, reason: String)] = []
    var ordered: [PlannedRequest] = []
    var hints: [Problem] = []
    var cycleCount = 0
    let names: [String: Int]
    private var found: [Int: [Problem]] = [:]
    private var reasons: [Int: Problem] = [:]

    init(_ file: HTTPFile, _ surroundings: Surroundings, _ wishes: RunPlan.Wishes) {
        (self.file, self.surroundings, self.wishes) = (file, surroundings, wishes)
        var names: [String: Int] = [:]
        for (index, request) in file.requests.enumerated() {
            if let name = request.name { names[name.text] = index }
            if !request.handlers.isEmpty { names[request.key] = index }
        }
        let unnamed = file.requests.indices.filter { file.requests[$0].name == nil }
        // A title that several requests share names none of them.
        for (title, indices) in Dictionary(grouping: unnamed, by: { file.requests[$0].title?.text ?? "" })
        where indices.count == 1 && title.isRequestName && names[title] == nil { names[title] = indices[0] }
        self.names = names
    }

    mutating func plan() {
        sort(file.problems + file.repeatedNames + surroundings.environments.problems)
        checkEnvironment()
        var expander = Expander(file, surroundings, requests: names)
        planned.reserveCapacity(file.requests.count)
        for (index, request) in file.requests.enumerated() {
            planned.append(expand(request, index, &expander))
            for problem in expander.problems { note(problem, of: index) }
            expander.problems = []
        }
        let chosen = chosen()
        leaveOut(neededBy: chosen)
        let order = order(of: chosen.filter { reasons[$0] == nil && !file.requests[$0].isDisabled })
        problems += order.flatMap { found[$0] ?? [] }
        if wishes.names.isEmpty {
            for definition in file.variables.indices where surroundings.given[file.variables[definition].name] == nil {
                expander.check(definition)
            }
            problems += expander.problems.filter { !surroundings.skipsScripts || $0.kind == .mistake }
        }
        for index in order where (found[index] ?? []).isEmpty && planned[index].isKnown {
            problems += planned[index].check(surroundings)
        }
        let isOrdered = Set(order)
        hints = file.hints.filter { request(at: $0.position.line).map(isOrdered.contains) ?? false }
        if problems.isEmpty { arrange(order) }
    }

    // MARK: Problems

    private mutating func sort(_ found: [Problem]) {
        let definitions = Set(file.variables.map(\.position.line))
        for problem in found {
            let line = problem.position.line
            if problem.file == nil, !definitions.contains(line), let index = request(at: line) {
                note(problem, of: index)
            } else if !surroundings.skipsScripts || problem.kind == .mistake {
                problems.append(problem)
            }
        }
    }

    private func request(at line: Int) -> Int? {
        let index = file.requests.firstIndex(notBefore: { $0.lastLine < line })
        return index < file.requests.count ? index : nil
    }

    /// With `--skip-scripts`, an error of a script is ignored, and a request that cannot be sent is skipped.
    private mutating func note(_ problem: Problem, of index: Int) {
        guard surroundings.skipsScripts, problem.kind != .mistake else {
            found[index, default: []].append(problem)
            return
        }
        if problem.kind == .impossible, reasons[index] == nil { reasons[index] = problem }
    }

    private mutating func checkEnvironment() {
        guard let name = surroundings.environmentName, !surroundings.environments.names.contains(name) else { return }
        let names = surroundings.environments.names
        let advice =
            names.isEmpty
            ? "write it into http-client.env.json beside the file of requests"
            : "the environments are \(names.joined(separator: ", "))"
        problems.append(Problem(.start, "no environment is called \(name.shown)", advice))
    }

    // MARK: Choosing requests

    private mutating func chosen() -> [Int] {
        var open: [Int] = []
        for name in wishes.names {
            let matching = file.requests.indices.filter {
                file.requests[$0].name?.text == name || file.requests[$0].title?.text == name
            }
            if matching.count == 1 {
                open += matching
                continue
            }
            let known = file.requests.compactMap { $0.name?.text ?? $0.title?.text }
            let near = known.first { $0.isOneSlip(from: name) }
            let list = known.prefix(12).joined(separator: ", ")
            let advice =
                near.map { "did you mean \($0)?" }
                ?? (known.isEmpty ? "write # @name \(name) above its request line" : "the requests are \(list)")
            let what = "\(matching.isEmpty ? "no request is" : "several requests are") called \(name.shown)"
            let place = matching.first.map { file.requests[$0].position } ?? .start
            problems.append(Problem(place, what, matching.isEmpty ? advice : "give each its own # @name"))
        }
        if wishes.names.isEmpty { return Array(file.requests.indices) }
        var seen = Set(open)
        while let index = open.popLast() {
            for needed in planned[index].needs where seen.insert(needed).inserted { open.append(needed) }
        }
        return seen.sorted()
    }

    private mutating func leaveOut(neededBy chosen: [Int]) {
        var dependents: [Int: [Int]] = [:]
        for index in chosen { for needed in planned[index].needs { dependents[needed, default: []].append(index) } }
        for index in chosen where file.requests[index].isDisabled {
            for dependent in dependents[index] ?? [] where !file.requests[dependent].isDisabled {
                let name = planned[index].label
                note(
                    Problem(
                        file.requests[dependent].position, "it needs \(name.shown), which is disabled",
                        "remove # @disabled there, or write it here too", kind: .impossible), of: dependent)
            }
        }
        var open = Array(reasons.keys)
        while let index = open.popLast() {
            for dependent in dependents[index] ?? [] where reasons[dependent] == nil {
                reasons[dependent] = Problem(
                    file.requests[dependent].position, "it needs \(planned[index].label.shown), which is skipped", "",
                    kind: .impossible)
                open.append(dependent)
            }
        }
        for index in chosen {
            guard let reason = reasons[index] else { continue }
            leftOut.append((planned[index].label, reason.what))
        }
    }

    mutating func expand(_ request: FileRequest, _ index: Int, _ expander: inout Expander) -> PlannedRequest {
        var planned = PlannedRequest(request: request)
        expander.current = index
        defer { expander.current = nil }
        for field in request.fields where !Self.ownFields.contains(field.name.lowercased()) {
            planned.fields.append((field.name, expander.pieces(of: field.value)))
        }
        planned.target = target(of: request, &planned.fields, &expander)
        planned.label = request.name?.text ?? request.title?.text ?? "\(request.method) \(planned.shownTarget)"
        planned.body = parts(request.body, &expander)
        planned.graphQLVariables = parts(request.graphQLVariables, &expander)
        if let output = request.output {
            let path = expander.pieces(of: output.path)
            planned.output = (path, output.replaces)
            if let defect = path.knownText.flatMap({ OutputPath.defect($0) }) {
                expander.report(
                    output.position, "\(path.shown.shown) \(defect)",
                    "write a name inside of the output directory: answer.json")
            }
        }
        for prompt in request.prompts where surroundings.given[prompt.text] == nil {
            expander.report(
                prompt.position, "convoy cannot ask for \(prompt.text.shown)",
                "give the value: --variable \(prompt.text)=…", .impossible)
        }
        for name in Set(request.handlers.flatMap(\.globals)).sorted() {
            // A variable without a value is left out, because it is `undefined` in scripts.
            let given = surroundings.given[name].map { Piece(source: .text($0), shown: "{{\(name)}}") }
            planned.globals[name] = given ?? expander.piece(ofGlobal: name)
        }
        let needed = request.dependencies.compactMap { expander.index(of: $0.text, at: $0.position) }
        planned.needs = Set(needed + planned.references.compactMap { names[$0.name] }).sorted()
        return planned
    }

    /// The header fields of the file that are not sent: the body determines them, or only other programs use them.
    private static let ownFields: Set = ["content-length", "transfer-encoding", "x-request-type"]

    // MARK: Targets

    /// For a path, the host comes from the `Host` field or the variable `host`.
    private mutating func target(
        of request: FileRequest, _ fields: inout [(name: String, value: [Piece])], _ expander: inout Expander
    ) -> [Piece] {
        let known = expander.problems.count
        let pieces = expander.pieces(of: request.target)
        if expander.problems.count > known, case .placeholder? = request.target.parts.first { return pieces }
        let text = pieces.leadingText
        if text.hasPrefix("*") {
            expander.report(
                request.position, "a request for the whole server, *, cannot be sent",
                "write a URL: OPTIONS https://…/", .impossible)
            return pieces
        }
        guard text.hasPrefix("/") else {
            if text.schemeEnd != nil || pieces.isEmpty || pieces[0].text == nil { return pieces }
            if text.prefix(while: { !"/?#".contains($0) }).contains(where: \.isWhitespace) {
                expander.report(
                    request.position, "\(pieces.shown.shown) is not a request line",
                    "write METHOD https://example.com/path, and header fields below it")
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
            expander.report(reference.position, what, advice)
            return nil
        }
        guard let path = expander.pieces(of: reference.path).knownText else {
            return problem(
                "a file name cannot come from a response or a row", "write the name, or set it with --variable")
        }
        func unreadable(_ reason: String) -> PlannedRequest.Part? {
            problem("the file \(path.shown) cannot be read: \(reason)", "its path is relative to the file of requests")
        }
        if let reason = surroundings.defectOfFile(path) { return unreadable(reason) }
        guard reference.hasVariables || reference.dropsLineEnds else { return .file(path, reference.position) }
        let bytes: [UInt8]
        do throws(Unreadable) { bytes = try surroundings.readFile(path) } catch { return unreadable(error.reason) }
        guard let text = reference.encoding.text(of: bytes) else {
            return problem(
                "the file \(path.shown) is in another encoding",
                reference.dropsLineEnds ? "write --data-binary @\(path)" : "write <@latin1 \(path), or < \(path)")
        }
        if reference.dropsLineEnds {
            let kept = text.utf8.filter { ![0x0D, 0x0A, 0].contains($0) }
            return .text(.plain(String(decoding: kept, as: UTF8.self)))
        }
        let template = Template.read(lines: text, file: path, &expander.problems) {
            Position(line: $0 + 1, column: 1)
        }
        return .text(expander.pieces(of: template))
    }

    mutating func order(of chosen: [Int]) -> [Int] {
        enum Mark { case open, done }
        let isChosen = Set(chosen)
        var (marks, order) = ([Int: Mark](), [Int]())
        // The path from a root to the current request. `seen` is the number of visited needs of each request. This
        // stack replaces recursion, because a chain may have 100,000 links.
        var way: [(request: Int, seen: Int)] = []
        for root in chosen where marks[root] == nil {
            way = [(root, 0)]
            marks[root] = .open
            while let (request, seen) = way.last {
                let needs = planned[request].needs
                guard seen < needs.count else {
                    marks[request] = .done
                    order.append(request)
                    way.removeLast()
                    continue
                }
                way[way.count - 1].seen += 1
                let needed = needs[seen]
                guard isChosen.contains(needed) else { continue }
                switch marks[needed] {
                case nil:
                    marks[needed] = .open
                    way.append((needed, 0))
                case .open: reportCycle(way.map(\.request).drop { $0 != needed } + [needed])
                case .done: break
                }
            }
        }
        return order
    }

    private mutating func reportCycle(_ cycle: [Int]) {
        cycleCount += 1
        guard cycleCount <= 20 else { return }
        let labels = cycle.map { planned[$0].label }
        let request = file.requests[cycle[0]]
        let round = labels.count > 9 ? labels.prefix(8) + ["\(labels.count - 9) more", labels[0]] : labels[...]
        let what =
            cycle.count == 2
            ? "\(labels[0].shown) needs its own response"
            : "\(labels[0].shown) waits for itself: \(round.joined(separator: " needs "))"
        problems.append(
            Problem(
                place(of: cycle[1], neededBy: cycle[0]) ?? request.position, what, "remove one of these references"))
    }

    private func place(of needed: Int, neededBy index: Int) -> Position? {
        let request = file.requests[index]
        if let word = request.dependencies.first(where: { names[$0.text] == needed }) { return word.position }
        for placeholder in request.templates.flatMap(\.placeholders) {
            if case .reference(let reference, _) = placeholder.expression, names[reference.name] == needed {
                return placeholder.position
            }
        }
        return nil
    }

    // By default, an unsafe request runs after all earlier requests to the same server, and before all later ones,
    // because file order is the order of changes. Safe requests run concurrently.
    mutating func arrange(_ order: [Int]) {
        let places = Dictionary(uniqueKeysWithValues: zip(order, order.indices))
        var history = History()
        var outputs: [String: Int] = [:]
        // If the order is that of the file, as usual, the requests are not copied, because they are large values.
        ordered = order.elementsEqual(planned.indices) ? planned : order.map { planned[$0] }
        planned = []
        for place in ordered.indices {
            let needs = ordered[place].needs.compactMap { places[$0] }.sorted()
            var follows: [Int] = []
            if wishes.isSerial {
                follows = place > 0 ? [place - 1] : []
            } else if !wishes.mixesUnsafe {
                follows = history.add(place, origin: ordered[place].target.origin, isSafe: ordered[place].isSafe)
            }
            // Only one request at a time may write a file.
            if let path = ordered[place].output?.path.knownText {
                if let last = outputs[path], !follows.contains(last) { follows.append(last) }
                outputs[path] = place
            }
            let isNeeded = Set(needs)
            (ordered[place].needs, ordered[place].follows) = (needs, follows.filter { !isNeeded.contains($0) })
        }
        for place in ordered.indices where ordered[place].built == nil {
            for reference in ordered[place].references where reference.side == .response {
                switch reference.part {
                case .header, .cookie, .global: continue
                case .body, .json: break
                }
                if let needed = names[reference.name].flatMap({ places[$0] }) { ordered[needed].keepsBody = true }
            }
        }
    }

    private struct History {
        private struct Line {
            var lastUnsafe: Int?
            var safe: [Int] = []
            var anywhereCount = 0

            mutating func add(_ place: Int, isSafe: Bool, _ anywhere: Line) -> [Int] {
                var before = [lastUnsafe, anywhere.lastUnsafe].compactMap(\.self)
                if isSafe {
                    safe.append(place)
                } else {
                    before += safe + anywhere.safe[anywhereCount...]
                    self = Line(lastUnsafe: place, anywhereCount: anywhere.safe.count)
                }
                return before
            }
        }

        private var lines: [String: Line] = [:]
        /// A request whose origin depends on a response may go to any origin.
        private var anywhere = Line()

        mutating func add(_ place: Int, origin: String?, isSafe: Bool) -> [Int] {
            guard let origin else { return addAnywhere(place, isSafe) }
            // The line is changed in the dictionary. A copy of its requests would take O(*n*) for each of *n* requests.
            return lines[origin, default: Line()].add(place, isSafe: isSafe, anywhere)
        }

        private mutating func addAnywhere(_ place: Int, _ isSafe: Bool) -> [Int] {
            var before = (lines.values.map(\.lastUnsafe) + [anywhere.lastUnsafe]).compactMap(\.self)
            if isSafe {
                anywhere.safe.append(place)
            } else {
                before += lines.values.flatMap(\.safe) + anywhere.safe
                lines = [:]
                anywhere = Line(lastUnsafe: place)
            }
            return before.sorted()
        }
    }
}

extension HTTPFile {
    /// A name that no reference or dependency uses is only a title.
    var repeatedNames: [Problem] {
        let repeated = Dictionary(grouping: requests.compactMap(\.name), by: \.text).filter { $0.value.count > 1 }
        let referred = repeated.isEmpty ? [] : referredNames
        return repeated.filter { referred.contains($0.key) }.values.flatMap { words in
            words.dropFirst().map { word in
                Problem(
                    word.position,
                    "the request in line \(words[0].position.line) is also called \(word.text.shown)",
                    "give one of them another name")
            }
        }
    }

    private var referredNames: Set<String> {
        var names = Set(requests.flatMap(\.dependencies).map(\.text))
        let templates = variables.map(\.value) + requests.flatMap { $0.templates + ($0.output.map { [$0.path] } ?? []) }
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
