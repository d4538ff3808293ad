// What a proxy is told of a request, where libcurl's own words for it can be wrong.
#if canImport(CLibcurl)
    import Foundation

    extension PreparedRequest {
        var isHTTPS: Bool { hostKey.hasPrefix("https:") }

        /// Whether it says that it has no body, as its method defines a meaning for one (RFC 9110, section 8.6).
        var announcesNoBody: Bool { body == nil && (method == .post || method == .put || method == .patch) }

        /// The `Host` of a plain request, by our own hand; nil where the URL has to be converted first.
        ///
        /// On a connection to a proxy that has carried another request, libcurl up to 8.x writes the brackets of that one's
        /// IPv6 address around any name.
        var hostField: String? {
            guard !isHTTPS, !headerFields.contains("Host"), let host = url.host(percentEncoded: true), !host.isEmpty,
                host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !host.contains("%")
            else { return nil }
            let name = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host
            return url.port.map { $0 == 80 ? name : "\(name):\($0)" } ?? name
        }

        /// What a proxy is asked for when the query is there and empty; nil otherwise.
        ///
        /// libcurl puts the URL together again for a proxy, and loses the question mark.
        var targetWithEmptyQuery: String? {
            let text = url.absoluteString.prefix { $0 != "#" }
            guard text.hasSuffix("?"), !text.dropLast().contains("?"), let hostField else { return nil }
            let path = url.path(percentEncoded: true)
            return "http://\(hostField)\(path.isEmpty ? "/" : path)?"
        }
    }
#endif
