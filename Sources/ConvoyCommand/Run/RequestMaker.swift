// Makes the library's request from a planned request and the responses that it needs.
import Convoy
import ConvoyHTTPFile
import Foundation

/// Makes the requests of a run, each when the responses that it needs have arrived.
struct RequestMaker: Sendable {
    let plan: RunPlan
    let surroundings: Surroundings
    let options: FetchOptions
    /// The base of paths in the file.
    let sourceDirectory: URL
    let outputDirectory: URL
    /// Whether the body of a request's answer is printed.
    let isShown: @Sendable (PlannedRequest) -> Bool

    /// Makes a request.
    ///
    /// - Parameters:
    ///   - index: identifies the request in events.
    ///   - answers: the responses that it needs, in order.
    func request(
        at place: Int, of row: Row, index: Int, after answers: [Response<RunAnswer>]
    ) throws(RequestError) -> Request<RunAnswer> {
        let planned = plan.requests[place]
        try checkTimes(of: planned.needs, answers)
        let exchange = { (name: String) -> Exchange? in
            // The last request of a name, as in the plan.
            let index = planned.needs.lastIndex { needed in
                let request = plan.requests[needed].request
                return (request.name ?? request.title)?.text == name || request.key == name
            }
            return index.map { answers[$0].value.exchange(answers[$0].head) }
        }
        let built: BuiltRequest
        do throws(BuildFailure) {
            built = try planned.build(surroundings, row: row.values, answers: exchange)
        } catch { throw Self.refusal(error.message) }
        var request = Request<Data>(method: HTTPMethod(built.method), url: built.url).tagged(String(index))
            .limited(by: options)
        for field in built.fields {
            let isSecret = field.isSecret || SendingOptions.mayBeKey(field.name)
            request = request.addingHeader(field.name, field.value, isSecret: isSecret)
        }
        if let timeout = planned.request.timeout { request = request.attemptTimeout(timeout) }
        request = try adding(built.body, to: request)
        if let digest = built.digest {
            request = request.intercepted(
                by: try PasswordAuthenticator(user: digest.user, password: digest.password, schemes: .digest))
        }
        if !planned.request.followsRedirects {
            request = request.redirects(.never).acceptableStatusCodes(.range(200...399))
        }
        let handlers = planned.request.handlers
        if planned.checks.contains(where: { $0.subject == .status }) || handlers.contains(where: \.readsStatus) {
            request = request.acceptableStatusCodes(.any)
        }
        return try finishing(request, planned, built, handlers.isEmpty ? [:] : planned.globals(exchange))
    }

    private static func refusal(_ reason: String) -> RequestError {
        RequestError(.invalidRequest, "nothing was sent: \(reason)")
    }

    /// The duration of a response is known only after it has arrived.
    private func checkTimes(of needs: [Int], _ answers: [Response<RunAnswer>]) throws(RequestError) {
        for (needed, answer) in zip(needs, answers) {
            let request = plan.requests[needed]
            guard let defect = request.checks.timeDefect(answer) else { continue }
            throw RequestError(
                .dependencyFailed, "nothing was sent: \(request.label), which it depends on, failed: \(defect)")
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

    // MARK: Answers

    /// Sets the destination of the response: a file, memory, or none.
    private func finishing(
        _ request: Request<Data>, _ planned: PlannedRequest, _ built: BuiltRequest, _ globals: [String: JSONValue]
    ) throws(RequestError) -> Request<RunAnswer> {
        let (checks, handlers) = (planned.checks, planned.request.handlers)
        let file = try built.output.map { (output) throws(RequestError) in try place(output.path) }
        if checks.isEmpty, handlers.isEmpty {
            if let file, let output = built.output {
                return request.saved(to: file, existing: output.replaces ? .overwrite : .rename)
                    .map { RunAnswer(request: built, body: .file($0)) }
            }
            guard planned.keepsBody || isShown(planned) else {
                return request.ignoringBody().map { RunAnswer(request: built, body: .dropped) }
            }
        }
        return request.decoding { body, head in
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
            try written.write(body, replaces: output.replaces)
            answer.body = .file(written)
            return answer
        }
    }

    /// The file of an output, whose directories are created.
    ///
    /// Links must not lead elsewhere.
    private func place(_ path: String) throws(RequestError) -> URL {
        let file = outputDirectory.appending(path: path, directoryHint: .notDirectory)
        let directory = file.deletingLastPathComponent()
        // Checked before a directory is created, because a link could move it elsewhere.
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
    /// The result of a time check; nil when it passed.
    func timeDefect(_ response: Response<RunAnswer>) -> String? {
        let checks = filter { $0.subject == .time }
        let time = response.metrics?.total ?? response.timings.executed ?? .zero
        return checks.defect(response.head, Data(), milliseconds: time.inSeconds * 1_000)
    }
}

extension URL {
    /// Whether it is in or equal to a directory, after resolving links.
    fileprivate func isInside(_ directory: URL) -> Bool {
        guard let inner = realPath, let outer = directory.realPath else { return false }
        return inner == outer || inner.hasPrefix(outer == "/" ? "/" : outer + "/")
    }

    /// Its path without links; nil when it does not exist.
    fileprivate var realPath: String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// Writes the file atomically.
    ///
    /// A link of its name is replaced and never followed.
    fileprivate func write(_ data: Data, replaces: Bool) throws {
        guard replaces else { return try data.write(to: self, options: .withoutOverwriting) }
        let name = ".\(lastPathComponent.prefix(100)).\(UUID().uuidString).tmp"
        let temporary = deletingLastPathComponent().appending(path: name, directoryHint: .notDirectory)
        try data.write(to: temporary, options: .withoutOverwriting)
        guard rename(temporary.path, path) != 0 else { return }
        let reason = String(cString: strerror(errno))
        unlink(temporary.path)
        throw CheckFailure(description: "\(lastPathComponent) cannot be written: \(reason)")
    }

    /// The same URL, or `name-1.ext` and so on if a file exists.
    fileprivate var withFreeName: URL {
        var (url, number) = (self, 0)
        while access(url.path, F_OK) == 0, number < 100_000 {
            number += 1
            let stem = deletingPathExtension().lastPathComponent
            let name = "\(stem)-\(number)" + (pathExtension.isEmpty ? "" : "." + pathExtension)
            url = deletingLastPathComponent().appending(path: name, directoryHint: .notDirectory)
        }
        return url
    }
}
