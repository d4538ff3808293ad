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
        struct Origin {
            private enum Sharing {
                case isUnknown
                /// Two requests have been on one connection at the same time.
                case isSeen
                /// Two requests have been on separate connections at the same time.
                case isNotSeen
                /// A connection could not be opened, so no transfer waits for another's until all requests have ended, or
                /// two of them share a connection.
                case isFailing
            }

            private var sharing = Sharing.isUnknown
            private var opener: CurlTransfer?
            private var waiting: [CurlTransfer] = []
            /// New requests do not share connections of an earlier generation.
            var generation = 0
            /// A request over HTTP/1.1 counts only until its head arrives, because then libcurl may already send the
            /// next.
            private var requestCounts: [ConnectionKey: Int] = [:]

            fileprivate var isForgettable: Bool { opener == nil && waiting.isEmpty && requestCounts.isEmpty }

            mutating func mayBegin(_ transfer: CurlTransfer) -> Bool {
                sharing != .isUnknown || !requestCounts.isEmpty || becomesOpener(transfer)
            }

            /// Whether a transfer that found no connection with room may open one, rather than wait.
            mutating func mayOpen(_ transfer: CurlTransfer) -> Bool { sharing != .isSeen || becomesOpener(transfer) }

            private mutating func becomesOpener(_ transfer: CurlTransfer) -> Bool {
                guard opener == nil || opener === transfer else { return false }
                opener = transfer
                return true
            }

            mutating func wait(_ transfer: CurlTransfer) -> Bool {
                guard opener != nil else { return false }
                waiting.append(transfer)
                return true
            }

            /// Returns the waiting transfers that may try again.
            mutating func arrive(_ transfer: CurlTransfer, on connection: ConnectionKey) -> [CurlTransfer] {
                requestCounts[connection, default: 0] += 1
                let isAlone = !requestCounts.values.contains { $0 > 1 }
                if !isAlone { sharing = .isSeen }
                let isOpener = opener === transfer
                // Even if requests have shared a connection before, the server may no longer offer HTTP/2.
                if isAlone, requestCounts.count > 1, isOpener || sharing == .isUnknown { sharing = .isNotSeen }
                return isOpener ? releaseAll() : []
            }

            /// Returns the waiting transfers that may try again; after a failure, others stop waiting.
            mutating func leave(
                _ transfer: CurlTransfer, _ connection: ConnectionKey?, hasFailed: Bool
            ) -> [CurlTransfer] {
                if let connection, let count = requestCounts[connection] {
                    requestCounts[connection] = count > 1 ? count - 1 : nil
                    if sharing == .isFailing, requestCounts.isEmpty { sharing = .isUnknown }
                }
                if !waiting.isEmpty { waiting.removeAll { $0 === transfer } }
                if opener === transfer {
                    if hasFailed { sharing = .isFailing }
                    return releaseAll()
                }
                // The connection now has room for one more request.
                return connection == nil || waiting.isEmpty ? [] : [waiting.removeFirst()]
            }

            private mutating func releaseAll() -> [CurlTransfer] {
                opener = nil
                defer { waiting = [] }
                return waiting
            }
        }

        private var origins: [String: Origin] = [:]
        /// For each connection with a GOAWAY.
        private var lastStreams: [ConnectionKey: (stream: Int, isGraceful: Bool)] = [:]
        private var rememberedOrigins = 1_024

        subscript(_ transfer: CurlTransfer) -> Origin {
            get { origins[transfer.request.hostKey] ?? Origin() }
            // In place, because a copy of the counts would cost an allocation per request.
            _modify {
                if origins.count > rememberedOrigins {
                    origins = origins.filter { !$0.value.isForgettable }
                    rememberedOrigins = max(1_024, 2 * origins.count)
                }
                yield &origins[transfer.request.hostKey, default: Origin()]
            }
        }

        /// Forgets the GOAWAY of an old connection if a new connection has the same ports.
        mutating func begin(_ stream: Int, on connection: ConnectionKey) {
            // Stream 1 is the first of a new connection, which may reuse the port of an old one.
            if stream == 1 { lastStreams[connection] = nil }
        }

        mutating func giveUp(_ connection: ConnectionKey, after stream: Int, isGraceful: Bool) {
            if lastStreams.count > 4_096 { lastStreams = [:] }
            lastStreams[connection] = (min(stream, lastStreams[connection]?.stream ?? .max), isGraceful)
        }

        /// Whether the server has announced the end of a connection, without an error.
        func isEnding(_ connection: ConnectionKey) -> Bool { lastStreams[connection]?.isGraceful == true }

        func isRefused(_ stream: Int, on connection: ConnectionKey) -> Bool {
            lastStreams[connection].map { stream > $0.stream } ?? false
        }
    }
#endif
