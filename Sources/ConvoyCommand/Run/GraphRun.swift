import Convoy
import ConvoyHTTPFile
import Foundation

// A row is read only when a slot is free, so memory does not grow with the number of rows.
struct GraphRun: Sendable {
    let options: RunOptions
    let plan: RunPlan
    let surroundings: Surroundings
    let rows: RowSource
    let sourceDirectory: URL
    let outputDirectory: URL
    let setup: FetchSetup
    let console: Console
    let interruption: Interruption

    typealias Outcome = RequestOperation<RunAnswer>.Result

    private struct Line: Sendable {
        let manager: RequestManager
        let batch: Batch<RunAnswer>
        private let source: AsyncStream<Request<RunAnswer>>.Continuation

        init(_ manager: RequestManager) {
            let (requests, source) = AsyncStream.makeStream(of: Request<RunAnswer>.self)
            (self.manager, self.source) = (manager, source)
            batch = manager.batch(pulling: requests, keepsResults: false)
        }

        func finished(drains: Bool) async {
            source.finish()
            await batch.finished()
            if drains { await manager.drainBriefly() }
        }
    }

    func run() async -> ExitStatus {
        let start = ContinuousClock.now
        let report = RunReport(self)
        let requests = OpenRequests(onStep: report.wantsSteps ? report.happened : nil)
        let lines = makeLines(report.wantsSteps ? [requests] : [])
        // Each open row has an unfinished request, so more than `jobs` open rows would not add concurrent requests.
        let places = FetchPlaces(count: options.fetch.jobs)
        let graph = makeGraph(lines, requests, report, places)
        interruption.onStop {
            rows.stop()
            for line in lines {
                line.batch.cancel()
                if setup.cache != nil { line.manager.cancelAll() }
            }
            graph.stop()
        }
        await Ticker.ticking(every: console.isLive ? .milliseconds(100) : nil) {
            let operations = lines.flatMap { $0.manager.operations }
            requests.inTurn { report.draw(requests.transfers(of: operations).started) }
        } while: {
            await launchRows(graph, requests, report, places)
            // An open row has a slot, so every row has ended when all slots are free.
            for _ in 0..<options.fetch.jobs { await places.take() }
        }
        let drains = setup.cache != nil || !setup.monitors.isEmpty
        await withTaskGroup(of: Void.self) { group in
            for line in lines { group.addTask { await line.finished(drains: drains) } }
        }
        return report.ended(after: .now - start, reason: interruption.reason)
    }

    private func launchRows(
        _ graph: RunGraph, _ requests: OpenRequests, _ report: RunReport, _ places: FetchPlaces
    ) async {
        var rows = rows
        while true {
            await places.take()
            var outcome: RowReader.Outcome?
            if interruption.reason == nil { outcome = await rows.next() }
            switch outcome {
            case .row(let row)?: graph.begin(row)
            case .broken(let line, let reason)?:
                requests.inTurn { report.isBroken(line, reason) }
                places.give()
            case nil: return places.give()
            }
        }
    }

    private func makeGraph(
        _ lines: [Line], _ requests: OpenRequests, _ report: RunReport, _ places: FetchPlaces
    ) -> RunGraph {
        let batches = plan.requests.indices.map { lines[uses($0) ? 0 : lines.count - 1].batch }
        // A deadline starts when a request is queued. So with a deadline, at most `jobs` requests are in the managers.
        let window = options.fetch.deadline == nil ? max(1_024, 4 * options.fetch.jobs) : options.fetch.jobs
        return RunGraph(plan, window: window) { (turn, finish) throws(RequestError) in
            let (made, secrets) = try request(for: turn)
            let request = setup.told(made, index(of: turn))
            if report.wantsSteps { requests.begin(item(of: turn), hiding: report.secrets.union(secrets)) }
            guard batches[turn.place].add(request, onResult: { finish($0, secrets) }) != nil else {
                throw RequestError(.cancelled, "cancelled before it was sent")
            }
        } report: { turn, outcome, secrets in
            requests.close(index(of: turn), outcome.attempts()) { _ in
                report.finished(turn, outcome, filled: secrets)
            }
        } rowEnded: { row, hasFailed in
            if !hasFailed { requests.inTurn { report.note(row) } }
            places.give()
        }
    }

    func index(of turn: RunGraph.Turn) -> Int { turn.rowNumber * plan.requests.count + turn.place }

    func item(of turn: RunGraph.Turn) -> FetchItem {
        let url = URL(filePath: "/", directoryHint: .isDirectory)
        return FetchItem(index: index(of: turn), url: url, fileName: plan.requests[turn.place].label.visible())
    }

    // Several rows never share a cookie jar, because one row could use the login of another row.
    private func uses(_ place: Int) -> Bool {
        options.each == nil && options.repeats == nil && plan.requests[place].request.usesCookieJar
    }

    // Each manager applies the limits separately.
    private func makeLines(_ monitors: [any EventMonitor]) -> [Line] {
        var configuration = setup.configuration(monitors)
        let places = plan.requests.indices
        let without = places.allSatisfy(uses) ? nil : Line(RequestManager(configuration: configuration))
        guard places.contains(where: uses) else { return [without].compactMap(\.self) }
        configuration.cookies = CookieJar()
        return [Line(RequestManager(configuration: configuration)), without].compactMap(\.self)
    }

    func request(for turn: RunGraph.Turn) throws(RequestError) -> (Request<RunAnswer>, secrets: Set<String>) {
        let needs = plan.requests[turn.place].needs
        try checkTimes(of: needs, turn.answers)
        // The closure captures only the requests, because a copy of the complete run would take longer.
        let exchange = { [requests = plan.requests] (name: String) -> Exchange? in
            // Of several requests with the same name, the plan refers to the last one.
            let index = needs.lastIndex { needed in
                let request = requests[needed].request
                return (request.name ?? request.title)?.text == name || request.key == name
            }
            return index.map { turn.answers[$0].value.exchange(turn.answers[$0].head) }
        }
        let built: BuiltRequest
        do throws(Defect) {
            if let known = plan.requests[turn.place].built {
                built = known
            } else {
                built = try plan.requests[turn.place].build(surroundings, row: turn.row.values, answers: exchange)
            }
        } catch { throw Self.refusal(error.message) }
        do throws(RequestError) { return (try request(built, turn, exchange), built.secrets) } catch {
            throw RequestError(error.code, error.message.hiding(built.secrets))
        }
    }

    private func request(
        _ built: BuiltRequest, _ turn: RunGraph.Turn, _ exchange: (String) -> Exchange?
    ) throws(RequestError) -> Request<RunAnswer> {
        var request = Request<Data>(method: HTTPMethod(built.method), url: built.location)
            .tagged(String(index(of: turn))).limited(by: options.fetch)
        for field in built.fields {
            let isSecret = field.isSecret || SendingOptions.mayBeKey(field.name)
            request = request.addingHeader(field.name, field.value, isSecret: isSecret)
        }
        // The properties are read one by one, because a copy of the planned request would take longer.
        if let timeout = plan.requests[turn.place].request.timeout { request = request.limited(toAttemptsOf: timeout) }
        request = try adding(built.body, to: request)
        if let digest = built.digest {
            request = request.intercepted(
                by: try PasswordAuthenticator(user: digest.user, password: digest.password, schemes: .digest))
        }
        if !plan.requests[turn.place].request.followsRedirects {
            request = request.redirects(.never).acceptableStatusCodes(.range(200...399))
        }
        if plan.requests[turn.place].request.checks.contains(where: { $0.subject == .status })
            || plan.requests[turn.place].request.handlers.contains(where: \.readsStatus)
        {
            request = request.acceptableStatusCodes(.any)
        }
        return try finishing(request, built, turn, exchange)
    }

    private static func refusal(_ reason: String) -> RequestError {
        RequestError(.invalidRequest, "nothing was sent: \(reason)")
    }

    // Other checks run while a response is decoded, when the total time is not known yet.
    private func checkTimes(of needs: [Int], _ answers: [Response<RunAnswer>]) throws(RequestError) {
        for (needed, answer) in zip(needs, answers) {
            guard let defect = plan.requests[needed].request.checks.timeDefect(answer) else { continue }
            let label = plan.requests[needed].label
            throw RequestError(
                .dependencyFailed, "nothing was sent: \(label), which it depends on, failed: \(defect)")
        }
    }

    private func adding(_ body: [BuiltRequest.Part], to request: Request<Data>) throws(RequestError) -> Request<Data> {
        guard !body.isEmpty else { return request }
        if body.count == 1, case .file(let path) = body[0] {
            return request.body(fromFile: RunInput.url(of: path, in: sourceDirectory), contentType: nil)
        }
        var data = Data()
        for part in body {
            switch part {
            case .bytes(let bytes): data += bytes
            case .file(let path):
                do throws(Unreadable) { data += try surroundings.readFile(path) } catch {
                    throw Self.refusal("\(path) cannot be read: \(error.reason)")
                }
            }
        }
        return request.body(data, contentType: nil)
    }

    private func finishing(
        _ request: Request<Data>, _ built: BuiltRequest, _ turn: RunGraph.Turn, _ exchange: (String) -> Exchange?
    ) throws(RequestError) -> Request<RunAnswer> {
        let checks = plan.requests[turn.place].request.checks
        let handlers = plan.requests[turn.place].request.handlers
        let file = try built.output.map { (output) throws(RequestError) in try place(output.path) }
        if checks.isEmpty, handlers.isEmpty {
            if let file, let output = built.output {
                return request.saved(to: file, existing: output.replaces ? .overwrite : .rename)
                    .map { RunAnswer(request: built, body: .file($0)) }
            }
            let isShown = options.showsAnswers && options.showsBody(of: plan.requests[turn.place])
            guard plan.requests[turn.place].keepsBody || isShown else {
                return request.ignoringBody(returning: RunAnswer(request: built, body: .dropped))
            }
        }
        let globals = handlers.isEmpty ? [:] : plan.requests[turn.place].globals(exchange)
        return request.decoding { body, head in
            do {
                if let defect = checks.defect(head, body) { throw CheckFailure(description: defect) }
                var answer = RunAnswer(request: built, body: .memory(body))
                if !handlers.isEmpty {
                    let outcome = Script.outcome(of: handlers, for: CheckedAnswer(head, body), globals: globals)
                    guard outcome.defects.isEmpty else {
                        throw CheckFailure(description: outcome.defects.joined(separator: "; "), logs: outcome.logs)
                    }
                    (answer.globals, answer.logs) = (outcome.globals, outcome.logs)
                }
                guard let file, let output = built.output else { return answer }
                let written = output.replaces ? file : file.withFreeName
                let code =
                    output.replaces
                    ? OutputFile.replace(body, at: written.path) : OutputFile.create(body, at: written.path)
                guard code == 0 else {
                    let reason = String(cString: strerror(code))
                    throw CheckFailure(description: "\(written.lastPathComponent) cannot be written: \(reason)")
                }
                answer.body = .file(written)
                return answer
            } catch let failure as CheckFailure {
                // For another error, the library's message would say that the body could not be decoded.
                throw RequestError(.decodingFailed, failure.description, body: body, underlying: failure)
            }
        }
    }

    private func place(_ path: String) throws(RequestError) -> URL {
        let file = outputDirectory.appending(path: path, directoryHint: .notDirectory)
        let directory = file.deletingLastPathComponent()
        // The existing part of the path is checked first, so that no directory is created behind a link.
        var there = directory
        while access(there.path, F_OK) != 0, there.path.count > outputDirectory.path.count {
            there.deleteLastPathComponent()
        }
        guard there.isInside(outputDirectory) else {
            throw Self.refusal("\(path) is a link out of the output directory")
        }
        do {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        } catch { throw Self.refusal("the directory of \(path) cannot be created") }
        return file
    }
}

extension [Check] {
    func timeDefect(_ response: Response<RunAnswer>) -> String? {
        let checks = filter { $0.subject == .time }
        guard !checks.isEmpty else { return nil }
        let time = response.metrics?.total ?? response.timings.executed ?? .zero
        return checks.defect(response.head, Data(), milliseconds: time.inSeconds * 1_000)
    }

    func defect(_ head: ResponseHead, _ body: Data, milliseconds: Double? = nil) -> String? {
        guard !isEmpty else { return nil }
        let answer = CheckedAnswer(head, body, milliseconds: milliseconds)
        let defects = compactMap { $0.defect(in: answer) }
        return defects.isEmpty ? nil : defects.joined(separator: "; ")
    }
}

extension URL {
    fileprivate func isInside(_ directory: URL) -> Bool {
        guard let inner = FileType.resolved(path), let outer = FileType.resolved(directory.path) else { return false }
        return inner == outer || inner.hasPrefix(outer == "/" ? "/" : outer + "/")
    }

    fileprivate var withFreeName: URL {
        var (url, number) = (self, 0)
        while access(url.path, F_OK) == 0, number < 100_000 {
            number += 1
            let name = FileName.numberedPath(lastPathComponent, number)
            url = deletingLastPathComponent().appending(path: name, directoryHint: .notDirectory)
        }
        return url
    }
}

struct RunAnswer: Sendable {
    enum Body: Sendable {
        case memory(Data)
        case file(URL)
        case dropped
    }

    var request: BuiltRequest
    var body: Body
    var globals: [String: JSONValue] = [:]
    var logs: [String] = []

    func exchange(_ head: ResponseHead) -> Exchange {
        var exchange = Exchange(request: request, responseFields: head.headerFields) {
            () throws(Unreadable) in
            switch body {
            case .memory(let data): return Array(data)
            case .dropped: return []
            case .file(let url):
                let name = url.lastPathComponent
                return try RunInput.bytes(
                    of: url, unreadable: "\(name) can no longer be read", tooLarge: "\(name) is larger than 64 MiB")
            }
        }
        exchange.globals = globals
        return exchange
    }
}

extension CheckedAnswer {
    init(_ head: ResponseHead, _ body: Data, milliseconds: Double? = nil) {
        self.init(
            statusCode: head.statusCode, fields: head.headerFields, body: [UInt8](body), milliseconds: milliseconds)
    }
}

struct CheckFailure: Error, CustomStringConvertible {
    let description: String
    var logs: [String] = []
}
