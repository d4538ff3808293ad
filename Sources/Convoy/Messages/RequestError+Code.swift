// The kinds of failure.
//
// A new code also belongs, where it fits, to isUsuallyRetryable (below), errorCodes and finalCodes (Policies/RetryPolicy),
// HostSample (Scheduling/Hosts/Host), AttemptEnding.hasHead (Operation/Attempt), numbers (Messages/RequestError+NSError),
// what another segment may have (Manager/SegmentedDownload+Fetching), the command (Sources/ConvoyCommand:
// Help/HelpText+JSON, Fetch/FetchReport), the topics in Symbols/RequestError.Code.md, Changes.md, and the tables of
// RequestErrorTests and RetryPolicyTests.

extension RequestError {
    /// A kind of failure.
    ///
    /// The list grows; keep a `default` where you switch.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        /// The code's name, stable across versions.
        public let rawValue: String

        /// Makes a code, for a transport or decoder of your own.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The code's name.
        public var description: String { rawValue }

        /// The caller cancelled.
        ///
        /// Retry: no, it was meant.
        public static let cancelled = Code(rawValue: "cancelled")
        /// Nothing arrived for the idle timeout, less than the minimum speed asks, the attempt took longer than its timeout, or
        /// `startAndWait` waited its time.
        ///
        /// The server or the network. Retry: yes.
        public static let timedOut = Code(rawValue: "timedOut")
        /// No connection: refused, unreachable, name not found.
        ///
        /// The server or the network. Retry: yes.
        public static let connectionFailed = Code(rawValue: "connectionFailed")
        /// A connection was made and then lost, before the answer or in its middle.
        ///
        /// The network. Retry: yes.
        public static let connectionLost = Code(rawValue: "connectionLost")
        /// The server could not be trusted or spoke no TLS.
        ///
        /// Retry: no, it would fail again.
        public static let tlsFailed = Code(rawValue: "tlsFailed")
        /// What arrived is not HTTP, or not complete in its framing.
        ///
        /// The server. Retry: seldom.
        public static let badResponse = Code(rawValue: "badResponse")
        /// The status code failed the request's check.
        ///
        /// The server, or a wrong request. Retry: by status.
        public static let unacceptableStatus = Code(rawValue: "unacceptableStatus")
        /// The content type failed the request's check, ``Request/acceptableContentTypes(_:)``.
        ///
        /// The server, or what answers in its place. Retry: no.
        public static let unacceptableContentType = Code(rawValue: "unacceptableContentType")
        /// More redirects than ``RedirectPolicy/maxCount`` allows; ``RequestError/attempts`` lists the hops.
        ///
        /// The server. Retry: no.
        public static let tooManyRedirects = Code(rawValue: "tooManyRedirects")
        /// A redirect that is not followed: to another scheme than http and https, to a host that no request can go to, or
        /// from https to http.
        ///
        /// With ``RedirectPolicy/never`` the redirect itself is the answer; ``RedirectPolicy/allowsInsecure`` follows the
        /// latter kind.
        /// The server. Retry: no.
        public static let redirectRefused = Code(rawValue: "redirectRefused")
        /// A page names one that was fetched before as its next, see ``ResponsePages``: they lead in a circle.
        ///
        /// The server, or the function that makes the next request. Retry: no.
        public static let pageRepeated = Code(rawValue: "pageRepeated")
        /// A dependency failed or was cancelled; nothing was sent.
        ///
        /// Retry: after the dependency.
        public static let dependencyFailed = Code(rawValue: "dependencyFailed")
        /// A dependency would have closed a cycle; the message names it.
        ///
        /// The programmer. Retry: no.
        public static let dependencyCycle = Code(rawValue: "dependencyCycle")
        /// The body arrived and could not be turned into the output; ``RequestError/body`` has it.
        ///
        /// Retry: no.
        public static let decodingFailed = Code(rawValue: "decodingFailed")
        /// The body is larger than the request allows, see ``Request/maxBodyBytes(_:)``.
        ///
        /// Retry: no, unless with a larger limit.
        public static let bodyTooLarge = Code(rawValue: "bodyTooLarge")
        /// The file or stream could not be written: missing directory, no permission.
        ///
        /// Retry: no.
        public static let destinationUnwritable = Code(rawValue: "destinationUnwritable")
        /// The disk has no room for the file; what has been received of it stays where it can be continued.
        ///
        /// Retry: when there is room.
        public static let diskFull = Code(rawValue: "diskFull")
        /// The file exists, and is not to be replaced: ``Request/saved(to:verifying:existing:permissions:)``.
        ///
        /// The caller, see ``ExistingFile``. Retry: no.
        public static let destinationExists = Code(rawValue: "destinationExists")
        /// Another download to the same file is under way, in this process or another.
        ///
        /// Retry: when that has ended.
        public static let destinationInUse = Code(rawValue: "destinationInUse")
        /// What was received is not the file: its digest or its length is another.
        ///
        /// Nothing of it is kept.
        /// The server, a proxy between, or a wrong digest. Retry: it may help, from another server rather.
        public static let integrityFailed = Code(rawValue: "integrityFailed")
        /// The body of the request cannot be had as it was declared: a file is missing, may not be read or changes its size
        /// while it is sent, a stream or sequence fails or has another length.
        ///
        /// The caller. The server has not taken it for complete. Retry: no.
        public static let bodyUnreadable = Code(rawValue: "bodyUnreadable")
        /// The time allowed for the whole transfer was over.
        ///
        /// The server or the network. Retry: no, the time is used up.
        public static let deadlineExceeded = Code(rawValue: "deadlineExceeded")
        /// The proxy could not be reached, or refused.
        ///
        /// The proxy or its settings. Retry: by cause.
        public static let proxyFailed = Code(rawValue: "proxyFailed")
        /// What can be had only once would be needed a second time.
        ///
        /// The body of the request comes from a stream or sequence that cannot be repeated, and a redirect wants it again,
        /// its connection was lost, it was suspended where transfers start over, or it was sent before. Or the answer began
        /// again after bytes had been read from its chunks.
        ///
        /// Retry: by the caller, with a new body.
        public static let bodyNotReplayable = Code(rawValue: "bodyNotReplayable")
        /// The request cannot be sent as it was built; the message says why.
        ///
        /// The programmer. Retry: no.
        public static let invalidRequest = Code(rawValue: "invalidRequest")
        /// An interceptor failed; ``RequestError/underlying`` is what it threw.
        ///
        /// The interceptor. Retry: by cause.
        public static let interceptorFailed = Code(rawValue: "interceptorFailed")
        /// The function of a group threw something that is no ``RequestError``; ``RequestError/underlying`` is what it threw.
        ///
        /// The caller's code. Retry: by cause.
        public static let groupFailed = Code(rawValue: "groupFailed")
        /// The manager had been shut down.
        ///
        /// The programmer. Retry: with another manager.
        public static let managerShutDown = Code(rawValue: "managerShutDown")
        /// The transport cannot do what was asked of it, or failed in a way of its own.
        ///
        /// Retry: no.
        public static let transportFailed = Code(rawValue: "transportFailed")

        /// Whether a request that failed this way is usually worth sending again.
        var isUsuallyRetryable: Bool {
            [.timedOut, .connectionFailed, .connectionLost].contains(self)
        }
    }
}
