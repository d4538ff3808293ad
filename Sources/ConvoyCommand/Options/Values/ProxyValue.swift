import Convoy
import Foundation

enum ProxyValue {
    private static let schemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]

    // Errors do not quote the value, because it may contain a password.
    // The defaults are those of curl: http, and the port 1080, or 443 for https.
    static func read(_ text: String) throws(UsageError) -> ConnectionOptions.Proxy {
        if ["direct", "none", ""].contains(text) { return .direct }
        if Int(text) != nil {
            throw UsageError(
                "takes http://HOST:PORT, not a number; aria2's -x \(text) is --segments \(text), or --per-host for many files"
            )
        }
        let absolute = text.contains("://") ? text : "http://\(text)"
        guard var components = URLComponents(string: absolute), let host = components.host, !host.isEmpty else {
            throw UsageError("takes http://HOST:PORT, or direct for no proxy; the given text is neither")
        }
        let scheme = components.scheme?.lowercased() == "socks" ? "socks4" : components.scheme?.lowercased() ?? ""
        guard schemes.contains(scheme) else {
            throw UsageError(
                "takes a proxy with \(schemes.map { $0 + "://" }.joined(separator: ", ")), not \(scheme)://")
        }
        let port = components.port ?? (scheme == "https" ? 443 : 1_080)
        guard (1...65_535).contains(port) else { throw UsageError("takes a port from 1 to 65535, not \(port)") }
        let (user, password) = (components.user, components.password)
        (components.scheme, components.port) = (scheme, port)
        (components.user, components.password) = (nil, nil)
        (components.path, components.query, components.fragment) = ("", nil, nil)
        guard let url = components.url else { throw UsageError("takes http://HOST:PORT, or direct for no proxy") }
        return .server(url, userName: user, password: password)
    }

    static func hostOverride(_ text: String) throws(UsageError) -> ConnectionOptions.HostOverride {
        let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, let port = Int(parts[1]), (1...65_535).contains(port),
            !parts[2].isEmpty
        else {
            throw OptionValues.refusal(text, "HOST:PORT:ADDRESS, such as example.com:443:127.0.0.1")
        }
        let addresses = parts[2].split(separator: ",").map { $0.filter { !"[]".contains($0) } }
        return ConnectionOptions.HostOverride(String(parts[0]), port: port, addresses: addresses)
    }
}

extension FetchOptions {
    // Call `applyNoProxy` before other threads could read the environment.
    mutating func applyNoProxy() {
        guard let noProxy else { return }
        if noProxy == "*" { connection.proxy = .direct } else { setenv("no_proxy", noProxy, 1) }
    }
}
