// How connections are made and whom they trust.
import Foundation

/// How a transport makes its connections: whom it trusts, by which proxy it goes, how long it tries.
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
/// What a transport cannot do is refused when it is asked for, never ignored: URLSession on Linux honours none of these, and
/// on Apple platforms ``trust-swift.property``, ``pinnedPublicKeys``, ``minimumTLSVersion`` and a
/// ``clientCertificate-swift.property`` from an archive.
/// Managers whose options are equal share their connections.
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
    /// Whose certificates are good.
    public enum Trust: Sendable, Hashable {
        /// The certificate authorities of the system.
        case system
        /// Those in a file of PEM certificates, and no others.
        case certificates(in: URL)
        /// Every certificate: neither it nor the name in it is checked, of servers and of proxies.
        ///
        /// For test servers only: what lies between client and server can read and change everything.
        /// ``ConnectionOptions/pinnedPublicKeys`` are checked all the same. For libcurl only.
        case unverified
    }

    /// The certificate of this client, for servers that ask.
    public struct ClientCertificate: Sendable, Hashable {
        /// How certificate and key are stored.
        public enum Format: Sendable, Hashable {
            /// A PEM file each: for libcurl.
            case pem
            /// One PKCS #12 archive: for URLSession on Apple platforms, and a libcurl without GnuTLS.
            case archive
        }

        /// How certificate and key are stored.
        public let format: Format
        /// The file with the certificate, and perhaps its chain.
        public var certificateFile: URL
        /// The file with the private key; of an archive the same file.
        public var privateKeyFile: URL
        /// The password of the key or the archive, if it has one.
        public var password: String?

        /// Describes a client certificate in two PEM files.
        public init(certificateFile: URL, privateKeyFile: URL, password: String? = nil) {
            format = .pem
            self.certificateFile = certificateFile
            self.privateKeyFile = privateKeyFile
            self.password = password
        }

        /// Describes a client certificate with its key in one PKCS #12 archive, a file called `.p12` or `.pfx`.
        public init(archive: URL, password: String? = nil) {
            format = .archive
            certificateFile = archive
            privateKeyFile = archive
            self.password = password
        }
    }

    /// By which way requests go.
    public enum Proxy: Sendable, Hashable {
        /// What `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` say when the first request is sent.
        case environment
        /// Straight to the server, whatever the environment says.
        case direct
        /// By this proxy, its port included: `http://name:port`, `https://name:port`, or by SOCKS, where `socks5h` and
        /// `socks4a` have the proxy look names up, `socks5` and `socks4` this machine; with credentials that only the proxy
        /// gets to see.
        case server(URL, userName: String? = nil, password: String? = nil)
    }

    /// Which addresses a host has, whatever the name service says; curl's `--resolve`.
    public struct HostOverride: Sendable, Hashable {
        /// The name of the host, as it stands in URLs.
        public var host: String
        /// The port that the addresses are for; other ports of the host are looked up.
        public var port: Int
        /// The addresses, IPv4 or IPv6, one at least; tried as those of the name service are.
        public var addresses: [String]

        /// Describes the addresses of one host and port.
        ///
        /// - Parameters:
        ///   - host: the name of the host.
        ///   - port: the port; 443 by default.
        ///   - addresses: `127.0.0.1` or `::1`, say.
        public init(_ host: String, port: Int = 443, addresses: [String]) {
            self.host = host
            self.port = port
            self.addresses = addresses
        }
    }

    /// Which versions of HTTP may be spoken.
    public enum HTTPVersion: Sendable, Hashable {
        /// HTTP/2 over TLS where the server offers it, else HTTP/1.1.
        case automatic
        /// HTTP/1.1 only.
        case http1
    }

    /// Versions of TLS that a connection may be asked to have at least.
    public enum TLSVersion: Sendable, Hashable {
        /// TLS 1.2 (RFC 5246).
        case tls12
        /// TLS 1.3 (RFC 8446).
        case tls13
    }

    /// How long connecting may take, name lookup and TLS handshake included; 30 seconds by default, to the millisecond.
    public var connectTimeout = Duration.seconds(30)
    /// Whose certificates are good; the system's authorities by default.
    public var trust = Trust.system
    /// The servers' public keys that are accepted: each the base64 of the SHA-256 of a DER SubjectPublicKeyInfo
    /// (RFC 7469, section 2.4); any key when empty.
    ///
    /// Checked beside ``trust-swift.property``, not in its place.
    public var pinnedPublicKeys: Set<String> = []
    /// The oldest version of TLS that is spoken, with servers and with proxies that are reached by TLS; 1.2 by default.
    ///
    /// A server that offers older ones only is a `.tlsFailed`.
    public var minimumTLSVersion = TLSVersion.tls12
    /// The certificate of this client; none by default.
    public var clientCertificate: ClientCertificate?
    /// By which way requests go; what the environment says by default.
    public var proxy = Proxy.environment
    /// Which addresses hosts have, whatever the name service says; none by default.
    ///
    /// URL, `Host` field and the name that a certificate is checked for stay what they are. Not asked where a request goes by
    /// a proxy, which looks names up itself. Of two for the same host and port the last one counts.
    public var hostOverrides: [HostOverride] = []
    /// Which versions of HTTP may be spoken.
    public var httpVersion = HTTPVersion.automatic
    /// Whether a body without a length is taken for complete when its TLS connection is closed without TLS's
    /// `close_notify`; false by default, for old servers.
    ///
    /// Such a body can be cut on the way without notice (RFC 9112, section 9.8), so it ends with
    /// `.connectionLost` otherwise. A body whose length is told, or that comes in chunks or over HTTP/2, ends by itself.
    ///
    /// libcurl tells it with OpenSSL, LibreSSL, BoringSSL and GnuTLS. It cannot be told over URLSession on Linux, nor with
    /// a libcurl on another TLS library: there such a body always counts as complete.
    public var acceptsMissingCloseNotify = false
    /// How many bytes of header an answer may have, interim responses included; 300 KiB by default and at most.
    public var maxHeaderBytes: Int64 = 300 << 10
    /// How many fields the header of an answer may have; 5,000 by default and at most.
    public var maxHeaderFieldCount = 5_000
    /// How long connections are kept without work; 60 seconds by default.
    ///
    /// After that they are closed, and the thread that served them ends until there is work again.
    public var idleConnectionTime = Duration.seconds(60)
    /// How many threads move bytes; 2 by default.
    ///
    /// The second begins when the first has four transfers. One fills a core with some ten thousand small requests a second.
    /// Hosts over TLS, whose connections can be shared by requests, are served by one of them each.
    public var engineCount = 2

    /// Makes the default options.
    public init() {}

    /// Which of these differ from the defaults: what a transport that can do none of it refuses by name.
    var namesOfChanges: [String] {
        let standard = ConnectionOptions()
        let changes: [(String, Bool)] = [
            ("connectTimeout", connectTimeout != standard.connectTimeout),
            ("trust", trust != standard.trust),
            ("pinnedPublicKeys", pinnedPublicKeys != standard.pinnedPublicKeys),
            ("minimumTLSVersion", minimumTLSVersion != standard.minimumTLSVersion),
            ("clientCertificate", clientCertificate != standard.clientCertificate),
            ("proxy", proxy != standard.proxy),
            ("hostOverrides", hostOverrides != standard.hostOverrides),
            ("httpVersion", httpVersion != standard.httpVersion),
            ("acceptsMissingCloseNotify", acceptsMissingCloseNotify != standard.acceptsMissingCloseNotify),
            ("maxHeaderBytes", maxHeaderBytes != standard.maxHeaderBytes),
            ("maxHeaderFieldCount", maxHeaderFieldCount != standard.maxHeaderFieldCount),
            ("idleConnectionTime", idleConnectionTime != standard.idleConnectionTime),
            ("engineCount", engineCount != standard.engineCount),
        ]
        return changes.filter(\.1).map(\.0)
    }
}

extension ConnectionOptions.ClientCertificate: CustomStringConvertible, CustomReflectable {
    /// The files, without the password.
    public var description: String { "\(certificateFile.path), key \(privateKeyFile.path)" }
    /// The description only: a reflection would show the password.
    public var customMirror: Mirror { Mirror(self, children: ["files": description]) }
}

extension ConnectionOptions.Proxy: CustomStringConvertible, CustomReflectable {
    /// The way, without credentials.
    public var description: String {
        switch self {
        case .environment: "as the environment says"
        case .direct: "direct"
        case .server(let url, _, _): url.redactedString
        }
    }
    /// The description only: a reflection would show the password.
    public var customMirror: Mirror { Mirror(self, children: ["proxy": description]) }
}
