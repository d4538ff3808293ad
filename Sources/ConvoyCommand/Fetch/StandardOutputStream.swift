import Convoy
import Foundation

// Printed bytes cannot be withdrawn, so a transfer that starts over fails.
// One transfer uses a stream, on the serial queue of its sink. The state may be used from any thread.
final class StandardOutputStream: OutputStream {
    final class State: Sendable {
        private let descriptor: Int32
        private let name: String
        private let cleans: Bool
        private let onClosed: @Sendable () -> Void

        init(
            _ descriptor: Int32 = STDOUT_FILENO, name: String = "standard output", cleans: Bool = false,
            onClosed: @escaping @Sendable () -> Void
        ) {
            (self.descriptor, self.name, self.cleans, self.onClosed) = (descriptor, name, cleans, onClosed)
        }

        fileprivate var terminalText: TerminalText? { cleans ? TerminalText() : nil }

        fileprivate func problem(_ code: Int32) -> String {
            "\(name) cannot be written: \(String(cString: strerror(code)))"
        }

        // Returns 0 or an `errno`.
        func write(_ bytes: UnsafeRawBufferPointer) -> Int32 {
            let problem = StandardStreams.write(bytes, to: descriptor)
            if [EPIPE, EBADF].contains(problem) { onClosed() }
            return problem
        }

        func write(body: Data) -> Int32 {
            guard var text = terminalText else { return body.withUnsafeBytes { write($0) } }
            let shown = text.take(body) + text.rest
            return write(shown)
        }

        func write(_ text: String) -> Int32 {
            var text = text
            return text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
        }
    }

    private var state: State?
    private var written: Locked<Bool>?
    private var terminalText: TerminalText?
    private var status = Stream.Status.notOpen
    private var problem: (any Error)?

    static func make(_ state: State, written: Locked<Bool>) -> StandardOutputStream {
        // The properties are set after `init`, because no initializer of `OutputStream` has these parameters.
        let stream = StandardOutputStream(toMemory: ())
        (stream.state, stream.written, stream.terminalText) = (state, written, state.terminalText)
        return stream
    }

    override var streamStatus: Stream.Status { status }
    override var streamError: (any Error)? { problem }
    override var hasSpaceAvailable: Bool { status == .open }

    override func open() {
        status = .open
        guard written?.withLock({ $0 }) == true else { return }
        fail("the transfer started over, but the printed bytes cannot be withdrawn; write the body to a file: -o NAME")
    }

    override func close() {
        guard status != .error else { return }
        status = .closed
        if let text = terminalText?.rest { _ = state?.write(text) }
        terminalText = nil
    }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength count: Int) -> Int {
        guard status == .open, let state else { return -1 }
        let bytes = UnsafeRawBufferPointer(start: buffer, count: count)
        if count > 0 { written?.withLock { $0 = true } }
        let code: Int32
        if terminalText != nil {
            guard !bytes.contains(0) else {
                fail(
                    "the body is binary, so it was not printed; write it to a file with -o NAME, or print it with "
                        + "--raw-output")
                return -1
            }
            code = state.write(terminalText?.take(Data(bytes)) ?? "")
        } else {
            code = state.write(bytes)
        }
        guard code != 0 else { return count }
        fail(state.problem(code))
        return -1
    }

    private func fail(_ reason: String) {
        status = .error
        problem = NSError(domain: "convoy", code: 1, userInfo: [NSLocalizedDescriptionKey: reason])
    }
}
