// Orders the requests of a plan, and reports cycles.

extension Planner {
    /// Orders requests so that each one follows the requests that it needs; otherwise in file order.
    ///
    /// Reports at most 20 cycles.
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
        // Many dependencies can form very many cycles, so at most 20 cycles are reported.
        cycleCount += 1
        guard cycleCount <= 20 else { return }
        let labels = cycle.map { planned[$0].label }
        let request = file.requests[cycle[0]]
        let round =
            labels.count > 9
            ? labels.prefix(8) + ["\(labels.count - 9) more", labels[0]] : labels[...]
        let what =
            cycle.count == 2
            ? "\(labels[0].shown) needs its own response"
            : "\(labels[0].shown) waits for itself: \(round.joined(separator: " needs "))"
        problems.append(
            Problem(
                place(of: cycle[1], neededBy: cycle[0]) ?? request.position, what, "remove one of these references"))
    }

    /// The position where a request refers to another.
    private func place(of needed: Int, neededBy index: Int) -> Position? {
        let request = file.requests[index]
        if let word = request.dependencies.first(where: { names[$0.text] == needed }) { return word.position }
        var templates = [request.target] + request.fields.map(\.value)
        for part in request.body { if case .text(let text) = part { templates.append(text) } }
        for placeholder in templates.flatMap(\.placeholders) {
            if case .reference(let reference, _) = placeholder.expression, names[reference.name] == needed {
                return placeholder.position
            }
        }
        return nil
    }

    /// Stores the requests in their order, and sets for which requests each one waits.
    ///
    /// By default, an unsafe request runs after all earlier requests to the same server, and before all later requests
    /// to that server, because file order is the order of changes. Safe requests run concurrently.
    mutating func arrange(_ order: [Int]) {
        var places: [Int: Int] = [:]
        for (place, index) in order.enumerated() { places[index] = place }
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

    /// The requests to each origin since the last unsafe request to that origin.
    private struct History {
        private struct Line {
            var lastUnsafe: Int?
            var safe: [Int] = []
            /// The number of safe requests with an unknown origin that run before the last unsafe request to this
            /// origin.
            var anywhereCount = 0

            /// Adds the request at `place`, and returns the requests that must run before it.
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
        /// Requests whose origin depends on a response.
        ///
        /// Such a request may go to any origin.
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
