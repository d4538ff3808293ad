// What is wanted of a transfer, and what holds it.
#if canImport(CLibcurl)
    /// What the owner of a task wants of its transfer, and what it may ask.
    ///
    /// Written by any thread; the engine looks when it comes to the transfer, not when it was asked, so that two wishes
    /// cannot be carried out in the wrong order.
    struct DesiredTransferState {
        var hasBegun = false
        var isSuspended = true
        /// `resume()` was called since the last look: a client that wanted no more wants more.
        var wasResumed = false
        var isCancelled = false
        var isBodyReady = false
        /// Whether the engine has been told to look.
        var isQueued = false
    }

    /// Why nothing is handed to a client just now.
    struct TransferHold {
        /// The task is suspended.
        var byOwner = false
        /// The client wanted no more.
        var byClient = false
        /// Decoding has had its share of this turn.
        var forATurn = false

        var isHeld: Bool { byOwner || byClient || forATurn }
    }
#endif
