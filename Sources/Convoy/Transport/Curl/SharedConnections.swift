// Connections that many requests share: how many of them are opened, and what the server has not taken.
#if canImport(CLibcurl)
    import Foundation

    /// The connections of HTTP/2 that have requests under way, by server.
    ///
    /// libcurl opens a connection for each request that finds no room on another, all at once: a hundred, where the second
    /// one would hold them. Here one is opened at a time where requests have been seen to share; the others wait until it is
    /// there. Where each connection carries one request none waits. To a new server the first request goes alone, until
    /// its connection is there: the second then shows which of the two it is. (libcurl can do that too, but 8.23 has the
    /// others wait for the first answer of a server that speaks HTTP/1.1.)
    ///
    /// It also keeps what a server has said with a GOAWAY: up to which stream it has taken the requests of a connection
    /// (RFC 9113, section 6.8).
    struct SharedConnections {
        private struct Origin {
            enum Sharing {
                case isUnknown
                /// Two requests have been on one connection.
                case isSeen
                /// A request needed a connection of its own while another one was there.
                case isNotSeen
                /// A connection could not be opened: until all has ended none waits for another's.
                case isFailing
            }

            var sharing = Sharing.isUnknown
            /// The transfer that opens a connection.
            var opener: ObjectIdentifier?
            var waiting: [CurlTransfer] = []
            /// Counts the connections that were given up: new requests share none with those of an earlier number.
            var generation = 0
            /// How many requests are under way on each connection; over HTTP/1.1, until the head of the answer.
            var requestCounts: [KeptConnections.Key: Int] = [:]

            var isForgettable: Bool { opener == nil && waiting.isEmpty && requestCounts.isEmpty }

            mutating func arrive(_ transfer: ObjectIdentifier, on connection: KeptConnections.Key) -> [CurlTransfer] {
                requestCounts[connection, default: 0] += 1
                let isAlone = !requestCounts.values.contains { $0 > 1 }
                if !isAlone { sharing = .isSeen }
                let isOpener = opener == transfer
                // It may have been seen to share: the server can have lost HTTP/2 since.
                if isAlone, requestCounts.count > 1, isOpener || sharing == .isUnknown { sharing = .isNotSeen }
                guard isOpener else { return [] }
                opener = nil
                defer { waiting = [] }
                return waiting
            }

            mutating func leave(
                _ transfer: CurlTransfer, _ connection: KeptConnections.Key?, hasFailed: Bool
            ) -> [CurlTransfer] {
                if let connection, let count = requestCounts[connection] {
                    requestCounts[connection] = count > 1 ? count - 1 : nil
                    if sharing == .isFailing, requestCounts.isEmpty { sharing = .isUnknown }
                }
                if !waiting.isEmpty { waiting.removeAll { $0 === transfer } }
                if opener == ObjectIdentifier(transfer) {
                    opener = nil
                    if hasFailed { sharing = .isFailing }
                    defer { waiting = [] }
                    return waiting
                }
                // There is room for one.
                return connection == nil || waiting.isEmpty ? [] : [waiting.removeFirst()]
            }
        }

        private var origins: [String: Origin] = [:]
        /// The last stream the server takes, for connections it is giving up.
        private var lastStreams: [KeptConnections.Key: Int] = [:]

        /// How many origins there are before those nothing is known of are forgotten.
        private var rememberedOrigins = Self.leastRememberedOrigins

        private static let leastRememberedOrigins = 1_024
        private static let rememberedConnections = 4_096

        // MARK: Opening

        /// Whether a transfer may be given to libcurl, rather than wait for the first connection of a new server.
        mutating func mayBegin(_ transfer: CurlTransfer) -> Bool {
            forgetOrigins()
            var origin = origins[transfer.request.hostKey] ?? Origin()
            guard case .isUnknown = origin.sharing, origin.requestCounts.isEmpty else { return true }
            guard origin.opener == nil else { return false }
            origin.opener = ObjectIdentifier(transfer)
            origins[transfer.request.hostKey] = origin
            return true
        }

        private mutating func forgetOrigins() {
            guard origins.count > rememberedOrigins else { return }
            origins = origins.filter { !$0.value.isForgettable }
            rememberedOrigins = max(Self.leastRememberedOrigins, 2 * origins.count)
        }

        /// Whether a transfer that finds no room may open a connection, rather than wait.
        mutating func mayOpen(_ transfer: CurlTransfer) -> Bool {
            guard var origin = origins[transfer.request.hostKey], case .isSeen = origin.sharing else { return true }
            let identity = ObjectIdentifier(transfer)
            guard origin.opener == nil || origin.opener == identity else { return false }
            origin.opener = identity
            origins[transfer.request.hostKey] = origin
            return true
        }

        /// Keeps a transfer until it may try again.
        ///
        /// - Returns: false when there is nothing to wait for any more.
        mutating func wait(_ transfer: CurlTransfer) -> Bool {
            guard origins[transfer.request.hostKey]?.opener != nil else { return false }
            origins[transfer.request.hostKey]?.waiting.append(transfer)
            return true
        }

        /// A request is about to go out on a connection.
        ///
        /// - Returns: those that may try again.
        mutating func arrive(_ transfer: CurlTransfer, on connection: KeptConnections.Key) -> [CurlTransfer] {
            // In place, as below: a copy would be one of the counts too, for each request.
            origins[transfer.request.hostKey, default: Origin()].arrive(ObjectIdentifier(transfer), on: connection)
        }

        /// A transfer has ended, or left its connection.
        ///
        /// - Parameter hasFailed: whether it is an error that ended it: what could not be opened once is not waited for.
        /// - Returns: those that may try again.
        mutating func leave(
            _ transfer: CurlTransfer, _ connection: KeptConnections.Key?, hasFailed: Bool
        ) -> [CurlTransfer] {
            origins[transfer.request.hostKey]?.leave(transfer, connection, hasFailed: hasFailed) ?? []
        }

        // MARK: What is not taken

        /// Which connections of its origin a transfer may share.
        func generation(for transfer: CurlTransfer) -> Int { origins[transfer.request.hostKey]?.generation ?? 0 }

        /// Has new requests go over other connections than a transfer's.
        mutating func giveUp(connectionOf transfer: CurlTransfer) {
            // Once, however many have waited there.
            guard generation(for: transfer) == transfer.place.generation else { return }
            origins[transfer.request.hostKey]?.generation += 1
        }

        /// A stream has been opened on a connection.
        mutating func begin(_ stream: Int, on connection: KeptConnections.Key) {
            // The first one of a new connection, which may have the port of an old one.
            if stream == 1 { lastStreams[connection] = nil }
        }

        /// The server has said which stream of a connection is the last that it takes.
        mutating func giveUp(_ connection: KeptConnections.Key, after stream: Int) {
            if lastStreams.count > Self.rememberedConnections { lastStreams = [:] }
            lastStreams[connection] = min(stream, lastStreams[connection] ?? .max)
        }

        /// Whether the server has said that it does not take a stream.
        func isRefused(_ stream: Int, on connection: KeptConnections.Key) -> Bool {
            lastStreams[connection].map { stream > $0 } ?? false
        }
    }
#endif
