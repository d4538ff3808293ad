// The plan of a run: its requests and their dependencies.

/// The requests of a run in a valid sequential order.
package struct RunPlan: Sendable {
    /// A request that is not sent, and the reason.
    package struct LeftOut: Sendable, Equatable {
        package var label: String
        package var reason: String
    }

    /// The options of a plan.
    package struct Wishes: Sendable {
        /// The names or titles of the chosen requests; empty for all.
        package var names: [String] = []
        /// Whether the requests run one after another.
        package var isSerial = false
        /// Whether requests with unsafe methods, such as POST, may run in any order.
        package var mixesUnsafe = false
        package init() {}
    }

    package var requests: [PlannedRequest] = []
    package var leftOut: [LeftOut] = []
    /// All errors.
    ///
    /// If the plan has an error, no request may be sent.
    package var problems: [Problem] = []
    /// Warnings about valid lines that probably have another meaning than intended.
    package var hints: [Problem] = []

    /// Makes the plan of a file.
    ///
    /// - Complexity: O(*n* + *e*) for *n* requests and *e* references, without the time for error messages.
    package init(_ file: HTTPFile, _ surroundings: Surroundings, _ wishes: Wishes = Wishes()) {
        var planner = Planner(file, surroundings, wishes)
        planner.plan()
        (requests, leftOut) = (planner.ordered, planner.leftOut)
        problems = Problem.inOrder(planner.problems)
        hints = planner.hints
    }

    init() {}
}

/// Makes the plan of a run from a file of requests.
struct Planner {
    let file: HTTPFile
    let surroundings: Surroundings
    let wishes: RunPlan.Wishes
    /// The requests in file order.
    var planned: [PlannedRequest] = []
    var problems: [Problem] = []
    var leftOut: [RunPlan.LeftOut] = []
    var ordered: [PlannedRequest] = []
    /// The hints of the file about planned requests.
    var hints: [Problem] = []
    var cycleCount = 0
    /// Names, unique titles, and the keys of requests with handlers, each with the index of its request.
    let names: [String: Int]
    /// The errors of each request.
    ///
    /// Errors of requests that are not chosen are ignored.
    private var found: [Int: [Problem]] = [:]
    /// The error because of which each skipped request is not sent, by the index of the request.
    private var reasons: [Int: Problem] = [:]

    init(_ file: HTTPFile, _ surroundings: Surroundings, _ wishes: RunPlan.Wishes) {
        (self.file, self.surroundings, self.wishes) = (file, surroundings, wishes)
        var names: [String: Int] = [:]
        for (index, request) in file.requests.enumerated() {
            if let name = request.name { names[name.text] = index }
            if !request.handlers.isEmpty { names[request.key] = index }
        }
        var titles: [String: Int] = [:]
        for (index, request) in file.requests.enumerated() {
            guard request.name == nil, let title = request.title?.text, title.isRequestName, names[title] == nil else {
                continue
            }
            // A title that several requests share names none of them.
            titles[title] = titles[title] == nil ? index : -1
        }
        names.merge(titles.filter { $0.value >= 0 }) { name, _ in name }
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
        // If all requests are chosen, unused variables are checked too.
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

    /// Assigns each error to its request or to the file.
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
        // A binary search, because there may be 10,000 requests.
        var (low, high) = (0, file.requests.count)
        while low < high {
            let middle = (low + high) / 2
            if file.requests[middle].lastLine < line { low = middle + 1 } else { high = middle }
        }
        return low < file.requests.count ? low : nil
    }

    /// Records an error of a request.
    ///
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
        problems.append(
            Problem(Position(line: 1, column: 1), "no environment is called \(name.shown)", advice))
    }

    // MARK: Choosing requests

    /// The chosen requests, and the requests that they need.
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
            let place = matching.first.map { file.requests[$0].position } ?? Position(line: 1, column: 1)
            problems.append(Problem(place, what, matching.isEmpty ? advice : "give each its own # @name"))
        }
        if wishes.names.isEmpty { return Array(file.requests.indices) }
        var seen = Set(open)
        while let index = open.popLast() {
            for needed in planned[index].needs where seen.insert(needed).inserted { open.append(needed) }
        }
        return seen.sorted()
    }

    /// Leaves out requests that cannot be sent, and the requests that need them.
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
            leftOut.append(RunPlan.LeftOut(label: planned[index].label, reason: reason.what))
        }
    }
}
