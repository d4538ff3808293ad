// Parts of a request to a proxy that libcurl may write wrongly.
#if canImport(CLibcurl)
    import Foundation

    extension PreparedRequest {
        var isHTTPS: Bool { hostKey.hasPrefix("https:") }

        /// Whether the request has no body and sends `Content-Length: 0`, because its method expects a body (RFC 9110,
        /// section 8.6).
        var announcesNoBody: Bool { body == nil && (method == .post || method == .put || method == .patch) }

        /// The `Host` field that Convoy sets for a request over plain HTTP; nil if libcurl or the caller sets the
        /// field.
        ///
        /// On a reused proxy connection, libcurl 8 and earlier puts the brackets of the previous request's IPv6 address
        /// around any name.
        var hostField: String? {
            guard !isHTTPS, !headerFields.contains("Host"), !omittedFields.contains("host"),
                let host = url.host(percentEncoded: true), !host.isEmpty,
                host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !host.contains("%")
            else { return nil }
            let name = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host
            return url.port.map { $0 == 80 ? name : "\(name):\($0)" } ?? name
        }

        /// The request target for a proxy if the URL has an empty query; nil for any other URL.
        ///
        /// libcurl rebuilds the URL for a proxy, and loses the question mark.
        var targetWithEmptyQuery: String? {
            let text = url.absoluteString.prefix { $0 != "#" }
            guard text.hasSuffix("?"), !text.dropLast().contains("?"), let hostField else { return nil }
            let path = url.path(percentEncoded: true)
            return "http://\(hostField)\(path.isEmpty ? "/" : path)?"
        }
    }
#endif
