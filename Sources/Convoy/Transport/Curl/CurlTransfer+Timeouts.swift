// Ends a transfer by time: the idle timeout, the timeout of an attempt, and responses that precede the end of sending.
#if canImport(CLibcurl)
    import Foundation

    extension CurlTransfer {
        /// Fails a transfer after its idle timeout.
        ///
        /// Returns the time of the next check; nil if the transfer has ended.
        func checkIdle(_ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            guard case .running = phase, let handle else { return nil }
            if pauseReasons.isAny {
                lastSendingMark = nil
                return now + idleCheckInterval
            }
            if isAnswered { return endAnswered(handle, now) }
            // Bytes that libcurl has read from the body may still be in its own buffer or in the system's. Draining
            // these buffers counts as activity.
            if sentBytes > 0, !hasHead {
                var mark = handle.sendingMark
                // The queue of a shared connection also has bytes of other requests.
                if place.stream != nil { mark.queuedBytes = 0 }
                if mark != lastSendingMark { lastActivity = now }
                lastSendingMark = mark
            }
            let end = lastActivity + request.idleTimeout
            guard end <= now else { return min(end, now + idleCheckInterval) }
            let what = hasHead ? "of the body" : "of a response"
            // A connection on which the server did not respond is not reused.
            handle.forbidReuse()
            giveUpConnection()
            finish(
                RequestError(.timedOut, "nothing \(what) arrived for \(request.idleTimeout), the idle timeout"))
            return nil
        }

        /// The maximum time between two checks for idleness.
        ///
        /// No callback reports that the buffers of a request's body drain. So their fill levels are compared several
        /// times within the idle timeout.
        var idleCheckInterval: Duration { sendsBody ? request.idleTimeout / 8 : request.idleTimeout }

        /// The time left for the transfer; nil without a limit.
        var timeLeft: Duration? { request.attemptTimeout.map { $0 - (ContinuousClock.now - sendingBegan) } }

        /// Fails a transfer that has timed out while it was parked or idle.
        ///
        /// Returns the time of the next check; nil if the transfer has ended.
        func checkTime(_ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            guard place.isParked, let timeLeft else { return checkIdle(now) }
            guard timeLeft > .zero else {
                finish(RequestError(.timedOut, CurlFailure.timeIsOver))
                return nil
            }
            return checkIdle(now).map { min($0, now + timeLeft) }
        }

        // MARK: Early responses

        // A server may respond before it has received the complete request body (RFC 9113, section 8.1), and read no
        // more of the body. libcurl would wait for the server to read on.

        /// Whether the complete response to a request with a body has arrived, by the response's length.
        var isAnswered: Bool { sendsBody && hasHead && missingBytes == 0 }

        /// How long sending may stall after the complete response.
        private static let stillTime = Duration.milliseconds(250)

        /// Schedules a check of whether sending still makes progress, once the response is complete.
        func noteAnswered() {
            guard isAnswered else { return }
            lastSendingMark = handle?.sendingMark
            loop?.checkTimes(after: Self.stillTime)
        }

        /// Ends a transfer with a complete response once sending makes no progress.
        ///
        /// Returns the time of the next check; nil if the transfer has ended.
        func endAnswered(_ handle: CurlHandle, _ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            let mark = handle.sendingMark
            defer { lastSendingMark = mark }
            guard mark == lastSendingMark else { return now + Self.stillTime }
            end(0)
            return nil
        }
    }
#endif
