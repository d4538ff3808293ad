import Foundation

extension ConvoyProcess {
    /// Reads until the text has arrived or all writers have closed the descriptor.
    ///
    /// Blocks a separate dispatch queue, not the task's thread. Reading ends after two minutes without data.
    static func text(from descriptor: Int32, until text: String? = nil) async -> String {
        await withCheckedContinuation { continuation in
            DispatchQueue(label: "reading").async {
                var (seen, block) = ([UInt8](), [UInt8](repeating: 0, count: 4_096))
                while true {
                    var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                    guard poll(&request, 1, 120_000) > 0 else { break }
                    let count = read(descriptor, &block, block.count)
                    guard count > 0 else { break }
                    seen += block.prefix(count)
                    if let text, String(decoding: seen, as: UTF8.self).contains(text) { break }
                }
                continuation.resume(returning: String(decoding: seen, as: UTF8.self))
            }
        }
    }
}

extension Pipe {
    /// Reads the pipe until the text has arrived or all writers have closed the pipe.
    func text(until text: String? = nil) async -> String {
        let seen = await ConvoyProcess.text(from: fileHandleForReading.fileDescriptor, until: text)
        return withExtendedLifetime(self) { seen }
    }
}
