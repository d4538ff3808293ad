extension Reply {
    /// Adds a step at a moment of the exchange.
    ///
    /// The functions `stalling`, `disconnecting` and `resetting` are short forms of this function.
    ///
    /// A moment after the end of the reply counts as its end. Moments of the request only work for replies that are
    /// chosen before the body is read. These are replies of ``TestServer/enqueue(_:)-(Reply)`` and of handlers at
    /// ``TestServer/HandlerMoment/head``. A close or a reset during the request ends the exchange without a response.
    ///
    /// - Parameters:
    ///   - step: the step, performed once.
    ///   - moment: when to perform the step. Steps at the same moment are performed in the order of the calls.
    public func performing(_ step: Step, at moment: Moment) -> Reply {
        var reply = self
        reply.effects.append(Effect(moment: moment, step: step))
        return reply
    }

    /// Sends nothing until the gate is open.
    ///
    /// - Parameter gate: by default a gate that is never opened. The reply then stalls until the client disconnects,
    ///   the server is shut down, or two minutes have passed.
    public func stalling(until gate: Gate = Gate()) -> Reply {
        performing(.wait(gate), at: .responseStart)
    }

    /// Stops in the middle of the body until the gate is open.
    ///
    /// - Parameters:
    ///   - byteCount: the number of body bytes that are sent before the stop, including chunk framing.
    ///   - gate: by default a gate that is never opened.
    public func stalling(afterBodyBytes byteCount: Int64, until gate: Gate = Gate()) -> Reply {
        performing(.wait(gate), at: .responseBody(afterBytes: byteCount))
    }

    /// Closes the connection normally (FIN) in the middle of the reply.
    ///
    /// - Parameter byteCount: the number of bytes that are sent before the close, including the head; 0 for a close
    ///   before the status.
    public func disconnecting(afterBytes byteCount: Int64) -> Reply {
        performing(.close, at: .response(afterBytes: byteCount))
    }

    /// Closes the connection normally after the complete reply, without announcing `Connection: close`.
    public func disconnectingAtEnd() -> Reply {
        performing(.close, at: .responseEnd)
    }

    /// Resets the connection (RST) in the middle of the reply, after the client has received the bytes before the
    /// reset.
    ///
    /// - Parameter byteCount: the number of bytes that are sent before the reset, including the head; 0 for a reset
    ///   before the status.
    public func resetting(afterBytes byteCount: Int64) -> Reply {
        performing(.reset, at: .response(afterBytes: byteCount))
    }

    /// Sends the head at once and the body slowly.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: the rate, at least 1.
    ///   - pieceBytes: the number of bytes of each write, by default the bytes of a tenth of a second.
    public func dripping(bytesPerSecond: Int, pieceBytes: Int? = nil) -> Reply {
        var reply = self
        let rate = max(1, bytesPerSecond)
        reply.pace = (rate, max(1, pieceBytes ?? rate / 10))
        return reply
    }

    /// Announces `Connection: close` and closes the connection after the reply.
    public func closingConnection() -> Reply {
        var reply = self
        reply.closesConnection = true
        return reply
    }

    /// Sends informational responses without fields before the final one.
    ///
    /// - Parameter statusCodes: the codes in order, for example `[100, 103]`. They are not checked.
    public func informational(_ statusCodes: [Int]) -> Reply {
        var reply = self
        reply.informational += statusCodes.map { ($0, []) }
        return reply
    }

    /// Sends one informational response with fields before the final one.
    ///
    /// - Parameters:
    ///   - statusCode: not checked.
    ///   - headerFields: written in this order and not checked.
    public func informational(_ statusCode: Int, headerFields: [(String, String)]) -> Reply {
        var reply = self
        reply.informational.append((statusCode, headerFields))
        return reply
    }

    /// Sends no 100 for `Expect: 100-continue`, so that the client must decide when to send the body.
    ///
    /// The modifier only works for replies that are chosen before the body is read, see ``performing(_:at:)``.
    public func withholdingContinue() -> Reply {
        var reply = self
        reply.withholdsContinue = true
        return reply
    }

    /// Responds without reading the request's body, and closes the connection, like a server that sends 413.
    ///
    /// The modifier only works for replies that are chosen before the body is read, see ``performing(_:at:)``. For up
    /// to two seconds, the server reads and discards further bytes of the client, because a reset could destroy the
    /// response.
    public func ignoringRequestBody() -> Reply {
        var reply = self
        reply.ignoresRequestBody = true
        reply.closesConnection = true
        return reply
    }
}
