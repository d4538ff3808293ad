// How connections are made, and which certificates are trusted.
import Foundation

/// How a transport connects: trust, proxy, timeouts and protocol versions.
///
/// ```swift
/// var options = ConnectionOptions()
/// let authorities = URL(fileURLWithPath: "/etc/company/ca.pem")
/// options.trust = .certificates(in: authorities)
/// options.connectTimeout = .seconds(3)
/// let manager = RequestManager(
///     configuration: .init(transport: try .connecting(with: options)))
/// ```
///
/// If a transport does not support an option, making the transport fails with `.transportFailed`. URLSession supports no
/// option on Linux, and on Apple platforms ``trust-swift.property``, ``pinnedPublicKeys``, ``minimumTLSVersion`` and a
/// ``clientCertificate-swift.property`` from an archive. Managers whose options are equal share their connections.
///
/// ## Topics
/// - ``trust-swift.property``
/// - ``pinnedPublicKeys``
/// - ``minimumTLSVersion``
/// - ``clientCertificate-swift.property``
/// - ``proxy-swift.property``
/// - ``connectTimeout``
/// - ``hostOverrides``
/// - ``acceptsMissingCloseNotify``
public struct ConnectionOptions: Sendable, Hashable {
    /// Which certificates of servers and HTTPS proxies are trusted.
    public enum Trust: Sendable, Hashable {
        /// The certificate authorities of the system.
        case system
        /// The certificates in a PEM file, and no others.
        case certificates(in: URL)
        /// Every certificate of servers and proxies.
        ///
        /// Neither the certificate nor its name is checked, but ``ConnectionOptions/pinnedPublicKeys`` are. For test
        /// servers only: an attacker on the network path can read and change everything. Only with libcurl.
        case unverified
    }

    /// The certificate of this client, for servers that request one.
    public struct ClientCertificate: Sendable, Hashable {
        /// How certificate and key are stored.
        public enum Format: Sendable, Hashable {
            /// Two PEM files, one with the certificate and one with the key; only with libcurl.
            case pem
            /// One PKCS #12 archive; only with URLSession on Apple platforms, and with libcurl without GnuTLS.
            case archive
        }

        /// How certificate and key are stored.
        public let format: Format
        /// The file with the certificate, optionally with its chain.
        public var certificateFile: URL
        /// The file with the private key; for an archive, the file of the certificate.
        public var privateKeyFile: URL
        /// The password of the key or the archive, if it has one.
        public var password: String?

        /// Describes a client certificate in two PEM files.
        public init(certificateFile: URL, privateKeyFile: URL, password: String? = nil) {
            (format, self.password) = (.pem, password)
            (self.certificateFile, self.privateKeyFile) = (certificateFile, privateKeyFile)
        }

        /// Describes a client certificate with its key in one PKCS #12 archive, with the extension `.p12` or `.pfx`.
        public init(archive: URL, password: String? = nil) {
            (format, self.password) = (.archive, password)
            (certificateFile, privateKeyFile) = (archive, archive)
        }

        /// Compares the formats, the files and the bytes of the passwords.
        public static func == (left: ClientCertificate, right: ClientCertificate) -> Bool {
            (left.format, left.certificateFile, left.privateKeyFile)
                == (right.format, right.certificateFile, right.privateKeyFile)
                && left.password.hasBytes(of: right.password)
        }
    }

    /// The proxy of requests.
    public enum Proxy: Sendable, Hashable {
        /// The proxy from `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`.
        ///
        /// If the environment names none before the first request, later changes have no effect.
        case environment
        /// No proxy, even if the environment names one.
        case direct
        /// A proxy with its port: `http://name:port`, `https://name:port`, or a SOCKS proxy.
        ///
        /// With `socks5h` and `socks4a` the proxy resolves names, with `socks5` and `socks4` this machine does. Only
        /// the proxy receives the credentials.
        case server(URL, userName: String? = nil, password: String? = nil)

        /// Compares the kinds, and for servers the URLs and the bytes of names and passwords.
        public static func == (left: Proxy, right: Proxy) -> Bool {
            switch (left, right) {
            case (.environment, .environment), (.direct, .direct): true
            case (.server(let url, let userName, let password), .server(let other, let otherName, let otherPassword)):
                url == other && userName.hasBytes(of: otherName) && password.hasBytes(of: otherPassword)
            default: false
            }
        }
    }

    /// Fixed addresses of a host, as with curl's `--resolve`.
    public struct HostOverride: Sendable, Hashable {
        /// The name of the host, as in URLs.
        public var host: String
        /// The port to which the addresses apply; other ports of the host are resolved as usual.
        public var port: Int
        /// At least one IPv4 or IPv6 address; libcurl tries them like resolved addresses.
        public var addresses: [String]

        /// Describes the addresses of one host and port.
        ///
        /// - Parameters:
        ///   - host: the name of the host.
        ///   - port: the port; 443 by default.
        ///   - addresses: for example `127.0.0.1` or `::1`.
        public init(_ host: String, port: Int = 443, addresses: [String]) {
            (self.host, self.port, self.addresses) = (host, port, addresses)
        }
    }

    /// The allowed versions of HTTP.
    public enum HTTPVersion: Sendable, Hashable {
        /// HTTP/2 over TLS if the server offers it, otherwise HTTP/1.1.
        case automatic
        /// HTTP/1.1 only.
        case http1
    }

    /// The minimum version of TLS.
    public enum TLSVersion: Sendable, Hashable {
        /// TLS 1.2 (RFC 5246).
        case tls12
        /// TLS 1.3 (RFC 8446).
        case tls13
    }

    /// The maximum time to connect, including name resolution and TLS handshake; 30 seconds by default.
    public var connectTimeout = Duration.seconds(30)
    /// Which certificates are trusted; by default those of the system's authorities.
    public var trust = Trust.system
    /// The accepted public keys of servers, each as the base64 of the SHA-256 of a DER SubjectPublicKeyInfo (RFC
    /// 7469, section 2.4), checked in addition to ``trust-swift.property``; any key if empty.
    public var pinnedPublicKeys: Set<String> = []
    /// The minimum version of TLS with servers and https proxies, 1.2 by default; with less a request fails with
    /// `.tlsFailed`.
    public var minimumTLSVersion = TLSVersion.tls12
    /// The certificate of this client; none by default.
    public var clientCertificate: ClientCertificate?
    /// The proxy of requests; by default that of the environment.
    public var proxy = Proxy.environment
    /// Fixed addresses of hosts, in place of name resolution; none by default.
    ///
    /// The URL, the `Host` field and the checked certificate name do not change. If a proxy resolves the host's name,
    /// the addresses are not used. If two overrides have the same host and port, the last one is used.
    public var hostOverrides: [HostOverride] = []
    /// The allowed versions of HTTP; by default HTTP/2 over TLS if the server offers it, otherwise HTTP/1.1.
    public var httpVersion = HTTPVersion.automatic
    /// Whether a body without a length counts as complete when its TLS connection is closed without a `close_notify`
    /// alert.
    ///
    /// False by default; true is for old servers. An attacker could truncate such a body unnoticed (RFC 9112, section
    /// 9.8), so by default it fails with `.connectionLost`. Bodies with a length, in chunks or over HTTP/2 mark their
    /// own end.
    ///
    /// libcurl detects the missing alert with OpenSSL, LibreSSL, BoringSSL and GnuTLS. With other TLS libraries, and
    /// URLSession on Linux, such a body always counts as complete.
    public var acceptsMissingCloseNotify = false
    /// The maximum size of a response's header in bytes, with interim responses; 300 KiB by default and at most.
    public var maxHeaderBytes: Int64 = 300 << 10
    /// The maximum number of header fields of a response; 5,000 by default and at most.
    public var maxHeaderFieldCount = 5_000
    /// The idle time after which a connection is not reused; 60 seconds by default.
    ///
    /// A thread that has had no requests for this time closes its connections and ends.
    public var idleConnectionTime = Duration.seconds(60)
    /// The number of threads that transfer bytes; 2 by default.
    ///
    /// A plain HTTP request uses the first thread with fewer than 32 transfers, or else the thread with the fewest.
    /// One thread fills a core at about ten thousand small requests per second. Each https host uses only one thread,
    /// because its requests can share connections.
    public var engineCount = 2

    /// Makes the default options.
    public init() {}

    /// The error of the URLSession transport lists the names that URLSession does not support.
    var namesOfChanges: [String] {
        zip(Mirror(reflecting: self).children, Mirror(reflecting: ConnectionOptions()).children)
            .filter { $0.value as? AnyHashable != $1.value as? AnyHashable }.compactMap(\.0.label)
    }
}

extension ConnectionOptions.ClientCertificate: CustomStringConvertible, CustomReflectable {
    /// The paths of the files, without the password.
    public var description: String { "\(certificateFile.path), key \(privateKeyFile.path)" }
    /// Contains only the description, because a reflection would show the password.
    public var customMirror: Mirror { Mirror(self, children: ["files": description]) }
}

extension ConnectionOptions.Proxy: CustomStringConvertible, CustomReflectable {
    /// The proxy, without credentials.
    public var description: String {
        switch self {
        case .environment: "from the environment"
        case .direct: "direct"
        case .server(let url, _, _): url.redactedString
        }
    }
    /// Contains only the description, because a reflection would show the password.
    public var customMirror: Mirror { Mirror(self, children: ["proxy": description]) }
}
