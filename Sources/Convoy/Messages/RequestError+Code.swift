// The kinds of failure, and their properties. To add a code, declare it here with its number and its facts, and list it
// in `all`. Tests compare `all` with the declarations, and both with the pages (Failures.md,
// Symbols/RequestError.Code.md). They also require a test that produces the code.

extension RequestError {
    /// A kind of failure; new ones may be added, so keep a `default` in each switch.
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

        /// The caller cancelled the operation; it is never sent again.
        public static let cancelled = Code("cancelled", 100, [.final, .local])
        /// A page of ``ResponsePages`` names an earlier page as its next one, by a fault of the server or of the
        /// function that makes the request; a retry does not help.
        public static let pageRepeated = Code("pageRepeated", 206)
        /// A dependency failed or was cancelled, and nothing was sent; a retry helps after it has succeeded.
        public static let dependencyFailed = Code("dependencyFailed", 400, .final)
        /// A dependency would have closed a cycle, which the message names: a fault of the program.
        public static let dependencyCycle = Code("dependencyCycle", 401, .final)
        /// The request cannot be sent as it was built, for the reason in the message: a fault of the program.
        public static let invalidRequest = Code("invalidRequest", 403, .final)
        /// An interceptor threw ``RequestError/underlying``; whether a retry helps depends on that error.
        public static let interceptorFailed = Code("interceptorFailed", 402, .mendable)
        /// The function of a group threw ``RequestError/underlying``, neither a ``RequestError`` nor a
        /// `CancellationError`; whether a retry helps depends on it.
        public static let groupFailed = Code("groupFailed", 405, .final)
        /// The program had shut down the manager; another manager can send the request.
        public static let managerShutDown = Code("managerShutDown", 404, .final)

        // MARK: Time

        /// The idle timeout, the attempt timeout or the timeout of `startAndWait` passed, or the speed was below the
        /// minimum, because of the server or the network; a retry may help.
        public static let timedOut = Code("timedOut", 101, [.retryable, .failureOfHost, .otherServerHelps])
        /// The deadline of the operation passed, because of the server or the network; it leaves no time for a retry.
        public static let deadlineExceeded = Code("deadlineExceeded", 106, [.final, .mendable])

        // MARK: The network

        /// No connection could be made (refused, unreachable, name not found, or not in time), because of the server or
        /// the network; a retry may help.
        public static let connectionFailed = Code(
            "connectionFailed", 102, [.retryable, .failureOfHost, .otherServerHelps])
        /// The connection was lost, before the response or during it, because of the network; a retry may help.
        public static let connectionLost = Code(
            "connectionLost", 103, [.retryable, .failureOfHost, .headCounts, .otherServerHelps])
        /// The server could not be trusted or did not support TLS, so a retry would fail too.
        public static let tlsFailed = Code("tlsFailed", 104, [.final, .otherServerHelps, .mendable])
        /// The proxy, of the options or of the environment, could not be reached, or rejected the request: also a 407,
        /// unless the request accepts that status; whether a retry helps depends on the error.
        public static let proxyFailed = Code("proxyFailed", 107, [.mendable, .otherServerHelps])
        /// The transport does not support the request, or failed internally; a retry does not help.
        public static let transportFailed = Code("transportFailed", 108)

        // MARK: The server

        /// The response breaks the rules of HTTP, or cannot be used: for example its framing, a content coding that is
        /// not supported, or a range that was not requested; a retry seldom helps.
        public static let badResponse = Code("badResponse", 105, [.headCounts, .otherServerHelps])
        /// The status code failed the request's check: server or request; the status decides about a retry.
        public static let unacceptableStatus = Code("unacceptableStatus", 200, .otherServerHelps)
        /// The content type failed the request's check, ``Request/acceptableContentTypes(_:)``, perhaps of a system
        /// that responds in the server's place; a retry does not help.
        public static let unacceptableContentType = Code("unacceptableContentType", 201)
        /// The server redirected more often than ``RedirectPolicy/maxCount`` allows, as ``RequestError/attempts``
        /// lists; a retry does not help.
        public static let tooManyRedirects = Code("tooManyRedirects", 202, [.final, .otherServerHelps])
        /// The redirect is not followed.
        ///
        /// It leads to a scheme other than http and https, to a URL that the transport rejects, or from https to http
        /// without ``RedirectPolicy/allowsInsecure``; or ``RedirectPolicy/onRedirect`` rejected it. With
        /// ``RedirectPolicy/never`` the redirect itself is the response. Cause: the server. Retry: no.
        public static let redirectRefused = Code("redirectRefused", 203, [.final, .otherServerHelps])
        /// The received body, ``RequestError/body``, could not be decoded; a retry does not help.
        public static let decodingFailed = Code("decodingFailed", 204, .final)
        /// The body is larger than ``Request/maxBodyBytes(_:)`` allows; a retry needs a larger limit.
        public static let bodyTooLarge = Code("bodyTooLarge", 205, .final)
        /// The digest or the length of the received bytes, which are not kept, differs from the file's, by a fault of
        /// the server, a proxy or the given digest; a retry may help, preferably from another server.
        public static let integrityFailed = Code("integrityFailed", 304, .otherServerHelps)

        // MARK: Files and bodies

        /// The file or stream could not be written, as without its directory or permission; a retry does not help.
        public static let destinationUnwritable = Code("destinationUnwritable", 300, .local)
        /// The disk has no room for the file; a part that can be resumed stays there until a retry with room.
        public static let diskFull = Code("diskFull", 301, [.final, .local, .mendable])
        /// The file exists and must not be replaced: the caller chose that ``ExistingFile``.
        public static let destinationExists = Code("destinationExists", 302, .final)
        /// Another download to the same file is running, in this process or another; a retry helps afterwards.
        public static let destinationInUse = Code("destinationInUse", 303, [.final, .mendable])
        /// The body of the request does not match its declaration, so the server has not received a complete body.
        ///
        /// A file is missing, cannot be read, or changed its size while it was sent, or a stream or sequence failed or
        /// had another length. A retry does not help.
        public static let bodyUnreadable = Code("bodyUnreadable", 305)
        /// The body must be sent again, but its stream or sequence can be read only once.
        ///
        /// This happens after a redirect or a lost connection, after a suspension on a transport that starts over, and
        /// for a second operation. The code also applies if a response began again after the caller had read some of
        /// its chunks. The caller can send the request with a new body.
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
