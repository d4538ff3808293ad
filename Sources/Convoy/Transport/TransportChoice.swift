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
    /// - Throws: `.transportFailed` for every option that differs from the default: URLSession cannot honour them on Linux,
    ///   and they are not wired to it elsewhere.
    public static func urlSession(with options: ConnectionOptions) throws(RequestError) -> TransportChoice {
        let names = options.namesOfChanges
        guard names.isEmpty else {
            throw RequestError(
                .transportFailed,
                "the URLSession transport cannot honour \(names.joined(separator: ", ")); use another transport")
        }
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
