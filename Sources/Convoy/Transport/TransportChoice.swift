// Which transport a manager uses.

/// Which transport a manager uses.
public enum TransportChoice: Sendable {
    /// The best one for the platform: libcurl on Linux, URLSession elsewhere, with the default ``ConnectionOptions``.
    ///
    /// Where the system's libcurl is too old, every request ends with `.transportFailed` and says so.
    case automatic
    /// The platform's URLSession.
    case urlSession
    /// One of your own, a stub, or one made with options.
    case custom(any Transport)

    /// The best transport of the platform with options of yours.
    ///
    /// - Throws: `.transportFailed` when that transport cannot do what an option asks, naming the option.
    public static func connecting(with options: ConnectionOptions) throws(RequestError) -> TransportChoice {
        #if canImport(CLibcurl)
            .custom(try CurlTransport(options))
        #else
            try urlSession(with: options)
        #endif
    }

    /// URLSession with options of yours.
    ///
    /// On Apple platforms it honours ``ConnectionOptions/trust-swift.property``, ``ConnectionOptions/pinnedPublicKeys``,
    /// ``ConnectionOptions/minimumTLSVersion`` and a ``ConnectionOptions/clientCertificate-swift.property`` from an archive:
    /// written and type-checked, never run.
    ///
    /// - Throws: `.transportFailed` for every other option that differs from the default, on Linux for all of them; for a
    ///   file that cannot be read or used. The message names the option.
    public static func urlSession(with options: ConnectionOptions) throws(RequestError) -> TransportChoice {
        var names = options.namesOfChanges
        #if canImport(Security)
            names.removeAll(where: SessionSecurity.honoured.contains)
        #endif
        guard names.isEmpty else {
            throw RequestError(
                .transportFailed,
                "the URLSession transport cannot honour \(names.joined(separator: ", ")); use another transport")
        }
        #if canImport(Security)
            if options != ConnectionOptions() { return .custom(try URLSessionTransport.shared(for: options)) }
        #endif
        return .urlSession
    }

    var transport: any Transport {
        switch self {
        case .automatic:
            #if canImport(CLibcurl)
                CurlTransport.shared
            #else
                URLSessionTransport.shared
            #endif
        case .urlSession: URLSessionTransport.shared
        case .custom(let transport): transport
        }
    }
}
