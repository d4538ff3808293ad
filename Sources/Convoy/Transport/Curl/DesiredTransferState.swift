// The desired state of a transfer, and the reasons that pause it.
#if canImport(CLibcurl)
    /// The state of a transfer that the owner of its task wants.
    ///
    /// Any thread may write the state. The engine later reads the result of all changes until then.
    struct DesiredTransferState {
        var hasBegun = false
        var isSuspended = true
        /// Whether `resume()`, which ends the client's back-pressure, was called since the last check.
        var wasResumed = false
        var isCancelled = false
        var isBodyReady = false
        /// Whether the transfer is in the engine's inbox.
        var isQueued = false
    }

    /// Why nothing is delivered to a client for now.
    struct PauseReasons {
        /// The task is suspended.
        var byOwner = false
        /// The client applies back-pressure.
        var byClient = false
        /// Decoding has used up its share of this turn.
        var forATurn = false

        var isAny: Bool { byOwner || byClient || forATurn }
    }
#endif
