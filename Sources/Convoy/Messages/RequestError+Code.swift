// The kinds of failure, and their properties. To add a code, declare it here with its number and its facts, and list it
// in `all`. Tests compare `all` with the declarations, and both with the pages (Failures.md,
// Symbols/RequestError.Code.md). They also require a test that produces the code.

extension RequestError {
    /// A kind of failure.
    ///
    /// New codes may be added, so keep a `default` in each switch.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        /// The code's name, stable across versions.
        public let rawValue: String
        /// The code of the `NSError`; 1 for a code of the caller.
        let number: Int
        package let facts: Facts

        /// Makes a code, for your own transport or decoder.
        public init(rawValue: String) { self = Self.byName[rawValue] ?? Code(rawValue, 1) }

        private init(_ name: String, _ number: Int, _ facts: Facts = []) {
            (rawValue, self.number, self.facts) = (name, number, facts)
        }

        /// The code's name.
        public var description: String { rawValue }

        // MARK: The caller

        /// The caller cancelled the operation.
        ///
        /// Retry: no, the caller intended the cancellation.
        public static let cancelled = Code("cancelled", 100, [.final, .local])
        /// A page names an earlier page as its next page, so that ``ResponsePages`` would never finish.
        ///
        /// Cause: the server, or the function that makes the next request. Retry: no.
        public static let pageRepeated = Code("pageRepeated", 206)
        /// A dependency failed or was cancelled; nothing was sent.
        ///
        /// Retry: after the dependency has succeeded.
        public static let dependencyFailed = Code("dependencyFailed", 400, .final)
        /// A dependency would have closed a cycle.
        ///
        /// The message names the cycle. Cause: the program. Retry: no.
        public static let dependencyCycle = Code("dependencyCycle", 401, .final)
        /// The request cannot be sent as it was built.
        ///
        /// The message says why. Cause: the program. Retry: no.
        public static let invalidRequest = Code("invalidRequest", 403, .final)
        /// An interceptor failed.
        ///
        /// ``RequestError/underlying`` is the error that it threw. Cause: the interceptor. Retry: depends on the error.
        public static let interceptorFailed = Code("interceptorFailed", 402, .mendable)
        /// The function of a group threw an error other than a ``RequestError`` or a `CancellationError`.
        ///
        /// ``RequestError/underlying`` is that error. Cause: the caller's code. Retry: depends on the error.
        public static let groupFailed = Code("groupFailed", 405, .final)
        /// The manager had been shut down.
        ///
        /// Cause: the program. Retry: with another manager.
        public static let managerShutDown = Code("managerShutDown", 404, .final)

        // MARK: Time

        /// A timeout passed: the idle timeout, the attempt timeout, or the timeout of `startAndWait`.
        ///
        /// The code also applies if the speed was below the minimum. Cause: the server or the network. Retry: yes.
        public static let timedOut = Code("timedOut", 101, [.retryable, .failureOfHost, .otherServerHelps])
        /// The deadline of the operation passed.
        ///
        /// Cause: the server or the network. Retry: no, the time is used up.
        public static let deadlineExceeded = Code("deadlineExceeded", 106, [.final, .mendable])

        // MARK: The network

        /// No connection could be made: refused, unreachable, name not found, or not in time.
        ///
        /// Cause: the server or the network. Retry: yes.
        public static let connectionFailed = Code(
            "connectionFailed", 102, [.retryable, .failureOfHost, .otherServerHelps])
        /// The connection was lost, before the response or during it.
        ///
        /// Cause: the network. Retry: yes.
        public static let connectionLost = Code(
            "connectionLost", 103, [.retryable, .failureOfHost, .headCounts, .otherServerHelps])
        /// The server could not be trusted or did not support TLS.
        ///
        /// Retry: no, the next attempt would fail too.
        public static let tlsFailed = Code("tlsFailed", 104, [.final, .otherServerHelps, .mendable])
        /// The proxy could not be reached, or rejected the request.
        ///
        /// It does not matter whether the options or the environment name the proxy. A 407 has this code, unless the
        /// request accepts that status. Cause: the proxy or its settings. Retry: depends on the error.
        public static let proxyFailed = Code("proxyFailed", 107, [.mendable, .otherServerHelps])
        /// The transport does not support the request, or failed internally.
        ///
        /// Retry: no.
        public static let transportFailed = Code("transportFailed", 108)

        // MARK: The server

        /// The response breaks the rules of HTTP, or cannot be used.
        ///
        /// For example, its framing is invalid, its content coding is not supported, or it is a range that was not
        /// requested. Cause: the server. Retry: seldom helps.
        public static let badResponse = Code("badResponse", 105, [.headCounts, .otherServerHelps])
        /// The status code failed the request's check.
        ///
        /// Cause: the server, or a wrong request. Retry: depends on the status.
        public static let unacceptableStatus = Code("unacceptableStatus", 200, .otherServerHelps)
        /// The content type failed the request's check, ``Request/acceptableContentTypes(_:)``.
        ///
        /// Cause: the server, or a system that responds in its place. Retry: no.
        public static let unacceptableContentType = Code("unacceptableContentType", 201)
        /// There were more redirects than ``RedirectPolicy/maxCount`` allows.
        ///
        /// ``RequestError/attempts`` lists them. Cause: the server. Retry: no.
        public static let tooManyRedirects = Code("tooManyRedirects", 202, [.final, .otherServerHelps])
        /// The redirect is not followed.
        ///
        /// It leads to a scheme other than http and https, to a URL that the transport rejects, or from https to http
        /// without ``RedirectPolicy/allowsInsecure``; or ``RedirectPolicy/onRedirect`` rejected it. With
        /// ``RedirectPolicy/never`` the redirect itself is the response. Cause: the server. Retry: no.
        public static let redirectRefused = Code("redirectRefused", 203, [.final, .otherServerHelps])
        /// The body was received but could not be decoded.
        ///
        /// ``RequestError/body`` contains the received bytes. Retry: no.
        public static let decodingFailed = Code("decodingFailed", 204, .final)
        /// The body is larger than ``Request/maxBodyBytes(_:)`` allows.
        ///
        /// Retry: no, except with a larger limit.
        public static let bodyTooLarge = Code("bodyTooLarge", 205, .final)
        /// The received bytes are not the file: the digest or the length differs.
        ///
        /// None of the received bytes are kept. Cause: the server, a proxy in between, or a wrong digest. Retry: it may
        /// help, preferably from another server.
        public static let integrityFailed = Code("integrityFailed", 304, .otherServerHelps)

        // MARK: Files and bodies

        /// The file or stream could not be written, for example because of a missing directory or permission.
        ///
        /// Retry: no.
        public static let destinationUnwritable = Code("destinationUnwritable", 300, .local)
        /// The disk has no room for the file.
        ///
        /// The received part stays on the disk if the download can be resumed. Retry: when there is room.
        public static let diskFull = Code("diskFull", 301, [.final, .local, .mendable])
        /// The file exists and must not be replaced; see ``Request/saved(to:verifying:existing:permissions:)``.
        ///
        /// Cause: the caller; see ``ExistingFile``. Retry: no.
        public static let destinationExists = Code("destinationExists", 302, .final)
        /// Another download to the same file is running, in this process or another.
        ///
        /// Retry: when the other download has finished.
        public static let destinationInUse = Code("destinationInUse", 303, [.final, .mendable])
        /// The body of the request does not match its declaration.
        ///
        /// A file is missing, cannot be read, or changed its size while it was sent, or a stream or sequence failed or
        /// had another length. The server has not received a complete body. Cause: the caller. Retry: no.
        public static let bodyUnreadable = Code("bodyUnreadable", 305)
        /// The body must be sent again, but can be read only once.
        ///
        /// A stream or sequence that cannot be repeated is needed again after a redirect or a lost connection, after a
        /// suspension on a transport that starts over, and by a second operation. The code also applies if a response
        /// began again after the caller had read some of its chunks. Retry: by the caller, with a new body.
        public static let bodyNotReplayable = Code("bodyNotReplayable", 306, .final)

        // MARK: All

        package static let all: [Code] = [
            .cancelled, .pageRepeated, .dependencyFailed, .dependencyCycle, .invalidRequest, .interceptorFailed,
            .groupFailed, .managerShutDown, .timedOut, .deadlineExceeded, .connectionFailed, .connectionLost,
            .tlsFailed, .proxyFailed, .transportFailed, .badResponse, .unacceptableStatus, .unacceptableContentType,
            .tooManyRedirects, .redirectRefused, .decodingFailed, .bodyTooLarge, .integrityFailed,
            .destinationUnwritable, .diskFull, .destinationExists, .destinationInUse, .bodyUnreadable,
            .bodyNotReplayable,
        ]

        private static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.rawValue, $0) })
    }
}

extension RequestError.Code {
    package struct Facts: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The default of ``RequestError/isRetryable``: sending the request again usually helps.
        package static let retryable = Facts(rawValue: 1 << 0)
        /// No retry policy sends the request again, because that is useless or forbidden.
        package static let final = Facts(rawValue: 1 << 1)
        /// The host could not be reached or stopped responding, and its breaker counts the failure.
        package static let failureOfHost = Facts(rawValue: 1 << 2)
        /// If the head of the response had arrived, its status code and fields count despite the failure.
        package static let headCounts = Facts(rawValue: 1 << 3)
        /// A mirror may succeed where this server, or the way to it, failed.
        package static let otherServerHelps = Facts(rawValue: 1 << 4)
        /// The cause is local, so other segments of a download would fail too.
        package static let local = Facts(rawValue: 1 << 5)
        /// The same request may succeed hours later, when the cause has been removed.
        package static let mendable = Facts(rawValue: 1 << 6)
    }
}
