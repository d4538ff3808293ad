extension Reply {
    /// Adds a step at a moment of the exchange; every other fault is a short form of this.
    ///
    /// A moment past the end of the reply counts as its end. The moments of the request reach only replies that are
    /// chosen before the body is read: those of ``TestServer/enqueue(_:)-(Reply)`` and of handlers that run at
    /// ``TestServer/HandlerMoment/head``. A close or a reset there ends the exchange without a response.
    ///
    /// - Parameters:
    ///   - step: done once.
    ///   - moment: when; steps at the same moment keep their order.
    public func performing(_ step: Step, at moment: Moment) -> Reply {
        var reply = self
        reply.effects.append(Effect(moment: moment, step: step))
        return reply
    }

    /// Sends nothing until the gate is open.
    ///
    /// - Parameter gate: by default one that cannot be opened: the reply stalls until the client or the server gives up.
    public func stalling(until gate: Gate = Gate()) -> Reply {
        performing(.wait(gate), at: .responseStart)
    }

    /// Stands still in the middle of the body until the gate is open.
    ///
    /// - Parameters:
    ///   - byteCount: bytes after the head that are sent before, chunk framing counted.
    ///   - gate: by default one that cannot be opened.
    public func stalling(afterBodyBytes byteCount: Int64, until gate: Gate = Gate()) -> Reply {
        performing(.wait(gate), at: .responseBody(afterBytes: byteCount))
    }

    /// Closes the connection in order (FIN) in the middle of the reply.
    ///
    /// - Parameter byteCount: bytes of the reply, head counted, that are sent before; 0 for a close before the status.
    public func disconnecting(afterBytes byteCount: Int64) -> Reply {
        performing(.close, at: .response(afterBytes: byteCount))
    }

    /// Closes the connection in order when the reply is complete, without having announced it by `Connection: close`.
    public func disconnectingAtEnd() -> Reply {
        performing(.close, at: .responseEnd)
    }

    /// Resets the connection (RST) in the middle of the reply; the client has received the bytes before it.
    ///
    /// - Parameter byteCount: bytes of the reply, head counted, that are sent before; 0 for a reset before the status.
    public func resetting(afterBytes byteCount: Int64) -> Reply {
        performing(.reset, at: .response(afterBytes: byteCount))
    }

    /// Sends the body slowly; the head goes out at once.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: the rate; below 1 it is 1.
    ///   - pieceBytes: bytes of each write, by default a tenth of a second's worth.
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
    /// - Parameter statusCodes: in this order, for example `[100, 103]`; not checked.
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

    /// Leaves `Expect: 100-continue` without its 100, so that the client must decide by itself to send the body.
    ///
    /// Works where the moments of the request do, see ``performing(_:at:)``.
    public func withholdingContinue() -> Reply {
        var reply = self
        reply.withholdsContinue = true
        return reply
    }

    /// Answers without reading the request's body, and closes the connection, as a server does that sends 413.
    ///
    /// Works where the moments of the request do, see ``performing(_:at:)``. What the client still sends is thrown away for
    /// up to two seconds, so that the response is not lost to a reset.
    public func ignoringRequestBody() -> Reply {
        var reply = self
        reply.ignoresRequestBody = true
        reply.closesConnection = true
        return reply
    }
}
