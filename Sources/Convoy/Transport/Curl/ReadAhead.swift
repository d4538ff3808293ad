// Reads a body ahead of the network.
#if canImport(CLibcurl)
    import Foundation

    /// Reads a body on its own queue, a little ahead of the transfer that sends it.
    ///
    /// File data in the system's page cache is not read ahead, but copied straight to libcurl's buffer.
    final class ReadAhead: UploadSource, @unchecked Sendable {
        // @unchecked: only the engine's thread uses the mutable state outside the lock.

        private struct State {
            /// The chunks that have been read but not taken, and their total size.
            var chunks: [Data] = []
            var byteCount = 0
            var isReading = false
            /// How many more chunks the queue reads before it stops.
            ///
            /// The engine's thread then checks again whether it can read without waiting (`direct`).
            var remaining = 0
            /// Whether the body ends after `chunks`.
            var isAtEnd = false
            var failure: RequestError?
            /// Whether `take` found no data, so that `isReady` must be called when there is some.
            var isWanted = false
            var reading: BodyReading?

            var isFull: Bool { chunks.count >= ReadAhead.leastCount && byteCount >= ReadAhead.leastBytes }
            var readsOn: Bool { !isAtEnd && failure == nil && !isFull && remaining > 0 }

            /// The reader, if it can read without waiting and is not in use.
            var direct: (any BlockingReader)? {
                guard !isReading, case .blocking(let reader)? = reading, reader.readsWithoutWaiting else { return nil }
                return reader
            }
        }

        /// Reading ahead stops once this many chunks and this many bytes are stored.
        private static let leastCount = 4
        private static let leastBytes = 64 << 10

        private let body: RequestBody
        private let queue = DispatchQueue(label: "convoy.upload")
        private let state = Locked(State())
        private let isReady: @Sendable () -> Void
        /// The chunks that are being copied, in order; `offset` counts the copied bytes of the first.
        private var chunks: ArraySlice<Data> = []
        private var offset = 0
        private var hasBeenTakenFrom = false

        /// - Parameter isReady: called on any thread when data, the end or a failure follows ``UploadStep/wait``.
        init(_ body: RequestBody, isReady: @escaping @Sendable () -> Void) {
            self.body = body
            self.isReady = isReady
            readOn()
        }

        deinit {
            // The queue releases `reading`, because closing a stream or cancelling a sequence runs user code. This
            // thread, the engine's, must not run such code.
            guard state.withLock({ $0.reading != nil }) else { return }
            queue.async { [state] in
                let reading = state.withLock { state in
                    defer { state.reading = nil }
                    return state.reading
                }
                withExtendedLifetime(reading) {}
            }
        }

        func take(into buffer: UnsafeMutableRawBufferPointer) -> UploadStep {
            var count = 0
            // Copies as many chunks as are available and fit, because each separate send costs a system call.
            while count < buffer.count {
                if chunks.isEmpty, let step = takeChunks(orCopyInto: buffer, mayAsk: count == 0) {
                    guard count == 0 else { break }
                    if case .bytes(1...) = step { hasBeenTakenFrom = true }
                    return step
                }
                count += takePiece(into: UnsafeMutableRawBufferPointer(rebasing: buffer[count...]))
            }
            hasBeenTakenFrom = true
            return .bytes(count)
        }

        private func takePiece(into buffer: UnsafeMutableRawBufferPointer) -> Int {
            guard let chunk = chunks.first else { return 0 }
            let count = min(buffer.count, chunk.count - offset)
            let start = chunk.startIndex + offset
            chunk.copyBytes(to: buffer, from: start..<(start + count))
            offset += count
            if offset == chunk.count {
                chunks.removeFirst()
                offset = 0
            }
            return count
        }

        func rewound() -> (any UploadSource)? {
            // If no byte was copied yet, the chunks that were read ahead are still valid.
            guard hasBeenTakenFrom else { return self }
            return body.canRepeat ? ReadAhead(body, isReady: isReady) : nil
        }

        /// Takes the chunks that have been read; if there are none, copies data that is in memory.
        ///
        /// Returns nil after taking chunks.
        ///
        /// - Parameter mayAsk: whether the caller has copied nothing to the buffer yet. If false, only chunks are
        ///   taken.
        private func takeChunks(orCopyInto buffer: UnsafeMutableRawBufferPointer, mayAsk: Bool) -> UploadStep? {
            var direct: (any BlockingReader)?
            let step: UploadStep? = state.withLock { state in
                if !state.chunks.isEmpty {
                    (chunks, state.chunks, state.byteCount) = (state.chunks[...], [], 0)
                    return nil
                }
                guard mayAsk else { return .wait }
                if let failure = state.failure { return .failed(failure) }
                if state.isAtEnd { return .bytes(0) }
                direct = state.direct
                if direct == nil { state.isWanted = true } else { state.isReading = true }
                return .wait
            }
            if let direct { return take(from: direct, into: buffer) }
            readOn()
            return step
        }

        /// Copies data that is in memory.
        ///
        /// If no data is in memory, the queue reads.
        private func take(from reader: any BlockingReader, into buffer: UnsafeMutableRawBufferPointer) -> UploadStep {
            let result = reader.readWithoutWaiting(into: buffer)
            state.withLock { state in
                state.isReading = false
                if case .success(0)? = result { state.isAtEnd = true }
                if result == nil { state.isWanted = true }
            }
            switch result {
            case .success(let count)?: return .bytes(count)
            case .failure(let error)?: return .failed(error)
            case nil:
                readOn()
                return .wait
            }
        }

        /// Reads chunks on the queue, if there is room and more to read.
        private func readOn() {
            let reads = state.withLock { state in
                guard !state.isReading else { return false }
                // Nothing is read ahead while the engine's thread can read without waiting. Before the first read the
                // kind of the reader is unknown, so one chunk is read. Later several are read, so that the disk works
                // while they are sent.
                let isDirect = state.direct != nil && !state.isWanted
                state.remaining = isDirect ? 0 : state.reading == nil ? 1 : Self.leastCount
                state.isReading = state.readsOn
                return state.isReading
            }
            // `self` is weak, because no more chunks are needed once the transfer has released the body.
            if reads { queue.async { [weak self] in while self?.read() == true {} } }
        }

        /// Reads the next chunk, or starts a waiting reader.
        ///
        /// A blocking reader reads one chunk here. True means that the caller must call again. A waiting reader
        /// delivers its chunks itself, so the result is false.
        private func read() -> Bool {
            do throws(RequestError) {
                switch try begun() {
                case .blocking(let reader): return note(Self.chunk(of: reader))
                case .waiting(let reader):
                    reader.read { [weak self] in self?.note($0) ?? false }
                    return false
                }
            } catch {
                return note(.failure(error))
            }
        }

        private func begun() throws(RequestError) -> BodyReading {
            if let reading = state.withLock({ $0.reading }) { return reading }
            let reading = try body.begin()
            state.withLock { $0.reading = reading }
            return reading
        }

        /// Stores the result of one read: a chunk, the end of the body or a failure.
        ///
        /// Returns whether to read the next chunk now.
        private func note(_ result: Result<Data?, RequestError>) -> Bool {
            let (readsOn, calls) = state.withLock { state in
                switch result {
                case .success(let chunk?):
                    state.chunks.append(chunk)
                    state.byteCount += chunk.count
                case .success(nil): state.isAtEnd = true
                case .failure(let error): state.failure = error
                }
                if case .blocking(let reader)? = state.reading, reader.readsWithoutWaiting { state.remaining -= 1 }
                state.isReading = state.readsOn
                defer { state.isWanted = false }
                return (state.isReading, state.isWanted)
            }
            if calls { isReady() }
            return readsOn
        }

        private static func chunk(of reader: any BlockingReader) -> Result<Data?, RequestError> {
            let buffer = LargeBuffers.take()
            let bytes = UnsafeMutableRawBufferPointer(start: buffer, count: LargeBuffers.byteCount)
            let result = reader.read(into: bytes)
            guard case .success(let count) = result, count > 0 else {
                LargeBuffers.giveBack(buffer)
                return result.map { _ in nil }
            }
            return .success(LargeBuffers.data(buffer, count: count))
        }
    }
#endif
