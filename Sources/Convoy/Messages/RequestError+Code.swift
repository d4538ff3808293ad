// The kinds of failure, and what the library knows of each.
//
// A new code is one declaration here, with its number and its facts, and its name in `all`. Tests compare `all` with the
// declarations, and the pages (Failures.md, Symbols/RequestError.Code.md) with both; they want a test that brings the code
// about.

extension RequestError {
    /// A kind of failure.
    ///
    /// The list grows; keep a `default` where you switch.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        /// The code's name, stable across versions.
        public let rawValue: String
        /// The code as an `NSError` has it; 1 for a code of the caller's.
        let number: Int
        package let facts: Facts

        /// Makes a code, for a transport or decoder of your own.
        public init(rawValue: String) { self = Self.byName[rawValue] ?? Code(rawValue, 1) }

        private init(_ name: String, _ number: Int, _ facts: Facts = []) {
            (rawValue, self.number, self.facts) = (name, number, facts)
        }

        /// The code's name.
        public var description: String { rawValue }

        // MARK: The caller

        /// The caller cancelled.
        ///
        /// Retry: no, it was meant.
        public static let cancelled = Code("cancelled", 100, [.final, .local])
        /// A page names one that was fetched before as its next, see ``ResponsePages``: they lead in a circle.
        ///
        /// The server, or the function that makes the next request. Retry: no.
        public static let pageRepeated = Code("pageRepeated", 206)
        /// A dependency failed or was cancelled; nothing was sent.
        ///
        /// Retry: after the dependency.
        public static let dependencyFailed = Code("dependencyFailed", 400, .final)
        /// A dependency would have closed a cycle; the message names it.
        ///
        /// The programmer. Retry: no.
        public static let dependencyCycle = Code("dependencyCycle", 401, .final)
        /// The request cannot be sent as it was built; the message says why.
        ///
        /// The programmer. Retry: no.
        public static let invalidRequest = Code("invalidRequest", 403, .final)
        /// An interceptor failed; ``RequestError/underlying`` is what it threw.
        ///
        /// The interceptor. Retry: by cause.
        public static let interceptorFailed = Code("interceptorFailed", 402, .mendable)
        /// The function of a group threw something that is no ``RequestError``; ``RequestError/underlying`` is what it threw.
        ///
        /// The caller's code. Retry: by cause.
        public static let groupFailed = Code("groupFailed", 405, .final)
        /// The manager had been shut down.
        ///
        /// The programmer. Retry: with another manager.
        public static let managerShutDown = Code("managerShutDown", 404, .final)

        // MARK: Time

        /// Nothing arrived for the idle timeout, less than the minimum speed asks, the attempt took longer than its timeout, or
        /// `startAndWait` waited its time.
        ///
        /// The server or the network. Retry: yes.
        public static let timedOut = Code("timedOut", 101, [.retryable, .failureOfHost, .otherServerHelps])
        /// The time allowed for the whole transfer was over.
        ///
        /// The server or the network. Retry: no, the time is used up.
        public static let deadlineExceeded = Code("deadlineExceeded", 106, [.final, .mendable])

        // MARK: The network

        /// No connection: refused, unreachable, name not found.
        ///
        /// The server or the network. Retry: yes.
        public static let connectionFailed = Code(
            "connectionFailed", 102, [.retryable, .failureOfHost, .otherServerHelps])
        /// A connection was made and then lost, before the answer or in its middle.
        ///
        /// The network. Retry: yes.
        public static let connectionLost = Code(
            "connectionLost", 103, [.retryable, .failureOfHost, .headCounts, .otherServerHelps])
        /// The server could not be trusted or spoke no TLS.
        ///
        /// Retry: no, it would fail again.
        public static let tlsFailed = Code("tlsFailed", 104, [.final, .otherServerHelps, .mendable])
        /// The proxy could not be reached, or refused.
        ///
        /// The proxy or its settings. Retry: by cause.
        public static let proxyFailed = Code("proxyFailed", 107, .mendable)
        /// The transport cannot do what was asked of it, or failed in a way of its own.
        ///
        /// Retry: no.
        public static let transportFailed = Code("transportFailed", 108)

        // MARK: The server

        /// What arrived is not HTTP, or not complete in its framing.
        ///
        /// The server. Retry: seldom.
        public static let badResponse = Code("badResponse", 105, [.headCounts, .otherServerHelps])
        /// The status code failed the request's check.
        ///
        /// The server, or a wrong request. Retry: by status.
        public static let unacceptableStatus = Code("unacceptableStatus", 200, .otherServerHelps)
        /// The content type failed the request's check, ``Request/acceptableContentTypes(_:)``.
        ///
        /// The server, or what answers in its place. Retry: no.
        public static let unacceptableContentType = Code("unacceptableContentType", 201)
        /// More redirects than ``RedirectPolicy/maxCount`` allows; ``RequestError/attempts`` lists the hops.
        ///
        /// The server. Retry: no.
        public static let tooManyRedirects = Code("tooManyRedirects", 202, [.final, .otherServerHelps])
        /// A redirect that is not followed: to another scheme than http and https, to a host that no request can go to, or
        /// from https to http.
        ///
        /// With ``RedirectPolicy/never`` the redirect itself is the answer; ``RedirectPolicy/allowsInsecure`` follows the
        /// latter kind.
        /// The server. Retry: no.
        public static let redirectRefused = Code("redirectRefused", 203, [.final, .otherServerHelps])
        /// The body arrived and could not be turned into the output; ``RequestError/body`` has it.
        ///
        /// Retry: no.
        public static let decodingFailed = Code("decodingFailed", 204, .final)
        /// The body is larger than the request allows, see ``Request/maxBodyBytes(_:)``.
        ///
        /// Retry: no, unless with a larger limit.
        public static let bodyTooLarge = Code("bodyTooLarge", 205, .final)
        /// What was received is not the file: its digest or its length is another.
        ///
        /// Nothing of it is kept.
        /// The server, a proxy between, or a wrong digest. Retry: it may help, from another server rather.
        public static let integrityFailed = Code("integrityFailed", 304)

        // MARK: Files and bodies

        /// The file or stream could not be written: missing directory, no permission.
        ///
        /// Retry: no.
        public static let destinationUnwritable = Code("destinationUnwritable", 300, .local)
        /// The disk has no room for the file; what has been received of it stays where it can be continued.
        ///
        /// Retry: when there is room.
        public static let diskFull = Code("diskFull", 301, [.final, .local, .mendable])
        /// The file exists, and is not to be replaced: ``Request/saved(to:verifying:existing:permissions:)``.
        ///
        /// The caller, see ``ExistingFile``. Retry: no.
        public static let destinationExists = Code("destinationExists", 302, .final)
        /// Another download to the same file is under way, in this process or another.
        ///
        /// Retry: when that has ended.
        public static let destinationInUse = Code("destinationInUse", 303, [.final, .mendable])
        /// The body of the request cannot be had as it was declared: a file is missing, may not be read or changes its size
        /// while it is sent, a stream or sequence fails or has another length.
        ///
        /// The caller. The server has not taken it for complete. Retry: no.
        public static let bodyUnreadable = Code("bodyUnreadable", 305)
        /// What can be had only once would be needed a second time.
        ///
        /// The body of the request comes from a stream or sequence that cannot be repeated, and a redirect wants it again,
        /// its connection was lost, it was suspended where transfers start over, or it was sent before. Or the answer began
        /// again after bytes had been read from its chunks.
        ///
        /// Retry: by the caller, with a new body.
        public static let bodyNotReplayable = Code("bodyNotReplayable", 306, .final)

        // MARK: All

        /// Every code of the library, in the order of the pages.
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
