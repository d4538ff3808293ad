// Makes requests of the library from planned requests and the responses that these refer to.
import Convoy
import ConvoyHTTPFile
import Foundation

extension GraphRun {
    /// Makes a request, after the responses that it refers to have arrived.
    ///
    /// - Returns: the request, and the secrets that it takes from responses and rows.
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
        do throws(BuildFailure) {
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

    /// Throws if a response that this request refers to took too long.
    ///
    /// Other checks run while a response is decoded. A check of the time must run later, because the total time is not
    /// known while decoding.
    private func checkTimes(of needs: [Int], _ answers: [Response<RunAnswer>]) throws(RequestError) {
        for (needed, answer) in zip(needs, answers) {
            guard let defect = plan.requests[needed].request.checks.timeDefect(answer) else { continue }
            let label = plan.requests[needed].label
            throw RequestError(
                .dependencyFailed, "nothing was sent: \(label), which it depends on, failed: \(defect)")
        }
    }

    // MARK: Bodies

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

    // MARK: Responses and output files

    /// Sets the destination of the response body, and adds the request's checks and handlers.
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
                // A `RequestError` keeps this message. For another error, the library's message would say that the body
                // could not be decoded.
                throw RequestError(.decodingFailed, failure.description, body: body, underlying: failure)
            }
        }
    }

    /// The file of an output; creates the directories of the file.
    ///
    /// Throws if a symbolic link in the path leads out of the output directory.
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
    /// Why a response failed a check of its time; nil if the response passed.
    func timeDefect(_ response: Response<RunAnswer>) -> String? {
        let checks = filter { $0.subject == .time }
        guard !checks.isEmpty else { return nil }
        let time = response.metrics?.total ?? response.timings.executed ?? .zero
        return checks.defect(response.head, Data(), milliseconds: time.inSeconds * 1_000)
    }
}

extension URL {
    /// Whether the file is in or equal to a directory, after resolving symbolic links.
    fileprivate func isInside(_ directory: URL) -> Bool {
        guard let inner = FileType.resolved(path), let outer = FileType.resolved(directory.path) else { return false }
        return inner == outer || inner.hasPrefix(outer == "/" ? "/" : outer + "/")
    }

    /// The same URL, or `name-1.ext` and so on if a file exists.
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
