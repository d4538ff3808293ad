// What `--proxy` and `--resolve` are given.
import Convoy
import Foundation

enum ProxyValue {
    /// `http://USER:PASSWORD@HOST:PORT`, of which only host and port must be there; never told, as there may be a password.
    static func read(_ text: String) throws(UsageError) -> ConnectionOptions.Proxy {
        if ["direct", "none"].contains(text) { return .direct }
        if Int(text) != nil {
            throw UsageError(
                "takes http://HOST:PORT, not a number; aria2's -x \(text) is --segments \(text), for many files --per-host"
            )
        }
        let absolute = text.contains("://") ? text : "http://\(text)"
        guard var components = URLComponents(string: absolute), let host = components.host, !host.isEmpty else {
            throw UsageError("takes http://HOST:PORT, or direct for none, and what it was given is no such URL")
        }
        guard ["http", "https"].contains(components.scheme?.lowercased()) else {
            throw UsageError(
                "takes a proxy of http:// or https://, not of \(components.scheme ?? "")://; SOCKS is not spoken here")
        }
        guard let port = components.port, (1...65_535).contains(port) else {
            throw UsageError("needs the port of the proxy: write \(components.scheme ?? "http")://\(host):3128, say")
        }
        let (user, password) = (components.user, components.password)
        (components.user, components.password) = (nil, nil)
        (components.path, components.query, components.fragment) = ("", nil, nil)
        guard let url = components.url else { throw UsageError("takes http://HOST:PORT, or direct for none") }
        return .server(url, userName: user, password: password)
    }

    /// `HOST:PORT:ADDRESS`, several addresses with commas between, those of IPv6 perhaps in brackets.
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
