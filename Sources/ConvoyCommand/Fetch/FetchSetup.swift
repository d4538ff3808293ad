import Convoy
import ConvoyCache
import ConvoyTesting
import Foundation

struct FetchSetup: Sendable {
    let transport: TransportChoice
    let cookies: CookieJar?
    let cache: HTTPCache?
    let interceptors: [any RequestInterceptor]
    let monitors: [any EventMonitor]
    let records: FetchRecords
    let report: Locked<Report>?
    private let verbose: VerboseLog?
    private let netrc: Netrc?
    private let credentials: CredentialOptions
    private let recorder: HARRecorder?
    private let options: FetchOptions
    private let console: Console
    private let output: StandardOutputStream.State

    /// `title` is nil for `convoy fetch`.
    init(
        _ options: FetchOptions, title: String? = nil, console: Console,
        onOutputClosed: @escaping @Sendable () -> Void
    ) throws(UsageError) {
        (self.options, self.console, credentials) = (options, console, options.credentials)
        transport = try options.chosenTransport()
        cache = options.makeCache { console.warn("--cache: \($0)") }
        cookies = try options.credentials.makeJar()
        netrc = try options.credentials.readNetrc()
        recorder = options.archive.map { _ in HARRecorder(requestLimit: 100_000) }
        report = options.report.map { _ in Locked(Report(title: options.commandLine ?? title ?? "convoy fetch")) }
        let cleans = Terminal.output.isTerminal && !options.isRawOutput
        let standard = StandardOutputStream.State(cleans: cleans, onClosed: onOutputClosed)
        output = try Self.device(options) ?? standard
        let heads = try Self.heads(options, standard)
        records = FetchRecords(options, standard, bodies: output, heads: heads)
        var interceptors: [any RequestInterceptor] = []
        if !options.sending.omits("Authorization"), let authenticator = try options.credentials.authenticator(for: nil)
        {
            interceptors.append(authenticator)
        }
        if let cookies, let given = options.credentials.cookies, !options.sending.omits("Cookie") {
            interceptors.append(FieldsOfRun(cookies: given, jar: cookies))
        }
        self.interceptors = interceptors
        // Only `convoy fetch` has no title. In a `.http` file, a field is also marked if its value is secret, so marked
        // fields are shown only for a fetch.
        verbose =
            options.isVerbose
            ? VerboseLog(options.connection.proxy, console: console, showsMarked: title == nil) : nil
        let monitors: [(any EventMonitor)?] = [recorder, verbose]
        self.monitors = monitors.compactMap(\.self)
        if options.connection.trust == .unverified {
            console.warn(
                "WARNING: --insecure: certificates are not checked; anyone on the network path can read and change "
                    + "all data")
        }
    }

    func configuration(_ monitors: [any EventMonitor]) -> RequestManager.Configuration {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: options.jobs, maxConcurrentPerHost: options.perHost, transport: transport)
        configuration.retries = RetryPolicy(maxRetries: options.retries)
        // Retries have no budget, because the user wants every file. The limits of concurrent requests bound the load.
        configuration.retryBudget = .unlimited
        configuration.maxBytesPerSecond = options.maxRate
        configuration.keepsUnknownCodings = true
        (configuration.cache, configuration.cookies) = (cache, cookies)
        configuration.interceptors = interceptors
        configuration.monitors = self.monitors + monitors
        return configuration
    }

    private static func device(_ options: FetchOptions) throws(UsageError) -> StandardOutputStream.State? {
        guard case .device(let path) = options.destination else { return nil }
        let descriptor = try Self.open(path, O_WRONLY, for: "--output")
        let cleans = isatty(descriptor) == 1 && !options.isRawOutput
        return StandardOutputStream.State(descriptor, name: path, cleans: cleans) {}
    }

    private static func heads(
        _ options: FetchOptions, _ standard: StandardOutputStream.State
    ) throws(UsageError) -> StandardOutputStream.State? {
        guard let path = options.headFile else { return nil }
        if path == "-" { return standard }
        let descriptor = try Self.open(path, O_WRONLY | O_CREAT | O_TRUNC, for: "--dump-header")
        return StandardOutputStream.State(descriptor, name: path) {}
    }

    private static func open(_ path: String, _ flags: Int32, for option: String) throws(UsageError) -> Int32 {
        let descriptor = Foundation.open(path, flags | O_CLOEXEC, 0o666)
        guard descriptor < 0 else { return descriptor }
        throw UsageError("\(option): \(path) cannot be written: \(String(cString: strerror(errno)))")
    }

    func reportEmpty(_ list: String) {
        console.warn("the list \(list) contains no URL", list: list)
    }

    func reportRest(_ rest: FetchItems.Rest) {
        if let remark = records.isLeft(rest) { console.warn(remark, list: rest.list?.name) }
    }

    func request(for item: FetchItem, _ options: FetchOptions) -> Request<Data> {
        var request = Request<Data>(options.sending, for: item.url, with: item.headerFields)
            .tagged(String(item.index)).limited(by: options)
        func isFree(_ name: String) -> Bool { !request.headerFields.contains(name) && !options.sending.omits(name) }
        if cookies == nil, let text = credentials.cookies, isFree("Cookie") { request = request.header("Cookie", text) }
        // A user in the URL or on the command line takes precedence over a netrc file.
        if let netrc, credentials.user == nil, isFree("Authorization"), item.url.user() == nil,
            let login = netrc.login(for: item.url.host())
        {
            let other = (user: login.user, password: login.password, url: item.url)
            // No authenticator can be made for a password with control characters. The request then has no password.
            if let authenticator = try? credentials.authenticator(for: other) {
                request = request.intercepted(by: authenticator)
            }
        }
        if !item.mirrors.isEmpty, !options.usesSegments, [.get, .head].contains(options.sending.sentMethod) {
            // Each round of the retry policy may try all mirrors.
            request = request.intercepted(by: MirrorFallback(item.mirrors))
                .allowingInterceptorRetries(item.mirrors.count * (options.retries + 1))
        }
        let version = {
            let path = FilePath(item.fileName)
            return path.directory(in: options.directory) + "/" + PartName(path.last).version
        }
        if let newer = options.sending.newer, let field = newer.fieldValue(version: version()) {
            if isFree("If-Modified-Since") { request = request.header("If-Modified-Since", field) }
            request = request.acceptableStatusCodes(.codes(Set(200...299).union([304])))
        }
        return told(request, item.index)
    }

    func told<Output>(_ request: Request<Output>, _ index: Int) -> Request<Output> {
        verbose.map { request.intercepted(by: $0.sending(String(index))) } ?? request
    }

    func request(toMirror url: URL, of item: FetchItem, _ options: FetchOptions) -> Request<Data> {
        let others = options.headerFields.filter { !$0.isSecret && $0.name.lowercased() != "host" }
        let fields = HeaderFields(others.map { ($0.name, $0.value) })
        return Request<Data>.get(url).carrying(fields).omitting(transportFields: options.sending.omittedFields)
            .tagged(String(item.index)).limited(by: options).withoutInterceptors()
    }

    func printing(_ request: Request<Data>) -> Request<Data?> {
        let written = Locked(false)
        return request.written { [output] in StandardOutputStream.make(output, written: written) }
    }

    func finish(_ status: ExitStatus) -> ExitStatus {
        cache?.finishStoring()
        var isComplete = true
        for problem in records.finish() {
            console.printError("convoy: \(problem)")
            isComplete = false
        }
        func write(_ data: Data, _ path: String, mode: mode_t = 0o666) {
            if !console.write(data, to: path, mode: mode) { isComplete = false }
        }
        if let path = options.credentials.cookieJar, let cookies {
            write(Data(CookieFile.text(of: cookies.cookies).utf8), path, mode: 0o600)
        }
        if let path = options.archive, let recorder { write(recorder.har(), path) }
        if let path = options.report, let report {
            write(Data(ReportPage.text(report.withLock { $0.closed() }).utf8), path)
        }
        return isComplete || status != .success ? status : .failure
    }
}

// The fields and cookies are sent only to the origin of the request, not to mirrors.
struct FieldsOfRun: RequestInterceptor {
    var fields = HeaderFields()
    let cookies: String?
    var jar: CookieJar?

    func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        guard !attempt.hasLeftOrigin, !attempt.isMirror else { return request }
        var request = request
        for field in fields { request.headerFields[field.name] = nil }
        for field in fields { request.headerFields.add(field.name, field.value, isSecret: field.isSecret) }
        guard let cookies, !request.headerFields.contains("Cookie") else { return request }
        let all = [jar?.cookieField(for: request.url), cookies].compactMap(\.self)
        request.headerFields["Cookie"] = all.joined(separator: "; ")
        return request
    }
}

extension CredentialOptions {
    fileprivate func makeJar() throws(UsageError) -> CookieJar? {
        guard cookieJar != nil || keepsCookies else { return nil }
        let jar = CookieJar()
        for path in cookieFiles where path != cookieJar || access(path, F_OK) == 0 {
            let text = String(decoding: try content(of: path, for: "--cookie"), as: UTF8.self)
            do { for cookie in try CookieFile.cookies(in: text) { jar.set(cookie) } } catch {
                throw UsageError("--cookie: the file \(path) \(error.message)")
            }
        }
        return jar
    }

    fileprivate func readNetrc() throws(UsageError) -> Netrc? {
        switch netrc {
        case nil: return nil
        case .file(let path):
            return Netrc(String(decoding: try content(of: path, for: "--netrc-file"), as: UTF8.self))
        case .home:
            let home = ProcessInfo.processInfo.environment["HOME"] ?? NSHomeDirectory()
            // As in curl, a missing file means no passwords.
            guard access(home + "/.netrc", F_OK) == 0 else { return nil }
            return Netrc(String(decoding: try content(of: home + "/.netrc", for: "--netrc"), as: UTF8.self))
        }
    }

    private func content(of path: String, for option: String) throws(UsageError) -> Data {
        do { return try OptionValues.content(of: path) } catch {
            throw UsageError("\(option) \(error.message)")
        }
    }
}

extension FetchOptions {
    fileprivate func chosenTransport() throws(UsageError) -> TransportChoice {
        var options = connection
        if let key = credentials.key {
            guard let certificate = options.clientCertificate else {
                throw UsageError("--key needs the certificate of the key: add --cert FILE")
            }
            guard certificate.format == .pem else {
                throw UsageError("--key cannot be used with an archive: a .p12 file contains its key")
            }
            options.clientCertificate?.privateKeyFile = URL(filePath: key, directoryHint: .notDirectory)
        }
        if case .urlSession = transport, options.trust == environmentTrust { options.trust = .system }
        guard options != ConnectionOptions() else { return transport }
        do {
            if case .urlSession = transport { return try .urlSession(with: options) }
            return try .connecting(with: options)
        } catch { throw UsageError(Self.namingOptions(error.message)) }
    }

    private static func namingOptions(_ message: String) -> String {
        let names = [
            "connectTimeout": "--connect-timeout", "trust": "--cacert or --insecure", "clientCertificate": "--cert",
            "minimumTLSVersion": "--tls-min", "proxy": "--proxy", "hostOverrides": "--resolve",
            "httpVersion": "--http1",
        ]
        if let name = names.first(where: { message.hasPrefix($0.key + ":") }) {
            return name.value + message.dropFirst(name.key.count)
        }
        guard message.contains("cannot honour") else { return message }
        return names.reduce(message) { text, name in text.replacing(" \(name.key)", with: " \(name.value)") }
            .replacing("use another transport", with: "remove --transport urlsession")
    }
}

extension Request {
    func limited(by options: FetchOptions) -> Self {
        var request = self
        if let deadline = options.deadline { request = request.deadline(deadline) }
        if let policy = options.cachePolicy { request = request.cachePolicy(policy) }
        if let time = options.maxTime { request = request.limited(toAttemptsOf: time) }
        if let count = options.maxRedirects { request = request.redirects(RedirectPolicy(maxCount: count)) }
        if let bytes = options.maxBytes { request = request.maxBodyBytes(bytes) }
        guard let speed = options.minimumSpeed else { return request }
        return request.minimumSpeed(bytesPerSecond: speed, over: options.minimumSpeedWindow)
    }

    func limited(toAttemptsOf time: Duration) -> Self { attemptTimeout(time).idleTimeout(time.allowedSilence) }
}

extension Duration {
    var allowedSilence: Duration { max(self, .seconds(60)) }
}

extension FetchOptions {
    var mostThreads: Int { ProcessLimits.threads(forJobs: min(jobs * segments, mostRequests)) }

    mutating func takeLess(threads: Int) -> Bool {
        guard threads < mostThreads else { return true }
        let fitting = ProcessLimits.jobs(forThreads: threads)
        guard fitting > 0 else { return false }
        mostRequests = min(mostRequests, fitting)
        jobs = min(jobs, mostRequests)
        return true
    }

    func within(_ limits: ProcessLimits) throws(UsageError) -> FetchOptions {
        var options = self
        options.mostRequests = try limits.jobs(atMost: Self.jobsRange.upperBound)
        options.jobs = min(jobs, options.mostRequests)
        return options
    }

    func makeCache(_ warn: (String) -> Void) -> HTTPCache? {
        guard let path = cacheDirectory else { return nil }
        let directory = URL(filePath: path, directoryHint: .isDirectory).absoluteURL
        try? FileManager.default.createDirectory(
            at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let problem = FileType.problem(with: path, isDirectory: true)
        if problem != 0 {
            warn("the cache is not used, because \(path) cannot be written: \(String(cString: strerror(problem)))")
        }
        return HTTPCache(directory: directory, capacity: cacheBytes)
    }
}

extension HTTPCache {
    func finishStoring() {
        let isOver = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            _ = self.statistics
            isOver.signal()
        }
        _ = isOver.wait(timeout: .now() + 10)
    }
}
