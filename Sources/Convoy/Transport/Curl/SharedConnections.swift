// Connections that many requests share: how many are opened, and which streams the server has not processed.
#if canImport(CLibcurl)
    import Foundation

    // libcurl opens a connection for each request that finds no room on an existing one. When the first is full, a
    // hundred waiting requests would open a hundred more, although one could carry them all. So once two requests to a
    // server have shared a connection, one transfer at a time may open another, and later ones wait for it. The first
    // request to a new server runs alone until its connection exists; the second then shows whether both share it.
    // (libcurl has an option for this, but with 8.23 later requests wait for the first response of an HTTP/1.1 server.)
    // Also stores the last stream of each GOAWAY: the server processes no later request of that connection (RFC 9113,
    // section 6.8).
    struct SharedConnections {
        private struct Origin {
            enum Sharing {
                case isUnknown
                /// Two requests have been on one connection at the same time.
                case isSeen
                /// Two requests have been on separate connections at the same time.
                case isNotSeen
                /// A connection could not be opened. No transfer waits for another's connection until all requests have
                /// ended, or two of them share a connection.
                case isFailing
            }

            var sharing = Sharing.isUnknown
            var opener: ObjectIdentifier?
            var waiting: [CurlTransfer] = []
            /// New requests do not share connections of an earlier generation.
            var generation = 0
            /// A request over HTTP/1.1 counts only until its head arrives, because then libcurl may already send the
            /// next.
            var requestCounts: [KeptConnections.Key: Int] = [:]

            var isForgettable: Bool { opener == nil && waiting.isEmpty && requestCounts.isEmpty }

            mutating func arrive(_ transfer: ObjectIdentifier, on connection: KeptConnections.Key) -> [CurlTransfer] {
                requestCounts[connection, default: 0] += 1
                let isAlone = !requestCounts.values.contains { $0 > 1 }
                if !isAlone { sharing = .isSeen }
                let isOpener = opener == transfer
                // Even if requests have shared a connection before, the server may no longer offer HTTP/2.
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
                // The connection now has room for one more request.
                return connection == nil || waiting.isEmpty ? [] : [waiting.removeFirst()]
            }
        }

        private var origins: [String: Origin] = [:]
        /// For each connection with a GOAWAY: the last stream that the server processes, and whether the end is
        /// graceful.
        private var lastStreams: [KeptConnections.Key: (stream: Int, isGraceful: Bool)] = [:]

        /// The number of origins above which origins without active or waiting requests are removed.
        private var rememberedOrigins = Self.leastRememberedOrigins

        private static let leastRememberedOrigins = 1_024
        private static let rememberedConnections = 4_096

        // MARK: Opening

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

        /// Whether a transfer that found no connection with room may open one, rather than wait.
        mutating func mayOpen(_ transfer: CurlTransfer) -> Bool {
            guard var origin = origins[transfer.request.hostKey], case .isSeen = origin.sharing else { return true }
            let identity = ObjectIdentifier(transfer)
            guard origin.opener == nil || origin.opener == identity else { return false }
            origin.opener = identity
            origins[transfer.request.hostKey] = origin
            return true
        }

        /// False if no other transfer opens a connection.
        mutating func wait(_ transfer: CurlTransfer) -> Bool {
            guard origins[transfer.request.hostKey]?.opener != nil else { return false }
            origins[transfer.request.hostKey]?.waiting.append(transfer)
            return true
        }

        /// Returns the waiting transfers that may try again to get a connection.
        mutating func arrive(_ transfer: CurlTransfer, on connection: KeptConnections.Key) -> [CurlTransfer] {
            // The origin is changed in place, here and below, because a copy of the counts would cost an allocation per
            // request.
            origins[transfer.request.hostKey, default: Origin()].arrive(ObjectIdentifier(transfer), on: connection)
        }

        /// Returns the waiting transfers that may try again; after a failure, others stop waiting.
        mutating func leave(
            _ transfer: CurlTransfer, _ connection: KeptConnections.Key?, hasFailed: Bool
        ) -> [CurlTransfer] {
            origins[transfer.request.hostKey]?.leave(transfer, connection, hasFailed: hasFailed) ?? []
        }

        // MARK: Unprocessed streams

        func generation(for transfer: CurlTransfer) -> Int { origins[transfer.request.hostKey]?.generation ?? 0 }

        mutating func giveUp(connectionOf transfer: CurlTransfer) {
            // Counts each connection once, however many requests have waited on it.
            guard generation(for: transfer) == transfer.place.generation else { return }
            origins[transfer.request.hostKey]?.generation += 1
        }

        /// Forgets the GOAWAY of an old connection if a new connection has the same ports.
        mutating func begin(_ stream: Int, on connection: KeptConnections.Key) {
            // Stream 1 is the first of a new connection, which may reuse the port of an old one.
            if stream == 1 { lastStreams[connection] = nil }
        }

        mutating func giveUp(_ connection: KeptConnections.Key, after stream: Int, isGraceful: Bool) {
            if lastStreams.count > Self.rememberedConnections { lastStreams = [:] }
            lastStreams[connection] = (min(stream, lastStreams[connection]?.stream ?? .max), isGraceful)
        }

        /// Whether the server has announced the end of a connection, without an error.
        func isEnding(_ connection: KeptConnections.Key) -> Bool { lastStreams[connection]?.isGraceful == true }

        func isRefused(_ stream: Int, on connection: KeptConnections.Key) -> Bool {
            lastStreams[connection].map { stream > $0.stream } ?? false
        }
    }
#endif
