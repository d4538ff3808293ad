// The header lines of requests as a libcurl list.
#if canImport(CLibcurl)
    import CLibcurl

    /// A list of strings for libcurl: header lines, or entries of `CURLOPT_RESOLVE`.
    ///
    /// Consecutive requests with the same header lines share a list. libcurl stores a pointer to the list, so a handle
    /// retains the list that it uses.
    ///
    /// - Thread: the engine's.
    final class HeaderList {
        let first: UnsafeMutablePointer<curl_slist>?

        /// Makes a list; nil if memory is exhausted.
        init?(_ lines: [String]) {
            var list: UnsafeMutablePointer<curl_slist>?
            for line in lines {
                guard let longer = curl_slist_append(list, line) else {
                    curl_slist_free_all(list)
                    return nil
                }
                list = longer
            }
            first = list
        }

        deinit { curl_slist_free_all(first) }
    }

    /// The list of the previous request, which the next request usually needs too.
    struct HeaderListCache {
        private var key: (fields: HeaderFields, omitted: Set<String>, sendsBody: Bool, host: String?)?
        private var list: HeaderList?

        /// - Parameter host: the value of the `Host` field; nil if libcurl writes it.
        mutating func list(for transfer: CurlTransfer, host: String?) -> HeaderList? {
            let (fields, omitted) = (transfer.request.headerFields, transfer.request.omittedFields)
            let sendsBody = transfer.sendsBody
            if let list, let key, key == (fields, omitted, sendsBody, host) { return list }
            list = HeaderList((host.map { ["Host: \($0)"] } ?? []) + transfer.headerLines)
            key = (fields, omitted, sendsBody, host)
            return list
        }
    }
#endif
