// The choice of a manager's transport.

/// The transport of a manager.
public enum TransportChoice: Sendable {
    /// The platform's best transport: libcurl on Linux, URLSession elsewhere, with the default ``ConnectionOptions``.
    ///
    /// If the system's libcurl is too old, every request fails with `.transportFailed`, and the message says so.
    case automatic
    /// URLSession with the default ``ConnectionOptions``.
    case urlSession
    /// Your own transport, a stub, or a transport made with options.
    case custom(any Transport)

    /// The best transport of the platform with your options.
    ///
    /// - Throws: `.transportFailed` when the transport does not support an option, or cannot use a file of the options.
    ///   The message names the option.
    public static func connecting(with options: ConnectionOptions) throws(RequestError) -> TransportChoice {
        #if canImport(CLibcurl)
            .custom(try CurlTransport(options))
        #else
            try urlSession(with: options)
        #endif
    }

    /// URLSession with your options.
    ///
    /// On Apple platforms it supports ``ConnectionOptions/trust-swift.property``,
    /// ``ConnectionOptions/pinnedPublicKeys``, ``ConnectionOptions/minimumTLSVersion`` and a
    /// ``ConnectionOptions/clientCertificate-swift.property`` from an archive. The code for Apple platforms is
    /// type-checked but was never run.
    ///
    /// - Throws: `.transportFailed` for every other option that differs from the default, on Linux for all of them.
    ///   Also for a file that cannot be read or used. The message names the option.
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
